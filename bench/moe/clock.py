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

    def _repeat(self, run: Callable[[], object], repeats: int) -> list[float]:
        """Times of run() in microseconds. One that is not timed goes ahead, so that the ranks begin together."""
        times = []
        for _ in range(repeats):
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
        return times

    def _slowest(self, times: list[float], calls: int) -> float:
        return statistics.median(max(t) for t in zip(*self.all(times))) / calls

    def eager(self, call: Callable[[], object], repeats: int = 0) -> float:
        """Microseconds of a call: the mean of self.calls in sequence, the median of the repeats."""

        def run() -> None:
            for _ in range(self.calls):
                call()

        return self._slowest(self._repeat(run, repeats or self.repeats), self.calls)

    def graph(self, call: Callable[[], object]) -> float | str:
        """Microseconds of a call in a graph, or why it cannot be captured."""
        if not self.cuda:
            return "no GPU"
        graph, failure = torch.cuda.CUDAGraph(), ""
        try:
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                for _ in range(self.calls):
                    call()
        except Exception as e:
            failure = str(e).strip().partition("\n")[0] or repr(e)
        failures = [f for f in self.all(failure) if f]
        if failures:
            return failures[0]
        us = self._slowest(self._repeat(graph.replay, self.repeats), self.calls)
        torch.cuda.synchronize()
        dist.barrier(self.group)  # no rank frees its graph while another still uses memory of it
        return us
