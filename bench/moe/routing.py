"""The tokens of all ranks and where they go. Every rank draws the same, so each knows what the others send."""

from __future__ import annotations

import torch

SCALE = 128  # elements of float8 that share a scale


def quantize(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """float8 and a float32 scale for each 128 elements."""
    groups = x.float().view(x.shape[0], -1, SCALE)
    scales = groups.abs().amax(2).clamp(1e-4) / 448
    return (groups / scales[:, :, None]).to(torch.float8_e4m3fn).view(x.shape), scales


def bits(t: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor of rows."""
    return t.contiguous().view(torch.uint8)


def parts(x: torch.Tensor | tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return x if isinstance(x, tuple) else (x,)


class Routing:
    """tokens of each rank, each for top_k experts, drawn with equal probability."""

    def __init__(self, tokens: int, hidden: int, top_k: int, experts: int, ranks: int, rank: int,
                 device: torch.device) -> None:
        self.tokens, self.experts, self.ranks, self.rank = tokens, experts, ranks, rank
        self.x, self.inside = [], []  # of each rank: rows of bfloat16; [tokens][ranks], whether a token goes there
        for s in range(ranks):
            g = torch.Generator(device).manual_seed(1000 + s)
            self.x.append(torch.randn((tokens, hidden), generator=g, device=device).bfloat16())
            scores = torch.randn((tokens, experts), generator=g, device=device)
            index = scores.topk(top_k, dim=1).indices
            inside = torch.zeros((tokens, ranks), dtype=torch.bool, device=device)
            self.inside.append(inside.scatter_(1, index // (experts // ranks), True))
            if s == rank:
                self.index = index

    def input(self, eight: bool) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """This rank's rows."""
        return quantize(self.x[self.rank]) if eight else self.x[self.rank]

    def tokens_to(self, source: int, target: int) -> torch.Tensor:
        """The tokens of a rank that go to another, in order."""
        return self.inside[source][:, target].nonzero().flatten()

    def counts(self, rank: int | None = None) -> tuple[list[int], list[int]]:
        """Rows that this rank sends to each, and gets from each."""
        sent = [int(n) for n in self.inside[self.rank].sum(0)]
        return sent, [int(self.inside[s][:, self.rank].sum()) for s in range(self.ranks)]

    def check_dispatched(self, got: torch.Tensor | tuple[torch.Tensor, ...], sources: torch.Tensor) -> None:
        """got are the rows by source rank, sources their tokens there, in any order."""
        begin = 0
        for s in range(self.ranks):
            want = self.tokens_to(s, self.rank)
            end = begin + len(want)
            tokens = sources[begin:end].long()
            if not torch.equal(tokens.sort().values, want):
                raise AssertionError(f"rank {self.rank}: rows {begin} to {end} are not the tokens of rank {s}")
            rows = quantize(self.x[s]) if isinstance(got, tuple) else self.x[s]
            for part, expected in zip(parts(got), parts(rows)):
                if not torch.equal(bits(part[begin:end]), bits(expected)[tokens]):
                    raise AssertionError(f"rank {self.rank}: rows of rank {s} have other elements")
            begin = end
        if len(parts(got)[0]) != begin:
            raise AssertionError(f"rank {self.rank}: {len(parts(got)[0])} rows, not {begin}")

    def results(self, rows: torch.Tensor) -> torch.Tensor:
        """What this rank's experts make of its rows: products with a power of two, so that sums of a few ranks are
        exact in any order and are rounded once."""
        return rows * (1 << self.rank % 8)

    def check_combined(self, got: torch.Tensor) -> None:
        weights = torch.tensor([1 << p % 8 for p in range(self.ranks)], device=got.device, dtype=torch.float32)
        factors = (self.inside[self.rank].float() * weights).sum(1)
        if not torch.equal(got, (self.x[self.rank].float() * factors[:, None]).bfloat16()):
            raise AssertionError(f"rank {self.rank}: the sums of combine are wrong")
