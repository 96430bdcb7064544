"""Expert parallelism that loses a rank: graphs of a decode step are replayed, the last rank is killed between two of
them, the others leave it out, its experts' tokens go to replicas, and the same graphs go on.

    python python/tests/gpu/elastic.py [--ranks 4] [--kills 5]

Rank r is on GPU r, modulo their number. Prints the milliseconds from each kill to the end of the next right step.
"""

import argparse
import os
import pathlib
import random
import signal
import sys
import tempfile
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import jobs  # noqa: E402

TOKENS, HIDDEN, LOCAL, TOP = 64, 7168, 4, 4


def _rank(rank, n, uid, folder):
    from goccl import errors
    from goccl.moe import Buffer

    torch.cuda.set_device(rank % torch.cuda.device_count())
    torch.set_default_device("cuda")
    comm, experts, dead = jobs.communicator(rank, n, uid), LOCAL * n, n - 1
    size = Buffer.get_low_latency_rdma_size_hint(TOKENS, HIDDEN, n, experts)
    buffer = Buffer(comm, num_rdma_bytes=size, low_latency_mode=True, enable_shrink=True)
    same = torch.Generator("cuda").manual_seed(rank)
    x = torch.randint(-8, 9, (TOKENS, HIDDEN), generator=same).bfloat16()
    ids = torch.rand(TOKENS, experts, generator=same).topk(TOP).indices
    weights = torch.full((TOKENS, TOP), 0.5)
    factors = (torch.arange(LOCAL) + rank * LOCAL + 1).bfloat16()[:, None, None]

    def step():
        rows, _, handle, _, _ = buffer.low_latency_dispatch(x, ids, TOKENS, experts, use_fp8=False)
        return buffer.low_latency_combine(rows * factors, ids, weights, handle)[0]

    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step()

    def check(served):
        """The step that the graph has done: expert e multiplies with e + 1."""
        want = (x.float() * torch.where(served < 0, 0, 0.5 * (served + 1)).sum(1, keepdim=True)).bfloat16()
        torch.testing.assert_close(out, want, rtol=2**-6, atol=0.5)

    def replay():
        out.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        buffer.check()

    for _ in range(20):
        replay()
        check(ids)
    killed = pathlib.Path(folder, "killed")
    if rank == dead:
        end = time.monotonic() + random.uniform(0.02, 0.1)
        while time.monotonic() < end:
            replay()
        killed.write_text(str(time.time()))
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        while True:
            replay()
            check(ids)
    except errors.GocclError as e:
        if f"rank {dead}" not in str(e):
            raise
    # An expert of the rank that is gone has a replica on another rank, or, every fourth, none.
    replicas = torch.arange(experts)
    replicas[dead * LOCAL:] = torch.tensor([*range(LOCAL - 1), -1])
    buffer.set_mask({dead}, replicas.tolist())
    for i in range(20):
        replay()
        if i == 0:
            took = (time.time() - float(killed.read_text())) * 1000
        check(replicas[ids])
    pathlib.Path(folder, f"took.{rank}").write_text(str(took))
    buffer.destroy()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--ranks", type=int, default=4)
    p.add_argument("--kills", type=int, default=5)
    o = p.parse_args()
    times = []
    for _ in range(o.kills):
        with tempfile.TemporaryDirectory() as folder:
            jobs.run(o.ranks, _rank, folder, timeout=60, victim=o.ranks - 1)
            times.append(max(float(f.read_text()) for f in pathlib.Path(folder).glob("took.*")))
    times.sort()
    print(f"{o.ranks} ranks on {torch.cuda.device_count()} GPUs, {o.kills} kills: every step right; from a kill to the "
          f"end of the next step {times[len(times) // 2]:.0f} ms in the median, {times[-1]:.0f} at worst")


if __name__ == "__main__":
    main()
