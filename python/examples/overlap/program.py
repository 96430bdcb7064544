"""The command line, and the times."""

from __future__ import annotations

import argparse
import dataclasses
import json

from .job import Job
from .operations import AllGatherGEMM, GEMMReduceScatter
from .shape import Shape


def times(job: Job, gather: AllGatherGEMM, scatter: GEMMReduceScatter) -> dict[str, dict[str, float]]:
    """Microseconds of an operation, this example's beside others."""
    import torch
    import torch.distributed as dist
    from torch.distributed import _symmetric_memory as symmetric

    group = dist.group.WORLD.group_name
    symmetric.enable_symm_mem_for_group(group)
    ops = torch.ops.symm_mem

    def cublas_behind():
        gather.gather()
        torch.matmul(gather.full, gather.b, out=gather.c)

    def cublas_ahead():
        torch.matmul(scatter.x, scatter.w, out=scatter.sums)
        scatter.scatter()

    return {
        "all_gather_matmul": {
            "fused": job.measure(gather.fused),
            "unfused, same GEMM": job.measure(gather.unfused),
            "unfused, cuBLAS": job.measure(cublas_behind),
            "symm_mem.fused_all_gather_matmul": job.measure(
                lambda: ops.fused_all_gather_matmul(gather.shard, [gather.b], 0, group)),
            "cuBLAS alone": job.measure(lambda: torch.matmul(gather.full, gather.b, out=gather.c)),
        },
        "matmul_reduce_scatter": {
            "fused": job.measure(scatter.fused),
            "unfused, same GEMM": job.measure(scatter.unfused),
            "unfused, cuBLAS": job.measure(cublas_ahead),
            "symm_mem.fused_matmul_reduce_scatter": job.measure(
                lambda: ops.fused_matmul_reduce_scatter(scatter.x, scatter.w, "sum", 0, group)),
            "cuBLAS alone": job.measure(lambda: torch.matmul(scatter.x, scatter.w, out=scatter.sums)),
        },
    }


def main(kernels, description: str) -> int:
    """Checks both operations, and on GPUs measures them. The exit status is not 0 when a rank has a wrong result."""
    p = argparse.ArgumentParser(description=description)
    p.add_argument("--rows", type=int, help="rows of all ranks together")
    p.add_argument("--inner", type=int)
    p.add_argument("--columns", type=int)
    p.add_argument("--chunks", type=int, default=4, help="of a rank's rows")
    p.add_argument("--steps", type=int, default=3, help="checks of each operation")
    p.add_argument("--json", metavar="FILE", help="write times as JSON")
    a = p.parse_args()
    job = Job()
    tile = kernels.HOST_TILE if job.host else kernels.TILE
    rows, inner, columns = (tile[0] * a.chunks * job.n, 2 * tile[1], tile[1]) if job.host else (4096, 8192, 3584)
    shape = Shape((a.rows or rows) // job.n, a.inner or inner, a.columns or columns, a.chunks, tile)
    gather, scatter = AllGatherGEMM(job, shape, kernels), GEMMReduceScatter(job, shape, kernels)
    good = True
    for _ in range(a.steps):
        good = gather.check() and scatter.check() and good
    print(f"rank {job.rank} of {job.n}: {'OK' if good else 'WRONG'}", flush=True)
    job.comm.barrier()  # nobody leaves while a peer may still write
    if not job.host and good:
        result = times(job, gather, scatter)
        if job.rank == 0:
            report(job, shape, result, a.json)
    job.close()
    return 0 if good else 1


def report(job: Job, shape: Shape, result: dict[str, dict[str, float]], path: str | None) -> None:
    import torch

    for operation, by in result.items():
        print(f"\n{operation}, {job.n} ranks, microseconds")
        for name, us in by.items():
            print(f"  {name:40} {us:9.1f}   {by['fused'] / us:5.2f} of it is fused")
    if path:
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"schema": "goccl-overlap/1", "gpu": torch.cuda.get_device_name(), "ranks": job.n,
                       "shape": dataclasses.asdict(shape), "microseconds": result}, f, indent=1)
