"""A decode loop on the fused all-reduce: one request has the same bits in every batch of 1 to 256 and at every place in
it, call by call and in a CUDA graph.

    torchrun --nproc_per_node=8 python/tests/gpu/exact.py

Its matrix products have the same shape for every batch, because a product's own bits may depend on it.
"""

import sys

import torch
import torch.distributed as dist

import goccl.torch
from goccl.torch.fusion import FusedAllReduce

ROWS, HIDDEN, LAYERS = 256, 4096, 8
BATCHES = [1, 2, 3, 5, 8, 16, 31, 64, 100, 128, 200, 255, 256]


def main() -> int:
    rank = goccl.torch.init()
    torch.set_default_device("cuda")
    FusedAllReduce(ROWS, HIDDEN, name="decode")
    same = torch.Generator("cuda").manual_seed(7)
    requests = torch.randn(ROWS, HIDDEN, generator=same).bfloat16()
    norm_weight = torch.rand(HIDDEN, generator=same).bfloat16()
    own = torch.Generator("cuda").manual_seed(100 + rank)
    weights = [(torch.randn(HIDDEN, HIDDEN, generator=own) / HIDDEN**0.5).bfloat16() for _ in range(LAYERS)]
    products, first = torch.zeros(ROWS, HIDDEN).bfloat16(), torch.zeros(ROWS, HIDDEN).bfloat16()

    def step(batch: int) -> torch.Tensor:
        products.zero_()
        x, residual = first[:batch], first[:batch].clone()
        for w in weights:
            products[:batch] = x
            part = (products @ w)[:batch]
            x, residual = torch.ops.goccl.fused_all_reduce(part, residual, norm_weight, 1e-6, "decode")
        return x

    alone, compared, differ, neighbours = None, 0, 0, 0
    for batch in BATCHES:
        step(batch)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = step(batch)
        for place in sorted({0, batch // 2, batch - 1}):
            order = torch.randperm(ROWS, generator=same)[:batch]
            order[order == 0] = order[place].item()
            order[place] = 0
            first[:batch] = requests[order]
            graph.replay()
            for x in (step(batch), captured):
                if alone is None:
                    alone = x[place].clone()
                    if not (torch.isfinite(alone).all() and alone.any()):
                        raise ValueError("the request's result is not finite, or is zero")
                compared += 1
                differ += not torch.equal(x[place], alone)
                neighbours += batch > 1 and torch.equal(x[(place + 1) % batch], alone)  # it can fail
    torch.cuda.synchronize()
    if rank == 0:
        print(f"exact: {compared} results of one request, {differ} differ; {neighbours} of its neighbours are the same")
    dist.destroy_process_group()
    return int(differ or neighbours)


if __name__ == "__main__":
    sys.exit(main())
