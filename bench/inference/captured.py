"""Many captured steps with fresh data: each result is compared bit for bit with one that was checked before.

Everything is on the GPU, in a graph: the choice of the rows, the poison, the call, the comparison. The data hold
negative zeros and words of ones (a NaN), because packets without flags use such bits for what has not arrived.
"""

import torch

import fused
import reference
import timing

BANK, HIDDEN = 1024, 8192  # rows that steps choose from
BATCHES = [1, 16]
STEPS_A_GRAPH = 50


def unit(job, contender, quick, steps, plain):
    hidden, size = (512, 64) if quick else (HIDDEN, BANK)
    for batch in BATCHES:
        if contender.takes(job, batch, hidden):
            bad, replays = _run(job, contender, batch, hidden, size, steps, plain)
            total = sum(job.exchange(bad))
            if total:
                raise ValueError(f"{total} wrong elements in {replays * STEPS_A_GRAPH} steps of {batch} rows")
            yield {"mode": "captured", "rows": batch, "bytes": batch * hidden * 2, "us": None,
                   "steps": replays * STEPS_A_GRAPH, "wrong": total}


def _run(job, contender, batch, hidden, size, steps, plain):
    banks = reference.inputs(job, (size, hidden), 9)
    for r, b in enumerate(banks):
        b[::7, ::5] = -0.0
        if plain:  # a row's norm would be NaN as a whole
            b.view(torch.int16)[r::16, 64:72] = -1
    f = fused.Call(job, contender, batch, hidden, False)
    f.fill(job, 5)
    want, residuals = _wanted(job, contender, banks, f.weight, plain)
    if plain:
        call, result = job.together(contender.all_reduce, job, f.x, f.norm)
    else:
        call, result = job.together(contender.all_reduce_fused, job, f), f.norm
    mine = banks[job.rank]
    k = torch.zeros((), dtype=torch.int64, device=job.device)
    bad = torch.zeros((), dtype=torch.int64, device=job.device)
    rows = torch.arange(batch, device=job.device) * 13

    def step():
        at = (k * 97 + rows) % size
        f.x.copy_(mine[at])
        f.residual.copy_(residuals[at])
        if result is not f.x:
            result.fill_(reference.POISON)
        call()
        right = want[at]
        same = result.view(torch.int16) == right.view(torch.int16)
        bad.add_((~(same | (result.isnan() & right.isnan()))).sum())
        k.add_(1)

    step()  # before the capture: allocations
    g = timing.Graph(job, lambda: [step() for _ in range(STEPS_A_GRAPH)], contender.captured)
    replays = max(1, steps // STEPS_A_GRAPH)

    def run():
        for i in range(replays):
            g.replay()
            if i % 200 == 199:
                job.wait()
    job.together(run)
    if int(k) < replays * STEPS_A_GRAPH:
        raise ValueError(f"{int(k)} steps ran of {replays * STEPS_A_GRAPH}")
    return int(bad), replays


def _wanted(job, contender, banks, weight, plain):
    """The right results for all rows of the bank, and the residuals that go in."""
    residuals = reference.data(job, banks[0].shape, 9, 1000)
    if plain:  # floats, added in the order of the ranks, rounded once
        total = banks[0].float()
        for b in banks[1:]:
            total = total + b.float()
        return total.to(torch.bfloat16), residuals
    # The contender's own results for all rows at once, checked against float64.
    f = fused.Call(job, contender, *banks[0].shape, False)
    f.x.copy_(banks[job.rank])
    f.residual.copy_(residuals)
    f.weight.copy_(weight)
    call = job.together(contender.all_reduce_fused, job, f)
    job.together(call)
    z, norm = reference.fused(banks, residuals, weight)
    job.together(lambda: reference.check_fused(f, z, norm))
    return f.norm, residuals
