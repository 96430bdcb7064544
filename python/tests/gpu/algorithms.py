"""Algorithms on GPUs: default ones, programs for several hosts, and float8_e4m3b15, eager and captured.

    torchrun --nproc_per_node=4 python/tests/gpu/algorithms.py
"""

import os
import sys

import torch

import goccl
from goccl import default_algos
from goccl.language import AlgoSpec, AllReduce

B15, F32 = goccl.DataType.float8_e4m3b15, goccl.DataType.float32


def widen(raw: torch.Tensor) -> torch.Tensor:
    """The values of float8_e4m3b15 bytes."""
    bits = raw.to(torch.int32)
    return ((bits & 0x80) << 8 | (bits & 0x7F) << 7).to(torch.int16).view(torch.float16).float()


def main() -> int:
    bootstrap = goccl.Bootstrap.from_env()
    rank, n = bootstrap.get_rank(), bootstrap.get_n_ranks()
    torch.cuda.set_device(bootstrap.get_local_rank())
    group = goccl.CommGroup(bootstrap=bootstrap)
    side = torch.cuda.Stream()
    wrong = []

    def expect(name, got, want):
        torch.cuda.synchronize()
        if not torch.equal(got, want):
            wrong.append(f"{name}: {got.flatten()[:5].tolist()} is not {want.flatten()[:5].tolist()}")

    def execute(algorithm, x, y, dtype, **more):
        algorithm.execute(group.communicator, x.data_ptr(), y.data_ptr(), x.nbytes, y.nbytes, dtype, goccl.ReduceOp.SUM,
                          torch.cuda.current_stream().cuda_stream, **more)

    default = next(a for a in goccl.AlgorithmCollectionBuilder().build_default_algorithms()
                   if a.collective == "allreduce")
    spec = AlgoSpec("hosts", AllReduce(n, 1, True), max(n // 2, 1), n, True, max_message_size=1 << 24)
    program = goccl.compile(algo=default_algos.allreduce_multi_nodes, algo_spec=spec, thread_block_group_size=2)
    executor = goccl.Executor(group.communicator)
    for count in (n * 64, n * 10000):
        x = torch.full((count,), float(rank), device="cuda")
        execute(program, x, x, F32, executor=executor)
        expect(f"allreduce_multi_nodes {count}", x, torch.full_like(x, n * (n - 1) / 2))
        # Sums of n small multiples of 2^-6 are exact, so narrowing them is, too.
        raw = (torch.arange(count, device="cuda") % 2 * 8 + 0x48).to(torch.uint8)
        want = widen(raw) * n
        for name, more in (("default", {}), ("program", {"executor": executor})):
            a = default if name == "default" else program
            out = raw.clone()
            execute(a, out, out, B15, **more)
            expect(f"e4m3b15 {name} {count}", widen(out), want)
        out = raw.clone()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):  # the first call on a stream allocates
            execute(default, raw, out, B15)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side, capture_error_mode="thread_local"):
            execute(default, raw, out, B15)
        for _ in range(3):
            out.zero_()
            graph.replay()
        expect(f"e4m3b15 captured {count}", widen(out), want)
    for w in wrong:
        print(f"rank {rank}: {w}", file=sys.stderr)
    print(f"rank {rank}: {'OK' if not wrong else 'FAIL'}", flush=True)
    group.barrier()
    executor.close()
    group.close()
    return 1 if wrong else 0


if __name__ == "__main__":
    os.environ.pop("GOCCL_DEVICE", None)
    sys.exit(main())
