"""A small Llama: blocks of RMSNorm, attention and SwiGLU in bfloat16, without rotary embedding; whole, or as the share
of a rank under tensor parallelism with sequence parallelism.

Activations are [tokens of a sequence, sequences, hidden]. With tensor parallelism a rank has a part of every sequence
outside of attention and MLP; around both, an all-gather brings the sequences together and a reduce-scatter of the
partial sums takes them apart, forward and backward the other way round.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

VOCABULARY = 256


class Wire:
    """Whether tensor parallelism communicates. Off, local copies of the same shapes take the place of collectives."""

    on = True


def _gathered(x, n):
    if not Wire.on:
        return x.repeat(n, *[1] * (x.dim() - 1))
    out = x.new_empty(n * x.shape[0], *x.shape[1:])
    dist.all_gather_into_tensor(out, x.contiguous())
    return out


def _scattered(x, n):
    if not Wire.on:
        return x[:x.shape[0] // n].clone()
    out = x.new_empty(x.shape[0] // n, *x.shape[1:])
    dist.reduce_scatter_tensor(out, x.contiguous())
    return out


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, n):
        ctx.n = n
        return _gathered(x, n)

    @staticmethod
    def backward(ctx, gradient):
        return _scattered(gradient, ctx.n), None


class Scatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, n):
        ctx.n = n
        return _scattered(x, n)

    @staticmethod
    def backward(ctx, gradient):
        return _gathered(gradient, ctx.n), None


class Shape:
    """The sizes of a model; n is the number of ranks that share a block."""

    def __init__(self, hidden=4096, layers=8, heads=32, inner=14336, n=1, rank=0):
        self.hidden, self.layers, self.heads, self.inner, self.n, self.rank = hidden, layers, heads, inner, n, rank
        if heads % n or inner % n:
            raise ValueError(f"{n} ranks do not divide {heads} heads and {inner} inner columns")


class Block(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.s, self.heads = s, s.heads // s.n
        width, inner = s.hidden // s.n, s.inner // s.n
        self.norm1, self.norm2 = nn.RMSNorm(s.hidden, eps=1e-5), nn.RMSNorm(s.hidden, eps=1e-5)
        self.qkv = nn.Linear(s.hidden, 3 * width, bias=False)
        self.out = nn.Linear(width, s.hidden, bias=False)
        self.up = nn.Linear(s.hidden, 2 * inner, bias=False)  # the gate and the values
        self.down = nn.Linear(inner, s.hidden, bias=False)

    def enter(self, x):
        return Gather.apply(x, self.s.n) if self.s.n > 1 else x

    def leave(self, x):
        return Scatter.apply(x, self.s.n) if self.s.n > 1 else x

    def forward(self, x):
        x = x + self.leave(self.attention(self.enter(self.norm1(x))))
        gate, values = self.up(self.enter(self.norm2(x))).chunk(2, -1)
        return x + self.leave(self.down(F.silu(gate) * values))

    def attention(self, x):
        length, batch, _ = x.shape
        q, k, v = self.qkv(x).view(length, batch, 3, self.heads, -1).permute(2, 1, 3, 0, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.permute(2, 0, 1, 3).reshape(length, batch, -1))


class Llama(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.s = s
        self.embedding = nn.Embedding(VOCABULARY, s.hidden)
        self.blocks = nn.ModuleList(Block(s) for _ in range(s.layers))
        self.norm = nn.RMSNorm(s.hidden, eps=1e-5)
        self.head = nn.Linear(s.hidden, VOCABULARY, bias=False)

    def forward(self, tokens, targets):
        """The mean loss of these tokens, [tokens of a sequence, sequences]."""
        x = self.embedding(tokens)
        for b in self.blocks:
            x = b(x)
        return F.cross_entropy(self.head(self.norm(x)).float().flatten(0, 1), targets.flatten())

    def replicated(self):
        """The parameters that every rank has whole under tensor parallelism."""
        return [p for name, p in self.named_parameters()
                if not any(w in name for w in (".qkv", ".out", ".up", ".down"))]


def make(s, device, dtype, seed=1):
    """A model whose weights depend on seed and shape only: shares are cut out of the whole weights."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device("meta"):
            model = Llama(s)
    finally:
        torch.set_default_dtype(before)
    model = model.to_empty(device=device)
    g = torch.Generator(device=device)
    with torch.no_grad():
        for i, (name, p) in enumerate(model.named_parameters()):
            if p.dim() == 1:
                p.fill_(1)
                continue
            g.manual_seed(seed * 1000 + i)
            spread = 0.02 / (2 * s.layers) ** 0.5 if ".out" in name or ".down" in name else 0.02
            whole = torch.empty(_whole(name, p.shape, s), device=device, dtype=dtype).normal_(0, spread, generator=g)
            p.copy_(_share(name, whole, s))
    return model


def _whole(name, shape, s):
    rows, columns = shape
    if ".qkv" in name or ".up" in name:
        return rows * s.n, columns
    return (rows, columns * s.n) if ".out" in name or ".down" in name else (rows, columns)


def _share(name, w, s):
    if ".qkv" in name or ".up" in name:
        parts = 3 if ".qkv" in name else 2
        return w.view(parts, s.n, -1, w.shape[1])[:, s.rank].reshape(-1, w.shape[1])
    return w.view(w.shape[0], s.n, -1)[:, s.rank] if ".out" in name or ".down" in name else w


def batch(step, length, sequences, device, seed):
    """Tokens of a rule with noise, and their successors, [length, sequences] each, which step and seed alone choose."""
    g = torch.Generator().manual_seed(seed * 100003 + step)
    x = torch.randint(VOCABULARY, (length + 1, sequences), generator=g)
    noise = torch.rand(length + 1, sequences, generator=g) < 0.1
    start = torch.randint(VOCABULARY, (1, sequences), generator=g)
    rule = (start + 7 * torch.arange(length + 1)[:, None]) % VOCABULARY
    x = torch.where(noise, x, rule)
    return x[:-1].to(device, non_blocking=True), x[1:].to(device, non_blocking=True)
