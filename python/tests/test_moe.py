"""Experts under DeepEP's names, on the host device with numpy: against a plain reference, bit for bit."""

import os
import signal

import numpy as np
import pytest

import goccl
import jobs
from goccl import errors
from goccl.moe import Buffer, Config

jobs.preload("goccl.moe")


def bf16(f):
    u = np.asarray(f, np.float32).view(np.uint32)
    return ((u + 0x7fff + ((u >> 16) & 1)) >> 16).astype(np.uint16)


def f32(b):
    return (np.asarray(b, np.uint16).astype(np.uint32) << 16).view(np.float32)


class Case:
    """What all ranks have; every rank draws the same."""

    def __init__(self, seed, ranks, hidden=256, k=4, local=4, most=20):
        r = np.random.default_rng(seed)
        self.ranks, self.hidden, self.k, self.local, self.experts = ranks, hidden, k, local, local * ranks
        self.tokens = [int(r.integers(0, most + 1)) for _ in range(ranks)]
        self.x = [bf16(r.standard_normal((n, hidden))) for n in self.tokens]
        self.idx = [np.stack([r.permutation(self.experts)[:k] for _ in range(n)]).astype(np.int64)
                    if n else np.empty((0, k), np.int64) for n in self.tokens]
        for i in self.idx:
            i[r.random(i.shape) < 0.2] = -1
        self.weights = [r.random((n, k), dtype=np.float32) for n in self.tokens]

    def inside(self, s):
        return np.stack([((self.idx[s] >= 0) & (self.idx[s] // self.local == p)).any(1) for p in range(self.ranks)], 1)

    def order(self, s, t):
        out = []
        for e in self.idx[s][t]:
            if e >= 0 and e // self.local not in out:
                out.append(int(e // self.local))
        return out


def _throughput(rank, n, uid):
    comm = jobs.communicator(rank, n, uid)
    buffer = Buffer(comm, 8 << 20)
    for seed in range(3):
        c = Case(seed, n)
        x, idx, weights, inside = c.x[rank], c.idx[rank], c.weights[rank], c.inside(rank)
        per_rank, rdma, per_expert, in_rank, event = buffer.get_dispatch_layout(idx, c.experts)
        assert rdma is None
        np.testing.assert_array_equal(per_rank, inside.sum(0))
        np.testing.assert_array_equal(per_expert, [(idx == e).any(1).sum() for e in range(c.experts)])
        np.testing.assert_array_equal(in_rank, inside)
        want = [(s, t) for s in range(n) for t in range(c.tokens[s]) if c.inside(s)[t, rank]]
        rows = np.array([c.x[s][t] for s, t in want], np.uint16).reshape(-1, c.hidden)
        for topk in (False, True):
            lists = {"topk_idx": idx, "topk_weights": weights} if topk else {}
            got, got_idx, got_weights, each, handle, event = buffer.dispatch(
                x, num_tokens_per_rank=per_rank, is_token_in_rank=in_rank, num_tokens_per_expert=per_expert,
                config=Config(16), expert_alignment=1, **lists)
            event.current_stream_wait()
            np.testing.assert_array_equal(got, rows)
            assert handle[0][n - 1, rank] == len(want)
            assert each == [sum(int((c.idx[s] == rank * c.local + e).any(1).sum()) for s in range(n))
                            for e in range(c.local)]
            np.testing.assert_array_equal(handle.recv_src_idx, [t for _, t in want])
            if topk:
                here = np.array([c.idx[s][t] for s, t in want]).reshape(-1, c.k)
                mine = (here >= 0) & (here // c.local == rank)
                np.testing.assert_array_equal(got_idx, np.where(mine, here % c.local, -1))
                w = np.array([c.weights[s][t] for s, t in want], np.float32).reshape(-1, c.k)
                np.testing.assert_array_equal(got_weights, np.where(mine, w, 0))
            again = buffer.dispatch(x, handle=handle)
            np.testing.assert_array_equal(again[0], rows)
            worst, worst_idx, _, empty, _, _ = buffer.dispatch(
                x, is_token_in_rank=in_rank, num_tokens_per_expert=per_expert, num_worst_tokens=sum(c.tokens), **lists)
            assert empty == [] and len(worst) == sum(c.tokens)
            np.testing.assert_array_equal(worst[:len(want)], rows)
            assert not topk or (worst_idx[len(want):] == -1).all()
            result = bf16(f32(rows) * np.float32(rank + 0.5))
            sums, sum_weights, event = buffer.combine(result, handle, topk_weights=got_weights if topk else None)
            for t in range(c.tokens[rank]):
                total = np.zeros(c.hidden, np.float32)
                for p in c.order(rank, t) if topk else [p for p in range(n) if inside[t, p]]:
                    total += f32(bf16(f32(x[t]) * np.float32(p + 0.5)))
                np.testing.assert_array_equal(sums[t], bf16(total))
            if topk:
                np.testing.assert_array_equal(sum_weights, np.where(idx >= 0, weights, 0))
            zero, _, _, _, kept, _ = buffer.dispatch(x, is_token_in_rank=in_rank, num_tokens_per_expert=per_expert,
                                                     zero_copy=True, **lists)
            np.testing.assert_array_equal(zero, rows)
            place = buffer.get_combine_buffer(kept)
            place[:] = result
            np.testing.assert_array_equal(buffer.combine(place, kept)[0], sums)
            np.testing.assert_array_equal(buffer.dispatch(x, handle=kept)[0], rows)
            for wrong in (result,) if len(rows) else ():
                with pytest.raises(errors.InvalidArgument, match="HandleOffsets.Results"):
                    buffer.combine(wrong, kept)
            with pytest.raises(errors.InvalidArgument, match="zero_copy"):
                buffer.get_combine_buffer(handle)
    buffer.destroy()


@pytest.mark.parametrize("n", [1, 3])
def test_throughput(n):
    jobs.run(n, _throughput)


def _latency(rank, n, uid):
    comm = jobs.communicator(rank, n, uid)
    size = Buffer.get_low_latency_rdma_size_hint(32, 256, n, 4 * n)
    buffer = Buffer(comm, num_rdma_bytes=size, low_latency_mode=True)
    stats = np.zeros(4, np.int32)
    for seed in range(3):
        c = Case(seed + 10, n)
        x, idx, weights = c.x[rank], c.idx[rank], c.weights[rank]
        for eight in (False, True):
            got, count, handle, event, hook = buffer.low_latency_dispatch(
                x, idx, 32, c.experts, cumulative_local_expert_recv_stats=stats, use_fp8=eight, return_recv_hook=True)
            hook()
            for e in range(c.local):
                want = [(s, t) for s in range(n) for t in range(c.tokens[s])
                        if (c.idx[s][t] == rank * c.local + e).any()]
                assert count[e] == len(want)
                np.testing.assert_array_equal(handle[0][e][:len(want)], [t for _, t in want])
                for s in range(n):
                    begin, some = int(handle[1][e][s]) >> 32, int(handle[1][e][s]) & 0xffffffff
                    assert [s] * some == [p for p, _ in want][begin:begin + some]
                for i, (s, t) in enumerate(want):
                    if not eight:
                        np.testing.assert_array_equal(got[e, i], c.x[s][t])
                        continue
                    v = f32(c.x[s][t]).reshape(-1, 128)
                    most = np.maximum(np.abs(v).max(1), np.float32(1e-4))
                    np.testing.assert_array_equal(got[1][e, i], most / np.float32(448))
                    assert (got[0][e, i].reshape(-1, 128).max(1) & 0x7f).min() > 0
        y = buffer.get_next_low_latency_combine_buffer(handle)
        y[:] = 0x7fc0
        for e in range(c.local):
            for i in range(count[e]):
                y[e, i] = (handle[0][e][i] * 7 + rank * c.local + e + np.arange(c.hidden)) % 100 + 0x3f80
        sums, event, hook = buffer.low_latency_combine(y, idx, weights, handle)
        hook()
        for t in range(c.tokens[rank]):
            total = np.zeros(c.hidden, np.float32)
            for p in c.order(rank, t):
                part = np.zeros(c.hidden, np.float32)
                for e, w in zip(idx[t], weights[t]):
                    if e >= 0 and e // c.local == p:
                        part += w * f32((t * 7 + e + np.arange(c.hidden)) % 100 + 0x3f80)
                total += f32(bf16(part))
            np.testing.assert_array_equal(sums[t], bf16(total))
    assert stats.sum() > 0
    wide = Case(77, n, hidden=512)
    (_, floats), count, _, _, _ = buffer.low_latency_dispatch(wide.x[rank], wide.idx[rank], 32, wide.experts,
                                                             round_scale=True)
    (_, bytes_), _, _, _, _ = buffer.low_latency_dispatch(wide.x[rank], wide.idx[rank], 32, wide.experts,
                                                          round_scale=True, use_ue8m0=True)
    assert bytes_.shape == (4, 32 * n, 1)
    for e in range(4):
        packed = bytes_[e, :count[e]].view(np.uint8).reshape(-1, 4)
        np.testing.assert_array_equal(np.ldexp(np.float32(1), packed.astype(np.int32) - 127), floats[e, :count[e]])
    with pytest.raises(errors.InvalidArgument, match="num_max_dispatch_tokens_per_rank is 1"):
        buffer.low_latency_dispatch(np.zeros((2, 256), np.uint16), np.zeros((2, 4), np.int64), 1, 4 * n)
    with pytest.raises(errors.InvalidArgument, match="x has the shape"):
        buffer.combine(np.zeros((1, 8), np.uint16), buffer.dispatch(
            np.zeros((0, 256), np.uint16), is_token_in_rank=np.zeros((0, n), bool))[4])
    buffer.destroy()


@pytest.mark.parametrize("n", [2])
def test_latency(n):
    jobs.run(n, _latency)


def _masked(rank, n, uid):
    comm = jobs.communicator(rank, n, uid)
    size = Buffer.get_low_latency_rdma_size_hint(32, 256, n, 4 * n)
    buffer = Buffer(comm, num_rdma_bytes=size, low_latency_mode=True, enable_shrink=True)
    buffer.check()
    c = Case(3, n)
    experts, dead = c.experts, n - 1
    buffer.low_latency_dispatch(c.x[rank], c.idx[rank], 32, experts, use_fp8=False)
    if rank == dead:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(errors.GocclError):
        while True:
            buffer.low_latency_dispatch(c.x[rank], c.idx[rank], 32, experts, use_fp8=False)
    with pytest.raises(errors.GocclError, match=f"rank {dead}"):
        buffer.check()
    for bad in ({rank}, range(n), {n}):
        with pytest.raises(errors.InvalidArgument):
            buffer.set_mask(bad)
    replicas = [e if e < 4 * dead else (e - 4 * dead if e % 2 else -1) for e in range(experts)]
    buffer.set_mask({dead}, replicas)
    buffer.check()
    table = np.array([*replicas, -1])
    x, served = c.x[rank], [table[i] for i in c.idx]
    got, count, handle, _, _ = buffer.low_latency_dispatch(x, c.idx[rank], 32, experts, use_fp8=False)
    y = buffer.get_next_low_latency_combine_buffer(handle)
    y[:] = 0x7fc0
    for e in range(c.local):
        want = [(s, t) for s in range(dead) for t in range(c.tokens[s]) if (served[s][t] == rank * c.local + e).any()]
        assert count[e] == len(want) and handle[1][e][dead] & 0xffffffff == 0
        for i, (s, t) in enumerate(want):
            np.testing.assert_array_equal(got[e, i], c.x[s][t])
            y[e, i] = bf16(f32(c.x[s][t]) * np.float32(rank * c.local + e + 0.5))
    sums, _, _ = buffer.low_latency_combine(y, c.idx[rank], c.weights[rank], handle)
    for t in range(c.tokens[rank]):
        total, seen = np.zeros(c.hidden, np.float32), []
        for p in [int(e) // c.local for e in served[rank][t] if e >= 0]:
            if p in seen:
                continue
            seen.append(p)
            part = np.zeros(c.hidden, np.float32)
            for e, w in zip(served[rank][t], c.weights[rank][t]):
                if e >= 0 and e // c.local == p:
                    part += w * f32(bf16(f32(x[t]) * np.float32(e + 0.5)))
            total += f32(bf16(part))
        np.testing.assert_array_equal(sums[t], bf16(total))
    buffer.destroy()


def test_masked():
    jobs.run(3, _masked, victim=2)


def test_exports():
    assert goccl.moe.Buffer is Buffer
