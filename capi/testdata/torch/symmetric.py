"""PyTorch's symmetric memory on the NCCL backend: windows and a device communicator of the library, read by PyTorch's
own kernels. Run by torchrun, a rank per GPU; multicast is never used."""

import os
import time

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem


def timed(f, times=50):
    for _ in range(5):
        f()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(times):
        f()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1000 / times


def main():
    rank, n = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    symm_mem.set_backend("NCCL")
    dist.init_process_group("nccl", device_id=device)
    dist.all_reduce(torch.ones(1, device=device))  # makes the communicator
    group = dist.group.WORLD.group_name

    begin = time.perf_counter()
    tensors = [symm_mem.empty(1 << shift, dtype=torch.float32, device=device) for shift in (10, 16, 24)]
    handles = [symm_mem.rendezvous(t, group=group) for t in tensors]
    if rank == 0:
        print(f"symmetric memory: {len(tensors)} tensors in {(time.perf_counter() - begin) * 1000:.0f} ms", flush=True)
    for t, h in zip(tensors, handles):
        assert h.rank == rank and h.world_size == n
        t.fill_(rank + 1)
        torch.cuda.synchronize()
        dist.barrier()
        for p in range(n):
            peer = h.get_buffer(p, t.shape, t.dtype)
            assert torch.all(peer == p + 1), (rank, p, peer[:4])
        torch.cuda.synchronize()
        dist.barrier()
        h.get_buffer((rank + 1) % n, t.shape, t.dtype).fill_(100 + rank)  # stores into the next rank's memory
        torch.cuda.synchronize()
        dist.barrier()
        assert torch.all(t == 100 + (rank + n - 1) % n)
        dist.barrier()

    for name in ("one_shot_all_reduce", "two_shot_all_reduce_"):
        op = getattr(torch.ops.symm_mem, name)
        for t in tensors[:2]:
            t.copy_(torch.arange(t.numel(), device=device) % 1000 + rank)
            want = torch.arange(t.numel(), device=device) % 1000 * n + n * (n - 1) // 2
            out = op(t, "sum", group)
            torch.cuda.synchronize()
            assert torch.equal((t if name.endswith("_") else out).float(), want.float()), name
            dist.barrier()
            us = timed(lambda op=op, t=t: op(t, "sum", group))
            if rank == 0:
                print(f"  {name} {t.numel() * 4} bytes: right, {us:.1f} us", flush=True)
    t = tensors[2]  # registered memory in the library's own collective
    t.fill_(1)
    dist.all_reduce(t)
    torch.cuda.synchronize()
    assert torch.all(t == n)
    us = timed(lambda: dist.all_reduce(t), 20)
    if rank == 0:
        print(f"  dist.all_reduce in a window, {t.numel() * 4} bytes: right, {us:.1f} us", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
