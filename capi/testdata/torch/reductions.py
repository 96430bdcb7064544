"""Families of collectives.py that reduce."""

import warnings

from suite import Buffer, LARGE, SUM, bits, exact_average, name_of, reduced, reductions, values

import torch
import torch.distributed as dist


def all_reduce(s):
    salt = 0
    for dtype, op, kind, sizes in reductions():
        for n in sizes:
            salt += 1
            inputs = [values(dtype, n, salt, r, kind) for r in range(s.world)]
            want, tolerance = reduced(op, inputs)
            for shift in (0, 1, 3) if n in (1000, 4097) else (salt % 4,):
                b = Buffer(inputs[s.rank], shift)
                dist.all_reduce(b.t, op)
                s.check(f"{name_of(dtype)} {op} {kind} n={n} shift={shift}", b, want,
                        exact_average(op, kind, s.world, tolerance))


def premultiplied_sum(s):
    from torch._C._distributed_c10d import _make_nccl_premul_sum

    salt = 500
    # bfloat16's factor is passed by torch as a float, which no library can read
    for dtype in (torch.float32, torch.float16, torch.float64):
        for factor in (2.0, 0.25, torch.tensor([0.5], dtype=dtype, device="cuda")):
            scale = float(factor)
            for n in (1, 1000, 65537):
                salt += 1
                inputs = [values(dtype, n, salt, r) for r in range(s.world)]
                want, _ = reduced(SUM, inputs, scale)
                b = Buffer(inputs[s.rank], salt % 3)
                dist.all_reduce(b.t, _make_nccl_premul_sum(factor))
                s.check(f"all_reduce {name_of(dtype)} × {scale} n={n}", b, want)
        inputs = [values(dtype, 1000 * s.world, salt, r) for r in range(s.world)]
        want, _ = reduced(SUM, inputs, 0.5)
        out = Buffer.like(1000, dtype)
        dist.reduce_scatter_tensor(out.t, Buffer(inputs[s.rank]).t, _make_nccl_premul_sum(0.5))
        s.check(f"reduce_scatter {name_of(dtype)} × 0.5", out, want[1000 * s.rank : 1000 * (s.rank + 1)])


def complex_and_shapes(s):
    for n in (1, 1000):
        inputs = [values(torch.complex64, n, n, r) for r in range(s.world)]
        b = Buffer(inputs[s.rank])
        dist.all_reduce(b.t)
        s.check(f"complex64 n={n}", b, reduced(SUM, inputs)[0])
    shapes = [(), (1, 1), (3, 5, 7), (0, 4)]
    for shape in shapes:
        want = torch.full(shape, float(sum(range(1, s.world + 1))))
        b = torch.full(shape, s.rank + 1.0, device="cuda")
        dist.all_reduce(b)
        s.check(f"shape {shape}", b, want)
    # Dense but not row-major is allowed; strided is not, and the refusal must leave the group usable.
    x = torch.full((2, 3, 4, 5), s.rank + 1.0, device="cuda").to(memory_format=torch.channels_last)
    dist.all_reduce(x)
    s.check("channels_last", x, torch.full((2, 3, 4, 5), float(sum(range(1, s.world + 1)))))
    strided = torch.ones(100, device="cuda")[::2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        s.refused("strided view", lambda: dist.all_reduce(strided), "contiguous")
    back = strided.contiguous()
    dist.all_reduce(back)
    s.check("after the refusal", back, torch.full((50,), float(s.world)))
    s.refused("BAND", lambda: dist.all_reduce(torch.ones(4, dtype=torch.int32, device="cuda"), dist.ReduceOp.BAND),
              "BAND")


def reduce(s):
    salt = 1000
    for dtype, op, kind, sizes in reductions():
        for n in [x for x in sizes if x in (0, 1, 1000, 65537, LARGE)]:
            salt += 1
            root = salt % s.world
            inputs = [values(dtype, n, salt, r, kind) for r in range(s.world)]
            want, tolerance = reduced(op, inputs)
            b = Buffer(inputs[s.rank], salt % 3)
            dist.reduce(b.t, root, op)
            if s.rank == root:
                s.check(f"{name_of(dtype)} {op} {kind} n={n} to {root}", b, want,
                        exact_average(op, kind, s.world, tolerance))
            else:
                s.same(f"{name_of(dtype)} n={n} guards", b.intact(), True)


def reduce_scatter(s):
    salt = 2000
    for dtype, op, kind, sizes in reductions():
        for n in [x for x in sizes if x != LARGE] + ([LARGE // 4] if LARGE in sizes else []):
            salt += 1
            inputs = [values(dtype, n * s.world, salt, r, kind) for r in range(s.world)]
            want, tolerance = reduced(op, inputs)
            mine = slice(n * s.rank, n * (s.rank + 1))
            tolerance = exact_average(op, kind, s.world, tolerance)
            tolerance = None if tolerance is None else tolerance[mine]
            label = f"{name_of(dtype)} {op} {kind} n={n}"
            out, source = Buffer.like(n, dtype, salt % 3), Buffer(inputs[s.rank], (salt + 1) % 4)
            dist.reduce_scatter_tensor(out.t, source.t, op)
            s.check(label + " tensor", out, want[mine], tolerance)
            s.same(label + " source", torch.equal(bits(source.t.cpu()), bits(inputs[s.rank])), True)
            if op == SUM and n <= 4097:
                out = Buffer.like(n, dtype)
                dist.reduce_scatter(out.t, [Buffer(x).t for x in inputs[s.rank].chunk(s.world)] if n
                                    else [source.t] * s.world, op)
                s.check(label + " list", out, want[mine], tolerance)
    for dtype in (torch.float32, torch.bfloat16):  # lists of unequal sizes
        counts = [5 * r + 1 for r in range(s.world)]
        inputs = [values(dtype, sum(counts), 7, r) for r in range(s.world)]
        out = Buffer.like(counts[s.rank], dtype)
        dist.reduce_scatter(out.t, [Buffer(x).t for x in inputs[s.rank].split(counts)])
        s.check(f"{name_of(dtype)} uneven", out, reduced(SUM, inputs)[0].split(counts)[s.rank])
