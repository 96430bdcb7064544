#!/usr/bin/env python3
"""One rank of the benchmark of communicators. run.py starts it."""

import argparse
import pathlib
import sys
import time

import torch
import torch.distributed as dist

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "turns"))

import ranks  # noqa: E402

MIB = 1 << 20


def gpu():
    """GPU memory in use, in MiB."""
    if not torch.cuda.is_available():
        return 0
    free, total = torch.cuda.mem_get_info()
    return (total - free) / MIB


def resident():
    """Memory of this process, in MiB."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096 / MIB


class Rank:
    def __init__(self, options):
        self.alone = 0
        self.job = ranks.Job(self.first)
        self.x = torch.ones(256, device=self.job.device)
        self.tell("first", "MiB", gpu() - self.alone)
        self.further([int(n) for n in options.counts.split(",")])
        self.cycles(options.cycles)
        self.job.close()

    def first(self):
        """Notes what a process has without a communicator: the context, and PyTorch's first kernels."""
        if torch.cuda.is_available():
            torch.ones(1, device="cuda").sum().item()
        self.alone = gpu()

    def tell(self, figure, unit, value):
        self.job.row(kind="communicator", figure=figure, unit=unit, value=max(self.job.exchange(value)))

    def make(self):
        """A communicator that has done one all-reduce, and ms that it took."""
        self.job.barrier()
        begin = time.perf_counter()
        group = dist.new_group()
        dist.all_reduce(self.x, group=group)
        self.job.wait()
        return group, (time.perf_counter() - begin) * 1e3

    def further(self, counts):
        before, groups, times = gpu(), [], []
        for n in counts:
            while len(groups) < n:
                group, ms = self.make()
                groups.append(group)
                times.append(ms)
            self.job.barrier()
            self.tell(f"further_{n}", "MiB", (gpu() - before) / n)
            self.tell(f"made_{n}", "ms", sum(times) / n)
        for g in groups:
            dist.destroy_process_group(g)

    def cycles(self, n):
        for counted in (False, True):
            self.job.barrier()
            before = gpu(), resident()
            for _ in range(n):
                group, _ = self.make()
                dist.destroy_process_group(group)
            self.job.barrier()
            if counted:
                self.tell("left", "MiB", gpu() - before[0])
                self.tell("left_resident", "MiB", resident() - before[1])


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--counts", default="1,8,64")
    p.add_argument("--cycles", type=int, default=10)
    Rank(p.parse_args())
