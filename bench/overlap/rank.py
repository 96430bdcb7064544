#!/usr/bin/env python3
"""One rank of the overlap benchmark: collectives alone, and beside GEMMs. run.py starts it."""

import argparse
import gc
import pathlib
import statistics
import sys

import torch
import torch.distributed as dist

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "turns"))

import collectives  # noqa: E402
import ranks  # noqa: E402

KB, MB = 1 << 10, 1 << 20
BESIDE = 5.0  # ms that the collectives of a measurement beside GEMMs take together


def checked(job, c):
    """The wrong elements of one call with fresh data."""
    c.fill()
    job.barrier()
    c.call()
    job.wait()
    wrong = c.wrong()
    c.clear()
    return wrong


def median(job, times):
    return statistics.median(job.slowest(times))


def capture(do):
    """A graph of do. thread_local: threads of libraries may call the driver meanwhile."""
    g = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    gc.disable()
    try:
        with torch.cuda.stream(side):
            g.capture_begin(capture_error_mode="thread_local")
            do()
            g.capture_end()
    finally:
        gc.enable()
    return g


def repeated(job, do, calls, rounds):
    """The time of one of the calls of do in us: of every round the slowest rank, of the rounds the median."""
    job.barrier()
    marks = []
    for _ in range(rounds + 1):
        begin = job.mark()
        do()
        marks.append((begin, job.mark()))
    job.wait()
    return median(job, [job.between(*m) * 1e3 / calls for m in marks[1:]])


def alone(job, options):
    """Collectives alone, eager and in graphs."""
    for name in options.collectives.split(","):
        for size in sizes(options.sizes):
            if not job.goes_on():
                return
            c = collectives.Collective(job, name, size)
            wrong = checked(job, c)
            calls = max(3, min(20, (256 * MB) // size))

            def several(c=c, calls=calls):
                for _ in range(calls):
                    c.call()

            row = {"eager_us": repeated(job, several, calls, options.rounds)}
            if job.cuda:
                g = capture(several)
                row["graph_us"] = repeated(job, g.replay, calls, options.rounds)
                del g
            wrong += checked(job, c)
            job.row(kind="alone", collective=name, bytes=size, wrong=sum(job.exchange(wrong)), **row)


class Gemms:
    """Matrix products that keep the GPU busy, and whether they are right."""

    def __init__(self, job, side):
        dtype = torch.bfloat16 if job.cuda else torch.float32
        g = torch.Generator(device=job.device).manual_seed(5)
        self.a, self.b = (torch.randn(side, side, device=job.device, dtype=dtype, generator=g) for _ in range(2))
        self.out = torch.empty(side, side, device=job.device, dtype=dtype)
        self.run(3)
        self.want = self.out.clone()

    def run(self, times):
        for _ in range(times):
            torch.mm(self.a, self.b, out=self.out)

    def wrong(self):
        return int((self.out != self.want).sum())


class Beside:
    """Times of both, of GEMMs on one stream and of collectives on the stream of their group."""

    def __init__(self, job, gemms):
        self.job, self.gemms = job, gemms
        self.streams = [torch.cuda.Stream(), torch.cuda.Stream()] if job.cuda else [None, None]

    def once(self, c, calls, products):
        """One run of both, or of one where the other is 0; the marks of its begin and end."""
        job = self.job
        if not job.cuda:
            begin = job.mark()
            for _ in range(calls):
                c.call()
            self.gemms.run(products)
            return begin, job.mark()
        here = torch.cuda.current_stream()
        dist.all_reduce(self.word)  # the ranks begin together
        torch.cuda._sleep(2_000_000)  # about 1 ms, in which the host enqueues what follows
        begin = job.mark()
        for s in self.streams:
            s.wait_stream(here)
        with torch.cuda.stream(self.streams[0]):
            self.gemms.run(products)
        with torch.cuda.stream(self.streams[1]):
            for w in [c.call(wait=False) for _ in range(calls)]:
                w.wait()  # on the stream
        for s in self.streams:
            here.wait_stream(s)
        return begin, job.mark()

    def time(self, c, calls, products, rounds):
        """ms"""
        if self.job.cuda:
            self.word = torch.zeros(8, device=self.job.device)
        self.job.barrier()
        marks = [self.once(c, calls, products) for _ in range(rounds + 1)]
        self.job.wait()
        return median(self.job, [self.job.between(*m) for m in marks[1:]])


def beside(job, options):
    """Collectives beside GEMMs, on streams of the same and of high priority."""
    gemms = Gemms(job, options.gemm if job.cuda else 64)
    both, low = Beside(job, gemms), None
    one = both.time(None, 0, 8, 3) / 8
    for priority in options.priorities.split(","):
        group = None
        if priority == "high" and job.cuda:
            o = dist.ProcessGroupNCCL.Options()
            o.is_high_priority_stream = True
            group = dist.new_group(pg_options=o)
        for name in options.collectives.split(","):
            for size in sizes(options.sizes):
                if name == "send_recv" or not job.goes_on():
                    continue
                c = collectives.Collective(job, name, size, group)
                wrong = checked(job, c)
                calls = 2 if not job.cuda else max(4, min(48, round(BESIDE / both.time(c, 4, 0, 2) * 4)))
                calls = max(job.exchange(calls))
                t = both.time(c, calls, 0, options.rounds)
                products = max(job.exchange(max(1, round(t / one))))
                g = both.time(c, 0, products, options.rounds)
                b = both.time(c, calls, products, options.rounds)
                wrong += gemms.wrong()
                # The data of calls beside GEMMs, in place once.
                c.fill()
                job.barrier()
                both.once(c, 1, 2)
                job.wait()
                wrong += c.wrong() + gemms.wrong()
                job.row(kind="beside", collective=name, bytes=size, priority=priority, calls=calls, gemms=products,
                        alone_us=t * 1e3 / calls, collectives_ms=t, gemms_ms=g, both_ms=b, both_by_max=b / max(t, g),
                        wrong=sum(job.exchange(wrong)))


def sizes(text):
    units = {"K": KB, "M": MB, "G": KB * MB}
    return [int(s[:-1]) * units[s[-1]] if s[-1] in units else int(s) for s in text.split(",")]


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("part", choices=("alone", "beside"))
    p.add_argument("--collectives", default=",".join(collectives.NAMES))
    p.add_argument("--sizes", required=True)
    p.add_argument("--priorities", default="same,high")
    p.add_argument("--gemm", type=int, default=8192)
    p.add_argument("--rounds", type=int, default=5)
    options = p.parse_args()
    job = ranks.Job()
    (alone if options.part == "alone" else beside)(job, options)
    job.close()


if __name__ == "__main__":
    main()
