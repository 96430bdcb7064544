"""A layer with experts: a dispatch, the experts of what came, a combine, and a shared expert of the own tokens beside
them on another stream, as models of DeepSeek's kind have it. All libraries run the same products of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

INNER = 2048  # elements between the two products of an expert


class Layer:
    """The experts of a rank are one pair of products for all of its rows."""

    def __init__(self, hidden: int, device: torch.device) -> None:
        g = torch.Generator(device).manual_seed(7)
        self.up, self.down = (torch.randn(shape, generator=g, device=device).bfloat16() * 0.02
                              for shape in ((hidden, INNER), (INNER, hidden)))
        self.side = torch.cuda.Stream(device) if device.type == "cuda" else None

    def experts(self, rows: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        return torch.mm(torch.nn.functional.silu(rows @ self.up), self.down, out=out)

    def run(self, x: torch.Tensor, dispatch: Callable[[], torch.Tensor],
            combine: Callable[[torch.Tensor], torch.Tensor], out: torch.Tensor | None) -> torch.Tensor:
        """out is where combine takes the experts' results, None: anywhere."""
        if self.side is None:
            shared = self.experts(x)
            return combine(self.experts(dispatch(), out)).add_(shared)
        current = torch.cuda.current_stream()
        self.side.wait_stream(current)
        with torch.cuda.stream(self.side):
            shared = self.experts(x)
        sums = combine(self.experts(dispatch(), out))
        current.wait_stream(self.side)
        shared.record_stream(current)
        return sums.add_(shared)
