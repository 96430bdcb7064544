#!/usr/bin/env python3
"""One rank of the training benchmark: steps of a small Llama by DDP, FSDP2 and tensor parallelism. run.py starts it."""

import argparse
import contextlib
import gc
import pathlib
import statistics
import sys

import torch
import torch.distributed as dist

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "turns"))

import model as llama  # noqa: E402
import ranks  # noqa: E402

LENGTH = 1024  # of a sequence, at most
RATE = 0.02


class Step:
    """Training steps of one mode: ddp, fsdp, tp (tensor parallelism with sequence parallelism), or tp_graph, the same
    captured in a CUDA graph.

    With ddp and fsdp every GPU has its own tokens; with tp all ranks share them. Without communication: ddp by no_sync;
    fsdp by the same model without FSDP and an update of a rank's share of the weights; tp by local copies.
    """

    def __init__(self, job, mode, tokens, communicates=True):
        self.job, self.mode, self.communicates = job, mode.removesuffix("_graph"), communicates
        mode, self.captures = self.mode, mode != self.mode and job.cuda
        self.length = min(LENGTH, tokens)
        self.sequences = tokens // self.length
        shape = {} if job.cuda else {"hidden": 64, "layers": 2, "heads": 4, "inner": 128}
        share = {"n": job.n, "rank": job.rank} if mode == "tp" else {}
        dtype = torch.bfloat16 if job.cuda else torch.float32
        self.model = m = llama.make(llama.Shape(**shape, **share), job.device, dtype)
        self.whole = sum(p.numel() for p in m.parameters())
        if mode == "ddp":
            m = torch.nn.parallel.DistributedDataParallel(m, device_ids=[job.device.index] if job.cuda else None)
        elif mode == "fsdp" and communicates:
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import fully_shard
            mesh = init_device_mesh(job.device.type, (job.n,))
            for b in m.blocks:
                fully_shard(b, mesh=mesh)
            fully_shard(m, mesh=mesh)
        self.run = m
        parameters = list(m.parameters())
        if mode == "fsdp" and not communicates:
            parameters = parameters[::job.n]
        self.optimizer = torch.optim.SGD(parameters, lr=RATE)
        self.batches = [self.batch(i) for i in range(4)]

    def batch(self, i):
        """The tokens of step i: a rank's own, or with tp its part of the sequences."""
        seed = 0 if self.mode == "tp" else self.job.rank + 1
        b = llama.batch(i, self.length, self.sequences, self.job.device, seed)
        return [x.chunk(self.job.n)[self.job.rank].contiguous() for x in b] if self.mode == "tp" else b

    def step(self, i, fresh=False):
        """One step; its loss, which is the mean over this rank's tokens."""
        b = self.batch(i) if fresh else self.batches[i % len(self.batches)]
        quiet = contextlib.nullcontext()
        if self.mode == "ddp" and not self.communicates:
            quiet = self.run.no_sync()
        llama.Wire.on = self.communicates
        with quiet:
            loss = self.run(*b)
            (loss / self.job.n if self.mode == "tp" else loss).backward()
        if self.mode == "tp" and self.communicates:
            self.share_gradients()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def prepare(self, steps):
        """Warms up. Returns what runs step i."""
        for i in range(steps):
            self.step(i)
        if not self.captures:
            return self.step
        side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.step(0)
        torch.cuda.synchronize()
        # thread_local: threads of libraries may call the driver meanwhile.
        with torch.cuda.graph(graph, stream=side, capture_error_mode="thread_local"):
            self.step(0)
        graph.replay()
        return lambda i: graph.replay()

    def share_gradients(self):
        """Sums the gradients of weights that every rank has whole: each rank computes them from its own tokens. The
        gradients of shares are sums over all tokens already."""
        gradients = [p.grad for p in self.model.replicated()]
        flat = torch.cat([g.flatten() for g in gradients])
        dist.all_reduce(flat)
        at = 0
        for g in gradients:
            g.copy_(flat[at:at + g.numel()].view_as(g))
            at += g.numel()


def clean(job):
    """Frees the models before: DDP and FSDP are in cycles of references."""
    gc.collect()
    if job.cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def timed(job, mode, tokens, options, communicates):
    """The times of steps in ms, of the slowest rank, and the memory of this rank in bytes."""
    clean(job)
    s = Step(job, mode, tokens, communicates)
    step = s.prepare(options.warm)
    job.barrier()
    marks = [job.mark()]
    for i in range(options.steps):
        step(i)
        marks.append(job.mark())
    job.wait()
    times = job.slowest([job.between(a, b) for a, b in zip(marks, marks[1:])])
    memory = {}
    if job.cuda:
        free, total = torch.cuda.mem_get_info()
        memory = {"peak_bytes": torch.cuda.max_memory_allocated(),
                  "other_bytes": total - free - torch.cuda.memory_reserved()}
    return times, memory, s.whole


def losses(job, mode, tokens, options):
    """The losses of steps with fresh tokens, each the mean over ranks, by deterministic kernels of PyTorch."""
    torch.use_deterministic_algorithms(True)  # with warn_only=True attention is not deterministic
    clean(job)
    s = Step(job, mode, tokens)
    seen = torch.stack([s.step(i, fresh=True) for i in range(options.losses)])
    job.wait()
    torch.use_deterministic_algorithms(False)
    all_ranks = job.exchange(seen.double().tolist())
    return [sum(v) / job.n for v in zip(*all_ranks)]


def measure(job, options):
    for mode in options.modes.split(","):
        for tokens in map(int, options.tokens.split(",")) if options.steps else ():
            if not job.goes_on():
                return
            off, _, _ = timed(job, mode, tokens, options, False)
            times, memory, parameters = timed(job, mode, tokens, options, True)
            middle = statistics.median(times)
            job.row(kind="step", mode=mode, tokens=tokens, ms=middle, min_ms=min(times), max_ms=max(times),
                    compute_ms=statistics.median(off), exposed_ms=middle - statistics.median(off), times=times,
                    tokens_per_s=tokens * (1 if mode.startswith("tp") else job.n) / middle * 1e3,
                    parameters=parameters, **memory)
        if options.losses and mode != "tp_graph" and job.goes_on():
            tokens = int(options.tokens.split(",")[0])
            job.row(kind="losses", mode=mode, tokens=tokens, losses=losses(job, mode, tokens, options))


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--modes", default="ddp,fsdp,tp,tp_graph")
    p.add_argument("--tokens", default="1024,4096")
    p.add_argument("--warm", type=int, default=4)
    p.add_argument("--steps", type=int, default=16)
    p.add_argument("--losses", type=int, default=0)
    options = p.parse_args()
    job = ranks.Job()
    measure(job, options)
    job.close()


if __name__ == "__main__":
    main()
