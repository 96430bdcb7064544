"""All-gather -> GEMM and GEMM -> reduce-scatter, overlapped by chunks, with any GEMM: here numpy's.

    python -m goccl run -n 4 -- python python/examples/gemm_overlap.py

The rows of A are divided among the ranks. Each rank puts its rows into all peers' windows chunk by chunk, on a stream
of its own, with a signal for each chunk. The GEMM of a chunk starts when its signal has come, while later chunks are
under way. The way back is the same: a chunk of partial sums goes to its owner as soon as its GEMM is done. The exit
status is not 0 when any rank has a wrong result. Runs on the host device.
"""

import sys

import numpy as np

import goccl
import goccl.nccl as nccl
from goccl.nccl import WaitSignalDesc

ROWS, CHUNKS, K, N = 64, 4, 96, 32  # rows of a rank, in chunks
PART = ROWS // CHUNKS
DATA, SUMS = 0, 1  # contexts of signals


def all_gather_gemm(comm, mine, b, gathered, window, side):
    """C = A @ B, where the rows of A are divided among the ranks."""
    n, rank = comm.nranks, comm.rank
    c = np.empty((n * ROWS, b.shape[1]), np.float32)
    for k in range(CHUNKS):
        at = k * PART
        for peer in (p % n for p in range(rank + 1, rank + n)):
            comm.put_signal(mine[at:at + PART], peer, window, (rank * ROWS + at) * K, k, DATA, stream=side)
    c[rank * ROWS:(rank + 1) * ROWS] = mine @ b  # own rows need no wait
    for k in range(CHUNKS):
        for peer in (p % n for p in range(rank + 1, rank + n)):
            comm.wait_signal(WaitSignalDesc(peer, 1, k, DATA))
            at = peer * ROWS + k * PART
            c[at:at + PART] = gathered[at:at + PART] @ b
    return c


def gemm_reduce_scatter(comm, x, w, slots, window, side):
    """Rows of this rank of the sum of all ranks' X @ W, added in rank order."""
    n, rank = comm.nranks, comm.rank
    tiles = []  # in use until the peers have got them
    for k in range(CHUNKS):
        for owner in (p % n for p in range(rank + 1, rank + n)):
            at = owner * ROWS + k * PART
            tiles.append(np.ascontiguousarray(x[at:at + PART] @ w))
            comm.put_signal(tiles[-1], owner, window, (rank * ROWS + k * PART) * N, k, SUMS, stream=side)
    slots[rank] = x[rank * ROWS:(rank + 1) * ROWS] @ w
    out = np.empty((ROWS, N), np.float32)
    for k in range(CHUNKS):
        comm.wait_signal([WaitSignalDesc(p, 1, k, SUMS) for p in range(n) if p != rank])
        part = slice(k * PART, (k + 1) * PART)
        out[part] = slots[0, part]
        for r in range(1, n):
            out[part] += slots[r, part]
    side.synchronize()
    return out


def main() -> int:
    bootstrap = goccl.Bootstrap.from_env()
    rank = bootstrap.get_rank()
    comm = nccl.Communicator.from_bootstrap(bootstrap, device=goccl.Device(goccl.DeviceType.CPU, rank))
    n, side = comm.nranks, goccl.device.Stream(comm.device)
    random = np.random.default_rng(7)
    a, b = random.standard_normal((n * ROWS, K)).astype("f4"), random.standard_normal((K, N)).astype("f4")
    xs = random.standard_normal((n, n * ROWS, K)).astype("f4")
    gathered = goccl.GpuBuffer((n * ROWS, K), "float32", device=comm.device)
    slots = goccl.GpuBuffer((n, ROWS, N), "float32", device=comm.device)  # partial sums by source
    rows = comm.register_window(gathered, 1)
    sums = comm.register_window(slots, 1)
    own = slice(rank * ROWS, (rank + 1) * ROWS)
    c = all_gather_gemm(comm, a[own].copy(), b, gathered, rows, side)
    out = gemm_reduce_scatter(comm, xs[rank], b, slots, sums, side)
    good = np.allclose(c, a @ b, atol=1e-3) and np.allclose(out, sum(x[own] @ b for x in xs), atol=1e-3)
    comm.barrier()  # nobody leaves while a peer may still put
    print(f"rank {rank} of {n}: {'OK' if good else 'WRONG'}", flush=True)
    comm.finalize()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
