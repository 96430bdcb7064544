#!/usr/bin/env python3
"""Trains a small transformer, the same way every time, so that runs on two libraries can be compared.

    torchrun --nproc_per_node=N train.py [--fsdp | --graph] [--dtype float32|bfloat16] [--steps 30]
                                         [--expect goccl|stock] [--json FILE]
    train.py --compare OURS.json STOCK.json [--tolerance 1e-3]

--graph captures a whole step (forward, backward with DDP's all-reduces, optimizer) after DDP's warm-up and replays it
for the other steps. Losses are the mean over ranks, gathered through the launcher's store; arithmetic outside of the
library is deterministic, so that any difference between two runs comes from the order in which gradients were summed.
"""

import argparse
import contextlib
import datetime
import hashlib
import json
import os
import statistics
import sys
import time

from common import Board, bounded, check_library, join, write_json

VOCABULARY, LENGTH, BATCH = 256, 128, 8
# DDP measures itself in its first 10 steps and rebuilds its buckets after the first; none of that may be captured
WARM_UP = 12


def build(dim, layers, heads):
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.between = nn.LayerNorm(dim), nn.LayerNorm(dim)
            self.qkv, self.out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
            self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

        def forward(self, x, mask):
            b, t, _ = x.shape
            q, k, v = self.qkv(self.before(x)).view(b, t, 3, heads, dim // heads).permute(2, 0, 3, 1, 4)
            # Written out: the fused kernels' backward adds in no fixed order.
            weights = ((q @ k.transpose(-1, -2)) * (dim // heads) ** -0.5 + mask).softmax(-1)
            x = x + self.out((weights @ v).transpose(1, 2).reshape(b, t, dim))
            return x + self.down(F.gelu(self.up(self.between(x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Linear(VOCABULARY, dim, bias=False)
            self.places = nn.Parameter(torch.randn(LENGTH, dim) * 0.02)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.last, self.head = nn.LayerNorm(dim), nn.Linear(dim, VOCABULARY, bias=False)

        def forward(self, tokens, wanted, vocabulary, mask):
            # A product with one-hot rows instead of a look-up, whose backward sorts and reads sizes back to the host.
            x = self.tokens((tokens[..., None] == vocabulary).to(self.places.dtype)) + self.places
            for block in self.blocks:
                x = block(x, mask)
            return F.cross_entropy(self.head(self.last(x)).float().view(-1, VOCABULARY), wanted.view(-1))

    return Model()


def batch_of(step, rank):
    """Sequences in which every token follows from the one before: (token × 5 + 17) mod VOCABULARY, with one in eight
    replaced."""
    import torch

    g = torch.Generator().manual_seed(step * 1000 + rank)
    x = torch.empty(BATCH, LENGTH + 1, dtype=torch.int64)
    x[:, 0] = torch.randint(VOCABULARY, (BATCH,), generator=g)
    noise = torch.rand(BATCH, LENGTH, generator=g) < 0.125
    other = torch.randint(VOCABULARY, (BATCH, LENGTH), generator=g)
    for t in range(LENGTH):
        x[:, t + 1] = torch.where(noise[:, t], other[:, t], (x[:, t] * 5 + 17) % VOCABULARY)
    return x[:, :-1].contiguous(), x[:, 1:].contiguous()


def train(args):
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    if args.graph:
        os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"  # as PyTorch's notes on CUDA graphs ask for DDP
    bounded(args.limit)
    import torch
    import torch.distributed as dist

    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False

    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
    store, rank, world = join()
    board = Board(dist.PrefixStore("board", store), rank, world)
    dist.init_process_group("nccl", store=dist.PrefixStore("train", store), rank=rank, world_size=world,
                            timeout=datetime.timedelta(seconds=60),
                            device_id=device)

    # 1. The same model on every rank, then shared out.
    dtype = getattr(torch, args.dtype)
    torch.manual_seed(1234)
    model = build(args.dim, args.layers, args.dim // 64).to(device, dtype)
    parameters = sum(p.numel() for p in model.parameters())
    side = torch.cuda.Stream()
    if args.fsdp:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cuda", (world,))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        trained = model
    else:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side) if args.graph else contextlib.nullcontext():
            trained = torch.nn.parallel.DistributedDataParallel(model, device_ids=[device.index],
                    broadcast_buffers=False)
        torch.cuda.current_stream().wait_stream(side)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, eps=1e-6, capturable=not args.fsdp)

    # 2. A step on buffers that stay where they are.
    batches = [batch_of(i, rank) for i in range(args.steps)]
    tokens, wanted = (x.to(device) for x in batches[0])
    vocabulary = torch.arange(VOCABULARY, device=device)
    mask = torch.full((LENGTH, LENGTH), float("-inf"), device=device, dtype=dtype).triu(1)
    loss_now = torch.zeros((), device=device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = trained(tokens, wanted, vocabulary, mask)
        loss.backward()
        optimizer.step()
        loss_now.copy_(loss.detach())

    # 3. All steps, the first of them eager when a graph is to be captured.
    graph, losses, seconds = None, [], []
    for i, (new_tokens, new_wanted) in enumerate(batches):
        tokens.copy_(new_tokens)
        wanted.copy_(new_wanted)
        if args.graph and i == WARM_UP:
            graph = torch.cuda.CUDAGraph()
            torch.cuda.synchronize()
            optimizer.zero_grad(set_to_none=True)
            with torch.cuda.graph(graph, stream=side):
                step()
        torch.cuda.synchronize()
        board.exchange(None)
        begin = time.perf_counter()
        if graph:
            graph.replay()
        elif args.graph:
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                step()
            torch.cuda.current_stream().wait_stream(side)
        else:
            step()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
        losses.append(loss_now.item())
    library = check_library(args.expect)

    # 4. What came of it: the ranks must hold the same parameters, or their shards of them.
    digest = hashlib.sha256()
    for p in model.parameters():
        p = p.to_local() if hasattr(p, "to_local") else p
        digest.update(p.detach().contiguous().view(torch.uint8).cpu().numpy().tobytes())
    everyone = board.exchange({"losses": losses, "digest": digest.hexdigest(), "seconds": seconds})
    means = [sum(e["losses"][i] for e in everyone) / world for i in range(args.steps)]
    # Steps wait for each other, so the slowest rank's time is the step's. The first steps make buckets, communicators
    # and plans.
    slowest = [max(e["seconds"][i] for e in everyone) for i in range(args.steps)]
    steady = slowest[WARM_UP + 1 :] or slowest
    report = {
        "mode": "fsdp" if args.fsdp else "ddp, graph" if args.graph else "ddp", "library": library, "world": world,
        "torch": torch.__version__,
        "dtype": args.dtype, "parameters": parameters, "losses": means, "first_rank_losses": losses,
        "step_ms": statistics.median(steady) * 1e3,
        "fastest_step_ms": min(steady) * 1e3, "first_step_ms": slowest[0] * 1e3,
        "digests": [e["digest"] for e in everyone], "ranks_agree": args.fsdp
        or len({e["digest"] for e in everyone}) == 1,
    }
    learned = all(x == x for x in means) and statistics.mean(means[-3:]) < means[0] - 0.1
    report["ok"] = learned and report["ranks_agree"]
    if rank == 0:
        write_json(args.json, report)
        print(json.dumps({k: v for k, v in report.items() if k != "first_rank_losses"}))
        if not report["ok"]:
            why = "the ranks hold different parameters" if learned else f"the loss went from {means[0]} to {means[-1]}"
            print(f"FAILED: {why}")
    if graph:
        graph.reset()  # before the communicators that it uses go
    dist.destroy_process_group()
    board.exchange("end")
    sys.exit(not report["ok"])


def compare(ours, stock, tolerance):
    """One line about two runs; the exit status tells whether their losses agree."""
    with open(ours) as a, open(stock) as b:
        a, b = json.load(a), json.load(b)
    worst = max(abs(x - y) / max(abs(y), 1e-9) for x, y in zip(a["losses"], b["losses"], strict=True))
    same = a["losses"] == b["losses"] and a["digests"] == b["digests"]
    equal = "losses and parameters equal bit for bit" if same else f"losses differ by {worst:.1e} at most"
    print(f"{a['mode']} {a['dtype']}, {a['world']} ranks: {equal}; a step takes {a['step_ms']:.2f} ms on "
          f"{a['library']}, {b['step_ms']:.2f} ms on {b['library']} ({b['step_ms'] / a['step_ms']:.3f} ×)")
    sys.exit(not (worst <= tolerance and a["ok"] and b["ok"]))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--fsdp", action="store_true", help="fully_shard instead of DDP")
    p.add_argument("--graph", action="store_true", help="capture the step")
    p.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    p.add_argument("--steps", type=int, default=30)
    p.add_argument("--dim", type=int, default=768)
    p.add_argument("--layers", type=int, default=6)
    p.add_argument("--limit", type=int, default=55, help="seconds until the process ends itself")
    p.add_argument("--expect", choices=("goccl", "stock"), help="fail unless this library answers")
    p.add_argument("--json")
    p.add_argument("--compare", nargs=2, metavar=("OURS", "STOCK"))
    p.add_argument("--tolerance", type=float, default=1e-3, help="of the losses, relative")
    args = p.parse_args()
    if args.fsdp and args.graph:
        p.error("--fsdp and --graph exclude each other")
    if args.graph and args.steps <= WARM_UP:
        p.error(f"--graph needs more than {WARM_UP} steps")
    if args.compare:
        compare(*args.compare, args.tolerance)
    train(args)


if __name__ == "__main__":
    main()
