"""goccl.nccl on GPUs: every collective, type and an odd size, against torch's arithmetic.

    torchrun --nproc_per_node=8 python/tests/gpu/collectives.py
"""

import os
import sys

import torch

import goccl
from goccl import nccl

DTYPES = [torch.int8, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
          torch.float64]


def main() -> int:
    bootstrap = goccl.Bootstrap.from_env()
    rank, n = bootstrap.get_rank(), bootstrap.get_n_ranks()
    torch.cuda.set_device(bootstrap.get_local_rank())
    c = nccl.Communicator.from_bootstrap(bootstrap,
                                         device=goccl.Device(goccl.DeviceType.GPU, bootstrap.get_local_rank()))
    wrong = []

    def expect(name, got, want):
        torch.cuda.synchronize()
        if not torch.equal(got, want.to(got.dtype)):
            wrong.append(f"{name}: {got.flatten()[:5].tolist()} is not {want.flatten()[:5].tolist()}")

    for dtype in DTYPES:
        for count in (1, 7, 1000, 70001, 1 << 21):
            base = (torch.arange(count, device="cuda") % 5).to(dtype)
            a = base + rank
            stream = torch.cuda.current_stream()
            out = torch.zeros_like(a)
            c.allreduce(a, out, stream=stream)
            expect(f"allreduce {dtype} {count}", out, base * n + n * (n - 1) // 2)
            c.allreduce(a, out, nccl.MAX, stream=stream)
            expect(f"max {dtype} {count}", out, base + n - 1)
            every = torch.cat([base + r for r in range(n)])
            out = torch.zeros(n * count, dtype=dtype, device="cuda")
            c.allgather(a, out, stream=stream)
            expect(f"allgather {dtype} {count}", out, every)
            part = torch.zeros_like(a)
            c.reduce_scatter(every, part, stream=stream)
            expect(f"reduce_scatter {dtype} {count}", part, a * n)
            c.alltoall(every, out, stream=stream)
            expect(f"alltoall {dtype} {count}", out, a.repeat(n))
            b = a.clone()
            c.broadcast(b, root=n - 1, stream=stream)
            expect(f"broadcast {dtype} {count}", b, base + n - 1)
            r = torch.full_like(a, 9)
            c.reduce(a, r if rank == 0 else None, nccl.SUM, 0, stream=stream)
            expect(f"reduce {dtype} {count}", r, base * n + n * (n - 1) // 2 if rank == 0 else torch.full_like(a, 9))
            if n > 1:
                with nccl.group():
                    c.send(a, (rank + 1) % n, stream=stream)
                    c.recv(b, (rank - 1) % n, stream=stream)
                expect(f"sendrecv {dtype} {count}", b, base + (rank - 1) % n)
    # Captured once, replayed.
    x = torch.ones(1000, device="cuda")
    c.allreduce(x, x, stream=torch.cuda.current_stream())
    torch.cuda.synchronize()
    x.fill_(1)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g, capture_error_mode="thread_local"):
        c.allreduce(x, x, stream=torch.cuda.current_stream())
    for _ in range(3):
        g.replay()
    expect("graph", x, torch.full_like(x, float(n) ** 3))
    for w in wrong:
        print(f"rank {rank}: {w}", file=sys.stderr)
    print(f"rank {rank}: {'OK' if not wrong else 'FAIL'}", flush=True)
    c.destroy()
    return 1 if wrong else 0


if __name__ == "__main__":
    os.environ.pop("GOCCL_DEVICE", None)
    sys.exit(main())
