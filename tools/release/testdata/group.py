"""A PyTorch program that does not import goccl: the entry point brings the backend."""

import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def rank(r: int, n: int, path: str) -> None:
    dist.init_process_group("goccl", init_method=f"file://{path}", rank=r, world_size=n)
    t = torch.full((1000,), float(r + 1))
    dist.all_reduce(t)
    assert t.eq(n * (n + 1) / 2).all(), t
    parts = [torch.empty(1000) for _ in range(n)]
    dist.all_gather(parts, torch.full((1000,), float(r)))
    assert all(p.eq(float(i)).all() for i, p in enumerate(parts))
    dist.destroy_process_group()


if __name__ == "__main__":
    assert "goccl" not in sys.modules
    mp.spawn(rank, (2, sys.argv[1]), nprocs=2)
    print(f"torch {torch.__version__}: two ranks by the entry point")
