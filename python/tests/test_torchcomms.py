"""torchcomms' back end "goccl", as its entry point registers it: ranks on the host device."""

import os

import pytest

torch = pytest.importorskip("torch")
torchcomms = pytest.importorskip("torchcomms", reason="torchcomms is not installed: its wheels are on PyTorch's own "
                                                      "index, and its source builds beside PyTorch 2.15")

import torch.distributed as dist  # noqa: E402

import entry_points  # noqa: E402
import jobs  # noqa: E402

jobs.preload("torch", "torch.distributed")
SUM = torchcomms.ReduceOp.SUM


def _begin(rank, n, uid, folder):
    torch.set_num_threads(1)
    entry_points.install(folder)
    os.environ.update(TORCHCOMM_RANK=str(rank), TORCHCOMM_SIZE=str(n))
    store = dist.TCPStore("127.0.0.1", int(uid.rpartition(":")[2]), n, rank == 0)
    return store, torchcomms.new_comm("goccl", torch.device("cpu"), "all", store=store)


def _calls(rank, n, uid, folder):
    store, comm = _begin(rank, n, uid, folder)
    assert (comm.get_backend(), comm.get_name(), comm.get_rank(), comm.get_size()) == ("goccl", "all", rank, n)
    own = torch.arange(6.0) + 10 * rank
    every = [torch.arange(6.0) + 10 * r for r in range(n)]
    t = own.clone()
    comm.all_reduce(t, SUM, False)
    assert torch.equal(t, sum(every))
    t = own.clone()
    work = comm.all_reduce(t, torchcomms.ReduceOp.MAX, True)
    work.wait()
    assert torch.equal(t, every[-1])
    comm.broadcast(t.copy_(own), 1, False)
    assert torch.equal(t, every[1])
    comm.reduce(t.copy_(own), 2, torchcomms.ReduceOp.AVG, False)
    assert rank != 2 or torch.equal(t, sum(every) / n)
    got = [torch.zeros(6) for _ in range(n)]
    comm.all_gather(got, own, False)
    assert all(map(torch.equal, got, every))
    views = torch.zeros(n, 6, requires_grad=True).mul(1).unbind()  # autograd forbids other writes to them
    versions = [v._version for v in views]
    comm.all_gather(list(views), own, True).wait()
    assert all(map(torch.equal, views, every)) and versions == [v._version for v in views]
    one = torch.zeros(6 * n)
    comm.all_gather_single(one, own, False)
    assert torch.equal(one, torch.cat(every))
    uneven = [torch.zeros(r + 1) for r in range(n)]
    comm.all_gather_v(uneven, torch.full((rank + 1,), float(rank)), False)
    assert all((u == r).all() for r, u in enumerate(uneven))
    part = torch.zeros(2)
    comm.reduce_scatter_single(part, own[:2 * n], SUM, False)
    assert torch.equal(part, sum(every)[2 * rank:2 * rank + 2])
    comm.reduce_scatter(part, list(own.split(2)), SUM, False)
    assert torch.equal(part, sum(every)[2 * rank:2 * rank + 2])
    mine = torch.zeros(rank + 1)
    comm.reduce_scatter_v(mine, [torch.full((r + 1,), float(rank)) for r in range(n)], SUM, False)
    assert (mine == n * (n - 1) // 2).all()
    swapped = torch.zeros(6)
    comm.all_to_all_single(swapped, own, False)
    want = torch.cat([e[2 * rank:2 * rank + 2] for e in every])
    assert torch.equal(swapped, want)
    comm.all_to_all_v_single(swapped.zero_(), own, [2] * n, [2] * n, False)
    assert torch.equal(swapped, want)
    comm.all_to_all(list(swapped.zero_().split(2)), list(own.split(2)), False)
    assert torch.equal(swapped, want)
    comm.scatter(part, list(own.split(2)) if rank == 1 else [], 1, False)
    assert torch.equal(part, every[1][2 * rank:2 * rank + 2])
    comm.gather(got if rank == 0 else [], own + 1, 0, False)
    assert rank or all(map(torch.equal, got, (e + 1 for e in every)))
    sent = comm.send(own, (rank + 1) % n, True)
    comm.recv(t, (rank - 1) % n, False)
    sent.wait()
    assert torch.equal(t, every[rank - 1])
    comm.barrier(False)
    comm.all_reduce(t.copy_(own), torchcomms.ReduceOp.PREMUL_SUM(0.5), False)
    assert torch.equal(t, sum(every) / 2)
    comm.reduce_scatter_single(part, own[:2 * n], torchcomms.ReduceOp.PREMUL_SUM(torch.tensor(2.0)), False)
    assert torch.equal(part, 2 * sum(every)[2 * rank:2 * rank + 2])
    with pytest.raises(Exception, match="neither TORCHCOMM_RANK"):
        for name in ("TORCHCOMM_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"):
            os.environ.pop(name, None)
        torchcomms.new_comm("goccl", torch.device("cpu"), "none", store=store)
    comm.finalize()


def _splits(rank, n, uid, folder):
    store, comm = _begin(rank, n, uid, folder)
    for again in range(2):  # a name may come again
        part = comm.split([2, 0], "part") if rank != 1 else comm.split([], "part")
        if rank == 1:
            assert part is None
        else:
            assert part.get_rank() == (0 if rank == 2 else 1) and part.get_size() == 2
            t = torch.ones(3)
            part.all_reduce(t, SUM, False)
            assert (t == 2).all()
            part.finalize()
    for ranks in ([rank, rank], [rank, n], [(rank + 1) % n]):
        with pytest.raises(Exception, match="different ranks of the communicator, with this one"):
            comm.split(ranks, "wrong")
    comm.finalize()
    comm = torchcomms.new_comm("goccl", torch.device("cpu"), "all", store=store)
    comm.barrier(False)
    comm.finalize()


def _data_parallel(rank, n, uid, folder):
    """DDP calls from C++, where torchcomms drops each Work without the interpreter's lock. In a backward pass DDP takes
    futures, which nobody waits for."""
    from torchcomms.device_mesh import init_device_mesh

    _, comm = _begin(rank, n, uid, folder)
    group = init_device_mesh(mesh_dim_comms=(comm,), mesh_dim_names=("main",)).get_group("main")
    torch.manual_seed(7)
    model = torch.nn.Linear(4, 2)
    alone = torch.nn.Linear(4, 2)
    alone.load_state_dict(model.state_dict())
    ddp = torch.nn.parallel.DistributedDataParallel(model, process_group=group)
    inputs = torch.arange(4.0 * n).view(n, 4)
    ddp(inputs[rank]).square().sum().backward()
    (alone(inputs).square().sum() / n).backward()
    torch.testing.assert_close([p.grad for p in model.parameters()], [p.grad for p in alone.parameters()])
    comm.finalize()


def test_data_parallel(tmp_path):
    jobs.run(2, _data_parallel, str(tmp_path))


def test_every_call(tmp_path):
    jobs.run(3, _calls, str(tmp_path))


def test_splits_and_names_that_come_again(tmp_path):
    jobs.run(3, _splits, str(tmp_path))
