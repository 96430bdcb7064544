"""Devices, streams and memory that goccl allocates."""

import builtins
import ctypes
import math
import weakref
from collections.abc import Sequence
from typing import Any

from . import errors
from ._env import local_rank
from ._lib import lib, synchronize
from ._types import DataType, DeviceType, host_only
from ._typing import BytesLike

__all__ = ["Device", "Stream", "RawGpuBuffer", "GpuBuffer", "GpuBufferGranularity", "device_count", "current_device",
           "is_bulk_supported"]


class Device:
    """A GPU, or a host device, which stands for processors and shared memory.

    Two devices are equal when they are the same device. Opening happens at the first use and is never undone.
    """

    __slots__ = ("type", "id", "_handle")

    def __init__(self, type: "DeviceType | int" = DeviceType.GPU, id: int = -1) -> None:
        self.type = DeviceType(type)
        self.id = id
        self._handle = 0

    @property
    def handle(self) -> int:
        """The goccl_device."""
        if not self._handle:
            if self.id < 0 and self.type == DeviceType.GPU:
                current = current_device()
                if current.type != DeviceType.GPU:
                    raise errors.CudaError("there is no GPU: give a Device(DeviceType.CPU), or run where one is")
                self.id = current.id
            self._handle = lib.device_open(int(self.type), max(self.id, 0))
        return self._handle

    @classmethod
    def _of_handle(cls, handle: int) -> "Device":
        d = cls(*lib.device_id(handle))
        d._handle = handle
        return d

    @property
    def capability(self) -> tuple[int, int]:
        """A GPU's compute capability, such as (9, 0); (0, 0) for the host device."""
        major, minor, _ = lib.device_capability(self.handle)
        return major, minor

    @property
    def numa_node(self) -> int:
        """The NUMA node that a GPU is on; -1 when it is not known, and for the host device."""
        return int(lib.device_capability(self.handle)[2])

    @property
    def is_host(self) -> bool:
        """Whether the device is the host."""
        return self.type == DeviceType.CPU

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and (self.type, self.id) == (other.type, other.id)

    def __hash__(self) -> int:
        return hash((self.type, self.id))

    def __str__(self) -> str:
        return f"{'cpu' if self.is_host else 'cuda'}:{self.id}"

    __repr__ = __str__


def device_count() -> int:
    """The number of GPUs that this process sees; 0 without a driver, or with GOCCL_DEVICE=host."""
    if host_only():
        return 0
    try:
        return int(lib.device_count(int(DeviceType.GPU)))
    except errors.GocclError:
        return 0


def current_device(hint: int | None = None) -> Device:
    """The GPU that the calling thread's CUDA context is on (GPU 0 if it has none); where there is no GPU, or with
    GOCCL_DEVICE=host, the host device of that number (default: $LOCAL_RANK)."""
    return Device._of_handle(lib.device_current(local_rank() if hint is None else hint))


def is_bulk_supported() -> bool:
    """Whether kernels of the current GPU can use bulk copies (TMA): compute capability 9.0 and later."""
    return current_device().capability >= (9, 0)


class Stream:
    """An ordered queue of work on a device. It is closed with its last reference; enqueued work still runs.

    Work on a goccl stream of the host device keeps the buffers alive that it uses until synchronize().
    """

    handle: int

    def __init__(self, device: Device | None = None) -> None:
        self.device = device or current_device()
        self.handle = lib.stream_create(self.device.handle)
        self._keep: list[Any] = []
        self._finalizer = weakref.finalize(self, lib.raw("stream_destroy"), self.device.handle, self.handle)
        self._finalizer.atexit = False

    def synchronize(self, timeout: float | None = None) -> None:
        """Waits for the work enqueued so far. Ctrl-C ends the wait, not the work."""
        synchronize(self.device.handle, self.handle, None, timeout)
        self._keep.clear()

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.handle)

    @property
    def cuda_stream(self) -> int:
        """The handle, under torch's name."""
        return self.handle

    @property
    def ptr(self) -> int:
        """The handle, under cupy's name."""
        return self.handle

    def close(self) -> None:
        """Frees the stream. Closing twice is harmless."""
        self._finalizer()


class GpuBufferGranularity:
    """Accepted where MSCCL++ has it: goccl's allocations are always shareable in whole pages."""

    MultiCastMinimum = 0
    MultiCastRecommended = 1


class RawGpuBuffer:
    """nbytes of zeroed device memory that other processes of the machine can map: GPU memory, or shared memory on the
    host device.

    It is freed with the last reference to it or to what was made from it (arrays, DLPack capsules).
    """

    def __init__(self, nbytes: int, granularity: int = 0, *, device: Device | None = None) -> None:
        self.device = device or current_device()
        self._nbytes = int(nbytes)
        self._ptr: int = lib.alloc(self.device.handle, self._nbytes)
        self._finalizer = weakref.finalize(self, lib.raw("free"), self._ptr)
        self._finalizer.atexit = False

    def data(self) -> int:
        """The address."""
        return self._ptr

    @property
    def ptr(self) -> int:
        """The address, under cupy's name."""
        return self._ptr

    def bytes(self) -> int:
        """The size in bytes."""
        return self._nbytes

    nelems = bytes

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self._nbytes

    def device_id(self) -> int:
        """The device's number."""
        return self.device.id

    def data_ptr(self) -> int:
        """The address, under torch's name."""
        return self._ptr

    def copy_from(self, data: BytesLike, offset: int = 0) -> None:
        """Copies bytes of the host (anything with the buffer protocol) to offset. It returns when they are there."""
        raw = bytes(data)
        self._within(offset, len(raw))
        lib.copy_in(self.device.handle, self._ptr + offset, raw, len(raw))

    def to_bytes(self, offset: int = 0, nbytes: int | None = None) -> builtins.bytes:
        """nbytes from offset on (default: all the rest), copied to the host. Work on streams that writes them is to be
        synchronized with before."""
        n = self._nbytes - offset if nbytes is None else nbytes
        self._within(offset, n)
        out = ctypes.create_string_buffer(max(n, 1))
        lib.copy_out(self.device.handle, out, self._ptr + offset, n)
        return out.raw[:n]

    def _within(self, offset: int, n: int) -> None:
        if offset < 0 or n < 0 or offset + n > self._nbytes:
            raise errors.InvalidArgument(f"bytes {offset} to {offset + n} of a buffer of {self._nbytes}")

    def __len__(self) -> int:
        return self._nbytes

    @property
    def _interface(self) -> dict[str, Any]:
        return {"shape": (self._nbytes,), "typestr": "|u1", "data": (self._ptr, False), "version": 3, "strides": None}

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if not self.device.is_host:
            raise AttributeError("memory of a GPU has a __cuda_array_interface__")
        return self._interface

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.device.is_host:
            raise AttributeError("memory of the host device has an __array_interface__")
        return self._interface

    def to_dlpack(self, data_type: str = "uint8", shape: Sequence[int] = (), strides: Sequence[int] = ()) -> Any:
        """A DLPack capsule over the memory. data_type is a name such as "torch.float16"; shape () is all of it in one
        dimension."""
        from ._dlpack import capsule

        name = str(data_type).rpartition(".")[2]
        return capsule(self, self._ptr, self.__dlpack_device__(), name, tuple(shape), tuple(strides), self._nbytes)

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.to_dlpack()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0) if self.device.is_host else (2, self.device.id)

    def close(self) -> None:
        """Frees the memory now; nothing may use it any more. Closing twice is harmless."""
        self._finalizer()


def GpuBuffer(shape: int | Sequence[int], dtype: Any = float, strides: None = None, order: str = "C",
              granularity: int = 0, *, device: Device | None = None) -> Any:
    """A zeroed array of device memory that other processes can map: a numpy array on the host device; on a GPU a cupy
    array, or without cupy a torch tensor.

    shape is an int or a tuple; order must be "C" and strides None.
    """
    import numpy as np

    if order != "C" or strides is not None:
        raise errors.InvalidArgument("GpuBuffer makes C-contiguous arrays: leave order and strides")
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    count = math.prod(shape)
    if str(dtype).startswith("torch."):
        import torch

        raw = RawGpuBuffer(count * DataType.of(str(dtype)).itemsize, device=device)
        return torch.utils.dlpack.from_dlpack(raw.to_dlpack(str(dtype), shape))
    dt = np.dtype(dtype)
    raw = RawGpuBuffer(max(count * dt.itemsize, 1), device=device)
    if raw.device.is_host:
        return np.asarray(raw)[: count * dt.itemsize].view(dt).reshape(shape)
    try:
        import cupy as cp
    except ImportError:
        import torch

        return torch.utils.dlpack.from_dlpack(raw.to_dlpack(dt.name, shape))
    memory = cp.cuda.UnownedMemory(raw.ptr, raw.nbytes, raw, raw.device.id)
    return cp.ndarray(shape, dtype=dt, memptr=cp.cuda.MemoryPointer(memory, 0))
