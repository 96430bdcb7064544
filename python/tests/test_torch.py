"""The torch.distributed backend on CPU tensors."""

import os
import signal
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

import goccl  # noqa: E402
import jobs  # noqa: E402

jobs.preload("torch", "torch.distributed")


def _init(rank, n, uid):
    import goccl.torch

    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=uid.rpartition(":")[2], RANK=str(rank), WORLD_SIZE=str(n))
    assert goccl.torch.init() == rank


def _several():
    return dist.distributed_c10d._get_default_group()


def _lists(rank, n, uid):
    _init(rank, n, uid)
    g, t = _several(), torch.full((4,), float(rank))

    def of(k, size=4, dtype=torch.float32):
        return [torch.empty(size, dtype=dtype) for _ in range(k)]

    def wrongly(name, *args):
        with pytest.raises(ValueError, match="tensors for|elements|float64|lists|split sizes|one for one|one type"):
            getattr(g, name)(*args)

    for k in (n - 1, n + 1):
        wrongly("allgather", [of(k)], [t])
        wrongly("reduce_scatter", [t.clone()], [of(k)])
        wrongly("alltoall", of(k), of(n))
        wrongly("alltoall", of(n), of(k))
        wrongly("allgather_coalesced", [of(1) for _ in range(k)], [t])
        wrongly("allgather_into_tensor_coalesced", [torch.empty(4 * n)] * k, [t] * n)
        wrongly("reduce_scatter_tensor_coalesced", [t] * k, [torch.empty(4 * n)] * n)
        wrongly("_allgather_base", torch.empty(4 * k), t)
        wrongly("_reduce_scatter_base", t.clone(), torch.empty(4 * k))
        wrongly("alltoall_base", torch.empty(n), torch.empty(n), [1] * k, [1] * n)
        wrongly("alltoall_base", torch.empty(n), torch.empty(n), [1] * n, [1] * k)
        if rank == 0:  # the root's lists
            wrongly("gather", [of(k)], [t])
            wrongly("gather_single", torch.empty(4 * k), t)
            wrongly("scatter", [t.clone()], [of(k)])
    wrongly("allgather", [of(n), of(n)], [t])
    wrongly("allgather", [of(n, dtype=torch.float64)], [t])
    wrongly("allgather", [[*of(rank), torch.empty(5), *of(n - rank - 1)]], [t])
    wrongly("allgather_coalesced", [of(2) for _ in range(n)], [t])
    wrongly("_allgather_base", torch.empty(4 * n, dtype=torch.float64), t)
    with pytest.raises(TypeError, match="input tensor must be the same type"):  # as from NCCL's group
        g._reduce_scatter_base(t.clone(), torch.empty(4 * n, dtype=torch.float64))
    wrongly("reduce_scatter", [t.clone()], [[*of(rank), torch.empty(1), *of(n - rank - 1)]])
    wrongly("alltoall", of(n), of(n, dtype=torch.float64))
    with pytest.raises((ValueError, NotImplementedError)):  # PyTorch 2.15 itself refuses no tensors
        g.alltoall([], [])
    wrongly("alltoall_base", torch.empty(n, dtype=torch.float64), torch.empty(n), [], [])
    wrongly("alltoall_base", torch.empty(n), torch.empty(n), [1] * n, [2, 0] + [1] * (n - 1))
    if rank == 0:
        wrongly("gather", [], [t])
        wrongly("gather", [of(n, 5)], [t])
        wrongly("scatter", [t.clone()], [of(n, 5)])
        wrongly("scatter", [t.clone()], [])
    # Nothing of it has reached the communicator.
    x = torch.ones(3)
    dist.all_reduce(x)
    assert (x == n).all()
    dist.destroy_process_group()


def test_lists_of_another_length_or_type_are_refused():
    jobs.run(3, _lists)


def _scaled(rank, n, uid):
    _init(rank, n, uid)
    make = getattr(dist, "_make_nccl_premul_sum", None)
    if make is None:
        pytest.skip("this torch has no PREMUL_SUM")
    total = sum(r + 1.0 for r in range(n))
    for factor in (0.5, torch.tensor([0.5])):
        for dtype in (torch.float32, torch.bfloat16, torch.float64):
            x = torch.full((5,), rank + 1.0, dtype=dtype)
            dist.all_reduce(x, op=make(factor))
            assert (x == total / 2).all()
        x = torch.full((5,), rank + 1.0)
        dist.reduce(x, 1, op=make(factor))
        assert rank != 1 or (x == total / 2).all()
        o = torch.empty(2)
        dist.reduce_scatter_tensor(o, torch.full((2 * n,), rank + 1.0), op=make(factor))
        assert (o == total / 2).all()
        o = torch.empty(rank + 1)
        dist.reduce_scatter(o, [torch.full((p + 1,), rank + 1.0) for p in range(n)], op=make(factor))
        assert (o == total / 2).all()
    dist.destroy_process_group()


def test_premul_sum():
    jobs.run(2, _scaled)


def _collectives(rank, n, uid):
    _init(rank, n, uid)
    t = torch.full((1000,), rank + 1.0)
    dist.all_reduce(t)
    assert (t == n * (n + 1) / 2).all()
    for dtype in (torch.int16, torch.complex64, torch.bfloat16, torch.float64, torch.uint8):
        x = torch.ones(7, dtype=dtype)
        dist.all_reduce(x)
        assert (x == n).all()
    x = torch.tensor([rank == 1, False])
    dist.all_reduce(x)
    assert x.tolist() == [True, False]
    x = torch.tensor([1 << rank])
    dist.all_reduce(x, op=dist.ReduceOp.BOR)
    assert x.item() == (1 << n) - 1
    x = torch.arange(12.0).view(3, 4).t()
    dist.all_reduce(x)
    assert torch.equal(x, n * torch.arange(12.0).view(3, 4).t())
    w = dist.all_reduce(t, op=dist.ReduceOp.MAX, async_op=True)
    f = w.get_future()
    assert f.wait() is not None and w.is_completed() and w.wait()
    outs = [torch.empty(3) for _ in range(n)]
    dist.all_gather(outs, torch.full((3,), float(rank)))
    assert all((o == r).all() for r, o in enumerate(outs))
    o = torch.empty(3 * n)
    dist.all_gather_into_tensor(o, torch.full((3,), float(rank)))
    assert torch.equal(o, torch.arange(n).repeat_interleave(3).float())
    o = torch.empty(3)
    dist.reduce_scatter_tensor(o, torch.arange(3.0 * n))
    assert torch.equal(o, n * torch.arange(3.0 * n)[3 * rank:3 * rank + 3])
    parts = [torch.ones(p + 1) * p for p in range(n)]
    o = torch.empty(rank + 1)
    dist.reduce_scatter(o, parts)
    assert (o == n * rank).all()
    objs = [None] * n
    dist.all_gather_object(objs, {"rank": rank, "text": "x" * rank})
    assert [q["rank"] for q in objs] == list(range(n))
    box = [{"a": 1}] if rank == 0 else [None]
    dist.broadcast_object_list(box)
    assert box[0] == {"a": 1}
    send, recv = [(rank + p) % 3 for p in range(n)], [(p + rank) % 3 for p in range(n)]
    i, o = torch.full((sum(send), 2), float(rank)), torch.empty(sum(recv), 2)
    dist.all_to_all_single(o, i, recv, send)
    assert torch.equal(o[:, 0], torch.arange(n).repeat_interleave(torch.tensor(recv)).float())
    outs = [torch.empty(2) for _ in range(n)]
    dist.all_to_all(outs, [torch.full((2,), rank * 10.0 + p) for p in range(n)])
    assert all((q == p * 10 + rank).all() for p, q in enumerate(outs))
    # Several tensors at once, staged ones too: each must end with the one Work.
    ins = [torch.full((5 + k,), 10.0 * rank + k) for k in range(3)]
    outs = [[torch.empty(5 + k) for k in range(3)] for _ in range(n)]
    _several().allgather_coalesced(outs, ins).wait()
    assert all(torch.equal(o, torch.full((5 + k,), 10.0 * r + k)) for r, of in enumerate(outs) for k,
               o in enumerate(of))
    ts = [torch.full((4, 6), float(rank + k)).t() for k in range(3)]
    w = _several().allreduce_coalesced(ts)
    assert w.get_future().wait() is not None and w.is_completed()
    assert all((t == sum(r + k for r in range(n))).all() for k, t in enumerate(ts))
    outs = [torch.empty(2, 4 * n).t() for _ in range(3)]
    _several().allgather_into_tensor_coalesced(outs, [torch.full((4, 2), rank + 10.0 * k) for k in range(3)]).wait()
    assert all(torch.equal(o[:, 0], torch.arange(n).repeat_interleave(4) + 10.0 * k) for k, o in enumerate(outs))
    outs = [torch.empty(2, 4).t() for _ in range(3)]
    _several().reduce_scatter_tensor_coalesced(outs, [torch.full((4 * n, 2), rank + 10.0 * k) for k in range(3)]).wait()
    assert all((o == sum(r + 10.0 * k for r in range(n))).all() for k, o in enumerate(outs))
    with pytest.raises((ValueError, NotImplementedError), match="no tensor"):
        _several().allreduce_coalesced([])
    right, left = (rank + 1) % n, (rank - 1) % n
    a, c = torch.full((1 << 18,), float(rank)), torch.empty(1 << 18)
    for w in dist.batch_isend_irecv([dist.P2POp(dist.isend, a, right), dist.P2POp(dist.irecv, c, left)]):
        w.wait()
    assert (c == left).all()
    if rank == 0:
        dist.send(a, 1)
    elif rank == 1:
        dist.recv(c, 0)
        assert (c == 0).all()
    o = torch.empty(2)
    dist.scatter(o, [torch.full((2,), float(p)) for p in range(n)] if rank == 0 else None)
    assert (o == rank).all()
    g = [torch.empty(2) for _ in range(n)] if rank == 1 else None
    dist.gather(o, g, dst=1)
    assert rank != 1 or all((q == p).all() for p, q in enumerate(g))
    o = torch.ones(3)
    dist.reduce(o, dst=0)
    assert rank or (o == n).all()
    sub = dist.new_group([0, 1])
    if rank < 2:
        z = torch.ones(1)
        dist.all_reduce(z, group=sub)
        assert z.item() == 2
    import torch.distributed._functional_collectives as functional

    assert (functional.all_reduce(torch.ones(3), "sum", dist.group.WORLD) == n).all()
    dist.barrier()
    dist.destroy_process_group()


def test_collectives():
    jobs.run(3, _collectives, timeout=100)


def _training(rank, n, uid):
    _init(rank, n, uid)
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(10, 20), torch.nn.ReLU(),
                                                        torch.nn.Linear(20, 1)))
    alone = torch.nn.Sequential(torch.nn.Linear(10, 20), torch.nn.ReLU(), torch.nn.Linear(20, 1))
    alone.load_state_dict(model.module.state_dict())
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, alone)]
    for k in range(5):
        x = torch.randn(n * 8, 10, generator=torch.Generator().manual_seed(k))
        for m, part, optimizer in ((model, x[rank * 8:(rank + 1) * 8], optimizers[0]), (alone, x, optimizers[1])):
            loss = ((m(part) - part.sum(1, keepdim=True)) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    for p, q in zip(model.parameters(), alone.parameters()):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)  # as if one process had seen all the data
    dist.destroy_process_group()


def test_ddp_equals_training_alone():
    jobs.run(2, _training, timeout=100)


def test_capsules():
    raw = goccl.RawGpuBuffer(1 << 12)
    t = torch.utils.dlpack.from_dlpack(raw.to_dlpack(data_type=str(torch.float16)))
    assert t.dtype == torch.float16 and t.numel() == 2048
    t.fill_(2)
    del raw
    assert (t == 2).all()
    assert goccl.utils.torch_dtype_to_mscclpp_dtype(torch.bfloat16) is goccl.DataType.bfloat16


def _late(rank, n, uid):
    _init(rank, n, uid)
    store = dist.distributed_c10d._get_default_store()
    t = torch.ones(3)
    dist.all_reduce(t)
    if rank == 0:
        w = dist.all_reduce(t, async_op=True)
        with pytest.raises(goccl.Timeout, match="goes on"):
            w.wait(timedelta(seconds=0.2))
        store.set("late", "1")
        assert w.wait(timedelta(seconds=60))
    else:
        store.get("late")
        dist.all_reduce(t)
    assert (t == n * n).all()
    dist.destroy_process_group()


def test_wait_ends_by_its_timeout_and_the_work_goes_on():
    jobs.run(2, _late)


def _beside(rank, n, uid):
    _init(rank, n, uid)
    store = dist.distributed_c10d._get_default_store()
    x, y = torch.ones(3), torch.ones(3)
    if rank == 0:
        first, second = (dist.all_reduce(t, async_op=True) for t in (x, y))
        assert first.wait(timedelta(seconds=60)) and first.is_completed() and not second.is_completed()
        store.set("first", "1")
        second.wait()
    else:
        dist.all_reduce(x)
        store.get("first")
        dist.all_reduce(y)
    assert (x == n).all() and (y == n).all()
    # What nobody waits for is there when later work is, and when the group is gone.
    t = torch.ones(2, 3).t()
    dist.all_reduce(t, async_op=True)
    dist.barrier()
    assert (t == n).all()
    other = dist.new_group()
    works = [dist.all_reduce(t, group=other, async_op=True) for t in (t, x)]
    dist.destroy_process_group(other)
    assert (t == n * n).all() and all(w.wait() and w.is_success() for w in works)
    dist.destroy_process_group()


def test_a_wait_for_one_work_does_not_wait_for_later_ones():
    jobs.run(2, _beside)


def _grad(rank, n, uid):
    _init(rank, n, uid)
    p = torch.nn.Parameter(torch.full((2, 3, 4, 4), float(rank)).to(memory_format=torch.channels_last))
    dist.broadcast(p, 0)
    assert (p == 0).all()
    outs, o = [torch.empty(r + 1) for r in range(n)], torch.empty(rank + 1)
    dist.all_gather(outs, torch.ones(rank + 1, requires_grad=True) * 2)
    dist.reduce_scatter(o, [torch.ones(r + 1, requires_grad=True) * 2 for r in range(n)])
    assert all((t == 2).all() for t in outs) and (o == 2 * n).all() and not any(t.requires_grad for t in [*outs, o])
    dist.destroy_process_group()


def test_autograd_does_not_see_what_is_staged():
    jobs.run(2, _grad)


def _scattered(rank, n, uid):
    _init(rank, n, uid)
    for dtype in (torch.bool, torch.int16, torch.uint16, torch.complex64):
        for extra in (0, 1):  # of rank p, p times
            size = 4 + extra * rank
            for o in (torch.ones(size, dtype=dtype), torch.ones(2 * size, dtype=dtype)[::2]):
                dist.reduce_scatter(o, [torch.arange(4 + extra * p).to(dtype) for p in range(n)])
                assert torch.equal(o, (torch.arange(size) * n).to(dtype)), (dtype, o)
                assert dtype != torch.bool or o.contiguous().view(torch.uint8).max() == 1
    o = torch.empty(4) if rank else torch.empty(2, 2)  # one operation on all ranks
    dist.reduce_scatter(o, [torch.ones(4)] * n)
    assert (o == n).all()
    dist.destroy_process_group()


def test_reduce_scatter_of_every_type():
    jobs.run(2, _scattered)


def _death(rank, n, uid, victim):
    _init(rank, n, uid)
    t = torch.ones(1000)
    dist.all_reduce(t)
    if rank == victim:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(goccl.PeerDead, match=rf"\bpeer {victim}\b"):
        for _ in range(100):
            dist.all_reduce(t)
    alive = [r for r in range(n) if r != victim]
    left = dist.new_group(alive, use_local_synchronization=True)
    for i in range(20):
        x = torch.full((1000,), rank + 1.0 + i)
        dist.all_reduce(x, group=left)
        assert (x == sum(r + 1.0 + i for r in alive)).all()


def test_survivors_go_on_in_a_group_of_their_own():
    jobs.run(3, _death, 1, victim=1)


def test_a_sparse_tensor_is_no_buffer():
    from goccl import nccl

    comm = nccl.Communicator.init_all(1)[0]
    t = torch.eye(2).to_sparse()
    with pytest.raises(goccl.InvalidArgument, match="to_dense"):
        comm.allreduce(t, t)
