"""What an all-reduce adds to a step of decode: layers of GEMM, all-reduce, GEMM in one CUDA graph, beside the same
graph without it and with a kernel that does nothing in its place. Run by torchrun, a rank per GPU.

    all_reduce   dist.all_reduce on the current stream
    async        dist.all_reduce(async_op=True) and wait: on the communicator's own stream, as under torch.compile
    one_shot, two_shot   PyTorch's symmetric memory, with a copy in (--symmetric)

--profile prints where the time goes, by the times of the kernels in a replay: from the end of the kernel before to the
begin of the operation (less than 0 if it came early), its duration, and from its end to the begin of the next kernel.
"""

import argparse
import os
import statistics

import torch
import torch.distributed as dist

import common

p = argparse.ArgumentParser()
p.add_argument("--layers", type=int, default=64)
p.add_argument("--hidden", type=int, default=8192)
p.add_argument("--batches", default="1,4,16,64,256")
p.add_argument("--replays", type=int, default=30)
p.add_argument("--symmetric", action="store_true")
p.add_argument("--profile", action="store_true")
p.add_argument("--expect", choices=["goccl", "stock"])
p.add_argument("--label", default="")
p.add_argument("--json")


class Model:
    """One rank's part of the layers, divided among the ranks as tensor parallelism does."""

    def __init__(self, a, n):
        self.hidden, self.part = a.hidden, a.hidden // n
        self.up = [self.weight(self.part, a.hidden) for _ in range(a.layers)]
        self.down = [self.weight(a.hidden, self.part) for _ in range(a.layers)]
        self.nothing = torch.zeros(1, device="cuda")

    @staticmethod
    def weight(rows, columns):
        return torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16) / rows**0.5

    def step(self, x, between):
        for up, down in zip(self.up, self.down):
            y = between(torch.mm(x, up))
            x = torch.mm(y, down)
        return y, x


def forms(a, model, group):
    """What may stand between the two GEMMs of a layer."""

    def all_reduce(y):
        dist.all_reduce(y)
        return y

    def asynchronous(y):
        dist.all_reduce(y, async_op=True).wait()
        return y

    def empty(y):
        model.nothing.add_(1)
        return y

    by = {"none": lambda y: y, "empty kernel": empty, "all_reduce": all_reduce, "async": asynchronous}
    if a.symmetric:
        import torch.distributed._symmetric_memory as symm_mem

        most = max(map(int, a.batches.split(",")))
        buffer = symm_mem.empty(most * a.hidden, dtype=torch.bfloat16, device="cuda")
        symm_mem.rendezvous(buffer, group=group)
        ops = torch.ops.symm_mem

        def room(y):
            return buffer[:y.numel()].view_as(y).copy_(y)

        by["one_shot"] = lambda y: ops.one_shot_all_reduce(room(y), "sum", group)
        by["two_shot"] = lambda y: ops.two_shot_all_reduce_(room(y), "sum", group)
    return by


def capture(model, x, between):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        model.step(x, between)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = model.step(x, between)
    return graph, out


def measure(graph, replays):
    """Microseconds of a replay on the slowest rank: the median."""
    times = []
    for _ in range(replays + 5):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1000)
    t = torch.tensor(statistics.median(times[5:]), device="cuda")
    dist.all_reduce(t, op=dist.ReduceOp.MAX)
    return float(t)


def gaps(graph):
    """Medians of microseconds: before the operation, of it, and after it."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as prof:
        for _ in range(5):
            graph.replay()
        torch.cuda.synchronize()
    kernels = sorted((e.time_range.start, e.time_range.end, e.name) for e in prof.events()
                     if e.device_type == torch.autograd.DeviceType.CUDA)
    found = [(b[0] - a[1], b[1] - b[0], c[0] - b[1]) for a, b, c in zip(kernels, kernels[1:], kernels[2:])
             if b[2].startswith(("ncclDevKernel", "ncclSymk"))]
    return [round(statistics.median(x), 2) for x in zip(*found)] if found else None


def main():
    a = p.parse_args()
    common.bounded(240)
    rank, n = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    dist.all_reduce(torch.ones(1, device="cuda"))
    library = common.check_library(a.expect)
    torch.manual_seed(rank)
    model = Model(a, n)
    rows, good = [], True
    by = forms(a, model, dist.group.WORLD.group_name)
    if rank == 0:
        print(f"{a.label or library}: {n} ranks, {a.layers} layers, hidden {a.hidden}; microseconds a layer above none")
    for batch in map(int, a.batches.split(",")):
        x = torch.randn(batch, model.part, device="cuda", dtype=torch.bfloat16)
        row, base, want = {"batch": batch, "bytes": batch * a.hidden * 2}, 0.0, None
        for name, between in by.items():
            graph, (y, _) = capture(model, x, between)
            us = measure(graph, a.replays)
            if name == "none":
                base = us
                row["layer"] = us / a.layers
                continue
            row[name] = (us - base) / a.layers
            if name != "empty kernel":  # all forms give the same sums, but for rounding
                want = y.clone() if want is None else want
                error = float((y.float() - want.float()).abs().max() / want.float().abs().max())
                good = good and error < 0.05
            if a.profile and name in ("all_reduce", "async"):
                row[name + " gaps"] = gaps(graph)
            del graph
        rows.append(row)
        if rank == 0:
            print("  " + ", ".join(f"{k} {v:.2f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()),
                  flush=True)
    bad = torch.tensor(0 if good else 1, device="cuda")
    dist.all_reduce(bad)
    if rank == 0:
        common.write_json(a.json, {"schema": "goccl-decode/1", "label": a.label or library, "ranks": n,
                                   "gpu": torch.cuda.get_device_name(), "layers": a.layers, "hidden": a.hidden,
                                   "rows": rows, "wrong": int(bad)})
        print(f"{n} ranks: {'the sums agree' if not int(bad) else 'FAILED: sums differ'}")
    dist.destroy_process_group()
    return int(bad)


if __name__ == "__main__":
    raise SystemExit(main())
