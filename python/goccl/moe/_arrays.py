"""Tensors of torch and arrays of numpy behind one interface."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .. import errors
from .._buffer import CUDA, resolve

if TYPE_CHECKING:
    from typing import Any


class Arrays:
    """Makes and reads tensors of the kind of one tensor, on its device."""

    def __init__(self, like: Any) -> None:
        torch = sys.modules.get("torch")
        self.torch = torch if torch is not None and isinstance(like, torch.Tensor) else None
        self.device = like.device if self.torch else None
        self.cuda = bool(self.torch and like.is_cuda)

    def _type(self, name: str) -> Any:
        if self.torch:
            return getattr(self.torch, {"float8": "float8_e4m3fn"}.get(name, name))
        import numpy as np

        return np.dtype({"bfloat16": "uint16", "float8": "uint8"}.get(name, name))

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        if self.torch:
            return self.torch.empty(shape, dtype=self._type(dtype), device=self.device)
        import numpy as np

        return np.empty(shape, self._type(dtype))

    def memory(self, nbytes: int) -> Any:
        """nbytes at a multiple of 16."""
        if self.torch:
            return self.torch.empty(nbytes, dtype=self.torch.uint8, device=self.device)
        import numpy as np

        raw = np.empty(nbytes + 16, np.uint8)
        return raw[-raw.ctypes.data % 16:][:nbytes]

    def view(self, memory: Any, offset: int, dtype: str, shape: tuple[int, ...]) -> Any:
        """A part of memory."""
        count = 1
        for n in shape:
            count *= n
        width = {"int32": 4, "int64": 8}[dtype]
        return memory[offset:offset + count * width].view(self._type(dtype)).reshape(shape)

    def is_type(self, a: Any, dtype: str) -> bool:
        return bool(a.dtype == self._type(dtype)) or str(a.dtype) == {"float8": "float8_e4m3fn"}.get(dtype, dtype)

    def address(self, a: Any, what: str, shape: tuple[int, ...], *dtypes: str) -> int:
        """The address of a tensor of a shape and type; None is 0."""
        if a is None:
            return 0
        if tuple(a.shape) != shape:
            raise errors.InvalidArgument(f"{what} has the shape {tuple(a.shape)}: want {shape}")
        if not any(self.is_type(a, d) for d in dtypes):
            raise errors.InvalidArgument(f"{what} holds {a.dtype}: want {' or '.join(dtypes)}")
        b = resolve(a)
        if (b.kind == CUDA) != self.cuda:
            raise errors.InvalidArgument(f"{what} is not on the device of the other tensors")
        return b.ptr if b.nbytes else 0

    def exponents(self, scales: Any) -> Any:
        """The exponents of float32 that are powers of two, a byte each, four in an int32."""
        bits = scales.view(self._type("int32")) >> 23
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
        return int(self.torch.cuda.current_stream().cuda_stream) if self.torch and self.cuda else 0
