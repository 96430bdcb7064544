"""torch.distributed on backend "goccl" with CUDA tensors: the collectives of the CPU test, batched point to point,
async work, DDP, FSDP2, torch.compile.

    torchrun --nproc_per_node=8 python/tests/gpu/backend.py
"""

import sys
import traceback

import torch
import torch.distributed as dist

import goccl.torch


def main() -> int:
    rank = goccl.torch.init()
    n = dist.get_world_size()
    torch.set_default_device("cuda")
    failures = []

    def case(f) -> None:
        try:
            f()
            torch.cuda.synchronize()
        except Exception:
            failures.append(f.__name__)
            print(f"rank {rank}: {f.__name__}\n{traceback.format_exc()}", file=sys.stderr, flush=True)

    def reductions():
        for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int16, torch.complex64,
                      torch.uint8):
            for asynchronous in (False, True):
                x = torch.ones(4099, dtype=dtype)
                w = dist.all_reduce(x, async_op=asynchronous)
                if w is not None:
                    w.wait()
                assert (x == n).all(), dtype
        x = torch.arange(12.0).view(3, 4).t()
        dist.all_reduce(x)
        assert torch.equal(x, n * torch.arange(12.0).view(3, 4).t())
        o = torch.ones(3)
        dist.reduce(o, dst=0)
        assert rank or (o == n).all()
        o = torch.empty(3)
        dist.reduce_scatter_tensor(o, torch.arange(3.0 * n))
        assert torch.equal(o, n * torch.arange(3.0 * n)[3 * rank:3 * rank + 3])

    def movement():
        outs = [torch.empty(3) for _ in range(n)]
        dist.all_gather(outs, torch.full((3,), float(rank)))
        assert all((o == r).all() for r, o in enumerate(outs))
        o = torch.empty(3 * n)
        dist.all_gather_into_tensor(o, torch.full((3,), float(rank)))
        assert torch.equal(o, torch.arange(n).repeat_interleave(3).float())
        send, recv = [(rank + p) % 3 for p in range(n)], [(p + rank) % 3 for p in range(n)]
        i, o = torch.full((sum(send), 2), float(rank)), torch.empty(sum(recv), 2)
        dist.all_to_all_single(o, i, recv, send)
        assert torch.equal(o[:, 0], torch.arange(n).repeat_interleave(torch.tensor(recv)).float())
        box = [{"a": 1}] if rank == 0 else [None]
        dist.broadcast_object_list(box)
        assert box[0] == {"a": 1}

    def point_to_point():
        if n == 1:
            return
        for elements in (16, 1 << 22):
            a, c = torch.full((elements,), float(rank)), torch.empty(elements)
            for w in dist.batch_isend_irecv([dist.P2POp(dist.isend, a, (rank + 1) % n),
                                             dist.P2POp(dist.irecv, c, (rank - 1) % n)]):
                w.wait()
            assert (c == (rank - 1) % n).all()

    def ddp():
        from torch.nn.parallel import DistributedDataParallel

        torch.manual_seed(0)
        model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(100, 2000), torch.nn.ReLU(),
                                                            torch.nn.Linear(2000, 1)))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        torch.manual_seed(rank)
        for _ in range(10):
            x = torch.randn(64, 100)
            loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        p = torch.cat([q.detach().flatten() for q in model.parameters()])
        q = p.clone()
        dist.broadcast(q, 0)
        assert torch.equal(p, q)

    def fsdp():
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)])
        for layer in model:
            fully_shard(layer, mesh=init_device_mesh("cuda", (n,)))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(3):
            model(torch.randn(8, 256)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    def compiled():
        import torch.distributed._functional_collectives as functional

        f = torch.compile(lambda x: functional.all_reduce(x * 2, "sum", dist.group.WORLD) + 1, fullgraph=True)
        assert (f(torch.ones(100)) == 2 * n + 1).all()

    for f in (reductions, movement, point_to_point, ddp, fsdp, compiled):
        case(f)
        dist.barrier()
    print(f"rank {rank}: {'OK' if not failures else 'FAIL: ' + ', '.join(failures)}", flush=True)
    dist.destroy_process_group()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
