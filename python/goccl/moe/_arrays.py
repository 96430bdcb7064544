"""Tensors of torch and arrays of numpy behind one interface."""

import ctypes
import functools
import sys
from typing import Any

from .. import errors
from .._buffer import CUDA, resolve

_FLOAT8 = "float8_e4m3fn"


@functools.cache
def _types(torch: Any) -> dict[str, Any]:
    """torch's types by name, or numpy's."""
    names = ("bool", "uint8", "int32", "int64", "float32", "bfloat16", "float8")
    if torch is not None:
        return {n: getattr(torch, _FLOAT8 if n == "float8" else n) for n in names}
    import numpy as np

    return {n: np.dtype({"bfloat16": "uint16", "float8": "uint8"}.get(n, n)) for n in names}


class _Memory:
    """Bytes of a GPU for torch.as_tensor, which keeps the object."""

    def __init__(self, address: int, nbytes: int, owner: Any) -> None:
        self.owner = owner
        self.__cuda_array_interface__ = {"shape": (nbytes,), "typestr": "|u1", "data": (address, False), "version": 3}


class Arrays:
    """Makes and reads tensors of the kind of one tensor, on its device."""

    def __init__(self, like: Any) -> None:
        torch = sys.modules.get("torch")
        self.torch: Any = torch if torch is not None and isinstance(like, torch.Tensor) else None
        self.types = _types(self.torch)
        self.device: Any = like.device if self.torch else None
        self.cuda = bool(self.torch and like.is_cuda)
        self.known = self.cuda or bool(self.torch and like.is_cpu)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        if self.torch:
            return self.torch.empty(shape, dtype=self.types[dtype], device=self.device)
        import numpy as np

        return np.empty(shape, self.types[dtype])

    def memory(self, nbytes: int) -> Any:
        """At least nbytes, of whole int64, at a multiple of 16."""
        nbytes += -nbytes % 8
        if self.torch:
            return self.empty((nbytes,), "uint8")
        raw = self.empty((nbytes + 16,), "uint8")
        return raw[-raw.ctypes.data % 16:][:nbytes]

    def at(self, address: int, nbytes: int, owner: Any) -> Any:
        """Bytes of the library's memory, which keep owner."""
        if self.cuda:
            return self.torch.as_tensor(_Memory(address, nbytes, owner), device=self.device)
        raw = (ctypes.c_uint8 * nbytes).from_address(address)
        raw.owner = owner
        if self.torch:
            return self.torch.frombuffer(raw, dtype=self.torch.uint8)
        import numpy as np

        return np.frombuffer(raw, np.uint8)

    def view(self, memory: Any, offset: int, dtype: str, *shape: int) -> Any:
        """A part of memory, of one or two dimensions."""
        wide, first = memory.view(self.types[dtype]), offset // self.types[dtype].itemsize
        if self.torch:
            return wide.as_strided(shape, (shape[-1], 1)[-len(shape):], first)
        return wide[first:first + shape[0] * (shape[1] if shape[1:] else 1)].reshape(shape)

    def pointer(self, a: Any) -> int:
        """The address of a tensor that this made; None is 0."""
        return 0 if a is None else int(a.data_ptr() if self.torch else a.ctypes.data if a.size else 0)

    def address(self, a: Any, what: str, shape: tuple[int, ...], *dtypes: str) -> int:
        """The address of a tensor of a shape and type; None is 0."""
        if a is None:
            return 0
        if (self.known and isinstance(a, self.torch.Tensor) and a.shape == shape  # real numbers are never conjugated
                and a.dtype in map(self.types.get, dtypes) and a.device == self.device
                and a.layout is self.torch.strided and a.is_contiguous() and not a.is_neg()):
            return int(a.data_ptr())
        if tuple(a.shape) != shape:
            raise errors.InvalidArgument(f"{what} has the shape {tuple(a.shape)}: want {shape}")
        if not any(a.dtype == self.types[d] or str(a.dtype) == (_FLOAT8 if d == "float8" else d) for d in dtypes):
            raise errors.InvalidArgument(f"{what} holds {a.dtype}: want {' or '.join(dtypes)}")
        b = resolve(a)
        if (b.kind == CUDA) != self.cuda:
            raise errors.InvalidArgument(f"{what} is not on the device of the other tensors")
        return b.ptr if b.nbytes else 0

    def exponents(self, scales: Any) -> Any:
        """The exponents of float32 that are powers of two, a byte each, four in an int32."""
        bits = scales.view(self.types["int32"]) >> 23
        if self.torch:
            return bits.to(self.torch.uint8).view(self.torch.int32)
        return bits.astype("uint8").view("int32")

    def contiguous(self, a: Any) -> Any:
        if self.torch:
            return a.contiguous()
        import numpy as np

        return np.ascontiguousarray(a)

    def stream(self) -> int:
        """The current stream."""
        return int(self.torch._C._cuda_getCurrentRawStream(self.device.index)) if self.torch and self.cuda else 0
