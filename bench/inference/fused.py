"""The fused all-reduce alone: residual sum, RMSNorm, and FP8."""

import torch

import reference
import timing

HIDDEN = 8192
ROWS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]  # 16 KB to 8 MB


class Call:
    """The tensors of one fused all-reduce, with data of a seed."""

    def __init__(self, job, contender, rows, hidden, quantised):
        shape, like = (rows, hidden), dict(device=job.device)
        self.x = contender.input(job, shape)
        self.residual = torch.empty(shape, dtype=torch.bfloat16, **like)
        self.weight = torch.empty(hidden, dtype=torch.bfloat16, **like)
        self.norm = None if quantised else torch.empty(shape, dtype=torch.bfloat16, **like)
        self.quant = torch.empty(shape, dtype=torch.float8_e4m3fn, **like) if quantised else None
        self.scale = torch.full((1,), 0.03125, dtype=torch.float32, **like)

    def fill(self, job, seed):
        """New data; the outputs are poisoned."""
        self.x.copy_(reference.data(job, self.x.shape, seed, job.rank))
        self.residual.copy_(reference.data(job, self.x.shape, seed, 1000))
        self.weight.copy_(reference.data(job, self.weight.shape, seed, 1001))
        if self.norm is not None:
            self.norm.fill_(reference.POISON)
        if self.quant is not None:
            self.quant.view(torch.uint8).fill_(0x7f)

    def check(self, job, seed):
        residual = reference.data(job, self.x.shape, seed, 1000)
        reference.check_fused(self, *reference.fused(reference.inputs(job, self.x.shape, seed), residual, self.weight))


def unit(job, contender, quick):
    """The rows of a contender, every one checked, eager and in a graph, before it is timed (timing.turns)."""
    for quantised in (False, True):
        if quantised and not contender.quantises:
            continue
        for rows in ROWS[:2] if quick else ROWS:
            if contender.takes(job, rows, HIDDEN):
                yield from _size(job, contender, rows, quantised)


def _size(job, contender, rows, quantised):
    f = Call(job, contender, rows, HIDDEN, quantised)
    row = {"bytes": f.x.numel() * 2, "rows": rows, "quantised": quantised}
    call = job.together(contender.all_reduce_fused, job, f)

    def checked(do, seed):
        def run():
            f.fill(job, seed)
            job.wait()
            job.barrier()
            do()
            job.wait()
            f.check(job, seed)
        job.together(run)

    checked(call, 1)
    checked(call, 2)
    yield {**row, "mode": "eager", "call": call}
    if job.cuda:
        one = timing.Graph(job, call, contender.captured)
        for seed in (3, 4):
            checked(one.replay, seed)
        g = timing.Graph(job, lambda: [call() for _ in range(timing.OPERATIONS)], contender.captured)
        yield {**row, **one.kernels(), "mode": "graph", "graph": g}
        job.together(lambda: None)
