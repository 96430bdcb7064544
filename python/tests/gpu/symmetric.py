"""PyTorch's symmetric memory: its operators, a Triton kernel that reads the peers, signals and a collective on one
tensor. torchrun --nproc_per_node=N symmetric.py GOCCL, on goccl's memory, or CUDA, on PyTorch's; times in µs, of
launches and of a CUDA graph."""

import os
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem
import triton
import triton.language as tl


@triton.jit
def _sum(pointers, out, n, WORLD: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for r in tl.static_range(WORLD):
        peer = tl.load(pointers + r).to(tl.pointer_type(tl.float32))
        total += tl.load(peer + at, mask=at < n, other=0)
    tl.store(out + at, total, mask=at < n)


def timed(f, times=50):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for _ in range(5):
        f()
    begin.record()
    for _ in range(times):
        f()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1000 / times


def both(f):
    """Microseconds of f, and of f in a graph of 20."""
    eager = timed(f)
    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    dist.barrier()
    with torch.cuda.graph(graph, stream=side):
        for _ in range(20):
            f()
    return f"{eager:8.1f} {timed(graph.replay, 10) / 20:8.1f}"


def main():
    name = sys.argv[1] if len(sys.argv) > 1 else "GOCCL"
    rank, n = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    if name == "GOCCL":
        import goccl.torch  # noqa: F401
    dist.init_process_group("goccl" if name == "GOCCL" else "nccl")
    begin = time.perf_counter()
    if symm_mem.get_backend(device) != name:  # the default cannot be chosen by its name
        symm_mem.set_backend(name)
    told = time.perf_counter()
    group = dist.group.WORLD.group_name
    dist.barrier()

    def say(what):
        if rank == 0:
            print(f"{name:5} {what}", flush=True)

    say(f"set_backend {1000 * (told - begin):.0f} ms")
    for size in (4 << 10, 64 << 10, 1 << 20, 16 << 20):
        begin = time.perf_counter()
        t = symm_mem.empty(size // 4, dtype=torch.float32, device=device)
        memory = symm_mem.rendezvous(t, group)
        say(f"{size:9} bytes: empty and rendezvous {1000 * (time.perf_counter() - begin):.0f} ms")
        assert symm_mem.get_backend(device) == name and memory.rank == rank and memory.world_size == n
        mine = (torch.arange(t.numel(), device=device) % 1000 + rank).float()
        want = (torch.arange(t.numel(), device=device) % 1000 * n + n * (n - 1) // 2).float()

        t.copy_(mine)
        memory.barrier()
        for r in range(n):
            assert torch.equal(memory.get_buffer(r, t.shape, t.dtype), mine - rank + r), r
        memory.barrier()
        right, left = (rank + 1) % n, (rank - 1) % n
        memory.get_buffer(right, t.shape, t.dtype).copy_(mine)
        memory.put_signal(right)
        memory.wait_signal(left)
        assert torch.equal(t, mine - rank + left)
        memory.barrier()

        out = torch.empty_like(t)
        pointers = torch.tensor([p + t.data_ptr() - memory.buffer_ptrs[rank] for p in memory.buffer_ptrs],
                                device=device)

        def triton_sum():
            memory.barrier()
            _sum[(triton.cdiv(t.numel(), 1024),)](pointers, out, t.numel(), n, 1024)
            memory.barrier()

        calls = {"one_shot_all_reduce": lambda: torch.ops.symm_mem.one_shot_all_reduce(t, "sum", group),
                 "two_shot_all_reduce_": lambda: torch.ops.symm_mem.two_shot_all_reduce_(t, "sum", group),
                 "triton, two barriers": triton_sum, "dist.all_reduce": lambda: dist.all_reduce(t)}
        for what, call in calls.items():
            t.copy_(mine)
            memory.barrier()
            got = call()
            torch.cuda.synchronize()
            got = {"one_shot_all_reduce": got, "triton, two barriers": out}.get(what, t)
            assert torch.equal(got, want), (what, size)
            dist.barrier()
            t.zero_()
            say(f"{size:9} bytes: {what:21} {both(call)}")
        say(f"{size:9} bytes: {'barrier':21} {both(memory.barrier)}")
        torch.cuda.synchronize()
        dist.barrier()
    if name == "GOCCL":  # a peer that does not come, as the last
        if rank == 0:
            memory.wait_signal(n - 1, timeout_ms=200)
            try:
                torch.cuda.synchronize()
            except RuntimeError as e:
                say(f"a late peer: {str(e).splitlines()[0]}")
            else:
                raise AssertionError("a wait without its signal has ended")
        time.sleep(2)
        os._exit(0)  # rank 0's context is lost
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
