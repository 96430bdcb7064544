#!/usr/bin/env python3
"""Measures goccl beside its peers of inference, on all GPUs of this machine, a process each.

    run.py --json FILE [--parts PART,…] [--only TEXT,…] [--without NAME]… [--groups GROUP,…] [--against PATH,…]
           [--sizes N,…] [--layers N] [--quick] [--seconds N]

Parts: all_reduce, alone; fused, with residual, RMSNorm and FP8; step, inside a decode step of GEMMs, and step_fused;
captured, 10^5 captured steps with fresh data, and captured_fused. Every result is checked before it is timed.

Groups are processes of one environment: main; preloaded, goccl in PyTorch.

Peers are NVIDIA's NCCL (each library of --against, with plain buffers and with registered windows) and symmetric
memory, which PyTorch brings, and those of the folder that GOCCL_PEERS names (contender.py has their interface). What
hangs or crashes is left out, and the file says so. Without GPUs the host device runs small sizes, to test the program.
"""

import argparse
import contextlib
import datetime
import importlib.util
import json
import os
import pathlib
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import time

import report

BEGIN = time.monotonic()  # PyTorch's import counts, too
HERE = pathlib.Path(__file__).resolve().parent
PARTS = ("all_reduce", "fused", "step", "step_fused", "captured", "captured_fused")
GROUPS = ("main", "preloaded")
# No multicast: a program that creates multicast objects can take the host's GPUs out of service.
NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
# Seconds without a unit done before a group is ended, for its start (and without GPUs) and then; and how often it is
# started.
SLOW, QUIET, STARTS = 150, 45, 4
RESERVED = 35  # seconds that each further group may have


class Group:
    """The processes of one environment, and the units that they have done."""

    def __init__(self, name, options, arguments, environment):
        self.name, self.options, self.arguments, self.environment = name, options, arguments, environment
        self.state = os.path.join(options.folder, f"{name}.state.json")
        self.log = options.json.removesuffix(".json") + f".{name}.log"
        self.processes = []

    def read(self):
        try:
            with open(self.state) as f:
                return json.load(f)
        except FileNotFoundError:
            return {"running": None, "units": []}

    def written(self):
        """When the ranks wrote their state."""
        try:
            return os.stat(self.state).st_mtime_ns
        except FileNotFoundError:
            return 0

    def run(self, end):
        """Starts the ranks, again without the unit that they did not survive, until all units are done or time ends.
        Why units are missing, or None."""
        open(self.log, "w").close()
        for _ in range(STARTS):
            self.start(end)
            why = self.watch(end)
            if not why:
                return None
            state = self.read()
            print(f"{self.name}: {why}, in {state['running'] or 'no unit'}; {self.log} says more", file=sys.stderr)
            if not state["running"] or time.monotonic() > end - 20:
                return why
            part, contender = state["running"]
            state["units"].append({"part": part, "contender": contender, "rows": [], "failure": why})
            with open(self.state, "w") as f:
                json.dump({"running": None, "units": state["units"]}, f)
        return f"{STARTS} starts ended early"

    def start(self, end):
        with socket.create_server(("127.0.0.1", 0)) as s:
            port = s.getsockname()[1]
        seconds = max(10, int(end - time.monotonic()))
        with open(self.log, "a") as log:
            for r in range(self.options.n):
                env = {**os.environ, **NO_MULTICAST, "GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo",
                       "OMP_NUM_THREADS": "2", "PYTHONUNBUFFERED": "1", "RANK": str(r), "LOCAL_RANK": str(r),
                       "WORLD_SIZE": str(self.options.n), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                       **self.environment}
                command = [sys.executable, str(HERE / "rank.py"), "--state", self.state, "--seconds", str(seconds),
                           *self.arguments]
                self.processes.append(subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log,
                                                       stderr=subprocess.STDOUT))

    def watch(self, end):
        """Waits for the ranks. Why they did not end well, or None."""
        before = seen = self.written()
        since, why = time.monotonic(), None
        while not why:
            ended = [p.poll() for p in self.processes]
            if all(e == 0 for e in ended):
                break
            bad = [(r, e) for r, e in enumerate(ended) if e]
            now = self.written()
            if now != seen:
                seen, since = now, time.monotonic()
            if bad:
                why = f"rank {bad[0][0]} ended with status {bad[0][1]}"
            elif time.monotonic() > end:
                why = "time is over"
            elif time.monotonic() - since > (QUIET if now != before and self.options.device == "cuda" else SLOW):
                why = "no unit was done in time"
            time.sleep(0.05)
        for p in self.processes:
            p.send_signal(signal.SIGKILL)
            p.wait()
        self.processes = []
        return why


def groups(options):
    """The main group, and goccl preloaded in PyTorch, whose environment differs."""
    common = ["--device", options.device, "--steps", str(options.steps), "--only", options.only,
              "--sizes", options.sizes, "--layers", str(options.layers),
              *(f"--without={name}" for name in options.without), *(["--quick"] if options.quick else [])]

    def parts(*names):
        return ["--parts", ",".join(p for p in options.parts if p in names)]
    host = {} if options.device == "cuda" else {"GOCCL_DEVICE": "host"}
    found = [Group("main", options, [*common, *parts(*PARTS), "--against", options.against], host)]
    if options.device == "cuda":
        found.append(Group("preloaded", options, [*common, *parts("all_reduce", "step"), "--preloaded"],
                           {"LD_PRELOAD": os.path.join(options.library, "libnccl.so.2")}))
    return [g for g in found if g.name in options.groups]


def stock():
    """The libnccl.so.2 that pip has installed, or ""."""
    spec = importlib.util.find_spec("nvidia.nccl") if importlib.util.find_spec("nvidia") else None
    return next(iter(spec.submodule_search_locations)) + "/lib/libnccl.so.2" if spec else ""


def machine(device):
    import torch

    facts = {"torch": torch.__version__, "python": platform.python_version()}
    if device == "cuda":
        facts["gpus"] = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        with contextlib.suppress(OSError):  # there is no nvidia-smi
            facts["driver"] = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
                                             capture_output=True, text=True, timeout=30).stdout.split("\n")[0]
    return facts


def main():
    import torch

    from goccl import get_lib

    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--json", required=True, help="the file of the results; logs are beside it")
    p.add_argument("--parts", default=",".join(PARTS))
    p.add_argument("-n", type=int, default=0, help="ranks (default: one for each GPU; 2 without)")
    p.add_argument("--against", default=stock(), help="paths of NVIDIA's libnccl.so.2 (default: pip's; \"\": none)")
    p.add_argument("--commit", default="", help="what the file says of goccl")
    p.add_argument("--steps", type=int, default=0, help="captured steps (default: 100,000; 200 on the host device)")
    p.add_argument("--only", default="", metavar="TEXT,…", help="only contenders with one of these in their names")
    p.add_argument("--without", action="append", default=[], metavar="NAME", help="not the contender of this name")
    p.add_argument("--sizes", default="", help="bytes of the all-reduces alone (default: 512 B to 16 MB)")
    p.add_argument("--layers", type=int, default=64, help="of a decode step (default: 64)")
    p.add_argument("--groups", default=",".join(GROUPS))
    p.add_argument("--quick", action="store_true", help="few and small sizes")
    p.add_argument("--seconds", type=int, default=330, help="when to end, at the latest (default: 330)")
    options = p.parse_args()
    for what, known in ("parts", PARTS), ("groups", GROUPS):
        given = getattr(options, what).split(",")
        unknown = set(given) - set(known)
        if unknown:
            p.error(f"--{what} {','.join(sorted(unknown))}: there are {', '.join(known)}")
        setattr(options, what, given)
    options.device = "cuda" if torch.cuda.is_available() else "cpu"
    options.quick |= options.device == "cpu"
    options.n = options.n or (torch.cuda.device_count() if options.device == "cuda" else 2)
    options.steps = options.steps or (100000 if options.device == "cuda" else 200)
    options.library = get_lib()
    if options.device == "cpu":
        options.against = ""
    if options.n < 2:
        p.error("one GPU has no peer: this needs two")
    end = BEGIN + options.seconds
    result = {"schema": "goccl-inference/1", "commit": options.commit, "command": sys.argv[1:],
              "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "ranks": options.n,
              "device": options.device, "machine": machine(options.device), "cut": {}, "units": []}
    with tempfile.TemporaryDirectory() as options.folder:
        all_groups = groups(options)
        for i, g in enumerate(all_groups):
            why = g.run(end - RESERVED * (len(all_groups) - 1 - i))
            if why:
                result["cut"][g.name] = why
            state = g.read()
            result["units"] += [{"group": g.name, **u} for u in state["units"]]
            result["units"] += [{"group": g.name, **u, "cut": True} for u in state.get("begun", [])]
            result["seconds"] = round(time.monotonic() - BEGIN, 1)
            with open(options.json + ".tmp", "w") as f:
                json.dump(result, f, indent=1)
                f.write("\n")
            os.replace(options.json + ".tmp", options.json)
    report.show(result)
    return 1 if report.failures(result) or result["cut"] else 0


if __name__ == "__main__":
    sys.exit(main())
