"""One rank of a benchmark that turns.py runs, or torchrun."""

import json
import os
import sys
import time

import torch
import torch.distributed as dist


class Job:
    """Joins the ranks: NCCL's backend on GPUs, gloo without. The ranks talk about figures through gloo. before() is
    called when this turn may use the GPU, before they join."""

    def __init__(self, before=lambda: None):
        seconds = sys.stdin.readline() if "TURN_ROWS" in os.environ else "600"
        self.end = time.monotonic() + float(seconds)
        self.rank, self.n = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.cuda = torch.cuda.is_available()
        self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if self.cuda else torch.device("cpu")
        if self.cuda:
            torch.cuda.set_device(self.device)
        before()
        dist.init_process_group("nccl" if self.cuda else "gloo")
        self.talk = dist.new_group(backend="gloo")
        self.rows = open(os.environ["TURN_ROWS"], "a") if "TURN_ROWS" in os.environ and self.rank == 0 else None
        if self.cuda:
            dist.all_reduce(torch.ones(1, device=self.device))
            torch.cuda.synchronize()
            self.check_library()
        self.row(kind="machine", machine=self.machine())

    def check_library(self):
        """Fails unless the library is the one that the turn is about."""
        with open("/proc/self/maps") as f:
            ours = "libgoccl.so" in f.read()
        wanted = os.environ.get("TURN_LIBRARY")
        if wanted and ours != (wanted == "goccl"):
            raise SystemExit(f"this process runs {'goccl' if ours else 'NCCL'}, not {wanted}")

    def machine(self):
        facts = {"torch": torch.__version__}
        if self.cuda:
            facts["gpus"] = [torch.cuda.get_device_name(i) for i in range(self.n)]
            facts["library"] = ".".join(map(str, torch.cuda.nccl.version()))
        return facts

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()

    def barrier(self):
        self.wait()
        dist.barrier(group=self.talk)

    def exchange(self, value):
        """The values of all ranks."""
        out = [None] * self.n
        dist.all_gather_object(out, value, group=self.talk)
        return out

    def slowest(self, values):
        """Of lists of figures, the largest of any rank at each place."""
        return [max(v) for v in zip(*self.exchange(values))]

    def goes_on(self, seconds=0):
        """Whether rank 0 has that much time left."""
        return self.exchange(time.monotonic() + seconds < self.end)[0]

    def row(self, **values):
        if self.rank == 0:
            line = json.dumps(values)
            if self.rows:
                self.rows.write(line + "\n")
                self.rows.flush()
            print(line)

    def mark(self):
        """A point of the current stream's time; between() is for two of them that have passed, in ms."""
        if not self.cuda:
            return time.perf_counter()
        e = torch.cuda.Event(enable_timing=True)
        e.record()
        return e

    def between(self, a, b):
        return a.elapsed_time(b) if self.cuda else (b - a) * 1e3

    def close(self):
        self.barrier()
        if self.rows:
            self.rows.close()
        dist.destroy_process_group()
