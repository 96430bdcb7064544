"""Dispatch and combine through NCCL EP, by its Python package nccl.ep."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import torch

from routing import Routing, bits, parts, quantize

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from clock import Clock

class NCCLEP:
    """High throughput, flat: a row for each token and rank, as the other libraries have it. Its groups live until
    destroy, since figures of all libraries are timed together."""

    name = "NCCL EP"

    def __init__(self, ep: ModuleType, communicator: int, blocks: list[int]) -> None:
        self.ep, self.comm, self.blocks, self.made = ep, SimpleNamespace(ptr=communicator), blocks, []

    def measure(self, clock: Clock, r: Routing) -> Iterator[dict]:
        """Checks each operation. A figure of each operation, type and number of SMs."""
        ep, tensor = self.ep, self.ep.Tensor
        index = tensor(r.index.contiguous())
        weights = torch.ones(r.index.shape, dtype=torch.float32, device=r.index.device)
        most, want = r.ranks * r.tokens, sum(r.counts()[1])
        for sms in self.blocks:
            group = ep.Group.create(self.comm, ep.GroupConfig(
                algorithm=ep.Algorithm.HIGH_THROUGHPUT, num_experts=r.experts, max_dispatch_tokens_per_rank=r.tokens,
                max_recv_tokens_per_rank=most, max_token_bytes=2 * r.x[0].shape[1], max_num_sms=sms,
                num_topk=r.index.shape[1]))
            count = torch.zeros(1, dtype=torch.int32, device=weights.device)
            handle = group.create_handle(ep.Layout.FLAT, index, stream=torch.cuda.current_stream(),
                                         layout_info=ep.LayoutInfo(recv_total_counter=tensor(count)))
            self.made += [handle, group]
            for eight in (False, True):
                x = parts(r.input(eight))
                rows = tuple(torch.full((most, p.shape[1]), 255, dtype=torch.uint8, device=p.device)
                             .repeat_interleave(p.element_size(), 1).view(p.dtype) for p in x)
                recipe = ep.DispatchQuantizationRecipe.FWD if eight else ep.DispatchQuantizationRecipe.NONE
                send = ep.DispatchInputs(tokens=tensor(x[0]), topk_weights=tensor(weights),
                                         scales=tensor(x[1]) if eight else None)
                receive = ep.DispatchOutputs(
                    tokens=tensor(rows[0]), scales=tensor(rows[1]) if eight else None,
                    topk_weights=tensor(weights.repeat(r.ranks, 1)), topk_idx=tensor(r.index.repeat(r.ranks, 1)))
                config = ep.DispatchConfig(quantization_recipe=recipe)

                def dispatch(h=handle, i=send, o=receive, c=config, keep=(x, rows)) -> None:
                    h.dispatch(i, o, config=c, stream=torch.cuda.current_stream())

                dispatch()
                if int(count) != want:
                    raise AssertionError(f"rank {r.rank}: {int(count)} rows, not {want}")
                self._check(r, rows, want)
                f = {"library": self.name, "sms": sms, "rows": want, "configuration": ""}
                yield {**f, "operation": "dispatch", "type": "float8" if eight else "bfloat16", "call": dispatch}
                if eight:
                    continue
                results, sums = r.results(rows[0]), torch.zeros_like(x[0])
                back, out = ep.CombineInputs(tokens=tensor(results)), ep.CombineOutputs(tokens=tensor(sums))

                def combine(h=handle, i=back, o=out, keep=(results, sums)) -> None:
                    h.combine(i, o, stream=torch.cuda.current_stream())

                combine()
                r.check_combined(sums)
                yield {**f, "operation": "combine", "type": "bfloat16", "call": combine}

    def _check(self, r: Routing, rows: tuple[torch.Tensor, ...], want: int) -> None:
        """The rows that came are the tokens of all ranks in any order: both are sorted by their first eight bytes,
        which no two tokens share."""
        x = torch.cat([r.x[s][r.tokens_to(s, r.rank)] for s in range(r.ranks)])
        expected = [bits(p) for p in (quantize(x) if len(rows) == 2 else (x,))]
        got = [bits(p[:want]) for p in rows]
        orders = [b[0][:, :8].contiguous().view(torch.int64).flatten().argsort() for b in (got, expected)]
        for g, e in zip(got, expected):
            if not torch.equal(g[orders[0]], e[orders[1]]):
                raise AssertionError(f"rank {r.rank}: rows of NCCL EP have other elements")

    def destroy(self) -> None:
        for made in self.made:
            made.destroy()
