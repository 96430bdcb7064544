#!/usr/bin/env python3
"""Kills ranks, and looks whether the others end in time and can go on.

    faults.py --lib PATH/libnccl.so.2 [--world N] [--device cuda|host] [--only NAME...] [--repeat K] [--json FILE]

Every scenario starts its ranks as processes. The C level is called by ctypes; "torch" goes through torch.distributed with the library preloaded.

    loop    the last rank is killed in the middle of all-reduces; the others hear of it, shrink, go on, abort
    graph   the same while a CUDA graph is replayed
    init    a rank is killed while communicators come up
    abort   a rank never calls; the others abort from another thread
    absent  the same under GOCCL_OP_TIMEOUT: an error instead of an abort
    torch   torch.distributed with TORCH_NCCL_BLOCKING_WAIT=1: an exception
    torch_async   torch.distributed as it is by default: the process is torn down or gets an exception
"""

import argparse
import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

from common import NO_MULTICAST, bounded, check_library, now, write_json

SCENARIOS = ("loop", "graph", "init", "abort", "absent", "torch", "torch_async")
NEEDS_GPU = ("graph", "abort", "torch", "torch_async")
LIMIT = {"torch_async": 50}  # of seconds, for one scenario; 35 for the others

# What the documentation promises, in seconds.
DETECTED, ABORTED, KERNELS_END = 1.0, 0.100, 1.0
OP_TIMEOUT, INIT_TIMEOUT = 2.0, 5.0

SUCCESS, REMOTE_ERROR, IN_PROGRESS, TIMEOUT = 0, 6, 7, 8
FLOAT, SUM, SHRINK_ABORT = 7, 0, 1
COUNT = 1 << 20


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


class Failure(Exception):
    pass


def require(holds, text):
    if not holds:
        raise Failure(text)


class Library:
    """The few functions of NCCL's ABI that are used here."""

    def __init__(self, path):
        self.c = c = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        comm, size, integer, pointer = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p
        out = ctypes.POINTER(ctypes.c_void_p)
        for name, arguments in {
            "ncclGetUniqueId": [ctypes.POINTER(UniqueId)],
            "ncclCommInitRank": [out, integer, UniqueId, integer],
            "ncclAllReduce": [pointer, pointer, size, integer, integer, comm, pointer],
            "ncclCommGetAsyncError": [comm, ctypes.POINTER(integer)],
            "ncclCommShrink": [comm, ctypes.POINTER(integer), integer, out, pointer, integer],
            "ncclCommCount": [comm, ctypes.POINTER(integer)],
            "ncclCommAbort": [comm],
            "ncclCommDestroy": [comm],
        }.items():
            f = getattr(c, name)
            f.argtypes, f.restype = arguments, integer
        c.ncclGetLastError.argtypes, c.ncclGetLastError.restype = [comm], ctypes.c_char_p

    def last_error(self):
        return (self.c.ncclGetLastError(None) or b"").decode(errors="replace")

    def ok(self, result, what):
        require(result == SUCCESS, f"{what} returned {result}: {self.last_error()}")

    def init(self, world, id, rank):
        comm = ctypes.c_void_p()
        return self.c.ncclCommInitRank(ctypes.byref(comm), world, id, rank), comm

    def async_error(self, comm):
        e = ctypes.c_int(-1)
        self.ok(self.c.ncclCommGetAsyncError(comm, ctypes.byref(e)), "ncclCommGetAsyncError")
        return e.value


class HostMemory:
    """Ordinary memory, for GOCCL_DEVICE=host: calls return when their work is done."""

    stream = None

    def __init__(self, rank):
        global COUNT
        COUNT = 1 << 14
        self.send, self.recv = (ctypes.c_float * COUNT)(), (ctypes.c_float * COUNT)()

    def pointers(self):
        return ctypes.addressof(self.send), ctypes.addressof(self.recv)

    def fill(self, value):
        self.send[:] = [value] * COUNT

    def holds(self, value):
        return all(self.recv[i] == value for i in (0, 1, COUNT // 2, COUNT - 1))

    def idle(self):
        return True

    def works(self):
        return True


class DeviceMemory:
    """Two tensors and a stream of PyTorch."""

    def __init__(self, rank):
        import torch

        self.torch = torch
        torch.cuda.set_device(rank)
        self.side = torch.cuda.Stream()
        self.stream = self.side.cuda_stream
        self.send, self.recv = torch.zeros(COUNT, device="cuda"), torch.zeros(COUNT, device="cuda")
        torch.cuda.synchronize()

    def pointers(self):
        return self.send.data_ptr(), self.recv.data_ptr()

    def fill(self, value):
        self.send.fill_(value)
        self.torch.cuda.synchronize()

    def holds(self, value):
        return bool((self.recv == value).all().item())

    def idle(self):
        return self.side.query()  # raises if the context is broken

    def works(self):
        """Whether the CUDA context still computes, on the stream that was used and on another."""
        x = self.torch.arange(1000, device="cuda")
        with self.torch.cuda.stream(self.side):
            y = self.torch.arange(1000, device="cuda") * 2
        self.side.synchronize()
        return int(x.sum()) == 499500 and int(y.sum()) == 999000


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
        """SIGKILL from a thread as soon as when() returns, so that it comes in the middle of whatever the main thread does."""

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
        return self.lib.c.ncclAllReduce(*self.memory.pointers(), COUNT, FLOAT, SUM, comm, self.memory.stream)

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
        """Repeats step, which returns a result, until it or ncclCommGetAsyncError says an error. Never waits for the stream without looking at the error."""
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
        """What every survivor must find: an error in time, idle streams, a context that works, a smaller communicator, a quick abort."""
        found_at, returned, found = self.until_error(comm, step)
        killed_at = float(self.see("killed_at"))
        self.times["detected_s"] = found_at - killed_at
        self.times["last_error"] = self.lib.last_error()
        require(found == REMOTE_ERROR, f"ncclCommGetAsyncError says {found}, the call returned {returned}; wanted ncclRemoteError")
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
        """Killed at a moment that may be before, in, or after the set-up: an error in bounded time is right, and so is a communicator whose first call fails."""
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
            require(OP_TIMEOUT / 2 <= self.times["detected_s"] <= OP_TIMEOUT + DETECTED, f"the absence was noticed after {self.times['detected_s']:.3f} s")
            require(str(self.victim) in text, f"the last error does not name rank {self.victim}: {text}")
            self.wait_idle(KERNELS_END, "kernels after the deadline")
        self.abort(comm)
        require(self.memory.works(), "the CUDA context does not compute after the deadline")

    def torch_scenario(self, blocking=True):
        import datetime

        import torch
        import torch.distributed as dist

        store = dist.FileStore(os.path.join(self.dir, "store"), self.world)
        dist.init_process_group("nccl", store=store, rank=self.rank, world_size=self.world, timeout=datetime.timedelta(seconds=30),
                                device_id=torch.device("cuda", self.rank))
        x = torch.ones(COUNT, device="cuda")
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
            require(self.times["detected_s"] <= DETECTED + 1, f"the exception came after {self.times['detected_s']:.3f} s")
        torch.cuda.synchronize()
        require(int(torch.arange(1000, device="cuda").sum()) == 499500, "the CUDA context does not compute after the exception")

    def run(self, scenario):
        {"loop": self.loop, "graph": self.graph, "init": self.init, "abort": self.abort_scenario, "absent": self.absent,
         "torch": self.torch_scenario, "torch_async": lambda: self.torch_scenario(blocking=False)}[scenario]()
        self.times["library"] = check_library(os.environ.get("EXPECT_LIBRARY"))


def rank_main(args):
    bounded(LIMIT.get(args.rank_of, 35) - 5)
    rank, status, failure = None, 0, None
    try:
        rank = Rank(args)
        rank.run(args.rank_of)
    except BaseException as e:  # whatever it was, it goes into the report
        status, failure = 1, f"{type(e).__name__}: {e}"
        traceback.print_exc()
    write_json(os.path.join(args.dir, f"result-{args.rank}.json"), {"ok": status == 0, "failure": failure, **(rank.times if rank else {})})
    sys.stderr.flush()
    os._exit(status)  # without destructors of libraries, which may be waiting for the dead


def run_scenario(name, args):
    """Starts the ranks, waits, and gathers what they wrote."""
    folder = tempfile.mkdtemp(prefix=f"goccl-{name}-")
    env = dict(os.environ, **NO_MULTICAST)
    if args.device == "host":
        env["GOCCL_DEVICE"] = "host"
    if name == "init":
        env["GOCCL_TIMEOUT"] = f"{INIT_TIMEOUT}s"
    if name == "absent":
        env["GOCCL_OP_TIMEOUT"] = f"{OP_TIMEOUT}s"
    if name.startswith("torch"):
        env.update(LD_PRELOAD=os.path.abspath(args.lib), TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC="1000", TORCH_NCCL_DUMP_ON_TIMEOUT="0")
    if name == "torch":
        env["TORCH_NCCL_BLOCKING_WAIT"] = "1"

    begin, ranks = now(), []
    for r in range(args.world):
        log = open(os.path.join(folder, f"log-{r}"), "w")
        ranks.append(subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--lib", os.path.abspath(args.lib), "--device", args.device, "--world", str(args.world),
             "--rank-of", name, "--rank", str(r), "--dir", folder], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        log.close()
    failures, results, end = [], [], begin + LIMIT.get(name, 35)
    for r, p in enumerate(ranks):
        try:
            p.wait(max(0.1, end - now()))
        except subprocess.TimeoutExpired:
            failures.append(f"rank {r} did not end")
            p.kill()
            p.wait()
    ended_at = now()

    victim = args.world - 1 if name in ("loop", "graph", "init", "torch", "torch_async") else None
    killed_at = None
    with contextlib.suppress(OSError, ValueError), open(os.path.join(folder, "killed_at")) as f:
        killed_at = float(f.read())
    for r, p in enumerate(ranks):
        result = None
        with contextlib.suppress(OSError, ValueError), open(os.path.join(folder, f"result-{r}.json")) as f:
            result = json.load(f)
        results.append(result)
        if r == victim:
            if p.returncode != -signal.SIGKILL or killed_at is None:
                failures.append(f"rank {r} was to be killed, but ended with {p.returncode}")
        elif result is not None and not result["ok"]:
            failures.append(f"rank {r}: {result['failure']}")
        elif result is None and name == "torch_async" and p.returncode != 0 and killed_at is not None:
            results[-1] = {"ok": True, "torn_down": p.returncode}  # PyTorch's watchdog ended the process, which is what it promises
        elif result is None:
            failures.append(f"rank {r} ended with {p.returncode} and without a word")

    report = {"ok": not failures, "failures": failures, "seconds": ended_at - begin, "ranks": results}
    if killed_at is not None:
        report["last_end_after_death_s"] = ended_at - killed_at
    for key in ("detected_s", "kernels_ended_s", "abort_s", "shrink_s"):
        values = [x[key] for x in results if x and key in x]
        if values:
            report["max_" + key] = max(values)
    for r in range(args.world) if failures else ():
        with contextlib.suppress(OSError), open(os.path.join(folder, f"log-{r}")) as f:
            for line in f.read().splitlines()[-25:]:
                print(f"  {name}, rank {r} | {line}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    return report


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--lib", required=True, help="the libnccl.so.2 to test")
    p.add_argument("--world", type=int, default=0, help="ranks; default: one for each GPU, 4 on the host device")
    p.add_argument("--device", choices=("cuda", "host"), default="cuda")
    p.add_argument("--only", nargs="*", choices=SCENARIOS, default=[])
    p.add_argument("--repeat", type=int, default=1, help="run every scenario so often: what a death meets differs from time to time, in init most of all")
    p.add_argument("--json")
    p.add_argument("--rank-of", choices=SCENARIOS, help=argparse.SUPPRESS)
    p.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    p.add_argument("--dir", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.rank_of:
        rank_main(args)
    if not args.world:
        args.world = 4 if args.device == "host" else subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.count("GPU ")
    if args.world < 2:
        sys.exit("faults.py needs two ranks")

    reports = {}
    for name in SCENARIOS:
        if (args.only and name not in args.only) or (args.device == "host" and name in NEEDS_GPU):
            continue
        for turn in range(args.repeat):
            run_and_tell(name, name if args.repeat == 1 else f"{name} {turn + 1}", args, reports)
    failed = sum(not r["ok"] for r in reports.values())
    print(f"{len(reports) - failed} passed, {failed} failed")
    sys.exit(failed > 0 or not reports)


def run_and_tell(name, label, args, reports):
    reports[label] = r = run_scenario(name, args)
    times = "  ".join(f"{k[4:-2]} {r[k] * 1000:.1f} ms" for k in r if k.startswith("max_"))
    print(f"{label:14} {'passed' if r['ok'] else 'FAILED'}  {r['seconds']:.1f} s  {times}", flush=True)
    for f in r["failures"]:
        print(f"    {f}", flush=True)
    write_json(args.json, {"world": args.world, "device": args.device, "scenarios": reports})


if __name__ == "__main__":
    main()
