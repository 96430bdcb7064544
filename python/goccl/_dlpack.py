"""DLPack (version 0 capsules): memory of ours for others, memory of others for us."""

import ctypes
import itertools
import math
import threading
from typing import Any

from . import errors
from ._checked import Structure, array

_NAME = b"dltensor"
_USED = b"used_dltensor"

# type codes and bits of DLDataType
_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "complex": 5, "bool": 6, "float8_e4m3fn": 10, "float8_e5m2": 12}
_TYPES = {"int8": (0, 8), "int16": (0, 16), "int32": (0, 32), "int64": (0, 64), "uint8": (1, 8), "uint16": (1, 16),
          "uint32": (1, 32), "uint64": (1, 64), "float16": (2, 16), "half": (2, 16), "float32": (2, 32),
          "float": (2, 32), "float64": (2, 64), "double": (2, 64), "bfloat16": (4, 16), "bool": (6, 8),
          "float8_e4m3fn": (10, 8), "float8_e4m3": (10, 8), "float8_e5m2": (12, 8)}
_NAMES = {v: k for k, v in reversed(list(_TYPES.items()))}


class _Device(Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _Tensor(Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", _Device), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]


_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)

_api = ctypes.pythonapi
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor)(("PyCapsule_New", _api))
_is_valid_raw = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_pointer_raw = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))

# What exported tensors keep alive, by the number in their context field. A consumer may call the deleter from any
# thread.
_exported: dict[int, tuple[Any, ...]] = {}
_numbers = itertools.count(1)
_lock = threading.Lock()


@_Deleter
def _delete(managed: int) -> None:
    with _lock:
        _exported.pop(_Managed.from_address(managed).context, None)


@_Destructor
def _destroy(capsule: int) -> None:
    # A consumer renames the capsule and calls the deleter itself.
    if _is_valid_raw(capsule, _NAME):
        _delete(_pointer_raw(capsule, _NAME))


def capsule(owner: object, ptr: int, device: tuple[int, int], dtype: str, shape: tuple[Any, ...],
            strides: tuple[Any, ...], nbytes: int) -> Any:
    """A capsule over ptr that keeps owner alive. device is DLPack's type and number, strides are in elements."""
    if dtype not in _TYPES:
        raise errors.InvalidArgument(f"DLPack has no type {dtype}")
    code, bits = _TYPES[dtype]
    if not shape:
        shape = (nbytes * 8 // bits,)
    needed = math.prod(shape) * bits // 8
    if needed > nbytes:
        raise errors.InvalidArgument(f"shape {shape} of {dtype} needs {needed} bytes, the memory has {nbytes}")
    m = _Managed()
    dims = array("shape", ctypes.c_int64, shape)
    steps = array("strides", ctypes.c_int64, strides) if strides else None
    m.tensor = _Tensor(ptr, _Device(*device), len(shape), code, bits, 1,
                       ctypes.cast(dims, ctypes.POINTER(ctypes.c_int64)),
                       ctypes.cast(steps, ctypes.POINTER(ctypes.c_int64)) if steps else None, 0)
    number = next(_numbers)
    m.context = number
    m.deleter = _delete
    with _lock:
        _exported[number] = (m, dims, steps, owner)
    return _new(ctypes.addressof(m), _NAME, _destroy)


class View:
    """A tensor seen through a capsule, which it keeps alive: ptr, dtype's name, shape, device type and number."""

    __slots__ = ("capsule", "ptr", "dtype", "shape", "contiguous", "device_type", "device_id")

    def __init__(self, cap: Any) -> None:
        t = _Managed.from_address(_pointer(cap, _NAME)).tensor
        self.capsule = cap
        self.ptr = (t.data or 0) + t.byte_offset
        self.shape = tuple(t.shape[i] for i in range(t.ndim))
        dtype = _NAMES.get((t.code, t.bits)) if t.lanes == 1 else None
        if dtype is None:
            raise errors.InvalidArgument(f"DLPack type with code {t.code}, {t.bits} bits and {t.lanes} lanes")
        self.dtype = dtype
        self.device_type, self.device_id = t.device.type, t.device.id
        self.contiguous = True
        if t.strides:
            step = 1
            for i in reversed(range(t.ndim)):
                if self.shape[i] != 1 and t.strides[i] != step:
                    self.contiguous = False
                step *= self.shape[i]


def view(obj: Any) -> View:
    """The tensor behind an object with __dlpack__, on the producer's own stream."""
    if obj.__dlpack_device__()[0] in (2, 13):  # CUDA: the consumer orders the streams itself
        return View(obj.__dlpack__(stream=-1))
    return View(obj.__dlpack__())
