"""The same rows by all_to_all_single: packed by rank before, and not added after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from routing import Routing

if TYPE_CHECKING:
    from collections.abc import Iterator


def measure(name: str, group: dist.ProcessGroup, r: Routing) -> Iterator[dict]:
    """Rows of bfloat16 to the ranks of their experts, and back."""
    sent, got = r.counts()
    x = r.x[r.rank]
    packed = torch.cat([x[r.tokens_to(r.rank, p)] for p in range(r.ranks)])
    want = torch.cat([r.x[s][r.tokens_to(s, r.rank)] for s in range(r.ranks)])
    rows, back = torch.zeros_like(want), torch.zeros_like(packed)

    def dispatch() -> None:
        dist.all_to_all_single(rows, packed, got, sent, group=group)

    def combine() -> None:
        dist.all_to_all_single(back, rows, sent, got, group=group)

    dispatch()
    combine()
    if not torch.equal(rows, want) or not torch.equal(back, packed):
        raise AssertionError(f"rank {r.rank}: all_to_all_single of {name} is wrong")
    for operation, call in (("dispatch", dispatch), ("combine", combine)):
        yield {"library": f"all_to_all_single, {name}", "operation": operation, "type": "bfloat16", "rows": len(rows),
               "call": call}
