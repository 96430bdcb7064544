"""Times in microseconds: of each round the slowest rank counts, and of the rounds the median."""

import gc
import statistics
import time

import torch

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


def eager(job, call, calls=CALLS, rounds=ROUNDS):
    """The time of a call, in batches that are enqueued without a wait between them."""
    job.wait()
    job.barrier()
    marks = []
    for _ in range(rounds):
        for _ in range(5):  # brings the ranks together
            call()
        begin = mark(job)
        for _ in range(calls):
            call()
        marks.append((begin, mark(job)))
    job.wait()
    return _slowest(job, [between(job, *m) / calls for m in marks])


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
        g = torch.cuda.CUDAGraph()
        gc.disable()  # the collector may free objects of CUDA, which a capture may not allow
        # On the current stream. thread_local: threads of libraries may call the driver meanwhile.
        g.capture_begin(capture_error_mode="thread_local")
        try:
            self.do()
        finally:
            g.capture_end()
            gc.enable()
        self.graph = g

    def replay(self):
        self.graph.replay() if self.graph else self.do()


def graphs(job, several, replays=REPLAYS, together=None):
    """The times of replays of several graphs, which take turns. together() is called before each, so that the ranks
    begin as one where the graphs do not wait for each other."""
    job.wait()
    job.barrier()
    marks = [[] for _ in several]
    for i in range(replays + 3):
        for g, m in zip(several, marks):
            if together:
                together()
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
