"""bench/collectivex on the host device: four ranks, each mode, against what the routing says."""

import abc
import os
import sys
import types

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

import jobs  # noqa: E402

jobs.preload("torch", "torch.distributed")
TOKENS, HIDDEN, EXPERTS, TOP = 12, 256, 8, 3


class _EPBackend(abc.ABC):
    """What the adapter takes of CollectiveX's base class."""

    receive_layout = "token-rank"

    def __init__(self, args, rank, world_size, local_rank, device):
        self.args, self.rank, self.world_size, self.device, self.mode = args, rank, world_size, device, args.mode

    for _name in ("create_buffer", "dispatch", "stage", "combine", "recv_tokens", "inspect_dispatch",
                  "combine_transformed"):
        locals()[_name] = abc.abstractmethod(lambda self: None)

    def finalize(self, rc):
        dist.destroy_process_group()
        return rc


def _routing(rank):
    g = torch.Generator().manual_seed(rank)
    index = torch.stack([torch.randperm(EXPERTS, generator=g)[:TOP] for _ in range(TOKENS)])
    x = torch.randint(-8, 8, (TOKENS, HIDDEN), generator=g).to(torch.bfloat16)
    return x, index, torch.tensor([0.5, 0.25, 2.0]).repeat(TOKENS, 1)


def _adapter(rank, n, uid, mode):
    torch.set_num_threads(1)
    sys.modules["ep_backend"] = types.SimpleNamespace(EPBackend=_EPBackend)
    sys.path.insert(0, os.path.join(jobs.ROOT, "bench", "collectivex"))
    from ep_goccl import GocclBackend

    dist.init_process_group("gloo", f"tcp://{uid.partition(':')[2]}", rank=rank, world_size=n)
    args = types.SimpleNamespace(mode=mode, experts=EXPERTS, hidden=HIDDEN, topk=TOP)
    b = GocclBackend(args, rank, n, rank, torch.device("cpu"))
    assert b.receive_layout == ("token-expert" if mode == "low-latency" else "token-rank")
    b.create_buffer(types.SimpleNamespace(max_tokens_per_rank=TOKENS))
    x, index, weights = _routing(rank)
    p = types.SimpleNamespace(T=TOKENS, x=x, dispatch_x=x, topk_idx=index, topk_weights=weights)
    local = EXPERTS // n
    every = torch.cat([_routing(r)[1] for r in range(n)])
    counts = torch.bincount(every.flatten(), minlength=EXPERTS)[rank * local:(rank + 1) * local]
    ranks = torch.tensor([len(set((row // local).tolist())) for row in index])[:, None]
    for _ in range(2):
        h = b.dispatch(p)
        b.stage(p, h)
        view = b.inspect_dispatch(p, h)
        assert torch.equal(view.local_expert_counts, counts)
        there = (view.expert_ids // local == rank) & (view.expert_ids >= 0)
        if mode == "low-latency":
            assert b.recv_tokens(h) == counts.sum() == len(view.payload) and there.all()
            assert torch.equal(b.combine(p, h), x * 2.75)
            scaled = view.payload * (view.expert_ids + 1)[:, None]
            want = (x.float() * ((index + 1) * weights).sum(1, keepdim=True)).bfloat16()
        else:
            assert b.recv_tokens(h) == ((every // local == rank).sum(1) > 0).sum() == len(view.payload)
            assert torch.equal(b.combine(p, h), x * ranks)
            gates = (view.weights * there * (view.expert_ids + 1)).sum(1, keepdim=True)
            scaled = view.payload.float() * gates
            want = (x.float() * ((index + 1) * weights).sum(1, keepdim=True)).bfloat16()
        assert torch.allclose(b.combine_transformed(p, h, scaled).float(), want.float(), rtol=2**-6, atol=1)
    assert b.finalize(0) == 0


@pytest.mark.parametrize("mode", ["normal", "low-latency"])
def test_a_mode(mode):
    jobs.run(4, _adapter, mode)
