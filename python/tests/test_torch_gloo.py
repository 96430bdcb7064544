"""The torch.distributed backend beside gloo, on CPU tensors: the same calls on both, the same results."""

import os
import subprocess

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from torch.distributed import ReduceOp  # noqa: E402

import jobs  # noqa: E402

jobs.preload("torch", "torch.distributed")


def _init(rank, n, uid):
    import goccl.torch

    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=uid.rpartition(":")[2], RANK=str(rank), WORLD_SIZE=str(n))
    goccl.torch.init()
    return dist.new_group(backend="gloo")


# Each takes (group, rank, n, asynchronous) and returns what the ranks are to agree on: Work objects are waited for
# inside.

def _wait(work):
    if work is not None:
        work.wait()


def _tensor(rank, shape=(5, 3), dtype=torch.float32, seed=0):
    g = torch.Generator().manual_seed(100 * seed + rank)
    return (torch.rand(shape, generator=g) * 8).to(dtype)


def _all_reduce(op, dtype):
    def run(group, rank, n, a):
        t = _tensor(rank, dtype=dtype) + 1
        _wait(dist.all_reduce(t, op=op, group=group, async_op=a))
        return t
    return run


def _reduce(group, rank, n, a):
    t = _tensor(rank)
    _wait(dist.reduce(t, dst=1, group=group, async_op=a))
    return t if rank == 1 else torch.zeros(1)


def _broadcast(group, rank, n, a):
    t = _tensor(rank, dtype=torch.uint8)
    _wait(dist.broadcast(t, src=n - 1, group=group, async_op=a))
    return t


def _all_gather(group, rank, n, a):
    out = [torch.empty(4, 2).t() for _ in range(n)]
    _wait(dist.all_gather(out, _tensor(rank, (2, 4)), group=group, async_op=a))
    return torch.stack([o.contiguous() for o in out])


def _all_gather_into_tensor(group, rank, n, a):
    out = torch.empty(n * 5, 3)
    _wait(dist.all_gather_into_tensor(out, _tensor(rank), group=group, async_op=a))
    return out


def _reduce_scatter(group, rank, n, a):
    out = torch.empty(5, 3)
    _wait(dist.reduce_scatter(out, [_tensor(rank, seed=p) for p in range(n)], group=group, async_op=a))
    return out


def _reduce_scatter_tensor(group, rank, n, a):
    out = torch.empty(5, 3)
    _wait(dist.reduce_scatter_tensor(out, _tensor(rank, (5 * n, 3)), group=group, async_op=a))
    return out


def _gather(group, rank, n, a):
    out = [torch.empty(5, 3) for _ in range(n)] if rank == 0 else None
    _wait(dist.gather(_tensor(rank), out, dst=0, group=group, async_op=a))
    return torch.stack(out) if out else torch.zeros(1)


def _scatter(group, rank, n, a):
    out = torch.empty(5, 3)
    _wait(dist.scatter(out, [_tensor(p) for p in range(n)] if rank == 0 else None, src=0, group=group, async_op=a))
    return out


def _all_to_all_single(group, rank, n, a):
    out = torch.empty(2 * n, 3)
    _wait(dist.all_to_all_single(out, _tensor(rank, (2 * n, 3)), group=group, async_op=a))
    return out


def _all_to_all_single_uneven(group, rank, n, a):
    send, recv = [(rank + p) % 3 for p in range(n)], [(p + rank) % 3 for p in range(n)]
    out = torch.empty(sum(recv), 2)
    _wait(dist.all_to_all_single(out, _tensor(rank, (sum(send), 2)), recv, send, group=group, async_op=a))
    return out


def _point_to_point(group, rank, n, a):
    out = torch.empty(1000, 3)
    t = _tensor(rank, (1000, 3))
    right, left = (rank + 1) % n, (rank - 1) % n
    if a:
        works = [dist.isend(t, right, group=group), dist.irecv(out, left, group=group)]
        for w in works:
            w.wait()
    elif rank % 2 == 0:
        dist.send(t, right, group=group)
        dist.recv(out, left, group=group)
    else:
        dist.recv(out, left, group=group)
        dist.send(t, right, group=group)
    return out


def _batched(group, rank, n, a):
    out = torch.empty(7)
    ops = [dist.P2POp(dist.irecv, out, (rank - 1) % n, group),
           dist.P2POp(dist.isend, _tensor(rank, (7,)), (rank + 1) % n, group)]
    for w in dist.batch_isend_irecv(ops):
        w.wait()
    return out


def _objects(group, rank, n, a):
    got = [None] * n
    dist.all_gather_object(got, {"rank": rank, "text": "x" * rank}, group=group)
    box = [got if rank == 0 else None]
    dist.broadcast_object_list(box, src=0, group=group)
    mine = [None]
    dist.scatter_object_list(mine, box[0] if rank == 0 else None, src=0, group=group)
    back = [None] * n if rank == 0 else None
    dist.gather_object(mine[0], back, dst=0, group=group)
    return torch.tensor([g["rank"] for g in got] + [len(mine[0]["text"])] + ([g["rank"] for g in back] if back else []))


def _many_at_once(group, rank, n, a):
    tensors = [_tensor(rank, (50,), seed=k) for k in range(20)]
    works = [dist.all_reduce(t, group=group, async_op=True) for t in tensors]
    for w in reversed(works):
        w.wait()
    return torch.stack(tensors)


def _functional(group, rank, n, a):
    import torch.distributed._functional_collectives as functional

    t = _tensor(rank, (2 * n, 3))
    return torch.cat([functional.all_reduce(t, "sum", group), functional.all_gather_tensor(t, 0, group),
                      functional.reduce_scatter_tensor(t, "sum", 0, group),
                      functional.all_to_all_single(t, None, None, group)])


_CASES = {
    **{f"all_reduce-{str(op).rpartition('.')[2]}-{dtype}": _all_reduce(op, dtype)
       for op, dtype in [(ReduceOp.SUM, torch.float32), (ReduceOp.SUM, torch.bfloat16), (ReduceOp.SUM, torch.int64),
                         (ReduceOp.PRODUCT, torch.float64), (ReduceOp.MAX, torch.float16), (ReduceOp.MIN, torch.int32),
                         (ReduceOp.BAND, torch.int32), (ReduceOp.BOR, torch.uint8), (ReduceOp.BXOR, torch.int64)]},
    **{f.__name__[1:]: f for f in (_reduce, _broadcast, _all_gather, _all_gather_into_tensor, _reduce_scatter,
                                   _reduce_scatter_tensor, _gather, _scatter, _all_to_all_single,
                                   _all_to_all_single_uneven, _point_to_point, _batched, _objects, _many_at_once,
                                   _functional)},
}


def _compare(rank, n, uid):
    gloo = _init(rank, n, uid)
    wrong = []
    for name, case in _CASES.items():
        for a in (False, True):
            ours, theirs = case(dist.group.WORLD, rank, n, a), case(gloo, rank, n, a)
            tolerance = {torch.bfloat16: 2e-2, torch.float16: 2e-3}.get(ours.dtype, 1e-6)
            if ours.shape != theirs.shape or not torch.allclose(ours.double(), theirs.double(), rtol=tolerance,
                                                                atol=tolerance):
                wrong.append((name, a, ours, theirs))
    assert not wrong, wrong
    dist.destroy_process_group()


@pytest.mark.parametrize("n", [2, 3])
def test_every_collective_equals_gloo(n):
    jobs.run(n, _compare, timeout=120)


class Transformer(torch.nn.Module):
    """Two layers, big enough to have buckets and shards of unequal sizes."""

    def __init__(self, words=31, width=16):
        super().__init__()
        self.embed = torch.nn.Embedding(words, width)
        layer = torch.nn.TransformerEncoderLayer(width, 2, 4 * width, dropout=0.0, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(width, words)

    def forward(self, x):
        return self.head(self.layers(self.embed(x)))


def _losses(wrap, rank, n, steps=6):
    torch.manual_seed(7)
    model = wrap(Transformer())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    out = []
    for k in range(steps):
        x = torch.randint(0, 31, (4 * n, 9), generator=torch.Generator().manual_seed(k))[rank * 4:(rank + 1) * 4]
        loss = torch.nn.functional.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        out.append(loss.item())
    return torch.tensor(out)


def _train(rank, n, uid, kind):
    gloo = _init(rank, n, uid)
    if kind == "ddp":
        from torch.nn.parallel import DistributedDataParallel

        def wrap(group):
            return lambda m: DistributedDataParallel(m, process_group=group, bucket_cap_mb=0.01)
    else:
        from torch.distributed.device_mesh import DeviceMesh
        from torch.distributed.fsdp import fully_shard

        def wrap(group):
            mesh = DeviceMesh.from_group(group, "cpu")

            def shard(m):
                for layer in m.layers.layers:
                    fully_shard(layer, mesh=mesh)
                return fully_shard(m, mesh=mesh)
            return shard
    ours, theirs = _losses(wrap(dist.group.WORLD), rank, n), _losses(wrap(gloo), rank, n)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    assert ours[-1] < ours[0] - 0.05, ours  # it learns
    dist.destroy_process_group()


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_a_transformer_trains_as_with_gloo(kind):
    jobs.run(2, _train, kind, timeout=120)


def _again(rank, n, uid):
    import goccl.torch

    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", int(uid.rpartition(":")[2]), n, rank == 0)
    for k in range(5):
        dist.init_process_group("goccl", store=dist.PrefixStore(str(k), store), rank=rank, world_size=n)
        t = torch.ones(3) * k
        dist.all_reduce(t)
        assert (t == n * k).all()
        halves = dist.new_group([0, 1])
        if rank < 2:
            dist.all_reduce(t, group=halves)
            dist.destroy_process_group(halves)
        dist.destroy_process_group()
    before = len(os.listdir("/proc/self/fd"))
    for k in range(5, 15):
        dist.init_process_group("goccl", store=dist.PrefixStore(str(k), store), rank=rank, world_size=n)
        dist.all_reduce(torch.ones(3))
        dist.destroy_process_group()
    assert len(os.listdir("/proc/self/fd")) <= before + 2


def test_destroyed_and_made_again():
    jobs.run(3, _again, timeout=120)


class _Data(torch.utils.data.Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, i):
        return torch.full((3,), float(i)), os.getpid()


def _loader(rank, n, uid):
    _init(rank, n, uid)
    dist.all_reduce(torch.ones(1))  # goccl's threads run when the workers are forked
    sampler = torch.utils.data.DistributedSampler(_Data(), n, rank, shuffle=False)
    loader = torch.utils.data.DataLoader(_Data(), 2, sampler=sampler, num_workers=2, multiprocessing_context="fork")
    for _ in range(2):
        total, workers = torch.zeros(3), set()
        for batch, pids in loader:
            total += batch.sum(0)
            workers |= set(pids.tolist())
        dist.all_reduce(total)
        assert (total == sum(range(12))).all() and os.getpid() not in workers
    dist.destroy_process_group()


def test_workers_that_are_forked():
    jobs.run(2, _loader, timeout=120)


def _compiled(rank, n, uid):
    gloo = _init(rank, n, uid)
    import torch.distributed._functional_collectives as functional

    def step(group):
        def f(x):
            y = functional.all_reduce(x * 2, "sum", group)
            z = functional.all_gather_tensor(y + 1, 0, group)
            return functional.reduce_scatter_tensor(z, "sum", 0, group) - x
        return f

    x = _tensor(rank, (4, 3))
    compiled = torch.compile(step(dist.group.WORLD), backend="aot_eager", fullgraph=True)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), step(gloo)(x))
    dist.destroy_process_group()


def test_functional_collectives_compile_without_graph_breaks():
    jobs.run(2, _compiled, timeout=120)


SCRIPT = """
import os, sys, torch, torch.distributed as dist
if %r == "init":
    import goccl.torch
    goccl.torch.init()
else:
    dist.init_process_group("goccl")
t = torch.ones(10) * (dist.get_rank() + 1)
dist.all_reduce(t)
n = dist.get_world_size()
assert (t == n * (n + 1) / 2).all() and dist.get_backend() == "goccl"
print("OK", flush=True)
dist.destroy_process_group()
"""


@pytest.mark.parametrize("n", [2, 4])
def test_torchrun(n, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT % "init")
    p = subprocess.run([jobs.PYTHON, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={n}",
                        str(script)], capture_output=True, text=True,
                       timeout=120, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert p.returncode == 0 and p.stdout.count("OK") == n, p.stdout + p.stderr


def test_run_puts_libnccl_in_front(tmp_path):
    """python -m goccl.torch run: the program finds goccl's libnccl.so.2 loaded, under the name that torch's own would
    have."""
    script = tmp_path / "script.py"
    script.write_text("import sys, ctypes\nn = ctypes.CDLL('libnccl.so.2')\nv = "
                      "ctypes.c_int()\nn.ncclGetVersion(ctypes.byref(v))\nprint(v.value, sum('libnccl' in l and "
                      "'/build/' in l for l in open('/proc/self/maps')) > 0, sys.argv[1:])\n")
    p = subprocess.run([jobs.PYTHON, "-m", "goccl.torch", "run", str(script), "a", "-b"], capture_output=True,
                       text=True, timeout=120)
    assert p.returncode == 0 and p.stdout.split(None, 2)[1:] == ["True", "['a', '-b']\n"], p.stdout + p.stderr
