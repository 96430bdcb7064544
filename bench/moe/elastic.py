"""Dispatch and combine through DeepEP V2's ElasticBuffer."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from routing import Routing, parts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from clock import Clock

FOLDER = "DEEP_EP_V2"  # the folder of its package, with its extension


def deep_ep() -> ModuleType | None:
    """The package of FOLDER. DeepEP V1 has the same name, so the one that was imported before is forgotten."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return None
    for name in [n for n in sys.modules if n.partition(".")[0] == "deep_ep"]:
        del sys.modules[name]
    sys.path.insert(0, folder)
    import deep_ep as module

    return module


class Elastic:
    """Its kernels send with the SMs of a figure. Those that copy and add what came use all SMs."""

    name = "DeepEP V2"

    def __init__(self, module: ModuleType, blocks: list[int], tokens: int, hidden: int, top_k: int) -> None:
        self.module, self.blocks = module, blocks
        self.buffer = module.ElasticBuffer(dist.group.WORLD, num_max_tokens_per_rank=tokens, hidden=hidden,
                                           num_topk=top_k, allow_hybrid_mode=False, explicitly_destroy=True)

    def measure(self, clock: Clock, r: Routing) -> Iterator[dict]:
        """Checks each operation. A figure of each operation, type and number of SMs."""
        index = r.index.to(self.module.topk_idx_t)
        for sms in self.blocks:
            for eight in (False, True):
                x = r.input(eight)
                rows, _, _, handle, _ = self.buffer.dispatch(x, topk_idx=index, num_experts=r.experts, num_sms=sms,
                                                             num_max_tokens_per_rank=r.tokens)
                sources = handle.recv_src_metadata[:, 0].long()
                self._check(r, rows, sources)
                for part in parts(rows):
                    part.view(torch.uint8).fill_(255)
                again = self.buffer.dispatch(x, handle=handle, num_sms=sms)[0]
                self._check(r, again, sources)
                f = {"library": self.name, "sms": sms, "rows": len(sources),
                     "configuration": "all SMs copy and add"}
                yield {**f, "operation": "dispatch", "type": "float8" if eight else "bfloat16",
                       "call": lambda x=x, h=handle, n=sms: self.buffer.dispatch(x, handle=h, num_sms=n)}
                if eight:
                    continue
                results = r.results(again)
                r.check_combined(self.buffer.combine(results, handle, num_sms=sms)[0])
                yield {**f, "operation": "combine", "type": "bfloat16",
                       "call": lambda x=results, h=handle, n=sms: self.buffer.combine(x, h, num_sms=n)}

    def _check(self, r: Routing, rows: torch.Tensor | tuple[torch.Tensor, ...], sources: torch.Tensor) -> None:
        order = (sources // r.tokens).argsort(stable=True)
        got = tuple(p[order] for p in parts(rows))
        r.check_dispatched(got if isinstance(rows, tuple) else got[0], sources[order] % r.tokens)

    def destroy(self) -> None:
        self.buffer.destroy()
