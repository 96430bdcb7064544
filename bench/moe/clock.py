"""Times of collective calls: of the slowest rank, by CUDA events, eager and in graphs."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from collections.abc import Callable


class Clock:
    """group is one of CPU tensors, which no measured library serves. On the host device the clock is the processor's
    and there are no graphs."""

    def __init__(self, group: dist.ProcessGroup, cuda: bool, calls: int, repeats: int) -> None:
        self.group, self.cuda, self.calls, self.repeats = group, cuda, calls, repeats

    def all(self, value: object) -> list:
        """Every rank's value."""
        values: list = [None] * dist.get_world_size(self.group)
        dist.all_gather_object(values, value, group=self.group)
        return values

    def _repeat(self, runs: list[Callable[[], object]], repeats: int) -> list[list[float]]:
        """Times of runs in microseconds, which take turns. Each goes ahead once untimed, so that the ranks begin
        together."""
        every: list[list[float]] = [[] for _ in runs]
        for run, times in [*zip(runs, every)] * repeats:
            if not self.cuda:
                dist.barrier(self.group)
                begin = time.perf_counter()
                run()
                times.append((time.perf_counter() - begin) * 1e6)
                continue
            torch.cuda.synchronize()
            dist.barrier(self.group)
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            run()
            start.record()
            run()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) * 1e3)
        return every

    def _slowest(self, times: list[float], calls: int) -> float:
        return statistics.median(max(t) for t in zip(*self.all(times))) / calls

    def eager(self, call: Callable[[], object], repeats: int = 0) -> float:
        """Microseconds of a call: the mean of self.calls in sequence, the median of the repeats."""

        return self.eager_turns([call], repeats)[0]

    def eager_turns(self, several: list[Callable[[], object]], repeats: int = 0) -> list[float]:
        """eager of several calls, in turns."""

        def run(call: Callable[[], object]) -> None:
            for _ in range(self.calls):
                call()

        every = self._repeat([lambda c=c: run(c) for c in several], repeats or self.repeats)
        return [self._slowest(times, self.calls) for times in every]

    def graph_turns(self, several: list[Callable[[], object]]) -> list[float | str]:
        """Microseconds of calls in graphs, in turns, or why one cannot be captured."""
        graphs = [self._capture(c) for c in several]
        good = [g for g in graphs if not isinstance(g, str)]
        times = iter(self._repeat([g.replay for g in good], self.repeats))
        found = [g if isinstance(g, str) else self._slowest(next(times), self.calls) for g in graphs]
        if self.cuda:
            torch.cuda.synchronize()
        dist.barrier(self.group)  # no rank frees its graph while another still uses memory of it
        return found

    def _capture(self, call: Callable[[], object]) -> torch.cuda.CUDAGraph | str:
        if not self.cuda:
            return "no GPU"
        graph, failure = torch.cuda.CUDAGraph(), ""
        try:
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                for _ in range(self.calls):
                    call()
        except Exception as e:
            failure = str(e).strip().partition("\n")[0] or repr(e)
        return next((f for f in self.all(failure) if f), graph)
