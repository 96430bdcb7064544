"""Times in microseconds: of each round the slowest rank counts, and of the rounds the median."""

import gc
import statistics
import time

import torch

import kernels

OPERATIONS, REPLAYS = 20, 30  # of a graph
CALLS, ROUNDS = 100, 7  # eager


def _slowest(job, times):
    return statistics.median(max(ts) for ts in zip(*job.exchange(times)))


def warm(job, seconds):
    """Brings a GPU's clocks up."""
    if job.cuda:
        a = torch.ones(4096, 4096, dtype=torch.bfloat16, device=job.device)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(20):
                torch.mm(a, a)
            job.wait()
    job.barrier()


def turns(job, rows):
    """Times rows of several contenders, of one mode and size, in turns, and puts their times in place of their calls:
    call of eager rows, graph of graph rows, graph, without and call of steps."""
    mode = rows[0]["mode"]
    if mode == "eager":
        times = eager(job, [r.pop("call") for r in rows])
    elif mode == "graph":
        times = [us / OPERATIONS for us in graphs(job, [r.pop("graph") for r in rows])]
    elif mode == "step":
        calls = [call for r in rows for call in [r.pop("call")] * 2]
        both = graphs(job, [r.pop(g) for r in rows for g in ("graph", "without")], rows[0]["replays"], calls)
        layers = [(r.pop("layers"), r.pop("replays"))[0] for r in rows]
        times = [(a - b) / n for a, b, n in zip(both[::2], both[1::2], layers)]
        for r, base, n in zip(rows, both[1::2], layers):
            r["without_us"] = base / n
    else:  # not timed
        return
    for r, us in zip(rows, times):
        r["us"] = us


def eager(job, several, calls=CALLS, rounds=ROUNDS):
    """The times of calls, which take turns, in batches that are enqueued without a wait between them."""
    job.wait()
    job.barrier()
    marks = [[] for _ in several]
    for _ in range(rounds):
        for call, m in zip(several, marks):
            for _ in range(5):  # brings the ranks together
                call()
            begin = mark(job)
            for _ in range(calls):
                call()
            m.append((begin, mark(job)))
        job.wait()
    return [_slowest(job, [between(job, *x) / calls for x in m]) for m in marks]


class Graph:
    """A capture of do(), which enqueues; without a GPU, do itself."""

    def __init__(self, job, do, captured=None):
        self.job, self.do, self.graph = job, do, None
        if job.cuda:
            job.wait()
            job.barrier()
            job.together(self._capture)
        if captured:
            captured(job)
        job.barrier()

    def _capture(self):
        g = torch.cuda.CUDAGraph(keep_graph=True)
        gc.disable()  # the collector may free objects of CUDA, which a capture may not allow
        # On the current stream. thread_local: threads of libraries may call the driver meanwhile.
        g.capture_begin(capture_error_mode="thread_local")
        try:
            self.do()
        finally:
            g.capture_end()
            gc.enable()
        g.instantiate()
        self.graph = g

    def kernels(self):
        """What the graph launches: thread blocks of the largest kernel, and the kernels' names. Times are kept if a
        driver does not tell."""
        try:
            found = kernels.of(self.graph.raw_cuda_graph())
        except (RuntimeError, AttributeError) as e:
            return {"blocks": 0, "kernels": [str(e)]}
        return {"blocks": max((blocks for _, blocks in found), default=0), "kernels": [name for name, _ in found]}

    def replay(self):
        self.graph.replay() if self.graph else self.do()


def graphs(job, several, replays=REPLAYS, together=None):
    """The times of replays of several graphs, which take turns. together has a call for each, which goes ahead of it,
    so that the ranks begin as one where the graphs do not wait for each other."""
    job.wait()
    job.barrier()
    marks = [[] for _ in several]
    for i in range(replays + 3):
        for k, (g, m) in enumerate(zip(several, marks)):
            if together:
                together[k]()
            begin = mark(job)
            g.replay()
            if i >= 3:
                m.append((begin, mark(job)))
    job.wait()
    return [_slowest(job, [between(job, *x) for x in m]) for m in marks]


def mark(job):
    if not job.cuda:
        return time.perf_counter()
    e = torch.cuda.Event(enable_timing=True)
    e.record()
    return e


def between(job, a, b):
    return a.elapsed_time(b) * 1e3 if job.cuda else (b - a) * 1e6
