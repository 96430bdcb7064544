"""What PyTorch 2.15 asks of a backend besides collectives, by processes on the host device."""

import os
import time
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

import jobs  # noqa: E402
from goccl.torch._named import BACKEND  # noqa: E402

jobs.preload("torch", "torch.distributed")
pytestmark = pytest.mark.skipif(not BACKEND, reason="this PyTorch is older than 2.15")


def _init(rank, n, uid, **more):
    torch.set_num_threads(1)
    import goccl.torch  # noqa: F401

    dist.init_process_group("goccl", init_method=f"tcp://127.0.0.1:{uid.rpartition(':')[2]}", rank=rank, world_size=n,
                            **more)
    return dist.group.WORLD, dist.group.WORLD._get_backend(torch.device("cpu"))


def _sums(n, group=None):
    x = torch.ones(5)
    dist.all_reduce(x, group=group)
    assert (x == n).all(), x


def _hooks(rank, n, uid):
    group, _ = _init(rank, n, uid)
    seen = []
    group.register_pre_hook(1, lambda a: seen.append((a.name.name, [t.numel() for t in a.input_tensors])))
    group.register_post_hook(2, lambda a: seen.append(("after", a.work is not None)))
    work = dist.all_reduce(torch.ones(7), async_op=True)
    assert work.wait() and work.is_completed() and work.is_success() and work.exception() is None
    assert seen == [("ALLREDUCE", [7]), ("after", True)], seen
    group.unregister_pre_hook(1)
    group.unregister_post_hook(2)
    dist.all_gather_into_tensor(torch.empty(3 * n), torch.ones(3))
    assert len(seen) == 2
    dist.destroy_process_group()


def test_hooks_see_collectives():
    jobs.run(2, _hooks)


def _recorded(rank, n, uid):
    import json

    from torch._C._distributed_c10d import _dump_fr_trace_json

    _init(rank, n, uid)
    for _ in range(3):
        _sums(n)
    dist.barrier()
    entries = [e for b in ("goccl", "custom", "gloo") for e in
               json.loads(_dump_fr_trace_json(True, False, b)).get("entries", [])]
    names = [e["profiling_name"] for e in entries]
    assert sum("all_reduce" in x or "allreduce" in x.lower() for x in names) == 3, names
    dist.destroy_process_group()


def test_flight_recorder_of_pytorch_has_the_collectives():
    jobs.run(2, _recorded)


def _subgroups(rank, n, uid):
    group, _ = _init(rank, n, uid)
    pair = dist.split_group(split_ranks=[[0, 2], [1]])
    assert pair.size() == (1 if rank == 1 else 2)
    _sums(pair.size(), pair)
    work = dist.all_reduce(torch.ones(1), group=pair, async_op=True)
    assert work.wait() and work.is_completed()
    some = dist.split_group(split_ranks=[[2, 1]])
    assert (some is dist.GroupMember.NON_GROUP_MEMBER) == (rank == 0)
    if rank:
        assert some.rank() == 2 - rank
        _sums(2, some)
    old = dist.new_group([0, 1])
    if rank < 2:
        _sums(2, old)
    dist.destroy_process_group()


def test_subgroups():
    jobs.run(3, _subgroups)


def _merge(rank, n, uid):
    _, backend = _init(rank, n, uid)
    store = dist.PrefixStore("merged", backend.get_group_store())
    other = backend.merge(store, backend.options, n - 1 - rank, n)
    x = torch.full((2,), float(rank))
    other.broadcast([x]).wait()
    assert (x == n - 1).all()
    other.shutdown()
    dist.destroy_process_group()


def test_merge():
    jobs.run(2, _merge)


def _shrink(rank, n, uid):
    _init(rank, n, uid)
    _sums(n)
    if rank == 1:
        dist.destroy_process_group()
        return
    group = dist.shrink_group([1])
    assert (group.size(), group.rank()) == (n - 1, rank and rank - 1)
    _sums(n - 1, group)
    dist.destroy_process_group()


def test_shrink_leaves_a_rank_out():
    jobs.run(3, _shrink)


def _elastic(rank, n, uid):
    group, backend = _init(rank, n, uid, enable_reconfigure=True)
    assert dist._supports_reconfigure() and backend.options.enable_reconfigure
    store = dist.distributed_c10d._get_default_store()
    store.set(f"handle{rank}", dist._get_reconfigure_handle())
    handles = [store.get(f"handle{r}").decode() for r in range(n)]
    dist._reconfigure(17, handles).wait()
    _sums(n)
    # Rank 0 leaves; the others, in another order, go on.
    if rank:
        dist._reconfigure(18, handles[:0:-1], timeout=timedelta(seconds=60)).wait()
        assert (dist.get_world_size(), dist.get_rank(), group.size()) == (n - 1, n - 1 - rank, n - 1)
        _sums(n - 1)
        dist._reconfigure(19, set(handles[1:])).wait()
        _sums(n - 1)
    with pytest.raises(ValueError, match="not among the handles"):
        dist._reconfigure(20, [h for r, h in enumerate(handles) if r != rank])
    dist.destroy_process_group()


def test_reconfigure():
    jobs.run(3, _elastic)


def _window(rank, n, uid):
    group, backend = _init(rank, n, uid)
    assert dist._supports_window()
    own = backend.allocate_tensor(4 * n, dtype=torch.int32, device=torch.device("cpu")).fill_(-1)
    window = dist._new_window(own)
    right, left = (rank + 1) % n, (rank - 1) % n
    for k in range(3):
        window.put(torch.full((4,), 10 * k + rank, dtype=torch.int32), right, 4 * rank, False)
        window.signal(right, False)
        window.wait_signal(left, True).wait()
        assert (own[4 * left:4 * left + 4] == 10 * k + left).all(), own
        dist.barrier()
    assert (window.map_remote_tensor(right)[4 * rank] == 20 + rank).all()
    assert window.get_attr(right).access_type.name == "UNIFIED"
    window.tensor_deregister()
    with pytest.raises(RuntimeError, match="tensor_register"):
        window.signal(right, False)
    dist.barrier()
    later = group.new_window()
    own = backend.allocate_tensor(3, dtype=torch.float64, device=torch.device("cpu")).zero_()
    later.tensor_register(own)
    later.put(torch.full((1,), 5.0, dtype=torch.float64), right, 2, False)
    later.signal(right, False)
    later.wait_signal(left, False)
    assert own[2] == 5
    with pytest.raises(NotImplementedError, match="cannot be shared"):
        group.new_window(torch.zeros(3)).put(own, right, 0, False)
    dist.destroy_process_group()


def test_windows():
    jobs.run(2, _window)


def _memory(rank, n, uid):
    _, backend = _init(rank, n, uid)
    _sums(n)
    before = backend.memory_stats()
    assert before["total"] == before["suspend"] + before["persist"] and not before["suspended"]
    backend.suspend()
    assert backend.memory_stats()["suspended"] == 1
    backend.resume()
    _sums(n)
    assert backend.supports_tensor_alloc(torch.device("cpu"))
    x = backend.allocate_tensor(6, dtype=torch.bfloat16, device=torch.device("cpu")).fill_(1)
    dist.all_reduce(x)
    assert x.shape == (6,) and (x == n).all()
    backend._start_time_estimate()
    y = torch.ones(1 << 20)
    dist.all_reduce(y)
    assert backend._end_time_estimate() > 0 and (y == 1).all()
    with dist._time_estimator(device=torch.device("cpu")) as estimate:
        dist.all_reduce(y)
    assert estimate.estimated_time > 0 and (y == 1).all()
    _sums(n)
    dist.destroy_process_group()


def test_memory_and_estimates():
    jobs.run(2, _memory)


def _fails(rank, n, uid):
    group, backend = _init(rank, n, uid)
    assert group.supports_abort_hooks and backend.get_error().name == "SUCCESS"
    _sums(n)
    called = []
    group.register_abort_hook(3, lambda: called.append(3))
    group.register_abort_hook(4, lambda: called.append(4))
    group.unregister_abort_hook(4)
    dist.set_timeout(timedelta(seconds=1))
    store = backend.get_group_store()
    if rank == 0:
        with pytest.raises(TimeoutError):
            dist.all_reduce(torch.ones(1))
        store.set("late", "1")
    store.wait(["late"])
    group.abort()
    assert called == [3]


def test_abort_hooks_and_timeouts():
    jobs.run(2, _fails)


def _dies(rank, n, uid):
    import signal

    group, backend = _init(rank, n, uid)
    _sums(n)
    called = []
    group.register_abort_hook(1, lambda: called.append(1))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(Exception):
        for _ in range(1000):
            _sums(n)
            time.sleep(0.01)
    assert (called, backend.get_error().name) == ([1], "REMOTE_ERROR")


def test_a_death_calls_abort_hooks():
    jobs.run(2, _dies, victim=1)


def _sparse(rank, n, uid):
    _init(rank, n, uid)
    indices = torch.arange(rank + 1).repeat(2, 1)  # rank r has r + 1 entries, rank 0 one
    x = torch.sparse_coo_tensor(indices, torch.full((rank + 1, 3), float(rank + 1)), (n, n, 3))
    want = sum(torch.sparse_coo_tensor(torch.arange(r + 1).repeat(2, 1), torch.full((r + 1, 3), float(r + 1)),
                                       (n, n, 3)).to_dense() for r in range(n))
    work = dist.all_reduce(x, async_op=True)
    assert work.wait() and (x.to_dense() == want).all(), x
    empty = torch.sparse_coo_tensor(torch.empty((1, 0), dtype=torch.int64), torch.empty(0), (4,))
    dist.all_reduce(empty)
    assert empty._nnz() == 0
    for bad, op in ((torch.sparse_coo_tensor([[0]], [1.0], (4 + rank,)), dist.ReduceOp.SUM), (x, dist.ReduceOp.MAX)):
        with pytest.raises(ValueError, match="all_reduce of (a )?sparse"):
            dist.all_reduce(bad, op=op)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Embedding(5, 2, sparse=True))
    model(torch.tensor([rank])).sum().backward()
    grad = model.module.weight.grad
    assert grad.is_sparse and (grad.to_dense()[:n] == 1 / n).all(), grad
    dist.destroy_process_group()


def test_sparse_tensors_add_up():
    jobs.run(3, _sparse)


def _monitored(rank, n, uid):
    group, _ = _init(rank, n, uid)
    dist.monitored_barrier()
    late = timedelta(seconds=0.2)
    told = {0: "Ranks 1, 2 failed to pass monitoredBarrier in 200 ms"}
    if rank == 0:
        with pytest.raises(RuntimeError, match="Rank 1 failed to pass monitoredBarrier in 200 ms"):
            dist.monitored_barrier(timeout=late)
        with pytest.raises(RuntimeError, match=told[0]):
            dist.monitored_barrier(timeout=late, wait_all_ranks=True)
    else:
        for _ in range(2):
            with pytest.raises(RuntimeError, match=f"Rank {rank} successfully reached.* from rank 0"):
                time.sleep(0.5)
                dist.monitored_barrier(timeout=late)
    if rank == 0:
        with pytest.raises(RuntimeError, match="Rank 0 timed out in monitoredBarrier"):
            dist.new_group().monitored_barrier(timedelta(0))
    else:
        dist.new_group()
    pair = dist.new_group([1, 2])
    if rank:
        dist.monitored_barrier(pair)
    _sums(n)
    dist.destroy_process_group()


def test_monitored_barrier_names_the_ranks_that_are_late():
    jobs.run(3, _monitored)


def _alone(rank, n, uid):
    _init(rank, n, uid)
    group = dist.new_group(timeout=timedelta(seconds=0.5))
    if rank == 0:
        with pytest.raises(RuntimeError, match="timeout of 0.5 s has passed"):
            dist.barrier(group)
    dist.monitored_barrier()
    dist.destroy_process_group()


def test_a_timeout_of_the_first_call_names_the_groups():
    jobs.run(2, _alone)


def _detail(rank, n, uid):
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    _init(rank, n, uid)
    _sums(n)
    with pytest.raises(RuntimeError, match="all_reduce"):
        dist.all_reduce(torch.ones(3 + rank))
    dist.destroy_process_group()


def test_debug_level_detail_compares_calls():
    jobs.run(2, _detail)
