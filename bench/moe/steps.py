"""Captured steps of dispatch and combine, whose inputs change in each step: every element of every result is compared.

    torchrun --nproc_per_node=N bench/moe/steps.py [--steps 100000] [--json FILE]

More ranks than GPUs share them; each case has 60 steps then, because the GPU's time is sliced. A line of JSON for each
case says how many elements were wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import time

import torch
import torch.distributed as dist

import goccl.moe
from measure import head
from routing import Routing

EXPERTS, TOP_K = 256, 8
CASES = (  # tokens, hidden, SMs, float8, part of the steps
    (300, 2048, 16, False, 1.0), (300, 2048, 16, True, 0.2), (513, 4096, 24, False, 0.05),
    (1000, 7168, 7, False, 0.02), (4096, 7168, 16, False, 0.02))


def wrong(buffer: goccl.moe.Buffer, r: Routing, sms: int, eight: bool, steps: int, each: int, zero_copy: bool) -> int:
    """The number of wrong elements of this rank. Values are small integers, so that each sum is exact."""
    tokens, hidden = r.x[0].shape
    layout = buffer.get_dispatch_layout(r.index, r.experts)
    config = goccl.moe.Config(sms)
    most = 16 if eight else 61  # integers that the type holds
    x = torch.randint(0, most, (tokens, hidden), device=r.index.device).to(torch.bfloat16)
    scales = torch.ones(tokens, hidden // 128, device=x.device)
    ranks = layout[3].sum(1).to(torch.bfloat16)[:, None]
    bad = torch.zeros((), dtype=torch.int64, device=x.device)

    def sent() -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        return (x.to(torch.float8_e4m3fn), scales) if eight else x

    handle = buffer.dispatch(sent(), config=config, num_tokens_per_rank=layout[0], num_tokens_per_expert=layout[2],
                             is_token_in_rank=layout[3], zero_copy=zero_copy)[4]

    def step() -> None:
        x.copy_((x + 1).remainder_(most))
        rows = buffer.dispatch(sent(), handle=handle, config=config)[0]
        results = rows[0].to(torch.bfloat16) if eight else rows
        if zero_copy:
            results = buffer.get_combine_buffer(handle).copy_(results)
        out = buffer.combine(results, handle, config=config)[0]
        bad.add_((out != x * ranks).sum())

    with torch.cuda.stream(torch.cuda.Stream()):
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(each):
            step()
    dist.barrier()
    for i in range(steps // each):
        graph.replay()
        if i % 200 == 199:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    return int(bad)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--steps", type=int, default=100000, help="of the first case; the others have a part of them")
    p.add_argument("--zero-copy", action="store_true", help="rows and results in the buffer")
    p.add_argument("--json", help="where the cases go")
    args = p.parse_args()
    rank, ranks, gpus = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), torch.cuda.device_count()
    device = torch.device("cuda", rank % gpus)
    torch.cuda.set_device(device)
    dist.init_process_group("gloo")
    buffer = goccl.moe.Buffer(dist.group.WORLD, goccl.moe.Config().get_nvl_buffer_size_hint(2 * 7168, ranks))
    report = {**head(cuda=True), "schema": "goccl-moe-steps/1", "ranks": ranks, "cases": []}
    for tokens, hidden, sms, eight, part in CASES:
        each = 20 if tokens < 1000 else 5
        steps = 60 if ranks > gpus else int(args.steps * part) // each * each
        begin = time.time()
        found = torch.tensor(wrong(buffer, Routing(tokens, hidden, TOP_K, EXPERTS, ranks, rank, device), sms, eight,
                                   steps, each, args.zero_copy))
        dist.all_reduce(found)
        report["cases"].append({"tokens": tokens, "hidden": hidden, "sms": sms, "float8": eight, "steps": steps,
                                "zero copy": args.zero_copy,
                                "wrong": int(found), "seconds": round(time.time() - begin, 1)})
        if rank == 0:
            print(json.dumps(report["cases"][-1]), flush=True)
    if rank == 0 and args.json:
        with open(args.json, "w") as out:
            json.dump(report, out, indent=1)
    buffer.destroy()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
