"""All-to-all in which every pair of ranks has its length.

    mpirun -np 4 python python/examples/03_alltoallv.py
    python -m goccl run -n 4 -- python python/examples/03_alltoallv.py

Rank r sends (r + p) % 3 + 1 floats to rank p. Every rank knows all counts: the arrays are nranks x nranks matrices, row
r being rank r's view. The exit status is not 0 when any rank received anything wrong. Runs on GPUs with torch or cupy,
else on the host with numpy.
"""

import sys

import numpy as np

import goccl
import goccl.nccl as nccl


def communicator() -> nccl.Communicator:
    """By mpi4py when the program was started by mpirun and mpi4py is there, else as the launcher's environment says."""
    world = goccl.mpi_world()
    if world is not None:
        device = None
        if goccl.device_count():
            device = goccl.Device(goccl.DeviceType.GPU, world.rank % goccl.device_count())
        uid = world.bcast(nccl.get_unique_id().as_bytes if world.rank == 0 else None, root=0)
        return nccl.Communicator.init(nranks=world.size, rank=world.rank, unique_id=nccl.UniqueId(uid), device=device)
    bootstrap = goccl.Bootstrap.from_env()
    device = None
    if goccl.device_count():
        device = goccl.Device(goccl.DeviceType.GPU, bootstrap.get_local_rank() % goccl.device_count())
    return nccl.Communicator.from_bootstrap(bootstrap, device=device)


def to_device(array: np.ndarray, device):
    """The array in memory of the communicator's device, and what brings it back."""
    if device.is_host:
        return array, lambda a: a
    import torch

    return torch.from_numpy(array).to(f"cuda:{device.id}"), lambda t: t.cpu().numpy()


def main() -> int:
    comm = communicator()
    n, rank = comm.nranks, comm.rank
    counts = np.array([[(r + p) % 3 + 1 for p in range(n)] for r in range(n)])
    sendcounts, recvcounts = counts, counts.T
    sdispls = np.cumsum(sendcounts, axis=1) - sendcounts
    rdispls = np.cumsum(recvcounts, axis=1) - recvcounts

    send = np.arange(sendcounts[rank].sum(), dtype=np.float32) + 10 * rank
    recv = np.full(recvcounts[rank].sum(), -1, dtype=np.float32)
    parts = [sdispls[p, rank] + np.arange(counts[p, rank]) + 10 * p for p in range(n)]
    expected = np.concatenate(parts).astype(np.float32)

    sendbuf, _ = to_device(send, comm.device)
    recvbuf, back = to_device(recv, comm.device)
    comm.alltoallv(sendbuf, recvbuf, sendcounts.ravel(), sdispls.ravel(), recvcounts.ravel(), rdispls.ravel())
    if not comm.device.is_host:
        import torch

        torch.cuda.synchronize(comm.device.id)
    got = back(recvbuf)

    if rank == 0:
        print(f"{n} ranks; rank r sends to rank p:\n{sendcounts}")
    good = np.array_equal(got, expected)
    print(f"rank {rank} on {comm.device}: alltoallv {'OK' if good else 'FAIL'} ({len(send)} sent, {len(got)} received)",
          flush=True)
    if not good:
        print(f"rank {rank}: received {got}, expected {expected}", file=sys.stderr)
    comm.destroy()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
