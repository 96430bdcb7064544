"""Exact sums as a user of PyTorch and of Python meets them, and where they are felt, on the host device."""

import os

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

import goccl.torch  # noqa: E402
import jobs  # noqa: E402
from goccl import nccl  # noqa: E402
from goccl.torch import abilities  # noqa: E402

jobs.preload("torch", "torch.distributed", "goccl.torch")


def _join(rank, n, uid, backend, **options):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=uid.rpartition(":")[2], RANK=str(rank), WORLD_SIZE=str(n))
    goccl.torch.register()
    dist.init_process_group(backend, **options)


def _terms(n):
    g = torch.Generator().manual_seed(35)
    return [torch.randn(1000, generator=g) for _ in range(n)]


def _levels(rank, n, uid):
    os.environ["GOCCL_HOSTID"] = f"host{rank % 2}"
    _join(rank, n, uid, "goccl")
    terms = _terms(n)
    want = terms[0]
    for t in terms[1:]:
        want = want + t
    equal = []
    for exact in (None, "reference"):
        x = terms[rank].clone()
        dist.all_reduce(x, group=dist.new_group(backend="goccl", pg_options=abilities.Options(exact)))
        equal.append(torch.equal(x, want))
    assert equal == [False, True]  # without it a host's ranks come first
    with pytest.raises(goccl.InvalidArgument, match="exact: 'more': want one of run, batch, placement, reference"):
        nccl._config.pointer(nccl.NCCLConfig(exact="more"))
    dist.destroy_process_group()


@pytest.mark.skipif(not abilities.BACKEND, reason="this PyTorch gives backends no options")
def test_levels():
    """A process group has the level of its options."""
    jobs.run(4, _levels)


def _train(rank, n, uid):
    _join(rank, n, uid, "goccl")
    runs = []
    for _ in range(2):
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.Linear(64, 1))
        ddp = torch.nn.parallel.DistributedDataParallel(model)
        optimizer = torch.optim.Adam(ddp.parameters(), lr=0.01)
        data = torch.Generator().manual_seed(rank)
        losses = []
        for _ in range(100):
            x = torch.randn(32, 16, generator=data)
            loss = (ddp(x) - x.square().sum(1, keepdim=True)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        runs.append(losses)
    assert runs[0] == runs[1]
    assert runs[0][-1] < runs[0][0] / 2, runs[0]
    dist.destroy_process_group()


def test_training_twice():
    """100 steps of DDP have the same losses to the last bit in each run."""
    jobs.run(3, _train)


def _decode(rank, n, uid):
    from goccl.torch.fusion import FusedAllReduce

    _join(rank, n, uid, "gloo")
    hidden = 256
    FusedAllReduce(16, hidden, device="cpu", name="decode")
    g = torch.Generator().manual_seed(7)
    requests = torch.randn(16, hidden, generator=g)
    norm_weight = torch.rand(hidden, generator=g)
    weight = torch.randn(hidden, hidden, generator=torch.Generator().manual_seed(rank)) / hidden**0.5

    def decode(batch, place):
        """What comes of request 0 at a place of a batch of others."""
        order = [*range(1, place + 1), 0, *range(place + 1, batch)]
        x, residual = requests[order].clone(), requests[order].clone()
        for _ in range(6):
            part = torch.stack([weight.mv(row) for row in x])  # the model's own product looks at no other row
            x, residual = torch.ops.goccl.fused_all_reduce(part, residual, norm_weight, 1e-6, "decode")
        return x[place]

    alone = decode(1, 0)
    assert torch.isfinite(alone).all()
    for batch in range(2, 17):
        for place in (0, batch // 2, batch - 1):
            assert torch.equal(decode(batch, place), alone), (batch, place)
    dist.destroy_process_group()


def test_decode_batches():
    """One request has the same bits whatever the batch is and wherever it stands in it."""
    jobs.run(2, _decode)
