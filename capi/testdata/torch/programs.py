"""Families of collectives.py about streams, groups, graphs, workers and memory."""

import hashlib
import warnings

from suite import AVG, Buffer, FLOATS, LARGE, MAX, SUM, bits, name_of, reduced, values

import numpy
import torch
import torch.distributed as dist


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
    future = dist.all_reduce(b := torch.ones(1000, device="cuda"),
                             async_op=True).get_future().then(lambda f: f.value()[0] * 2)
    s.check("future", future.wait(), torch.full((1000,), 2.0 * s.world))
    s.check("future's tensor", b, torch.full((1000,), float(s.world)))


def streams(s):
    """One group from several streams, which race with each other by sleeping different times; the order of the calls
    is everyone's."""
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
        ops = [dist.P2POp(dist.isend, torch.full((3,), float(s.rank), device="cuda"), right, group),
               dist.P2POp(dist.irecv, got, left, group)]
        for w in dist.batch_isend_irecv(ops):
            w.wait()
        s.check(label + " ring", got, torch.full((3,), float(left)))


def groups(s):
    everyone = list(range(s.world))
    wanted = {"world": [everyone], "reversed": [everyone[::-1]], "single": [[r] for r in everyone],
              "even and odd": [everyone[::2], everyone[1::2]],
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
    # PyTorch 2.11 hangs, whatever the library, when the second of two disjoint groups makes its communicator at the
    # first use
    if s.bound:
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
    s.check("all_to_all_single", done(funcol.all_to_all_single(x, None, None, world)),
            torch.cat([i[mine] for i in inputs]))
    s.check("broadcast", done(funcol.broadcast(x, s.world - 1, world)), inputs[-1])


# With the rest of PyTorch.


def graphs(s):
    """Captures in every mode, replays with new inputs, calls outside of the graph between them."""
    n = 5003
    for mode in ("global", "thread_local", "relaxed"):
        x = torch.zeros(n * s.world, device="cuda")
        total, gathered = torch.zeros_like(x), torch.zeros(n * s.world, device="cuda")
        part, swapped = torch.zeros(n, device="cuda"), torch.zeros_like(x)
        bytes_in, bytes_out = torch.zeros(33, dtype=torch.uint8, device="cuda"), torch.zeros(33, dtype=torch.uint8,
                device="cuda")

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
                s.check(f"{mode}: broadcast in replay {i}", bytes_out,
                        torch.full((33,), i + s.world - 1, dtype=torch.uint8))
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
        loader = torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2, multiprocessing_context="fork",
                                             pin_memory=True,
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
    """Buffers that come and go at the same addresses: what is remembered about an address must not outlive its
    memory."""
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
