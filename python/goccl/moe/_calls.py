"""The structures of goccl_moe.h, and its constants."""

from __future__ import annotations

import ctypes

from .._abi import (
    MoeCombineArgs as Combine,
    MoeCountArgs as Count,
    MoeDispatchArgs as Dispatch,
    MoeHandle as Handle,
    MoeNotifyArgs as Notify,
    MoeOffsets as Offsets,
    MoeShape as Shape,
    MoeSize as Size,
)
from .._lib import lib

__all__ = ["Combine", "Count", "Dispatch", "Handle", "Notify", "Offsets", "Shape", "Size", "bytes_for"]

QUANTIZE, POWER_OF_TWO, LISTS = 1, 2, 4
ROWS, EXPERTS = 0, 1
BFLOAT16, FLOAT8 = 9, 10


def bytes_for(ranks: int, tokens: int, hidden: int, top_k: int, experts: int) -> int:
    """The bytes of a buffer for tokens of a shape."""
    return int(lib.moe_bytes(ranks, tokens, ctypes.byref(Shape(ROWS, hidden, top_k, experts))))
