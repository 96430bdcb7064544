"""The all-reduce inside a decode step: layers of GEMM, all-reduce, GEMM in one graph.

What is reported is the time that the all-reduce adds to a layer: the step's, less that of the same graph without it.
All contenders take turns with both. A fused all-reduce is also called with a residual; the graph without it has no norm
either.
"""

import torch
import torch.distributed as dist

import fused
import timing

HIDDEN, LAYERS, WEIGHTS = 8192, 64, 8  # weights of so many layers in turns: more than the caches hold
BATCHES = [1, 4, 16, 64, 256, 1024]


class Model:
    """The weights of a rank of a model that is divided among the ranks. The variance of what flows stays about 1."""

    def __init__(self, job, hidden, layers):
        g = torch.Generator(device=job.device).manual_seed(77 + job.rank)

        def weights(rows, columns):
            w = torch.empty(rows, columns, dtype=torch.bfloat16, device=job.device)
            return w.normal_(0, hidden ** -0.5, generator=g)
        part = hidden // job.size
        self.hidden, self.layers, self.part = hidden, layers, part
        self.right = {}  # a step's result by batch, as _check computes it
        n = min(WEIGHTS, layers)
        self.down = [weights(part, hidden) for _ in range(n)]
        self.up = [weights(hidden, part) for _ in range(n)]

    def layer(self, i):
        return self.down[i % len(self.down)], self.up[i % len(self.up)]


def unit(job, contender, quick, model, plain):
    batches, layers = BATCHES[:2] if quick else BATCHES, model.layers
    for batch in batches:
        if not contender.takes(job, batch, model.hidden):
            continue
        a = torch.empty(batch, model.part, dtype=torch.bfloat16, device=job.device)
        first = torch.randn(a.shape, device=job.device, generator=torch.Generator(job.device).manual_seed(job.rank))
        first = first.to(torch.bfloat16)
        x, call, y, keep = job.together(_call, job, contender, batch, model.hidden, plain)

        def step(run, y):
            a.copy_(first)
            for i in range(layers):
                down, up = model.layer(i)
                torch.mm(a, down, out=x)
                run()
                torch.mm(y, up, out=a)

        def alone():
            step(lambda: None, x)

        alone()  # before captures: GEMMs make their workspaces
        job.wait()
        with_it = timing.Graph(job, lambda: step(call, y), contender.captured)
        without = timing.Graph(job, alone)
        with_it.replay()
        job.together(lambda: _check(job, model, first, a, plain))
        yield {"mode": "step", "rows": batch, "bytes": x.numel() * 2, "graph": with_it, "without": without,
               "call": call, "layers": layers, "replays": 3 if quick else timing.REPLAYS}
        job.together(lambda: None)
        del keep  # the graphs' calls have ended


def _call(job, contender, batch, hidden, plain):
    """Where the call's input is, the call, where its output is, and the tensors that it uses."""
    if plain:
        x = contender.input(job, (batch, hidden))
        out = torch.empty_like(x)
        return x, *contender.all_reduce(job, x, out), out
    f = fused.Call(job, contender, batch, hidden, False)
    f.residual.zero_()
    f.weight.fill_(1)
    return f.x, contender.all_reduce_fused(job, f), f.norm, f


def _check(job, model, first, a, plain):
    """Compares a step's end with the same in float32, whose all-reduces gloo runs. A fused one is only finite."""
    if not plain:
        if not bool(torch.isfinite(a).all()) or not bool(a.any()):
            raise ValueError("the step's result is not finite, or is zero")
        return
    want = model.right.get(len(first))
    if want is None:
        want = first.float()
        for i in range(model.layers):
            down, up = model.layer(i)
            x = (want @ down.float()).cpu()
            dist.all_reduce(x)
            want = x.to(job.device) @ up.float()
        model.right[len(first)] = want
    far = float((a.float() - want).norm() / want.norm())
    if not far < 0.1:
        raise ValueError(f"the step's result is {far:.3f} of its norm away from the right one")
