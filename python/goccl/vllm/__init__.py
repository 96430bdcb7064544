"""vLLM's plug-in (entry point vllm.platform_plugins): ``VLLM_PLUGINS=goccl vllm serve …``.

vLLM's direct NCCL calls run on goccl's libnccl.so.2, all-reduces of measured sizes too, and DeepEP's modes of
--all2all-backend on goccl.moe where DeepEP is not installed. No communicator is added to vLLM's own.
"""

import importlib.util
import os

from .._env import read

__all__ = ["platform"]


def platform() -> str | None:
    """The platform, for vLLM, which asks before it chooses one: vLLM's for NVIDIA GPUs with goccl's communicator. None,
    and nothing changes, unless VLLM_PLUGINS names goccl and there is such a GPU."""
    from vllm.platforms import cuda_platform_plugin

    if "goccl" not in read("VLLM_PLUGINS").split(",") or cuda_platform_plugin() is None:
        return None
    from .. import errors, get_lib
    from .._alias import stand_in

    ours = os.path.join(get_lib(), "libnccl.so.2")
    given = os.environ.setdefault("VLLM_NCCL_SO_PATH", ours)
    if given != ours:
        raise errors.InvalidUsage(f"VLLM_PLUGINS names goccl, and VLLM_NCCL_SO_PATH another library, {given}: unset "
                                  "one of them")
    if importlib.util.find_spec("deep_ep") is None:
        stand_in("deep_ep", "goccl.moe")
    return "goccl.vllm.cuda.Platform"
