"""Dispatch and combine through a Buffer of DeepEP's names: DeepEP's own, or goccl's."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import torch

from layer import Layer
from routing import Routing, parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from clock import Clock

FOLDER = "DEEP_EP"  # the folder of DeepEP's package and extension
RING = 256  # tokens of DeepEP's receive buffers, as its own tests have it


def deep_ep() -> ModuleType | None:
    folder = os.environ.get(FOLDER)
    if not folder:
        return None
    sys.path.insert(0, folder)
    import deep_ep as module

    return module


class Buffers:
    """A library's buffer, the configurations in which it is measured, and a routing."""

    def __init__(self, name: str, module: ModuleType, buffer: object, blocks: list[int], tuned: bool,
                 zero_copy: bool = False) -> None:
        self.name, self.module, self.buffer, self.blocks, self.tuned = name, module, buffer, blocks, tuned
        self.zero_copy = {"zero_copy": True} if zero_copy else {}
        self.chosen: dict[str, object] = {}  # the configuration of an operation with the SMs at hand
        self.layer: Layer | None = None

    def configurations(self, sms: int, most: int) -> Iterator[tuple[str, object]]:
        """Names and configurations for a number of SMs. DeepEP's pieces are tried, as its own test does."""
        if not self.tuned:
            yield "", self.module.Config(sms)
            return
        for piece in range(max(1, most // 8), most + 1, max(1, most // 8)):
            yield f"{piece} tokens a piece", self.module.Config(sms, piece, RING)

    def measure(self, clock: Clock, r: Routing) -> Iterator[dict]:
        """Checks each operation, then times it. A figure of each operation, type and number of SMs."""
        layout = self.buffer.get_dispatch_layout(r.index, r.experts)
        first = {"num_tokens_per_rank": layout[0], "num_tokens_per_expert": layout[2], "is_token_in_rank": layout[3]}
        for sms in self.blocks:
            config = self.module.Config(sms, 8, RING)
            for eight in (False, True):
                x = r.input(eight)
                rows, _, _, _, handle, _ = self.buffer.dispatch(x, config=config, **first, **self.zero_copy)
                sources = handle[1] if not self.tuned else handle[3]
                r.check_dispatched(rows, sources)
                for part in parts(rows):
                    part.view(torch.uint8).fill_(255)
                again = self.buffer.dispatch(x, handle=handle, config=config)[0]
                r.check_dispatched(again, sources)
                yield from self._time(clock, "dispatch", "float8" if eight else "bfloat16", sms, 32, len(sources),
                                      lambda c, x=x, h=handle: self.buffer.dispatch(x, handle=h, config=c))
                if eight:
                    continue
                results = r.results(again)
                if self.zero_copy:
                    results = self.buffer.get_combine_buffer(handle).copy_(results)
                r.check_combined(self.buffer.combine(results, handle, config=config)[0])
                yield from self._time(clock, "combine", "bfloat16", sms, 16, len(sources),
                                      lambda c, x=results, h=handle: self.buffer.combine(x, h, config=c))
                yield self._layer(r, x, handle, sms, len(sources))

    def _time(self, clock: Clock, operation: str, kind: str, sms: int, most: int, rows: int,
              call: Callable[[object], object]) -> Iterator[dict]:
        trials = [(clock.eager(lambda c=c: call(c), 3), n, c) for n, c in self.configurations(sms, most)]
        _, name, config = min(trials, key=lambda t: t[0])
        self.chosen[operation] = config
        yield {"library": self.name, "operation": operation, "type": kind, "sms": sms, "configuration": name,
               "rows": rows, "call": lambda: call(config)}

    def _layer(self, r: Routing, x: torch.Tensor, handle: object, sms: int, rows: int) -> dict:
        self.layer = layer = self.layer or Layer(x.shape[1], x.device)
        out = self.buffer.get_combine_buffer(handle) if self.zero_copy else None
        there, back = self.chosen["dispatch"], self.chosen["combine"]

        def call() -> torch.Tensor:
            return layer.run(x, lambda: self.buffer.dispatch(x, handle=handle, config=there)[0],
                             lambda y: self.buffer.combine(y, handle, config=back)[0], out)

        own = layer.experts(x)
        want = (own.float() * (r.inside[r.rank].sum(1, keepdim=True) + 1)).bfloat16()
        torch.testing.assert_close(call(), want, rtol=0.05, atol=0.05)
        return {"library": self.name, "operation": "layer", "type": "bfloat16", "sms": sms, "configuration": "",
                "rows": rows, "call": call}

    def destroy(self) -> None:
        self.buffer.destroy()
