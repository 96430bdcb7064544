"""Families of collectives.py that move data."""

import time
import warnings

from suite import Buffer, DTYPES, LARGE, SUM, kind_for, moves, name_of, reduced, same_bits, values

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _coalescing_manager


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
        n, root = min(n, LARGE // 4), salt % s.world
        label = f"{name_of(dtype)} n={n} root {root}"
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
            counts = [[0 if (r + 1) % s.world == p and s.world > 2 else unit * (1 + (r * 3 + p) % 4)
                       for p in range(s.world)] for r in range(s.world)]
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
        s.check(f"{rows} rows", out, torch.arange(s.world).float().repeat_interleave(rows)[:, None].expand(-1,
                7).contiguous())


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
            same_bits(s, f"mesh unit={unit} from {p}", b,
                      values(torch.float32, unit * ((s.rank + p) % 3), unit, p * 16 + s.rank))
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
        dist.scatter_object_list(got, [f"for {r}" * (r + 1) for r in range(s.world)] if s.rank == root else None,
                                 src=root)
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
