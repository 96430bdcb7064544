"""What torch passes to a process group, as goccl takes it: options, operators, tensors and splits."""

from array import array
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import torch
import torch.distributed as dist

from .. import errors
from .._buffer import plain
from .._types import ReduceOp
from ..nccl import Communicator
from ..nccl._calls import ALL_TO_ALL_V

_OPS = {dist.ReduceOp.SUM: ReduceOp.SUM, dist.ReduceOp.PRODUCT: ReduceOp.PROD, dist.ReduceOp.MAX: ReduceOp.MAX,
        dist.ReduceOp.MIN: ReduceOp.MIN, dist.ReduceOp.AVG: ReduceOp.AVG, dist.ReduceOp.BAND: torch.bitwise_and,
        dist.ReduceOp.BOR: torch.bitwise_or, dist.ReduceOp.BXOR: torch.bitwise_xor}
# By hashes, where a ReduceOp has the hash of its kind: comparisons take longer.
_HASHES = {hash(k): v for k, v in _OPS.items() if hash(dist.ReduceOp(k)) == hash(k)}
WIDER = {torch.int16: torch.int32, torch.bool: torch.uint8}
if hasattr(torch, "uint16"):
    WIDER |= {torch.uint16: torch.int32, torch.uint32: torch.int64}


class Scaled:
    """PREMUL_SUM: each input is multiplied by a factor, then all are summed."""

    def __init__(self, factor: torch.Tensor) -> None:
        self.factor = factor

    def like(self, t: torch.Tensor) -> "Scaled":
        """The operator for the elements of t."""
        return Scaled(self.factor.detach().reshape(1).to(t.dtype))


def reduction(op: Any) -> Any:
    """A torch ReduceOp's kind. ReduceOp objects compare equal to their kinds."""
    if type(op) is dist.ReduceOp and (known := _HASHES.get(hash(op))) is not None:
        return known
    if op == dist.ReduceOp.PREMUL_SUM:
        factor = op.__getstate__()[1] if isinstance(op, dist.ReduceOp) else None
        if factor is None:
            raise errors.InvalidArgument("PREMUL_SUM has a factor: make it with _make_nccl_premul_sum")
        return Scaled(torch.as_tensor(factor))
    for k, v in _OPS.items():
        if op == k:
            return v
    raise errors.InvalidArgument(f"goccl has no reduction {op}: it has SUM, PRODUCT, MAX, MIN, AVG, PREMUL_SUM, and "
                                 "BAND, BOR, BXOR of integers")


def reducible(op: Any, *tensors: torch.Tensor) -> tuple[Any, ...]:
    """An operator, and contiguous tensors of one type, as communicators reduce them. Types of WIDER are copied."""
    t = tensors[0]
    if t.is_complex():
        if op not in (ReduceOp.SUM, ReduceOp.AVG) and not isinstance(op, Scaled):
            raise errors.InvalidArgument("complex tensors can be summed, averaged and scaled")
        tensors = tuple(map(torch.view_as_real, tensors))
    elif t.dtype in WIDER:
        tensors = tuple(x.to(WIDER[t.dtype]) for x in tensors)
        if t.dtype == torch.bool and op == ReduceOp.SUM:
            op = ReduceOp.MAX
    return op.like(tensors[0]) if isinstance(op, Scaled) else op, *tensors


def one(tensors: list[torch.Tensor]) -> torch.Tensor:
    if len(tensors) != 1:
        raise errors.InvalidArgument(f"{len(tensors)} tensors: goccl has one device per rank, so pass one")
    return tensors[0]


def entries(tensors: list[torch.Tensor], n: int, like: torch.Tensor, what: str,
            even: bool = True) -> list[torch.Tensor]:
    """tensors, with one for each of n ranks: of the type, on the device and, if even, of the length of like."""
    if len(tensors) != n:
        raise errors.InvalidArgument(f"{what}: a list of {len(tensors)} tensors for {n} ranks: pass one for each rank")
    for r, t in enumerate(tensors):
        if t.dtype != like.dtype or t.device != like.device:
            raise errors.InvalidArgument(f"{what}: tensor {r} of the list is {t.dtype} on {t.device}, another "
                                         f"tensor is {like.dtype} on {like.device}: use one type and one device")
        if even and t.numel() != like.numel():
            raise errors.InvalidArgument(f"{what}: tensor {r} of the list has {t.numel()} elements: it needs "
                                         f"{like.numel()}")
    return list(tensors)


def only(lists: list[Any], what: str) -> Any:
    """The one list of lists."""
    if len(lists) != 1:
        raise errors.InvalidArgument(f"{what}: {len(lists)} lists of tensors: pass one, as goccl has one device "
                                     "per rank")
    return lists[0]


class OtherType(errors.InvalidArgument, TypeError):
    """Tensors of one call have different types. NCCL's process group raises a TypeError."""


def parts_of(whole: torch.Tensor, part: torch.Tensor, n: int, what: str) -> None:
    """Checks that whole is n times part."""
    if whole.dtype != part.dtype:
        text = ("input tensor must be the same type as the output tensor." if what == "reduce_scatter" else
                "output tensor must have the same type as input tensor.")
        raise OtherType(f"{what}: {text} They are {whole.dtype} and {part.dtype}")
    if whole.device != part.device or whole.numel() != n * part.numel():
        raise errors.InvalidArgument(f"{what}: {whole.numel()} elements of {whole.dtype} on {whole.device} beside "
                                     f"{part.numel()} of {part.dtype} on {part.device}: the one tensor has the parts "
                                     f"of {n} ranks, the other one part")


def exchange(x: torch.Tensor, y: torch.Tensor, send: list[int], recv: list[int]) -> Callable[[Communicator, Any], None]:
    """The call of an all-to-all-v that sends all of x and receives all of y."""
    kind = plain(x, y)
    if kind is None:
        return lambda c, s: c.alltoallv(x, y, send, starts(send), recv, starts(recv), stream=s)
    lists = array("q", [*send, *starts(send), *recv, *starts(recv)])
    at, step = lists.buffer_info()[0], 8 * len(send)
    return lambda c, s: c._post(ALL_TO_ALL_V, kind, 0, 0, x.data_ptr(), y.data_ptr(), 0, s, (x, y, lists),
                               *range(at, at + 4 * step, step))


def pairs(outputs: list[Any], inputs: list[Any], what: str) -> list[tuple[Any, Any]]:
    if len(outputs) != len(inputs):
        raise errors.InvalidArgument(f"{what}: {len(outputs)} outputs and {len(inputs)} inputs: pass one for one")
    return list(zip(outputs, inputs))


def option(opts: Any, name: str, default: Any) -> Any:
    value = getattr(opts, name, default)
    return default if value is None else value


def staged(t: torch.Tensor, write: bool) -> tuple[torch.Tensor, Callable[[], Any] | None]:
    """t as a contiguous tensor, and, when it is written, what brings the result back."""
    if t.is_contiguous():
        return t, None
    x = t.contiguous()
    return x, ((lambda: t.copy_(x)) if write else None)


def spread(parts: Sequence[torch.Tensor], whole: Any) -> None:
    """Copies whole[i] to parts[i], in its shape."""
    for i, p in enumerate(parts):
        p.copy_(whole[i].view(p.shape))


def elements(t: torch.Tensor, splits: list[int] | None, n: int) -> list[int]:
    rows = t.shape[0] if t.dim() else 0
    per = t.numel() // rows if rows else 0
    if not splits:
        if rows % n:
            raise errors.InvalidArgument(f"{rows} rows do not divide among {n} ranks: give split sizes")
        splits = [rows // n] * n
    if len(splits) != n or sum(splits) != rows or min(splits) < 0:
        raise errors.InvalidArgument(f"split sizes {list(splits)} for {rows} rows and {n} ranks: pass one for each "
                                     "rank, which together are all rows")
    return [k * per for k in splits]


def starts(counts: list[int]) -> list[int]:
    return list(accumulate(counts[:-1], initial=0))
