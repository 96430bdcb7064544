"""The checks of collectives.py: data, buffers between guards, references, and the report."""

import os
import time
import traceback

from common import bounded, libraries, write_json

import numpy
import torch
import torch.distributed as dist

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
    """n values of a rank on the CPU. kind: small, for exact sums; factor, for exact products; real; wide, for
    integers of many bits."""
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
    """The reduction of the ranks' inputs as the library has to give it, and the tolerance: None where it must be
    exact."""
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
            return self.say(label, False, f"{int(wrong.sum())} of {t.numel()} wrong; "
                                          f"[{i}] is {t.flatten()[i]}, wanted {want.flatten()[i]}")
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
        """One family on all ranks. An exception on every rank is that family's failure; on some, the others are
        stuck, and the run ends."""
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
            self.report[name] = {"passed": self.passed, "failed": self.failed + 1,
                                 "failures": self.failures + [f"the others did not come: {e}"]}
            self.finish(broken=True)
        entry = {"passed": sum(e[0] for e in everyone), "failed": sum(e[1] for e in everyone),
                 "seconds": round(seconds, 2),
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
            write_json(self.json, {"world": self.world, "torch": torch.__version__, "libraries": libraries(), **total,
                                   "families": self.report})

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
    """Whether this PyTorch lets reductions of float8 through to the library; if not, it raises before any rank calls
    it."""
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
