"""The two operations, fused and unfused, around the kernels of an example."""

from __future__ import annotations

from .job import Job, Symmetric, address
from .shape import Shape


def close(job: Job, got, want) -> bool:
    """Whether a result of 16-bit arithmetic equals the result of 32-bit arithmetic, within rounding."""
    bound = 0.02 * abs(want).max()
    return bool(abs(job.widen(got) - want).max() <= bound)


class AllGatherGEMM:
    """C = A B. kernels.gathered(job, shape, shard, gathered, b, c, flags, number) is the GEMM: it takes the rows of
    this rank from shard, and those of others from gathered, at addresses, once their flags have reached number."""

    def __init__(self, job: Job, shape: Shape, kernels) -> None:
        self.job, self.shape, self.kernels = job, shape, kernels
        rows = job.n * shape.rows
        self.gathered = Symmetric(job.comm, (2, rows, shape.inner), job.dtype)
        self.flags = Symmetric(job.comm, (job.n * shape.chunks,), "int32")
        self.whole = job.random((rows, shape.inner), 1)
        self.shard = job.zeros((shape.rows, shape.inner))
        self.shard[:] = self.whole[job.rank * shape.rows:(job.rank + 1) * shape.rows]
        self.b = job.random((shape.inner, shape.columns), 2)
        self.c = job.zeros((rows, shape.columns))
        self.full = job.zeros((rows, shape.inner))
        self.number = 0

    def fused(self) -> None:
        job, s = self.job, self.shape
        self.number += 1
        half = (self.number & 1) * job.n * s.rows * s.inner * 2
        part = s.rows // s.chunks * s.inner * 2
        job.follow()
        for k in range(s.chunks):
            for p in job.peers:
                chunk = job.rank * s.chunks + k
                job.copy(self.gathered.at[p] + half + chunk * part, address(self.shard) + k * part, part)
                job.flag(self.flags.at[p] + 4 * chunk, self.number)
        self.kernels.gathered(job, s, address(self.shard), self.gathered.at[job.rank] + half, self.b, self.c,
                              self.flags.own, self.number)
        job.join()

    def gather(self) -> None:
        self.job.comm.allgather(self.shard, self.full, stream=self.job.stream())

    def unfused(self) -> None:
        """An all-gather, and then the same GEMM, which waits for nothing."""
        self.gather()
        self.kernels.gathered(self.job, self.shape, address(self.shard), address(self.full), self.b, self.c,
                              self.flags.own, 0)

    def check(self) -> bool:
        want = self.job.widen(self.whole) @ self.job.widen(self.b)
        self.fused()
        self.job.synchronize()
        fused = self.c + 0
        good = close(self.job, fused, want)
        self.unfused()
        self.job.synchronize()
        return good and bool((fused == self.c).all())  # the same bits


class GEMMReduceScatter:
    """This rank's rows of the sum of all ranks' X W. kernels.scattered(job, shape, x, w, slots, flags, number) stores
    the tiles of rank p's rows at slots[p] plus this rank's slot, and number at flags[p]. kernels.reduced(job, shape,
    slots, out, flags, number) adds the slots of this rank."""

    def __init__(self, job: Job, shape: Shape, kernels) -> None:
        self.job, self.kernels = job, kernels
        self.shape = s = Shape(shape.rows, shape.columns, shape.inner, shape.chunks, shape.tile)
        tiles = s.rows // s.tile[0] * (s.columns // s.tile[1])
        self.slot = s.rows * s.columns * 2
        self.slots = Symmetric(job.comm, (2, job.n * s.rows, s.columns), job.dtype)
        self.flags = Symmetric(job.comm, (job.n * tiles,), "int32")
        self.x = job.random((job.n * s.rows, s.inner), 10 + job.rank)
        self.w = job.random((s.inner, s.columns), 3)
        self.out = job.zeros((s.rows, s.columns))
        self.sums = job.zeros((job.n * s.rows, s.columns))
        self.unused = job.zeros((job.n * tiles,), "int32")
        # Where the tiles of each owner go: to its window; or, unfused, to its part of sums.
        half = job.n * self.slot
        self.targets = [self._table([at + h * half for at in self.slots.at]) for h in range(2)]
        self.local = self._table([address(self.sums) + (p - job.rank) * self.slot for p in range(job.n)])
        self.signals = self._table(self.flags.at)
        self.silent = self._table([address(self.unused)] * job.n)
        self.number = 0

    def _table(self, addresses):
        t = self.job.zeros((len(addresses),), "int64")
        for i, a in enumerate(addresses):
            t[i] = a
        return t

    def fused(self) -> None:
        job, s, h = self.job, self.shape, (self.number + 1) & 1
        self.number += 1
        self.kernels.scattered(job, s, self.x, self.w, self.targets[h], self.signals, self.number)
        self.kernels.reduced(job, s, self.slots.at[job.rank] + h * job.n * self.slot, self.out, self.flags.own,
                             self.number)

    def scatter(self) -> None:
        self.job.comm.reduce_scatter(self.sums, self.out, stream=self.job.stream())

    def unfused(self) -> None:
        """The same GEMM with the tiles kept here, and then a reduce-scatter."""
        self.kernels.scattered(self.job, self.shape, self.x, self.w, self.local, self.silent, 0)
        self.scatter()

    def check(self) -> bool:
        job, s = self.job, self.shape
        want, mine = job.zeros((s.rows, s.columns), "float32"), job.widen(self.x) @ job.widen(self.w)
        job.comm.reduce_scatter(mine, want, stream=job.stream())
        self.fused()
        job.synchronize()
        fused = self.out + 0
        good = close(job, fused, want)
        self.unfused()
        job.synchronize()
        return good and close(job, fused, job.widen(self.out))
