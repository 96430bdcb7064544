"""The all-reduce alone, of 512 B to 16 MB."""

import reference
import timing

SIZES = [1 << s for s in range(9, 25)]


def unit(job, contender, sizes):
    """The rows of a contender, every one checked, eager and in a graph, before it is timed (timing.turns)."""
    for size in sizes:
        hidden = min(8192, size // 2)
        shape = (size // 2 // hidden, hidden)
        if contender.takes(job, *shape):
            yield from _size(job, contender, shape)


def _size(job, contender, shape):
    x = contender.input(job, shape)
    out = job.buffer("out", shape)
    row = {"bytes": x.numel() * 2}
    call, result = job.together(contender.all_reduce, job, x, out)

    def checked(do, seed):
        def run():
            if result is not x:
                result.fill_(reference.POISON)
            x.copy_(reference.data(job, shape, seed, job.rank))
            job.wait()
            job.barrier()
            do()
            job.wait()
            reference.check_sum(job, result, reference.inputs(job, shape, seed))
        job.together(run)

    checked(call, 1)
    checked(call, 2)
    x.zero_()  # sums in place stay finite
    yield {**row, "mode": "eager", "call": call}
    if job.cuda:
        one = timing.Graph(job, call, contender.captured)
        for seed in (3, 4):
            checked(one.replay, seed)
        x.zero_()
        g = timing.Graph(job, lambda: [call() for _ in range(timing.OPERATIONS)], contender.captured)
        yield {**row, **one.kernels(), "mode": "graph", "graph": g}
        job.together(lambda: None)
