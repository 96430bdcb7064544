"""nccl4py's API on goccl: ``from goccl import nccl``, or ``import goccl.nccl as nccl``.

Buffers are torch tensors, numpy or cupy arrays, or anything with DLPack, ``__cuda_array_interface__``,
``__array_interface__`` or the buffer protocol. A communicator works on one device: GPU memory on a GPU, ordinary memory
on the host device. On a GPU calls enqueue on ``stream`` (None: the default stream) and return. On the host device a
call without a stream returns when it is done; with a goccl.Stream it enqueues.
"""

import ctypes as _ctypes
import sys as _sys

from .. import errors as _errors, get_lib as get_lib_path
from .._lib import lib as _lib, version as get_version
from .._types import DeviceType as _DeviceType
from ..bootstrap import UniqueId
from ..device import Device, RawGpuBuffer as _RawGpuBuffer
from ._communicator import Communicator
from ._config import NCCLConfig
from ._constants import *  # noqa: F401,F403
from ._constants import __all__ as _constants
from ._group import group, group_end, group_start
from ._one_sided import WaitSignalDesc

__all__ = ["Communicator", "UniqueId", "WaitSignalDesc", "get_unique_id", "get_version", "get_lib_version",
           "get_lib_path", "show_versions", "get_error_string", "group", "group_start", "group_end", "mem_alloc",
           "mem_free", "NcclError", "NCCLError", "NcclInvalid", "NCCLConfig", *_constants]

NcclError = NCCLError = _errors.GocclError
NcclInvalid = _errors.InvalidArgument
get_lib_version = get_version


def get_unique_id(empty: bool = False) -> UniqueId:
    """A new id, served by this process; with empty one of zeros, to receive another's bytes into."""
    return UniqueId(bytes(128)) if empty else UniqueId.create()


def show_versions() -> str:
    """Versions and where the library was found, for reports."""
    return f"goccl {get_version()} in {get_lib_path()}, Python {_sys.version.split()[0]}"


def get_error_string(result: int) -> str:
    """What a goccl_result means."""
    f = _lib.dll().goccl_result_name
    f.restype, f.argtypes = _ctypes.c_char_p, [_ctypes.c_int32]
    text: bytes = f(result)
    return text.decode()


def mem_alloc(size: int, device: "Device | int | None" = None) -> _RawGpuBuffer:
    """size bytes of zeroed device memory that the peers can map; it is freed with its last reference, or by
    mem_free."""
    if isinstance(device, int):
        device = Device(_DeviceType.GPU, device)
    return _RawGpuBuffer(size, device=device)


def mem_free(buffer: _RawGpuBuffer) -> None:
    """Frees what mem_alloc made."""
    buffer.close()
