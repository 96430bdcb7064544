"""What the programs of this folder share: an end in bounded time, which library is loaded, and a word between ranks
that does not go through it."""

import ctypes
import faulthandler
import json
import os
import signal
import time

# No multicast: a program that creates multicast objects can take the host's GPUs out of service.
NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}


def bounded(seconds):
    """Ends this process with its stacks on stderr after so many seconds, and with its parent. May be called again to
    move the end."""
    os.environ.update(NO_MULTICAST)
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    faulthandler.dump_traceback_later(seconds, exit=True)


def libraries():
    """The paths of the collective libraries mapped into this process."""
    with open("/proc/self/maps") as maps:
        paths = {line.split(None, 5)[5].strip() for line in maps if line.count("/") > 0}
    return sorted(p for p in paths if os.path.basename(p).startswith(("libnccl", "libgoccl")))


def check_library(expect):
    """Says which library answers; raises if it is not "goccl" or "stock", as expected. Call it after the first
    collective: goccl's core is loaded then."""
    loaded = libraries()
    ours = any(os.path.basename(p).startswith("libgoccl") for p in loaded)
    if expect and ours != (expect == "goccl"):
        raise SystemExit(f"expected {expect}, but these are loaded: {loaded}")
    return "goccl" if ours else "stock"


def write_json(path, value):
    """Replaces the file as a whole, so that a reader never sees half of it."""
    if not path:
        return
    with open(path + ".tmp", "w") as f:
        json.dump(value, f, indent=1)
        f.write("\n")
    os.replace(path + ".tmp", path)


def now():
    """Seconds, on a clock that all processes of the host share."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


class Board:
    """Values that ranks show each other through the launcher's TCPStore, never through the library under test."""

    def __init__(self, store, rank, world):
        self.store, self.rank, self.world, self.turn = store, rank, world, 0

    def exchange(self, value, seconds=45):
        """Everyone's value, by rank. Collective. Raises when someone does not come in time."""
        import datetime

        self.turn += 1
        self.store.set(f"board/{self.turn}/{self.rank}", json.dumps(value))
        keys = [f"board/{self.turn}/{r}" for r in range(self.world)]
        self.store.wait(keys, datetime.timedelta(seconds=seconds))
        return [json.loads(self.store.get(k)) for k in keys]


def join():
    """This rank's store, number and world from torchrun's environment."""
    from torch.distributed.rendezvous import rendezvous

    store, rank, world = next(iter(rendezvous("env://")))
    return store, rank, world
