"""What torch passes to a process group, as goccl takes it: options, operators, tensors and splits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from .. import errors
from .._types import ReduceOp

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_OPS = {dist.ReduceOp.SUM: ReduceOp.SUM, dist.ReduceOp.PRODUCT: ReduceOp.PROD, dist.ReduceOp.MAX: ReduceOp.MAX,
        dist.ReduceOp.MIN: ReduceOp.MIN, dist.ReduceOp.AVG: ReduceOp.AVG}
_BITWISE = {dist.ReduceOp.BAND: torch.bitwise_and, dist.ReduceOp.BOR: torch.bitwise_or,
            dist.ReduceOp.BXOR: torch.bitwise_xor}
WIDER = {torch.int16: torch.int32, torch.bool: torch.uint8}
if hasattr(torch, "uint16"):
    WIDER |= {torch.uint16: torch.int32, torch.uint32: torch.int64}


def reduction(op: Any) -> Any:
    """A torch ReduceOp's kind; ReduceOp objects compare equal to their kinds but hash on their own."""
    for table in (_OPS, _BITWISE):
        for k, v in table.items():
            if op == k:
                return v
    raise errors.InvalidArgument(f"goccl has no reduction {op}: it has SUM, PRODUCT, MAX, MIN, AVG, and BAND, BOR, "
                                 "BXOR of integers")


def one(tensors: list[torch.Tensor]) -> torch.Tensor:
    if len(tensors) != 1:
        raise errors.InvalidArgument(f"{len(tensors)} tensors: goccl has one device per rank, so pass one")
    return tensors[0]


def option(opts: Any, name: str, default: Any) -> Any:
    value = getattr(opts, name, default) if opts is not None else default
    return default if value is None else value


def staged(t: torch.Tensor, write: bool) -> tuple[torch.Tensor, Callable[[], Any] | None]:
    """t as a contiguous tensor, and, when it is written, what brings the result back."""
    if t.is_contiguous():
        return t, None
    x = t.contiguous()
    return x, ((lambda: t.copy_(x)) if write else None)


def elements(t: torch.Tensor, splits: list[int] | None, n: int) -> list[int]:
    rows = t.shape[0] if t.dim() else 0
    per = t.numel() // rows if rows else 0
    if not splits:
        if rows % n:
            raise errors.InvalidArgument(f"{rows} rows do not divide among {n} ranks: give split sizes")
        splits = [rows // n] * n
    return [k * per for k in splits]


def starts(counts: list[int]) -> list[int]:
    out, at = [], 0
    for c in counts:
        out.append(at)
        at += c
    return out
