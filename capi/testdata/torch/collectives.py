#!/usr/bin/env python3
"""Every collective of torch.distributed against references computed on the CPU from seeds.

    torchrun --nproc_per_node=N collectives.py [--only FAMILY...] [--quick] [--expect goccl|stock] [--json FILE]

Prints a line a family and "N passed, N failed" last; the exit status is not 0 if anything failed. A check is one buffer of one rank. Buffers lie between
guard bytes, at odd offsets too, and the guards are checked. Values are small integers, whose results are exact in any order of summing, and also
real numbers, within rounding. Ranks tell each other their results through the launcher's store, so that a broken library cannot hide its own failures.
"""

import argparse
import datetime
import hashlib
import os
import sys
import time
import traceback
import warnings

from common import Board, bounded, check_library, join, libraries, write_json

import numpy
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _coalescing_manager

LIMIT = 60  # seconds, for a family; then the stacks are printed and the process ends
GUARD, CANARY = 256, 0x5A

FLOATS = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
INTS = [torch.int8, torch.uint8, torch.int32, torch.int64]
FP8 = [torch.float8_e4m3fn, torch.float8_e5m2]
DTYPES = FLOATS + INTS + [torch.bool] + FP8
SIZES = [0, 1, 3, 17, 1000, 4097, 65537]
LARGE = (1 << 20) + 3  # elements: 1 to 8 MB

SUM, PROD, MIN, MAX, AVG = (getattr(dist.ReduceOp, n) for n in ("SUM", "PRODUCT", "MIN", "MAX", "AVG"))


def name_of(dtype):
    return str(dtype).removeprefix("torch.")


# Data. A rank's values are a slice of a fixed table, so that every rank can compute everyone's.

TABLE = 1 << 23
_small = torch.from_numpy(numpy.random.default_rng(1).integers(-4, 5, TABLE, dtype=numpy.int8))
_real = torch.from_numpy(numpy.random.default_rng(2).standard_normal(TABLE, dtype=numpy.float32))
_wide = torch.from_numpy(numpy.random.default_rng(3).integers(-(1 << 60), 1 << 60, TABLE >> 1, dtype=numpy.int64))


def values(dtype, n, salt, rank, kind="small"):
    """n values of a rank on the CPU. kind: small, for exact sums; factor, for exact products; real; wide, for integers of many bits."""
    table = {"small": _small, "factor": _small, "real": _real, "wide": _wide}[kind]
    at = (salt * 7919 + rank * 104729 + 13) % (len(table) - n)
    x = table[at : at + n].clone()
    if kind == "real":
        return x.to(dtype)
    if kind == "wide":
        return (x >> 32 if dtype == torch.int32 else x).to(dtype)
    if kind == "factor":
        x = torch.where(x > 2, 2, torch.where(x < -2, -1, 1)).to(torch.int8)
    if dtype == torch.bool:
        return x > 0
    if dtype == torch.uint8:
        return x.abs().to(dtype)
    if dtype in FP8 and kind == "small":
        x = x.clamp(-1, 1)  # sums of 8 are exact in three bits of mantissa
    if dtype.is_complex:
        return torch.complex(x.float(), x.roll(1).float())
    return x.float().to(dtype)


def reduced(op, inputs, scale=None):
    """The reduction of the ranks' inputs as the library has to give it, and the tolerance: None where it must be exact."""
    dtype, ranks = inputs[0].dtype, len(inputs)
    if dtype == torch.bool:
        wide = torch.stack(inputs)
        return (wide.any(0) if op in (SUM, MAX) else wide.all(0)), None
    if dtype.is_complex:
        return torch.stack(inputs).sum(0), None
    real = dtype.is_floating_point
    acc = inputs[0].to(torch.float64 if real else torch.int64)
    acc = acc * scale if scale is not None else acc.clone()
    size = acc.abs()
    for x in inputs[1:]:
        x = x.to(acc.dtype)
        x = x * scale if scale is not None else x
        size += x.abs()
        if op in (SUM, AVG):
            acc += x
        elif op == PROD:
            acc *= x
        else:
            acc = torch.minimum(acc, x) if op == MIN else torch.maximum(acc, x)
    if op == AVG:
        acc = acc / ranks if real else torch.div(acc, ranks, rounding_mode="trunc")
        size = size / ranks
    if op in (MIN, MAX, PROD) or not real:
        return acc.to(dtype), None
    return acc.to(dtype), size * torch.finfo(dtype).eps * (ranks + 2) + torch.finfo(dtype).tiny


def bits(t):
    """A tensor's bytes; comparisons of types that have no == go through them."""
    return t.contiguous().flatten().view(torch.uint8)


class Buffer:
    """A tensor on the GPU between guard bytes, `shift` elements away from an aligned address."""

    def __init__(self, content, shift=0):
        item = content.element_size()
        nbytes = content.numel() * item
        self.raw = torch.full((2 * GUARD + shift * item + nbytes,), CANARY, dtype=torch.uint8, device="cuda")
        self.begin = GUARD + shift * item
        self.end = self.begin + nbytes
        self.t = self.raw[self.begin : self.end].view(content.dtype).view(content.shape)
        self.t.copy_(content)

    @classmethod
    def like(cls, n, dtype, shift=0):
        """A buffer for results: filled with what no result is."""
        return cls(torch.full((n,) if isinstance(n, int) else n, 77.0).to(dtype), shift)

    def intact(self):
        return bool((self.raw[: self.begin] == CANARY).all() & (self.raw[self.end :] == CANARY).all())


class Suite:
    """Counts checks and keeps the first failures."""

    def __init__(self, board, expect):
        self.board, self.rank, self.world = board, board.rank, board.world
        self.expect = expect
        self.report, self.failures = {}, []
        self.passed = self.failed = 0
        self.generation = 0
        self.bound = False  # the process group's communicators are made with it

    def check(self, label, got, want, tolerance=None):
        """got: a Buffer, or a tensor; want: a tensor on the CPU; tolerance: None where every bit counts."""
        buffer = got if isinstance(got, Buffer) else None
        t = (buffer.t if buffer else got).detach().cpu()
        if t.shape != want.shape or t.dtype != want.dtype:
            return self.say(label, False, f"has {t.shape} {t.dtype}, wanted {want.shape} {want.dtype}")
        if tolerance is None:
            # Zeros have two signs, which no reduction order promises; so values are compared where the type can.
            wrong = (t.double() != want.double()) if t.dtype.is_floating_point else (t != want)
        else:
            wrong = ~((t.double() - want.double()).abs() <= tolerance)
        if wrong.any():
            i = int(wrong.flatten().nonzero()[0])
            return self.say(label, False, f"{int(wrong.sum())} of {t.numel()} wrong; [{i}] is {t.flatten()[i]}, wanted {want.flatten()[i]}")
        if buffer and not buffer.intact():
            return self.say(label, False, "bytes outside the buffer were overwritten")
        return self.say(label, True)

    def same(self, label, got, want):
        self.say(label, got == want, f"{got!r}, wanted {want!r}")

    def say(self, label, ok, why=""):
        if ok:
            self.passed += 1
            return
        self.failed += 1
        if len(self.failures) < 12:
            self.failures.append(f"rank {self.rank}: {label}: {why}")

    def refused(self, label, call, *words):
        """A call that has to raise, with one of words in the text."""
        try:
            call()
        except (RuntimeError, ValueError, TypeError) as e:
            return self.say(label, any(w in str(e) for w in words), f"raised without any of {words}: {e}")
        self.say(label, False, "was accepted")

    def run(self, name, family):
        """One family on all ranks. An exception on every rank is that family's failure; on some, the others are stuck, and the run ends."""
        bounded(LIMIT)
        self.passed = self.failed = 0
        self.failures = []
        begin, raised = time.monotonic(), None
        try:
            family(self)
            torch.cuda.synchronize()
        except Exception as e:
            raised = f"{type(e).__name__}: {str(e)[:500]}"
            self.failed += 1
            self.failures.append(f"rank {self.rank}: {raised}")
            if self.rank == 0:
                traceback.print_exc()
        seconds = time.monotonic() - begin
        try:
            everyone = self.board.exchange([self.passed, self.failed, self.failures, bool(raised)])
        except Exception as e:
            if self.rank == 0 or raised:
                print(f"{name}: rank {self.rank} lost the others ({raised or e})", flush=True)
            self.report[name] = {"passed": self.passed, "failed": self.failed + 1, "failures": self.failures + [f"the others did not come: {e}"]}
            self.finish(broken=True)
        entry = {"passed": sum(e[0] for e in everyone), "failed": sum(e[1] for e in everyone), "seconds": round(seconds, 2),
                 "failures": sum((e[2] for e in everyone), [])}
        self.report[name] = entry
        if self.rank == 0:
            print(f"{name:28} {entry['passed']:6} passed {entry['failed']:4} failed  {seconds:5.1f} s", flush=True)
            for f in entry["failures"][:12]:
                print(f"    {f}", flush=True)
        self.save()
        if len({e[3] for e in everyone}) == 2:
            self.finish(broken=True)

    def save(self):
        if self.rank == 0:
            total = {k: sum(e[k] for e in self.report.values()) for k in ("passed", "failed")}
            write_json(self.json, {"world": self.world, "torch": torch.__version__, "libraries": libraries(), **total, "families": self.report})

    def finish(self, broken=False):
        self.save()
        passed, failed = (sum(e[k] for e in self.report.values()) for k in ("passed", "failed"))
        if self.rank == 0 or broken:
            print(f"{passed} passed, {failed} failed" + (", stopped before the end" if broken else ""), flush=True)
        if broken:
            os._exit(3)  # destructors would wait for a broken communicator
        return failed == 0


# Reductions.


def fp8_reduces():
    """Whether this PyTorch lets reductions of float8 through to the library; if not, it raises before any rank calls it."""
    try:
        dist.all_reduce(torch.zeros(1, device="cuda").to(FP8[0]))
        return True
    except (RuntimeError, TypeError, ValueError) as e:
        if "Float8" not in str(e):
            raise
        if dist.get_rank() == 0:
            print(f"    float8 is left out of reductions: {str(e).splitlines()[0]}", flush=True)
        return False


def reductions():
    """(dtype, op, kind, sizes) that torch lets through."""
    for dtype in DTYPES if fp8_reduces() else [d for d in DTYPES if d not in FP8]:
        exact = FP8 + [torch.bool] + INTS
        yield dtype, SUM, "small", SIZES + [LARGE]
        for op in (MIN, MAX):
            yield dtype, op, "small", [1, 1000, 65537]
        yield dtype, PROD, "factor", [3, 1000, 65537]
        if dtype != torch.bool:
            yield dtype, AVG, "small", [1, 1000, 65537]
        if dtype not in exact:
            yield dtype, SUM, "real", [17, 4097, LARGE]
            yield dtype, AVG, "real", [4097]
        if dtype in (torch.int32, torch.int64):
            yield dtype, SUM, "wide", [3, 65537]
            yield dtype, MIN, "wide", [4097]
            yield dtype, MAX, "wide", [4097]


def exact_average(op, kind, world, tolerance):
    """Small values are exact, but for averages over a number of ranks that is no power of two."""
    return None if kind != "real" and (op != AVG or world & (world - 1) == 0) else tolerance


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
                s.check(f"{name_of(dtype)} {op} {kind} n={n} shift={shift}", b, want, exact_average(op, kind, s.world, tolerance))


def premultiplied_sum(s):
    from torch._C._distributed_c10d import _make_nccl_premul_sum

    salt = 500
    for dtype in (torch.float32, torch.float16, torch.float64):  # bfloat16's factor is passed by torch as a float, which no library can read
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
    s.refused("BAND", lambda: dist.all_reduce(torch.ones(4, dtype=torch.int32, device="cuda"), dist.ReduceOp.BAND), "BAND")


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
                s.check(f"{name_of(dtype)} {op} {kind} n={n} to {root}", b, want, exact_average(op, kind, s.world, tolerance))
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
                dist.reduce_scatter(out.t, [Buffer(x).t for x in inputs[s.rank].chunk(s.world)] if n else [source.t] * s.world, op)
                s.check(label + " list", out, want[mine], tolerance)
    for dtype in (torch.float32, torch.bfloat16):  # lists of unequal sizes
        counts = [5 * r + 1 for r in range(s.world)]
        inputs = [values(dtype, sum(counts), 7, r) for r in range(s.world)]
        out = Buffer.like(counts[s.rank], dtype)
        dist.reduce_scatter(out.t, [Buffer(x).t for x in inputs[s.rank].split(counts)])
        s.check(f"{name_of(dtype)} uneven", out, reduced(SUM, inputs)[0].split(counts)[s.rank])


# Movements: every type moves, bit for bit.


def moves(salt):
    for dtype in DTYPES:
        for n in SIZES + [LARGE]:
            salt += 1
            yield dtype, n, salt


def same_bits(s, label, got, want):
    s.say(label, torch.equal(bits(got.t.cpu()), bits(want)), "wrong bytes")
    s.same(label + " guards", got.intact(), True)


def kind_for(dtype):
    return "real" if dtype.is_floating_point else "wide" if dtype in (torch.int32, torch.int64) else "small"


def broadcast(s):
    for dtype, n, salt in moves(3000):
        root = salt % s.world
        x = values(dtype, n, salt, root, kind_for(dtype))
        b = Buffer(x, salt % 4) if s.rank == root else Buffer.like(n, dtype, (salt + s.rank) % 4)
        dist.broadcast(b.t, root)
        same_bits(s, f"{name_of(dtype)} n={n} from {root}", b, x)
    for root in range(s.world):
        b = torch.tensor([s.rank], device="cuda")
        dist.broadcast(b, root)
        s.check(f"from {root}", b, torch.tensor([root]))


def all_gather(s):
    for dtype, n, salt in moves(4000):
        n = min(n, LARGE // 4)
        inputs = [values(dtype, n, salt, r, kind_for(dtype)) for r in range(s.world)]
        mine, label = Buffer(inputs[s.rank], salt % 3), f"{name_of(dtype)} n={n}"
        out = Buffer.like(n * s.world, dtype, salt % 4)
        dist.all_gather_into_tensor(out.t, mine.t)
        same_bits(s, label + " into tensor", out, torch.cat(inputs))
        if n <= 4097:
            stacked = Buffer.like((s.world, n), dtype)
            dist.all_gather_into_tensor(stacked.t, mine.t)
            same_bits(s, label + " stacked", stacked, torch.stack(inputs))
            outs = [Buffer.like(n, dtype, r % 3) for r in range(s.world)]
            dist.all_gather([o.t for o in outs], mine.t)
            for r, o in enumerate(outs):
                same_bits(s, f"{label} list from {r}", o, inputs[r])
            if n:  # in place: this rank's part of the result is the input
                whole = Buffer.like(n * s.world, dtype)
                part = whole.t[n * s.rank : n * (s.rank + 1)]
                part.copy_(inputs[s.rank])
                dist.all_gather_into_tensor(whole.t, part)
                same_bits(s, label + " in place", whole, torch.cat(inputs))
    inputs = [values(torch.float32, 7 * r + 1, 5, r) for r in range(s.world)]
    outs = [Buffer.like(len(x), torch.float32) for x in inputs]
    dist.all_gather([o.t for o in outs], Buffer(inputs[s.rank]).t)
    for r, o in enumerate(outs):
        same_bits(s, f"uneven from {r}", o, inputs[r])


def gather_and_scatter(s):
    for dtype, n, salt in moves(5000):
        n, root, label = min(n, LARGE // 4), salt % s.world, f"{name_of(dtype)} n={min(n, LARGE // 4)} root {salt % s.world}"
        inputs = [values(dtype, n, salt, r, kind_for(dtype)) for r in range(s.world)]
        outs = [Buffer.like(n, dtype, r % 3) for r in range(s.world)] if s.rank == root else None
        dist.gather(Buffer(inputs[s.rank], salt % 3).t, outs and [o.t for o in outs], dst=root)
        for r, o in enumerate(outs or []):
            same_bits(s, f"gather {label} from {r}", o, inputs[r])
        out = Buffer.like(n, dtype, salt % 2)
        dist.scatter(out.t, [Buffer(x, r % 3).t for r, x in enumerate(inputs)] if s.rank == root else None, src=root)
        same_bits(s, "scatter " + label, out, inputs[s.rank])


def all_to_all(s):
    for dtype, n, salt in moves(6000):
        n = min(n, LARGE // 4)
        inputs = [values(dtype, n * s.world, salt, r, kind_for(dtype)) for r in range(s.world)]
        want = torch.cat([x[n * s.rank : n * (s.rank + 1)] for x in inputs])
        out, label = Buffer.like(n * s.world, dtype, salt % 3), f"{name_of(dtype)} n={n}"
        dist.all_to_all_single(out.t, Buffer(inputs[s.rank], salt % 2).t)
        same_bits(s, label + " single", out, want)
    for dtype in DTYPES:
        for unit in (1, 3, 1000, 40001):
            # What r sends to p: nothing on the diagonal next to it, different amounts elsewhere.
            counts = [[0 if (r + 1) % s.world == p and s.world > 2 else unit * (1 + (r * 3 + p) % 4) for p in range(s.world)] for r in range(s.world)]
            inputs = [values(dtype, sum(counts[r]), unit, r, kind_for(dtype)) for r in range(s.world)]
            parts = [x.split(counts[r]) for r, x in enumerate(inputs)]
            receive = [counts[r][s.rank] for r in range(s.world)]
            want, label = torch.cat([parts[r][s.rank] for r in range(s.world)]), f"{name_of(dtype)} unit={unit}"
            out = Buffer.like(sum(receive), dtype, 1)
            dist.all_to_all_single(out.t, Buffer(inputs[s.rank], 3).t, receive, counts[s.rank])
            same_bits(s, label + " uneven single", out, want)
            outs = [Buffer.like(c, dtype, r % 3) for r, c in enumerate(receive)]
            dist.all_to_all([o.t for o in outs], [Buffer(x, i % 2).t for i, x in enumerate(parts[s.rank])])
            for r, o in enumerate(outs):
                same_bits(s, f"{label} list from {r}", o, parts[r][s.rank])
    for rows in (0, 5):  # rows of several elements, and nothing at all
        x = torch.full((rows * s.world, 7), float(s.rank), device="cuda")
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x)
        s.check(f"{rows} rows", out, torch.arange(s.world).float().repeat_interleave(rows)[:, None].expand(-1, 7).contiguous())


# Point to point.


def send_recv(s):
    if s.world < 2:
        return
    for dtype, n, salt in moves(7000):
        to, source = (s.rank + 1) % s.world, (s.rank - 1) % s.world
        x = Buffer(values(dtype, n, salt, s.rank, kind_for(dtype)), salt % 4)
        y, label = Buffer.like(n, dtype, salt % 3), f"{name_of(dtype)} n={n}"
        ops = [dist.P2POp(dist.isend, x.t, to), dist.P2POp(dist.irecv, y.t, source)]
        for w in dist.batch_isend_irecv(ops):
            w.wait()
        same_bits(s, label + " batch", y, values(dtype, n, salt, source, kind_for(dtype)))
        if n in (1, 4097, LARGE):
            y = Buffer.like(n, dtype)
            calls = [lambda: dist.send(x.t, to), lambda: dist.recv(y.t, source)]
            for call in calls if s.rank % 2 == 0 else reversed(calls):
                call()
            same_bits(s, label + " send, recv", y, values(dtype, n, salt, source, kind_for(dtype)))
    # Everyone with everyone in one batch, sizes from 0, orders that differ from rank to rank.
    for unit in (1, 999, 100003):
        sends, receives, ops = {}, {}, []
        for i in range(1, s.world):
            p = (s.rank + i) % s.world
            sends[p] = Buffer(values(torch.float32, unit * ((s.rank + p) % 3), unit, s.rank * 16 + p), p % 4)
            receives[p] = Buffer.like(unit * ((s.rank + p) % 3), torch.float32, s.rank % 4)
            ops += [dist.P2POp(dist.isend, sends[p].t, p), dist.P2POp(dist.irecv, receives[p].t, p)]
        for w in dist.batch_isend_irecv(ops if s.rank % 2 else ops[::-1]):
            w.wait()
        for p, b in receives.items():
            same_bits(s, f"mesh unit={unit} from {p}", b, values(torch.float32, unit * ((s.rank + p) % 3), unit, p * 16 + s.rank))
    # Several messages between the same two, matched in order.
    partner = s.rank ^ 1
    if partner < s.world:
        got = [Buffer.like(n, torch.int32) for n in (5, 70000, 1)]
        for first in (True, False):
            if (s.rank < partner) == first:
                works = [dist.isend(values(torch.int32, n, n, s.rank).cuda(), partner) for n in (5, 70000, 1)]
            else:
                works = [dist.irecv(b.t, partner) for b in got]
            for w in works:
                w.wait()
        for n, b in zip((5, 70000, 1), got):
            same_bits(s, f"in order n={n}", b, values(torch.int32, n, n, partner))


# Objects, barrier, and how calls are issued.


def objects(s):
    mine = {"rank": s.rank, "text": "x" * (1 + 1000 * s.rank), "list": list(range(s.rank))}
    everyone = [{"rank": r, "text": "x" * (1 + 1000 * r), "list": list(range(r))} for r in range(s.world)]
    out = [None] * s.world
    dist.all_gather_object(out, mine)
    s.same("all_gather_object", out == everyone, True)
    for root in range(s.world):
        out = [None] * s.world if s.rank == root else None
        dist.gather_object(mine, out, dst=root)
        s.same(f"gather_object to {root}", out, everyone if s.rank == root else None)
        pair = ["a" * 5000, {"from": root}] if s.rank == root else [None, None]
        dist.broadcast_object_list(pair, src=root, device=torch.device("cuda"))
        s.same(f"broadcast_object_list from {root}", pair, ["a" * 5000, {"from": root}])
        got = [None]
        dist.scatter_object_list(got, [f"for {r}" * (r + 1) for r in range(s.world)] if s.rank == root else None, src=root)
        s.same(f"scatter_object_list from {root}", got, [f"for {s.rank}" * (s.rank + 1)])
    if s.world > 1 and s.rank < 2:
        if s.rank == 0:
            dist.send_object_list([1, "two"], dst=1)
        else:
            got = [None, None]
            dist.recv_object_list(got, src=0)
            s.same("recv_object_list", got, [1, "two"])


def barrier(s):
    for i in range(20):
        if i % s.world == s.rank:
            time.sleep(0.01)
        s.board.store.add(f"barrier/{s.generation}/{i}", 1)
        if i % 2:
            dist.barrier()
        else:
            dist.barrier(async_op=True).wait()
            torch.cuda.synchronize()
        s.same(f"barrier {i}", s.board.store.add(f"barrier/{s.generation}/{i}", 0), s.world)


def coalesced(s):
    sizes = [1, 1000, 0, 65537]
    n = len(sizes)
    inputs = [[values(torch.float32, k * s.world, 80 + i, r) for i, k in enumerate(sizes)] for r in range(s.world)]
    sums = [reduced(SUM, [inputs[r][i] for r in range(s.world)])[0] for i in range(n)]
    for asynchronous in (False, True):
        bs = [Buffer(x) for x in inputs[s.rank]]
        with _coalescing_manager(async_ops=asynchronous) as cm:
            for b in bs:
                dist.all_reduce(b.t)
        if asynchronous:
            cm.wait()
        for b, want in zip(bs, sums):
            s.check("all_reduce", b, want)
        outs = [Buffer.like(k * s.world * s.world, torch.float32) for k in sizes]
        with _coalescing_manager(async_ops=asynchronous) as cm:
            for o, x in zip(outs, inputs[s.rank]):
                dist.all_gather_into_tensor(o.t, x.cuda())
        if asynchronous:
            cm.wait()
        for i, o in enumerate(outs):
            s.check("all_gather_into_tensor", o, torch.cat([inputs[r][i] for r in range(s.world)]))
        outs = [Buffer.like(k, torch.float32) for k in sizes]
        with _coalescing_manager(async_ops=asynchronous) as cm:
            for o, x in zip(outs, inputs[s.rank]):
                dist.reduce_scatter_tensor(o.t, x.cuda())
        if asynchronous:
            cm.wait()
        for i, o in enumerate(outs):
            s.check("reduce_scatter_tensor", o, sums[i][sizes[i] * s.rank : sizes[i] * (s.rank + 1)])
    # Different roots in one group of the library.
    bs = [Buffer(torch.full((1000 + r,), float(s.rank))) for r in range(s.world)]
    with _coalescing_manager(device=torch.device("cuda", torch.cuda.current_device()), async_ops=True) as cm:
        for r, b in enumerate(bs):
            dist.broadcast(b.t, r, async_op=True)
    cm.wait()
    for r, b in enumerate(bs):
        s.check(f"broadcast from {r}", b, torch.full((1000 + r,), float(r)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bs = [Buffer(x) for x in inputs[s.rank]]
        dist.all_reduce_coalesced([b.t for b in bs])
    for b, want in zip(bs, sums):
        s.check("all_reduce_coalesced", b, want)


def asynchronous(s):
    """Many calls under way at once, waited for in another order, results read on the stream that waited."""
    inputs = [[values(torch.float32, 1 + 997 * i, i, r) for i in range(64)] for r in range(s.world)]
    bs = [Buffer(x, i % 4) for i, x in enumerate(inputs[s.rank])]
    works = [dist.all_reduce(b.t, async_op=True) for b in bs]
    for w in reversed(works):
        w.wait()
    copies = [b.t.clone() for b in bs]
    torch.cuda.synchronize()
    s.same("is_completed", all(w.is_completed() for w in works), True)
    for i, c in enumerate(copies):
        s.check(f"all_reduce {i}", c, reduced(SUM, [x[i] for x in inputs])[0])
    future = dist.all_reduce(b := torch.ones(1000, device="cuda"), async_op=True).get_future().then(lambda f: f.value()[0] * 2)
    s.check("future", future.wait(), torch.full((1000,), 2.0 * s.world))
    s.check("future's tensor", b, torch.full((1000,), float(s.world)))


def streams(s):
    """One group from several streams, which race with each other by sleeping different times; the order of the calls is everyone's."""
    side = [torch.cuda.Stream() for _ in range(4)]
    inputs = [[values(torch.float32, 5000 * (i % 7) + 1, 200 + i, r) for i in range(48)] for r in range(s.world)]
    bs = [Buffer(x) for x in inputs[s.rank]]
    torch.cuda.synchronize()
    for i, b in enumerate(bs):
        with torch.cuda.stream(side[i % 4]):
            torch.cuda._sleep(20000 * ((i * 5 + s.rank * 3) % 4))
            work = dist.all_reduce(b.t, async_op=bool(i & 4))
            if work:
                work.wait()
            b.t.mul_(2)  # in stream order behind the collective
    torch.cuda.synchronize()
    for i, b in enumerate(bs):
        s.check(f"all_reduce {i}", b, reduced(SUM, [x[i] for x in inputs])[0] * 2)
    # Compute before and after on the default stream, no synchronisation by the host.
    x = torch.zeros(100000, device="cuda")
    want = 0.0
    for i in range(50):
        x.add_(s.rank + i)
        dist.all_reduce(x, AVG)
        want += sum(range(s.world)) / s.world + i
    s.check("in order with kernels", x, torch.full((100000,), want), torch.full((100000,), want * 1e-5 + 1e-5))


def same_everywhere(s):
    """Sums of real numbers: the same bits on all ranks and from run to run."""
    for dtype in FLOATS:
        for n in (1, 1000, 65537, LARGE):
            digests = []
            for _ in range(3):
                b = values(dtype, n, n % 97, s.rank, "real").cuda()
                dist.all_reduce(b)
                digests.append(hashlib.sha256(bits(b).cpu().numpy().tobytes()).hexdigest())
            s.same(f"{name_of(dtype)} n={n} runs", len(set(digests)), 1)
            s.same(f"{name_of(dtype)} n={n} ranks", len({d[0] for d in s.board.exchange(digests)}), 1)


# Groups.


def group_works(s, group, ranks, label):
    """The main collectives in a group of global ranks, in its own order."""
    me = ranks.index(s.rank)
    x = torch.full((1000,), float(s.rank), device="cuda")
    dist.all_reduce(x, group=group)
    s.check(label + " all_reduce", x, torch.full((1000,), float(sum(ranks))))
    out = torch.empty(len(ranks), dtype=torch.int64, device="cuda")
    dist.all_gather_into_tensor(out, torch.tensor([s.rank], device="cuda"), group=group)
    order = dist.get_process_group_ranks(group)
    s.check(label + " all_gather", out, torch.tensor(order))
    root = ranks[-1]
    y = torch.full((77,), float(s.rank), device="cuda")
    dist.broadcast(y, root, group=group)
    s.check(label + " broadcast", y, torch.full((77,), float(root)))
    if len(ranks) > 1:
        got = torch.empty(3, device="cuda")
        right, left = ranks[(me + 1) % len(ranks)], ranks[me - 1]
        ops = [dist.P2POp(dist.isend, torch.full((3,), float(s.rank), device="cuda"), right, group), dist.P2POp(dist.irecv, got, left, group)]
        for w in dist.batch_isend_irecv(ops):
            w.wait()
        s.check(label + " ring", got, torch.full((3,), float(left)))


def groups(s):
    everyone = list(range(s.world))
    wanted = {"world": [everyone], "reversed": [everyone[::-1]], "single": [[r] for r in everyone], "even and odd": [everyone[::2], everyone[1::2]],
              "but the last": [everyone[:-1]], "pairs": [[a, b] for a in everyone for b in everyone[a + 1 :]]}
    made = []
    for label, sets in wanted.items():
        for ranks in sets:
            if not ranks:
                continue
            group = dist.new_group(ranks)
            if s.rank in ranks:
                made.append((group, ranks, label))
    for group, ranks, label in made:
        group_works(s, group, ranks, label)
    for group, ranks, label in made:  # again, in turns: several communicators in one process
        group_works(s, group, ranks, label + " again")
    if s.bound:  # PyTorch 2.11 hangs, whatever the library, when the second of two disjoint groups makes its communicator at the first use
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            half = everyone[: (s.world + 1) // 2] if s.rank < (s.world + 1) // 2 else everyone[(s.world + 1) // 2 :]
            local = dist.new_group(half, use_local_synchronization=True)
        group_works(s, local, half, "local synchronisation")
        dist.destroy_process_group(local)
    for group, _, _ in made[::-1]:
        dist.destroy_process_group(group)
    x = torch.ones(10, device="cuda")
    dist.all_reduce(x)
    s.check("the world after its subgroups are gone", x, torch.full((10,), float(s.world)))


def split(s):
    """ncclCommSplit by dist.split_group, which needs a group that is bound to a device."""
    if s.world < 2 or not hasattr(dist, "split_group"):
        return
    half = (s.world + 1) // 2
    sets = [list(range(half)), list(range(half, s.world))]
    for i in range(3):
        group = dist.split_group(split_ranks=sets)
        mine = next(x for x in sets if s.rank in x)
        group_works(s, group, mine, f"split {i}")
        dist.destroy_process_group(group)
    if s.world >= 3:
        group = dist.split_group(split_ranks=[list(range(s.world - 1))])
        if s.rank < s.world - 1:
            group_works(s, group, list(range(s.world - 1)), "split without the last")
            dist.destroy_process_group(group)


def mesh(s):
    from torch.distributed.device_mesh import init_device_mesh

    columns = 2 if s.world % 2 == 0 else 1
    m = init_device_mesh("cuda", (s.world // columns, columns), mesh_dim_names=("a", "b"))
    for name in ("a", "b"):
        group = m.get_group(name)
        group_works(s, group, dist.get_process_group_ranks(group), f"mesh {name}")


def functional(s):
    import torch.distributed._functional_collectives as funcol

    def done(t):
        return t.wait() if hasattr(t, "wait") else t

    world = dist.group.WORLD
    inputs = [values(torch.float32, 12 * s.world, 9, r) for r in range(s.world)]
    x, want = inputs[s.rank].cuda(), reduced(SUM, inputs)[0]
    mine = slice(12 * s.rank, 12 * (s.rank + 1))
    s.check("all_reduce", done(funcol.all_reduce(x, "sum", world)), want)
    s.check("all_gather_tensor", done(funcol.all_gather_tensor(x, 0, world)), torch.cat(inputs))
    s.check("reduce_scatter_tensor", done(funcol.reduce_scatter_tensor(x, "sum", 0, world)), want[mine])
    s.check("all_to_all_single", done(funcol.all_to_all_single(x, None, None, world)), torch.cat([i[mine] for i in inputs]))
    s.check("broadcast", done(funcol.broadcast(x, s.world - 1, world)), inputs[-1])


# With the rest of PyTorch.


def graphs(s):
    """Captures in every mode, replays with new inputs, calls outside of the graph between them."""
    n = 5003
    for mode in ("global", "thread_local", "relaxed"):
        x = torch.zeros(n * s.world, device="cuda")
        total, gathered = torch.zeros_like(x), torch.zeros(n * s.world, device="cuda")
        part, swapped = torch.zeros(n, device="cuda"), torch.zeros_like(x)
        bytes_in, bytes_out = torch.zeros(33, dtype=torch.uint8, device="cuda"), torch.zeros(33, dtype=torch.uint8, device="cuda")

        def step():
            total.copy_(x)
            dist.all_reduce(total)
            dist.reduce_scatter_tensor(part, x)
            dist.all_gather_into_tensor(gathered, part)
            dist.all_to_all_single(swapped, x)
            bytes_out.copy_(bytes_in)
            dist.broadcast(bytes_out, s.world - 1)
            work = dist.all_reduce(swapped, MAX, async_op=True)
            work.wait()
            total.add_(1)

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side, capture_error_mode=mode):
            step()
        for i in range(60):
            if i % 20 == 0 or i > 55:
                inputs = [values(torch.float32, n * s.world, 300 + i, r) for r in range(s.world)]
                x.copy_(inputs[s.rank])
                bytes_in.fill_(i + s.rank)
            graph.replay()
            if i % 3 == 0:  # eager, between replays
                e = torch.ones(100, device="cuda")
                dist.all_reduce(e)
                if i % 15 == 0:
                    s.check(f"{mode}: eager after replay {i}", e, torch.full((100,), float(s.world)))
            if i % 20 == 0 or i > 55:
                want = reduced(SUM, inputs)[0]
                each = torch.stack([torch.cat([v[n * r : n * (r + 1)] for v in inputs]) for r in range(s.world)])
                s.check(f"{mode}: all_reduce in replay {i}", total, want + 1)
                s.check(f"{mode}: reduce_scatter, all_gather in replay {i}", gathered, want)
                s.check(f"{mode}: all_to_all, max in replay {i}", swapped, each.max(0).values)
                s.check(f"{mode}: broadcast in replay {i}", bytes_out, torch.full((33,), i + s.world - 1, dtype=torch.uint8))
        torch.cuda.synchronize()
        graph.reset()  # before the communicators that it uses go


class Numbers(torch.utils.data.Dataset):
    """Item i is a row of i, made by a worker process, with numpy and torch at work in it."""

    def __len__(self):
        return 64

    def __getitem__(self, i):
        return torch.from_numpy(numpy.full(1000, i, dtype=numpy.float32)) * torch.ones(1000)


def forked_workers(s):
    """A DataLoader whose workers are forked while communicators are up and collectives under way."""
    for persistent in (False, True):
        loader = torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2, multiprocessing_context="fork", pin_memory=True,
                                             persistent_workers=persistent, timeout=30)
        for epoch in range(2):
            for i, batch in enumerate(loader):
                x = batch.cuda(non_blocking=True) + s.rank
                work = dist.all_reduce(x, async_op=True)
                work.wait()
                if i in (0, 7):
                    first = torch.arange(8 * i, 8 * i + 8, dtype=torch.float32)[:, None].expand(-1, 1000)
                    s.check(f"epoch {epoch} batch {i}", x, (first * s.world + sum(range(s.world))).contiguous())
        del loader


def memory_pool(s):
    """Tensors from the library's own allocator (ncclMemAlloc), registered with the group."""
    backend = dist.group.WORLD._get_backend(torch.device("cuda"))
    try:
        pool = torch.cuda.MemPool(backend.mem_allocator)
    except (AttributeError, RuntimeError) as e:
        if s.rank == 0:
            print(f"    memory_pool left out: {e}")
        return
    with torch.cuda.use_mem_pool(pool):
        x = torch.full((LARGE,), float(s.rank + 1), device="cuda")
        y = torch.empty(LARGE * s.world, device="cuda")
    backend.register_mem_pool(pool)
    for _ in range(3):
        x.fill_(s.rank + 1)
        dist.all_reduce(x)
        s.check("all_reduce", x, torch.full((LARGE,), float(sum(range(1, s.world + 1)))))
    dist.all_gather_into_tensor(y, x)
    s.check("all_gather", y[-LARGE:], x.cpu())
    torch.cuda.synchronize()
    backend.deregister_mem_pool(pool)
    del x, y, pool
    torch.cuda.empty_cache()


def reallocated(s):
    """Buffers that come and go at the same addresses: what is remembered about an address must not outlive its memory."""
    for i in range(12):
        x = torch.full((LARGE * 4 + i,), float(s.rank + i), device="cuda")
        dist.all_reduce(x)
        s.check(f"round {i}", x, torch.full((LARGE * 4 + i,), float(sum(r + i for r in range(s.world)))))
        del x
        torch.cuda.empty_cache()


def large(s):
    """64 MB and more, checked on the GPU."""
    n = (1 << 24) + 5
    x = torch.full((n,), s.rank + 1.0, device="cuda")
    dist.all_reduce(x)
    s.same("all_reduce", bool((x == sum(range(1, s.world + 1))).all()), True)
    y = torch.empty(n * s.world, dtype=torch.bfloat16, device="cuda")
    dist.all_gather_into_tensor(y, torch.full((n,), s.rank + 1.0, dtype=torch.bfloat16, device="cuda"))
    s.same("all_gather", all(bool((y[n * r : n * (r + 1)] == r + 1).all()) for r in range(s.world)), True)
    part = torch.empty(n, dtype=torch.bfloat16, device="cuda")
    dist.reduce_scatter_tensor(part, y)
    s.same("reduce_scatter", bool((part == (s.rank + 1) * s.world).all()), True)
    z = torch.empty(n * s.world, dtype=torch.uint8, device="cuda")
    dist.all_to_all_single(z, torch.full((n * s.world,), s.rank, dtype=torch.uint8, device="cuda"))
    s.same("all_to_all", all(bool((z[n * r : n * (r + 1)] == r).all()) for r in range(s.world)), True)


FAMILIES = [all_reduce, premultiplied_sum, complex_and_shapes, reduce, reduce_scatter, broadcast, all_gather, gather_and_scatter, all_to_all, send_recv, objects,
            barrier, coalesced, asynchronous, streams, same_everywhere, groups, split, mesh, functional, graphs, forked_workers, memory_pool, reallocated, large]
QUICK = [complex_and_shapes, send_recv, objects, barrier, coalesced, streams, groups, graphs, reallocated]  # for a second configuration
AGAIN = [complex_and_shapes, objects, barrier, asynchronous, groups]  # in a process group that was destroyed and made again


def start(s, store, bound):
    """A process group, the n-th of this process: bound to its device from the start (eager), or not (communicators come up at the first use)."""
    s.generation += 1
    s.bound = bound
    device = torch.device("cuda", torch.cuda.current_device())
    dist.init_process_group("nccl", store=dist.PrefixStore(f"group{s.generation}", store), rank=s.rank, world_size=s.world,
                            timeout=datetime.timedelta(seconds=45), **({"device_id": device} if bound else {}))
    x = torch.ones(1, device="cuda")
    dist.all_reduce(x)
    s.same("first all_reduce", x.item(), float(s.world))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", nargs="*", default=[], choices=[f.__name__ for f in FAMILIES])
    p.add_argument("--quick", action="store_true", help="fewer families and no second process group")
    p.add_argument("--expect", choices=("goccl", "stock"), help="fail unless this library answers")
    p.add_argument("--json")
    args = p.parse_args()
    bounded(LIMIT)
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    store, rank, world = join()
    s = Suite(Board(dist.PrefixStore("board", store), rank, world), args.expect)
    s.json = args.json

    families = [f for f in FAMILIES if f.__name__ in args.only] or (QUICK if args.quick else FAMILIES)
    s.run("init", lambda s: start(s, store, bound=True))
    answers = check_library(args.expect)
    if rank == 0:
        print(f"{world} ranks, PyTorch {torch.__version__}, {answers}: {', '.join(libraries())}", flush=True)
    for f in families:
        s.run(f.__name__, f)
    if not args.quick and not args.only:
        for bound in (False, True, False):
            s.run(f"destroy {s.generation}", lambda s: dist.destroy_process_group())
            s.run(f"create {s.generation + 1}", lambda s: start(s, store, bound))
            for f in AGAIN if not bound else AGAIN[:2]:
                s.run(f"{f.__name__} ({s.generation})", f)
    s.run("last destroy", lambda s: dist.destroy_process_group())
    good = s.finish()
    s.board.exchange("end")  # nobody takes the store away before the others have read it
    sys.exit(not good)


if __name__ == "__main__":
    main()
