"""A rank's job: its device, the stream of everything that is measured, and words between ranks through gloo."""

import ctypes
import datetime
import faulthandler
import os
import signal

import torch
import torch.distributed as dist


class Job:
    """One rank of the measurement. On a GPU all work is on one stream, which captures use, too."""

    def __init__(self, device, seconds):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG: ends with the launcher
        faulthandler.dump_traceback_later(seconds, exit=True)
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.cuda, self.buffers = device == "cuda", {}
        self.device, self.queue, self.stream = torch.device("cpu"), None, None
        if self.cuda:
            self.device = torch.device("cuda", self.rank)
            torch.cuda.set_device(self.device)
            self.queue = torch.cuda.Stream()
            torch.cuda.set_stream(self.queue)
            self.stream = self.queue.cuda_stream
        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))

    def buffer(self, name, shape):
        """Memory that all contenders use in turns."""
        key = name, *shape
        if key not in self.buffers:
            self.buffers[key] = torch.empty(shape, dtype=torch.bfloat16, device=self.device)
        return self.buffers[key]

    def exchange(self, value):
        """Every rank's value, by rank. Collective."""
        values = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def barrier(self):
        dist.barrier()

    def wait(self):
        """Returns when this rank's work is done."""
        if self.cuda:
            torch.cuda.synchronize()

    def agree(self, failure):
        """Raises on all ranks when one of them has a failure (an exception or None). Collective."""
        text = failure and f"{type(failure).__name__}: {failure}"
        texts = [f"rank {r}: {t}" for r, t in enumerate(self.exchange(text)) if t]
        if texts:
            raise Failed("; ".join(texts))

    def together(self, do, *arguments):
        """do(...), which is a failure of all ranks if it is one of any."""
        failure, value = None, None
        try:
            value = do(*arguments)
            self.wait()
        except Exception as e:  # of foreign libraries, too
            failure = e
        self.agree(failure)
        return value


class Failed(Exception):
    """A measurement failed on some rank; all ranks know."""
