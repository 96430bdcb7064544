"""goccl: GPU communication primitives and collectives, on GPUs or on the host.

Importing opens nothing and starts no thread; the library is loaded by the first call. Submodules: ``goccl.nccl`` (nccl4py's API), ``goccl.torch``
(torch.distributed backend), ``goccl.language`` (collectives written in Python), ``goccl.utils`` (users' kernels), ``goccl.ext`` (algorithms).
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # typing's, without the 15 ms that importing it takes
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"
version = {"version": __version__}

# Names and the modules that have them; loaded when they are first asked for.
_HOME = {
    name: module
    for module, names in {
        "errors": ("GocclError CudaError SysError InternalError InvalidArgument InvalidUsage PeerDead InProgress Timeout Aborted Mismatch Unsupported "
                   "Closed Forked OutOfMemory"),
        "_types": "DataType ReduceOp Transport TransportFlags DeviceType PacketType",
        "device": "Device Stream RawGpuBuffer GpuBuffer GpuBufferGranularity device_count current_device",
        "bootstrap": "UniqueId Bootstrap TcpBootstrap mpi_world",
        "primitives": ("Context Endpoint EndpointConfig Connection RegisteredMemory SemaphoreStub Semaphore Host2DeviceSemaphore Host2HostSemaphore "
                       "MemoryDevice2DeviceSemaphore Communicator Future"),
        "channel": "BaseMemoryChannel MemoryChannel SwitchChannel",
        "fifo": "Fifo ProxyTrigger",
        "proxy": "ProxyService BasePortChannel PortChannel SimpleProxyChannel ProxyChannel",
        "comm": "CommGroup",
        "algorithm": "Algorithm AlgorithmCollection AlgorithmCollectionBuilder Executor ExecutionPlan compile",
        "native": "compile_native NativeAlgorithm",
        "_env": "env Env",
        "_alias": "install_alias",
        "language.spec": "AlgoSpec ReplicationPolicy",
    }.items()
    for name in names.split()
}
_SUBMODULES = ("nccl", "torch", "language", "utils", "ext", "comm", "errors", "bootstrap", "device", "primitives", "channel", "fifo", "proxy", "algorithm", "native")

__all__ = sorted(_HOME) + ["get_include", "get_lib", "is_nvls_supported"]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is not None:
        value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
        globals()[name] = value
        return value
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__) | set(_SUBMODULES))


def get_lib() -> str:
    """The folder of libgoccl.so and libnccl.so.2."""
    from ._lib import directory

    return directory() or ""


def get_include() -> str:
    """The folder of nccl.h, goccl.h and the device headers, for compilers other than the built-in one; in a checkout what `make libgoccl` gathers."""
    import os

    here = os.path.dirname(os.path.abspath(__file__))
    packaged = os.path.join(here, "include")
    return packaged if os.path.isdir(packaged) else os.path.normpath(os.path.join(here, "..", "..", "build", "include"))


def is_nvls_supported() -> bool:
    """False: multicast is off. Switch channels are unicast: they load from and store to every peer, with the same API."""
    return False
