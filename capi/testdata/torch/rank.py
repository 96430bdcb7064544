"""One rank of a scenario of faults.py."""

import contextlib
import ctypes
import os
import signal
import threading
import time

from common import check_library, now
from library import (DeviceMemory, FLOAT, Failure, HostMemory, IN_PROGRESS, Library, REMOTE_ERROR, SHRINK_ABORT,
                     SUCCESS, SUM, TIMEOUT, UniqueId, require)

# What the documentation promises, in seconds.
DETECTED, ABORTED, KERNELS_END = 1.0, 0.100, 1.0
OP_TIMEOUT, INIT_TIMEOUT = 2.0, 5.0


class Rank:
    """One process of a scenario."""

    def __init__(self, args):
        self.rank, self.world, self.dir = args.rank, args.world, args.dir
        self.victim = args.world - 1
        self.times = {}
        self.lib = Library(args.lib)
        self.memory = (HostMemory if args.device == "host" else DeviceMemory)(args.rank)

    # Between the processes: files of the scenario's folder.

    def show(self, name, value=""):
        path = os.path.join(self.dir, name)
        with open(path + f".{self.rank}", "w") as f:
            f.write(str(value))
        os.replace(path + f".{self.rank}", path)

    def see(self, name, seconds=25):
        end = now() + seconds
        while now() < end:
            with contextlib.suppress(FileNotFoundError), open(os.path.join(self.dir, name)) as f:
                return f.read()
            time.sleep(0.001)
        raise Failure(f"{name} did not come in {seconds} s")

    def meet(self, name, ranks=None):
        self.show(f"{name}-{self.rank}")
        for r in range(self.world) if ranks is None else ranks:
            self.see(f"{name}-{r}")

    def unique_id(self):
        id = UniqueId()
        if self.rank == 0:
            self.lib.ok(self.lib.c.ncclGetUniqueId(ctypes.byref(id)), "ncclGetUniqueId")
            self.show("id", bytes(id).hex())
        ctypes.memmove(ctypes.byref(id), bytes.fromhex(self.see("id")), 128)
        return id

    def communicator(self):
        begin = now()
        result, comm = self.lib.init(self.world, self.unique_id(), self.rank)
        self.lib.ok(result, "ncclCommInitRank")
        self.times["init_s"] = now() - begin
        return comm

    def die(self, when):
        """SIGKILL from a thread as soon as when() returns, so that it comes in the middle of whatever the main thread
        does."""

        def kill():
            when()
            self.show("killed_at", repr(now()))
            os.kill(os.getpid(), signal.SIGKILL)

        threading.Thread(target=kill, daemon=True).start()

    def die_in(self, seconds):
        self.die(lambda: time.sleep(seconds))

    def die_joining(self):
        """SIGKILL a moment after this process opened its first connection to the others, or after a second."""

        def sockets():
            n = 0
            for fd in os.listdir("/proc/self/fd"):
                with contextlib.suppress(OSError):
                    n += os.readlink(f"/proc/self/fd/{fd}").startswith("socket:")
            return n

        before, end = sockets(), now() + 1

        def when():
            while sockets() <= before and now() < end:
                time.sleep(0.0005)
            time.sleep(0.01)

        self.die(when)

    # What a rank does with a communicator.

    def all_reduce(self, comm):
        return self.lib.c.ncclAllReduce(*self.memory.pointers(), self.memory.count, FLOAT, SUM, comm,
                                        self.memory.stream)

    def wait_idle(self, seconds, what):
        end = now() + seconds
        while not self.memory.idle():
            require(now() < end, f"{what}: the stream is not idle after {seconds} s")
            time.sleep(0.0005)

    def right_sum(self, comm, ranks, what):
        """One all-reduce of 1, 2, … over ranks, checked."""
        self.memory.fill(self.rank + 1)
        self.lib.ok(self.all_reduce(comm), f"ncclAllReduce, {what}")
        self.wait_idle(10, what)
        require(self.memory.holds(sum(r + 1 for r in ranks)), f"{what}: the all-reduce gave a wrong sum")

    def until_error(self, comm, step, seconds=10):
        """Repeats step, which returns a result, until it or ncclCommGetAsyncError says an error. Never waits for the
        stream without looking at the error."""
        end = now() + seconds
        while now() < end:
            returned = step()
            found = self.lib.async_error(comm)
            while returned == SUCCESS and found == SUCCESS and not self.memory.idle() and now() < end:
                found = self.lib.async_error(comm)
            if returned != SUCCESS or found not in (SUCCESS, IN_PROGRESS):
                return now(), returned, self.lib.async_error(comm)
        raise Failure(f"no error within {seconds} s")

    def after_death(self, comm, step):
        """What every survivor must find: an error in time, idle streams, a context that works, a smaller
        communicator, a quick abort."""
        found_at, returned, found = self.until_error(comm, step)
        killed_at = float(self.see("killed_at"))
        self.times["detected_s"] = found_at - killed_at
        self.times["last_error"] = self.lib.last_error()
        require(found == REMOTE_ERROR,
                f"ncclCommGetAsyncError says {found}, the call returned {returned}; wanted ncclRemoteError")
        require(self.times["detected_s"] <= DETECTED, f"the death was noticed after {self.times['detected_s']:.3f} s")
        self.wait_idle(KERNELS_END, "kernels after the death")
        self.times["kernels_ended_s"] = now() - killed_at
        require(self.memory.works(), "the CUDA context does not compute after the death")
        require(self.all_reduce(comm) == REMOTE_ERROR, "a call after the death is not refused with ncclRemoteError")

        # Shrinking ends what is under way by itself, and is asked of a communicator that is still there.
        left = [r for r in range(self.world) if r != self.victim]
        less, count, gone = ctypes.c_void_p(), ctypes.c_int(), (ctypes.c_int * 1)(self.victim)
        begin = now()
        self.lib.ok(self.lib.c.ncclCommShrink(comm, gone, 1, ctypes.byref(less), None, SHRINK_ABORT), "ncclCommShrink")
        self.times["shrink_s"] = now() - begin
        self.lib.ok(self.lib.c.ncclCommCount(less, ctypes.byref(count)), "ncclCommCount")
        require(count.value == len(left), f"the shrunk communicator has {count.value} ranks")
        for i in range(20):
            self.right_sum(less, left, f"all-reduce {i} after shrinking")

        self.abort(comm)
        self.right_sum(less, left, "all-reduce after the abort of the parent")
        require(self.memory.works(), "the CUDA context does not compute after the abort")
        self.lib.ok(self.lib.c.ncclCommDestroy(less), "ncclCommDestroy")

    def abort(self, comm):
        begin = now()
        self.lib.ok(self.lib.c.ncclCommAbort(comm), "ncclCommAbort")
        self.times["abort_s"] = now() - begin
        require(self.times["abort_s"] <= ABORTED, f"ncclCommAbort took {self.times['abort_s']:.3f} s")

    # The scenarios.

    def loop(self):
        comm = self.communicator()
        for i in range(5):
            self.right_sum(comm, range(self.world), f"all-reduce {i}")
        self.meet("ready")
        if self.rank == self.victim:
            self.die_in(0.3)
        self.after_death(comm, lambda: self.all_reduce(comm))

    def graph(self):
        torch = self.memory.torch
        comm = self.communicator()
        self.right_sum(comm, range(self.world), "all-reduce before the capture")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.memory.side):
            for _ in range(8):
                self.lib.ok(self.all_reduce(comm), "ncclAllReduce in a capture")
        self.meet("ready")
        if self.rank == self.victim:
            self.die_in(0.3)

        def replay():
            with torch.cuda.stream(self.memory.side):
                graph.replay()
            return SUCCESS

        self.after_death(comm, replay)
        graph.reset()

    def init(self):
        """Killed at a moment that may be before, in, or after the set-up: an error in bounded time is right, and so
        is a communicator whose first call fails."""
        id = self.unique_id()
        self.meet("ready")
        if self.rank == self.victim:
            self.die_joining()
        begin = now()
        result, comm = self.lib.init(self.world, id, self.rank)
        self.times["init_returned_s"] = now() - begin
        self.times["init_result"] = result
        if result == SUCCESS:
            if self.rank == self.victim:
                time.sleep(10)
            found_at, _, found = self.until_error(comm, lambda: self.all_reduce(comm))
            require(found == REMOTE_ERROR, f"ncclCommGetAsyncError says {found}, wanted ncclRemoteError")
            self.abort(comm)
        else:
            found_at = now()
            self.times["last_error"] = self.lib.last_error()
            require(self.times["last_error"], "ncclGetLastError is empty")
        self.times["detected_s"] = found_at - float(self.see("killed_at"))
        # Of a rank that died before it said a word nobody can know; then the set-up's own limit holds.
        allowed = INIT_TIMEOUT + DETECTED if "have not come" in self.times.get("last_error", "") else DETECTED
        require(self.times["detected_s"] <= allowed, f"the death was noticed after {self.times['detected_s']:.3f} s")
        require(self.memory.works(), "the CUDA context does not compute after the death")

    def abort_scenario(self):
        comm = self.communicator()
        self.right_sum(comm, range(self.world), "all-reduce before")
        self.meet("ready")
        if self.rank != self.victim:
            self.lib.ok(self.all_reduce(comm), "ncclAllReduce")
            time.sleep(0.2)
            require(not self.memory.idle(), "the all-reduce ended without the last rank")
        failed = []

        def other():
            try:
                self.abort(comm)
            except Failure as e:
                failed.append(e)

        self.meet("waiting")
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(20)
        require(not thread.is_alive(), "ncclCommAbort does not return")
        if failed:
            raise failed[0]
        self.wait_idle(KERNELS_END, "kernels after the abort")
        require(self.memory.works(), "the CUDA context does not compute after the abort")

    def absent(self):
        comm = self.communicator()
        self.right_sum(comm, range(self.world), "all-reduce before")
        self.meet("ready")
        if self.rank == self.victim:
            self.meet("done")
        else:
            begin = now()
            once = [self.all_reduce(comm)]
            found_at, returned, found = self.until_error(comm, lambda: once.pop() if once else SUCCESS)
            self.times["detected_s"] = found_at - begin
            self.times["last_error"] = text = self.lib.last_error()
            self.meet("done")
            require(found in (REMOTE_ERROR, TIMEOUT), f"ncclCommGetAsyncError says {found}")
            require(OP_TIMEOUT / 2 <= self.times["detected_s"] <= OP_TIMEOUT + DETECTED,
                    f"the absence was noticed after {self.times['detected_s']:.3f} s")
            require(str(self.victim) in text, f"the last error does not name rank {self.victim}: {text}")
            self.wait_idle(KERNELS_END, "kernels after the deadline")
        self.abort(comm)
        require(self.memory.works(), "the CUDA context does not compute after the deadline")

    def torch_scenario(self, blocking=True):
        import datetime

        import torch
        import torch.distributed as dist

        store = dist.FileStore(os.path.join(self.dir, "store"), self.world)
        dist.init_process_group("nccl", store=store, rank=self.rank, world_size=self.world,
                                timeout=datetime.timedelta(seconds=30),
                                device_id=torch.device("cuda", self.rank))
        x = torch.ones(self.memory.count, device="cuda")
        for _ in range(5):
            dist.all_reduce(x.fill_(1))
        torch.cuda.synchronize()
        require(x[0].item() == self.world, "a wrong sum before the death")
        self.meet("ready")
        if self.rank == self.victim:
            self.die_in(0.3)
        try:
            end = now() + 25
            while now() < end:
                work = dist.all_reduce(x, async_op=True)
                work.wait()
                torch.cuda.synchronize()
            raise Failure("no exception within 25 s")
        except RuntimeError as e:  # DistBackendError among them
            self.times["detected_s"] = now() - float(self.see("killed_at"))
            self.times["exception"] = f"{type(e).__name__}: {str(e)[:300]}"
        if blocking:
            require(self.times["detected_s"] <= DETECTED + 1,
                    f"the exception came after {self.times['detected_s']:.3f} s")
        torch.cuda.synchronize()
        require(int(torch.arange(1000, device="cuda").sum()) == 499500,
                "the CUDA context does not compute after the exception")

    def run(self, scenario):
        {"loop": self.loop, "graph": self.graph, "init": self.init, "abort": self.abort_scenario, "absent": self.absent,
         "torch": self.torch_scenario, "torch_async": lambda: self.torch_scenario(blocking=False)}[scenario]()
        self.times["library"] = check_library(os.environ.get("EXPECT_LIBRARY"))
