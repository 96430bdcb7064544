"""What users pass as buffers and streams, brought to addresses."""

import functools
import math
import sys
from typing import Any

from . import errors
from ._types import DataType

HOST, CUDA = 1, 2
ANY = -1  # the device of memory that does not say where it is


class Buffer:
    """Contiguous memory of the user's: ptr, size in bytes, count of elements, their DataType (None: a type that is only
    moved), itemsize, where it is (HOST or CUDA) and on which GPU, the object that keeps it alive, and whether it may
    only be read."""

    __slots__ = ("ptr", "nbytes", "count", "dtype", "itemsize", "kind", "device", "keep", "readonly")

    def __init__(self, ptr: int, nbytes: int, dtype: DataType | None, itemsize: int, kind: int, device: int,
                 keep: object, readonly: bool = False) -> None:
        self.ptr, self.nbytes, self.dtype, self.itemsize = ptr, nbytes, dtype, itemsize
        self.kind, self.device, self.keep = kind, device, keep
        self.count, self.readonly = nbytes // itemsize, readonly

    def slice(self, offset: int, count: int) -> "Buffer":
        """count elements from offset on."""
        return Buffer(self.ptr + offset * self.itemsize, count * self.itemsize, self.dtype, self.itemsize, self.kind,
                      self.device, self.keep, self.readonly)


def resolve(obj: Any) -> Buffer:
    """The memory of a torch tensor, a numpy or cupy array, or an object with __cuda_array_interface__,
    __array_interface__, DLPack or the buffer protocol."""
    if isinstance(obj, Buffer):
        return obj
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(obj, torch.Tensor):
        return _torch(torch, obj)
    face = getattr(obj, "__array_interface__", None)
    kind = HOST
    if face is None:
        face = getattr(obj, "__cuda_array_interface__", None)
        kind = CUDA
    if face is not None:
        return _interface(obj, face, kind)
    if hasattr(obj, "__dlpack__"):
        return _dlpack(obj)
    import numpy as np

    try:
        m = memoryview(obj)
    except TypeError:
        raise errors.InvalidArgument(
            f"{type(obj).__name__} is no buffer: pass a torch tensor, a numpy or cupy array, or an object with DLPack, "
            "__cuda_array_interface__, __array_interface__ or the buffer protocol") from None
    if not m.c_contiguous:
        raise errors.InvalidArgument("the buffer is not contiguous")
    held = np.frombuffer(m, np.uint8) if m.nbytes else np.empty(0, np.uint8)  # keeps the memory in its place
    fmt = {"b": "int8", "B": "uint8", "i": "int32", "I": "uint32", "q": "int64", "l": "int64", "Q": "uint64",
           "L": "uint64", "f": "float32", "d": "float64", "e": "float16"}.get(m.format.lstrip("@="))
    return Buffer(held.__array_interface__["data"][0], m.nbytes, DataType[fmt] if fmt else None, m.itemsize, HOST, 0,
                  (held, obj), m.readonly)


@functools.cache
def types(torch: Any) -> dict[Any, DataType]:
    """torch's types, without those that are only moved."""
    names = ("int8", "uint8", "int32", "int64", "float16", "float32", "float64", "bfloat16", "float8_e4m3fn",
             "float8_e5m2", "bool")
    return {getattr(torch, n): DataType.of(n) for n in names if hasattr(torch, n)}


def plain(x: Any, y: Any) -> DataType | None:
    """The type of one or two tensors of torch on one device, of which a call needs only addresses and lengths. None for
    others, also those that resolve refuses."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(x, torch.Tensor):
        return None
    kind, strided = types(torch).get(x.dtype), torch.strided
    if kind is None or x.layout is not strided or not x.is_contiguous() or x.is_neg():
        return None  # real numbers are not conjugated
    if y is None or y is x or (isinstance(y, torch.Tensor) and y.dtype is x.dtype and y.device == x.device
                               and y.layout is strided and y.is_contiguous() and not y.is_neg()):
        return kind
    return None


def _torch(torch: Any, t: Any) -> Buffer:
    if t.layout is not torch.strided:
        raise errors.InvalidArgument(f"the tensor's layout is {t.layout}: pass tensor.to_dense()")
    if not t.is_contiguous():
        raise errors.InvalidArgument("the tensor is not contiguous: pass tensor.contiguous()")
    if t.is_conj() or t.is_neg():
        raise errors.InvalidArgument("the tensor is a conjugated or negated view of its memory: pass "
                                     "tensor.resolve_conj().resolve_neg()")
    cuda, size = t.is_cuda, t.element_size()
    if not cuda and not t.is_cpu:
        raise errors.InvalidArgument(f"a tensor on {t.device}: goccl works on cpu and cuda")
    return Buffer(t.data_ptr(), t.numel() * size, types(torch).get(t.dtype), size, CUDA if cuda else HOST,
                  t.get_device() if cuda else 0, t)


def _interface(obj: Any, face: dict[str, Any], kind: int) -> Buffer:
    shape, typestr = face["shape"], face["typestr"]
    itemsize = _itemsize(obj, typestr)
    data = face.get("data")
    if not isinstance(data, tuple) or data[0] is None:
        raise errors.InvalidArgument("the array gives no address")
    ptr, readonly = data
    count = math.prod(shape)
    strides = face.get("strides")
    if strides is not None and count > 1:
        step = itemsize
        for n, s in zip(reversed(shape), reversed(strides)):
            if n != 1 and s != step:
                raise errors.InvalidArgument("the array is not C-contiguous: copy it with ascontiguousarray")
            step *= n
    if typestr[0] == ">" and itemsize > 1:
        raise errors.InvalidArgument(f"the array's elements ({typestr}) are not little-endian")
    dtype = None
    name = str(getattr(obj, "dtype", ""))
    try:
        dtype = DataType.of(name if name in ("bfloat16", "float8_e4m3fn", "float8_e5m2") else typestr)
    except errors.InvalidArgument:
        pass
    device = getattr(getattr(obj, "device", None), "id", ANY) if kind == CUDA else 0
    return Buffer(ptr, count * itemsize, dtype, itemsize, kind, device, obj, bool(readonly))


def _itemsize(obj: Any, typestr: str) -> int:
    """The bytes of an element of an array interface's type. Those that are no plain bytes, such as Python's objects,
    cannot go to another process."""
    size = typestr[2:].partition("[")[0]  # "<M8[ns]"
    if typestr[1] in "Ot" or getattr(getattr(obj, "dtype", None), "hasobject",
                                     False) or not size.isdigit() or int(size) == 0:
        raise errors.InvalidArgument(f"elements of type {typestr} are no plain bytes")
    return int(size) * (4 if typestr[1] == "U" else 1)


def _dlpack(obj: Any) -> Buffer:
    from ._dlpack import view

    v = view(obj)
    if not v.contiguous:
        raise errors.InvalidArgument("the tensor is not contiguous")
    if v.device_type not in (1, 2, 3, 13):
        raise errors.InvalidArgument(f"a tensor on DLPack device type {v.device_type}: goccl works on the host and on "
                                     "CUDA")
    try:
        dtype = DataType.of(v.dtype)
        itemsize = dtype.itemsize
    except errors.InvalidArgument:
        dtype, itemsize = None, int("".join(c for c in v.dtype if c.isdigit())) // 8
    return Buffer(v.ptr, math.prod(v.shape) * itemsize, dtype, itemsize, CUDA if v.device_type in (2, 13) else HOST,
                  v.device_id, (v, obj))


def shared(b: Buffer) -> None:
    """Refuses memory that peers would write to and must not."""
    if b.readonly and b.nbytes:
        raise errors.InvalidArgument("the buffer is read-only: peers write to registered memory")


def stream_handle(stream: Any) -> int:
    """The raw stream of an int, a goccl, torch, cupy or cuda.core stream; None is 0, the default stream."""
    if stream is None:
        return 0
    if isinstance(stream, int):
        return stream
    for name in ("cuda_stream", "ptr", "handle"):
        h = getattr(stream, name, None)
        if isinstance(h, int):
            return h
    face = getattr(stream, "__cuda_stream__", None)
    if face is not None:
        return int((face() if callable(face) else face)[1])
    raise errors.InvalidArgument(f"{type(stream).__name__} is no stream: pass an int, or a goccl, torch, cupy or "
                                 "cuda.core stream")
