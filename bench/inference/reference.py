"""Data that every rank can compute for all ranks, the right results, and the errors of wrong ones."""

import torch

EPSILON = 1e-6
POISON = float("nan")  # outputs hold it before a call that is checked


def data(job, shape, seed, rank):
    """Rank's values of a seed: the same on every rank that computes them, because their GPUs are of one kind."""
    g = torch.Generator(device=job.device).manual_seed(seed * 1009 + rank)
    return torch.randn(shape, generator=g, device=job.device, dtype=torch.float32).to(torch.bfloat16)


def inputs(job, shape, seed):
    return [data(job, shape, seed, r) for r in range(job.size)]


def check_sum(job, got, xs):
    """Raises if got is not the sum of xs. Libraries add in any order and round at every step."""
    want = sum(x.double() for x in xs)
    room = (sum(x.double().abs() for x in xs) * job.size / 256) + 1e-30
    _check("the sum", got, want, room)


def fused(xs, residual, weight):
    """The residual and the norm that are right, in float64."""
    z = sum(x.double() for x in xs) + residual.double()
    return z, z * torch.rsqrt((z * z).mean(-1, keepdim=True) + EPSILON) * weight.double()


def check_fused(f, want_residual, want_norm):
    """Raises if the outputs of a fused.Call are not those. Libraries round the sum to bfloat16, or do not."""
    _check("the residual", f.residual, want_residual, 0.04 * (1 + want_residual.abs()))
    if f.quant is None:
        _check("the norm", f.norm, want_norm, 0.04 * (1 + want_norm.abs()))
    else:
        got = f.quant.to(torch.float32).double() * f.scale.double()
        most = 448 * f.scale.double()
        want = want_norm.clamp(-most, most)
        _check("the quantised norm", got, want, 0.04 + 0.11 * want.abs())


def _check(what, got, want, room):
    wrong = ~((got.double() - want).abs() <= room)  # NaN is wrong, too
    n = int(wrong.sum())
    if n:
        i = int(wrong.flatten().nonzero()[0])
        raise ValueError(f"{what} has {n} of {wrong.numel()} elements wrong, the first at {i}: "
                         f"{float(got.flatten()[i])}, want {float(want.flatten()[i])}")
