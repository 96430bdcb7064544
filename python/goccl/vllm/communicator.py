"""vLLM's communicator with goccl's all-reduce."""

from importlib import import_module
from typing import Any

import torch
from vllm.distributed import stateless_coordinator
from vllm.distributed.device_communicators.cuda_communicator import CudaCommunicator
from vllm.platforms import current_platform

# The largest all-reduce, in bytes, that was measured to be faster in a decode step than each of vLLM's others, by
# compute capability and number of ranks: bench/results/2026-11-26-4xH100-627cbe5 and 2026-11-26-2xH100-0a23068. All
# others go the way that vLLM chooses, which ends at goccl too for large ones.
MEASURED = {((9, 0), 2): 4 << 20, ((9, 0), 4): 4 << 20}


class Communicator(CudaCommunicator):  # type: ignore[misc]
    """vLLM's own communicator, whose pynccl runs on goccl's libnccl.so.2."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        theirs = self.all2all_manager
        if self.all2all_backend == "deepep_low_latency" and theirs and import_module("deep_ep").__name__ == "goccl.moe":
            from .all2all import All2AllManager

            self.all2all_manager = All2AllManager(self.cpu_group, theirs.tcp_store_group)
        on = current_platform.get_device_capability()
        self._most = MEASURED.get(((on.major, on.minor), self.world_size), 0) if on is not None else 0

    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        """The sum of all ranks' tensors: by goccl where that was measured to be faster."""
        nccl = self.pynccl_comm
        if nccl is None or nccl.disabled or input_.nbytes > self._most:
            return super().all_reduce(input_)
        return nccl.all_reduce(input_)


# Groups of elastic EP take vLLM's class by its name, and assert that the platform has no other.
stateless_coordinator.CudaCommunicator = Communicator
