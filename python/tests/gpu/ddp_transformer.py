"""A small transformer trained by DDP: losses must be equal and step times can be compared between backends.

    torchrun --nproc_per_node=8 python/tests/gpu/ddp_transformer.py goccl
    torchrun --nproc_per_node=8 python/tests/gpu/ddp_transformer.py nccl
    LD_PRELOAD=$(python -c 'import goccl; print(goccl.get_lib())')/libnccl.so.2 torchrun --nproc_per_node=8
    python/tests/gpu/ddp_transformer.py nccl
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    backend = sys.argv[1] if len(sys.argv) > 1 else "goccl"
    if backend == "goccl":
        import goccl.torch

        goccl.torch.init()
    else:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group(backend)
    rank = dist.get_rank()
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True)
    model = torch.nn.Sequential(torch.nn.Embedding(1000, 512), torch.nn.TransformerEncoder(layer, 6),
                                torch.nn.Linear(512, 1000)).cuda()
    model = DistributedDataParallel(model, device_ids=[torch.cuda.current_device()])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    data = torch.Generator().manual_seed(rank)
    times, losses = [], []
    for step in range(30):
        x = torch.randint(0, 1000, (16, 128), generator=data).cuda()
        torch.cuda.synchronize()
        t = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x).flatten(0, 1), (x + 1).remainder(1000).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - t)
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / dist.get_world_size())
    if rank == 0:
        preload = " (preloaded libnccl.so.2)" if "libnccl" in os.environ.get("LD_PRELOAD", "") else ""
        print(f"{backend}{preload}: losses {', '.join(f'{v:.4f}' for v in losses[::6] + losses[-1:])}; step "
              f"{1e3 * sorted(times[5:])[len(times[5:]) // 2]:.2f} ms")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
