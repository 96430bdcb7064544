"""PyTorch on goccl.

Importing this module registers the ``torch.distributed`` backend "goccl"::

    import goccl.torch, torch.distributed as dist
    dist.init_process_group("goccl")      # under torchrun; or goccl.torch.init()

CPU tensors travel on the host device, CUDA tensors on the GPUs. Programs that say backend="nccl" run unchanged on
libnccl.so.2: ``python -m goccl.torch run script.py``, or ``torchrun … --no-python python -m goccl.torch run
script.py``.
"""

import os
from typing import Any

import torch
import torch.distributed as dist

from .._env import local_rank, place, read
from .._torch_autoload import symmetric_memory
from .backend import ProcessGroupGoccl, register
from .customized import CustomizedComm

__all__ = ["ProcessGroupGoccl", "CustomizedComm", "init", "preload_environment"]

register()
symmetric_memory()


def init(**kwargs: Any) -> int:
    """init_process_group("goccl") as torchrun's (or mpirun's, srun's) environment says, with this rank's GPU made
    current; returns the rank."""
    if torch.cuda.is_available() and read("GOCCL_DEVICE") != "host":
        torch.cuda.set_device(local_rank() % torch.cuda.device_count())
    launched = place()
    if launched is not None:
        os.environ.update(zip(("RANK", "WORLD_SIZE"), launched))
    dist.init_process_group("goccl", **kwargs)
    return int(dist.get_rank())


def preload_environment(environ: "dict[str, str] | None" = None) -> "dict[str, str]":
    """An environment in which programs that use NCCL get goccl's libnccl.so.2: LD_PRELOAD with it in front."""
    from .._lib import directory

    env = dict(os.environ if environ is None else environ)
    folder = directory()
    library = os.path.join(folder, "libnccl.so.2") if folder else ""
    if not os.path.exists(library):
        raise FileNotFoundError("libnccl.so.2 is not beside libgoccl.so: build it with `make libnccl`, or install the "
                                "wheel")
    env["LD_PRELOAD"] = library + (":" + env["LD_PRELOAD"] if env.get("LD_PRELOAD") else "")
    return env
