"""PreMulSum, an operator that carries a factor."""

import struct
from typing import Any

from .. import errors
from .._lib import lib
from .._types import DataType


class PreMulSum:
    """A created operator: it multiplies each input by a factor, then sums. It belongs to its communicator and is freed
    with it, or by close."""

    def __init__(self, comm: int, number: int, keep: object) -> None:
        self._comm, self.number, self._keep = comm, number, keep

    def __index__(self) -> int:
        return self.number

    def close(self) -> None:
        """Frees the operator."""
        if self.number:
            lib.op_destroy(self._comm, self.number)
            self.number = 0


def element(value: Any, t: DataType) -> bytes:
    """A number as an element of a type."""
    codes = {DataType.int8: "b", DataType.uint8: "B", DataType.int32: "i", DataType.uint32: "I", DataType.int64: "q",
             DataType.uint64: "Q", DataType.float16: "e", DataType.float32: "f", DataType.float64: "d"}
    if t in codes:
        return struct.pack("<" + codes[t], value).ljust(8, b"\0")
    if t == DataType.bfloat16:
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
        return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF).ljust(8, b"\0")
    raise errors.InvalidArgument(f"give the factor of {t.name} as an array of one element")
