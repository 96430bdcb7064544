"""PyTorch's symmetric memory on goccl's: torch.distributed._symmetric_memory.set_backend("GOCCL").

Its tensors are memory that the kernels of all ranks of a group address, by loads and stores and never by multicast.
PyTorch's operators for symmetric memory, Triton kernels and goccl's collectives then work on the same memory. The
allocator is a class of PyTorch's C++: it is compiled once for each PyTorch, which takes a C++ compiler and half a
minute.
"""

import ctypes
import os
from typing import Any

import torch
import torch.distributed as dist

from .. import errors
from .._extension import build, compiler
from .._lib import lib
from .._types import host_only
from ..device import Device
from ..nccl import Communicator
from ..utils import KernelBuilder
from .abilities import Abilities

_HERE = os.path.dirname(os.path.abspath(__file__))
_LIBRARY = ("device_open", "alloc", "free", "window_deregister", "comm_error", "kernel_launch", "last_error")


class _Meeting(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_uint64) for name in ("comm", "window", "base", "stride", "abort", "kernel")),
                ("rank", ctypes.c_int32), ("size", ctypes.c_int32), ("error", ctypes.c_char * 2048)]


_Meet = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_int32, ctypes.c_char_p, ctypes.c_void_p,
                         ctypes.c_uint64, ctypes.POINTER(_Meeting))


class _Calls(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_void_p) for name in _LIBRARY), ("meet", _Meet)]


_kept: list[Any] = []  # what C++ calls, once it is registered
_comms: dict[tuple[str, torch.device], Communicator] = {}  # of groups of other backends
_kernels: dict[int, Any] = {}  # by GPU


def register() -> None:
    """Makes "GOCCL" a backend of symmetric memory. Twice is harmless."""
    if _kept:
        return
    shared = ctypes.CDLL(_build())
    calls = _Calls(*(ctypes.cast(getattr(lib.dll(), "goccl_" + name), ctypes.c_void_p) for name in _LIBRARY),
                   _Meet(_meet))
    _kept.append(calls)
    shared.goccl_symmetric_memory(ctypes.byref(calls), int(torch.cuda.is_available() and not host_only()))


def _build() -> str:
    home = os.path.dirname(torch.__file__)
    source = os.path.join(_HERE, "symmetric_memory.cpp")
    flags = ["-std=c++20", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
             f"-I{home}/include", f"-I{home}/include/torch/csrc/api/include"]
    command = [compiler("symmetric memory is a C++ class of PyTorch",
                        "; the allocators CUDA and NCCL need none"), "-O1", "-fPIC", "-fvisibility=hidden", *flags]
    return build("symmetric_memory", source, command, [source],
                 [f"-L{home}/lib", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{home}/lib"], torch.__version__)


def _communicator(group: dist.ProcessGroup, name: str, device: torch.device) -> Communicator:
    """A group's communicator: its own if its backend is goccl, else one that is made here."""
    backend = group._get_backend(device) if device in group._device_types else group._get_backend(torch.device("cpu"))
    if isinstance(backend, Abilities):
        return backend._queue(device).comm
    if (name, device) not in _comms:
        _comms[name, device] = Communicator.from_torch(group, device)
    return _comms[name, device]


def _meet(cuda: int, index: int, name: bytes, block: int, nbytes: int, out: Any) -> int:
    """Maps the blocks of all ranks of a group. C++ calls it, in the order in which tensors meet."""
    met = out.contents
    try:
        device = torch.device("cuda", index) if cuda else torch.device("cpu")
        group = dist.distributed_c10d._resolve_process_group(name.decode())
        comm = _communicator(group, name.decode(), device)
        sizes = torch.empty(comm.nranks, dtype=torch.int64, device=device)
        comm.allgather(torch.tensor([nbytes], device=device), sizes,
                       stream=torch.cuda.current_stream(device) if cuda else None)
        if len(set(sizes.tolist())) > 1:
            raise errors.InvalidArgument(f"the ranks' tensors have {sizes.tolist()} bytes, with their signal pads: "
                                         "allocate the same sizes in the same order on all ranks")
        met.window = lib.flat_register(comm._handle, block, nbytes)
        where = (ctypes.c_uint64 * 8)()
        lib.flat_wait(met.window, where)
        met.comm, met.rank, met.size = comm._handle, comm.rank, comm.nranks
        met.base, met.stride, met.abort = where[:3]
        if cuda:
            met.kernel = _kernel(comm.device)
        return 0
    except Exception as e:
        met.error = f"{type(e).__name__}: {e}".encode()[:2047]
        return 1


def _kernel(device: Device) -> int:
    if device.id not in _kernels:
        builder = KernelBuilder("symmetric_memory.cu", "symmetric_signal", _HERE, device=device)
        _kernels[device.id] = builder.get_compiled_kernel()
    return int(_kernels[device.id]._function.handle)
