"""A rank of a job that hangs as it is told: see hang.py, which starts it.

    rank.py torch|host DIR RANK RANKS VICTIM

torch: torch.distributed on whatever libnccl.so.2 the process has. host: goccl.nccl on the host device. Lines of the
standard input are what to do next; every rank answers each with a line.
"""

import contextlib
import ctypes
import os
import queue
import signal
import sys
import threading
import time


class Torch:
    """Two groups of all ranks, of PyTorch."""

    def __init__(self, folder, rank, ranks):
        import torch
        import torch.distributed as dist
        self.torch, self.dist = torch, dist
        torch.cuda.set_device(rank)
        store = dist.FileStore(os.path.join(folder, "store"), ranks)
        dist.init_process_group("nccl", store=store, rank=rank, world_size=ranks)
        self.groups = [None, dist.new_group(list(range(ranks)))]
        self.x = torch.ones(1 << 18, device="cuda")

    def reduce(self, group):
        self.dist.all_reduce(self.x, group=self.groups[group])

    def wait(self):
        self.torch.cuda.synchronize()

    def busy(self):
        """Keeps the stream busy for some 8 s."""
        self.torch.cuda._sleep(int(8 * 1.7e9))

    def dump(self, path):
        """The flight recorder of PyTorch."""
        with open(path, "wb") as f:
            f.write(self.torch._C._distributed_c10d._dump_nccl_trace())


class Host:
    """Two communicators of goccl's Python package, without a GPU."""

    def __init__(self, folder, rank, ranks):
        import numpy
        import goccl.nccl as nccl
        path = os.path.join(folder, "ids")
        if rank == 0:
            ids = [bytes(nccl.get_unique_id()) for _ in range(2)]
            with open(path + ".new", "wb") as f:
                f.write(b"".join(ids))
            os.rename(path + ".new", path)
        for _ in range(600):
            if os.path.exists(path):
                break
            time.sleep(0.05)
        with open(path, "rb") as f:
            text = f.read()
        half = len(text) // 2
        self.comms = [nccl.Communicator.init(ranks, rank, nccl.UniqueId(text[i * half:(i + 1) * half])) for i in (0, 1)]
        self.x = numpy.ones(1 << 10, dtype=numpy.float32)

    def reduce(self, group):
        self.comms[group].all_reduce(self.x, self.x)

    def wait(self):
        """Calls return when they are done."""


def main():
    kind, folder, rank, ranks, victim = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG: no rank outlives hang.py
    job = {"torch": Torch, "host": Host}[kind](folder, rank, ranks)
    lines = queue.Queue()

    def read():  # beside the main thread, which hangs
        for line in sys.stdin:
            what, _, rest = line.strip().partition(" ")
            if what == "dump":
                with contextlib.suppress(Exception):
                    job.dump(rest)
                print("dumped", flush=True)
            else:
                lines.put(what)
        os._exit(1)

    threading.Thread(target=read, daemon=True).start()
    for _ in range(30):
        job.reduce(0)
        job.reduce(1)
        job.wait()
    print("ready", flush=True)
    while True:
        what = lines.get()
        if what == "missing" and rank == victim:
            lines.get()  # it calls when it is told to
        if what == "busy" and rank == victim:
            job.busy()
        order = (1, 0) if what == "deadlock" and rank == victim else (0, 1)
        for group in order[:2 if what == "deadlock" else 1]:
            job.reduce(group)
            job.wait()
        print("through", flush=True)


main()
