"""Runs a program of ranks on NVIDIA's NCCL and on goccl by turns, and collects the rows that its rank 0 writes.

A turn is a set of processes, one for each GPU, with or without LD_PRELOAD of goccl's libnccl.so.2. The processes of the
next turn import PyTorch while a turn runs, and touch no GPU before it has ended. A turn that hangs or fails is ended,
and the results say so.
"""

import argparse
import contextlib
import datetime
import glob
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

BEGIN = time.monotonic()
# No multicast: a program that creates multicast objects can take the host's GPUs out of service.
NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
NAMES = {"n": "nccl", "g": "goccl"}


class Turn:
    """The processes of one turn."""

    def __init__(self, options, number, library, program, arguments, folder):
        self.number, self.library = number, library
        self.rows = os.path.join(folder, f"{number}.rows")
        self.log = f"{options.json.removesuffix('.json')}.{number}.{library}.log"
        with socket.create_server(("127.0.0.1", 0)) as s:
            port = s.getsockname()[1]
        self.processes = []
        with open(self.log, "w") as log:
            for r in range(options.n):
                env = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo",
                       "OMP_NUM_THREADS": "4" if gpus() else "1",
                       "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "RANK": str(r), "LOCAL_RANK": str(r),
                       "WORLD_SIZE": str(options.n), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                       "CUBLAS_WORKSPACE_CONFIG": ":4096:8", "TURN_ROWS": self.rows, "TURN_LIBRARY": library,
                       **NO_MULTICAST}
                env.pop("LD_PRELOAD", None)
                if library == "goccl":
                    env["LD_PRELOAD"] = options.library
                    env.update(a.split("=", 1) for a in options.env)
                self.processes.append(subprocess.Popen([sys.executable, str(program), *arguments], env=env, stdout=log,
                                                       stdin=subprocess.PIPE, stderr=subprocess.STDOUT))

    def run(self, seconds):
        """Lets the ranks begin, and waits. Why they did not end well, or None."""
        end, why = time.monotonic() + seconds, None
        for p in self.processes:
            with contextlib.suppress(BrokenPipeError):  # it has failed, as poll tells
                p.stdin.write(f"{0.9 * seconds - 2:.0f}\n".encode())
                p.stdin.close()
        while not why:
            ended = [p.poll() for p in self.processes]
            if all(e == 0 for e in ended):
                return None
            bad = [(r, e) for r, e in enumerate(ended) if e]
            if bad:
                why = f"rank {bad[0][0]} ended with status {bad[0][1]}"
            elif time.monotonic() > end:
                why = f"not done in {seconds:.0f} s"
            time.sleep(0.05)
        time.sleep(1)  # the others may say why, too
        self.end()
        return why

    def end(self):
        for p in self.processes:
            with contextlib.suppress(OSError):
                p.send_signal(signal.SIGKILL)
            p.wait()

    def read(self):
        """The rows that are complete."""
        with contextlib.suppress(FileNotFoundError), open(self.rows) as f:
            return [{"library": self.library, "turn": self.number, **json.loads(s)} for s in f if s.endswith("\n")]
        return []


def parser(text):
    p = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--json", required=True, help="the file of the results; logs are beside it")
    p.add_argument("-n", type=int, default=0, help="ranks (default: one for each GPU; 2 without)")
    p.add_argument("--library", default="", help="goccl's libnccl.so.2 (default: build/ of this checkout)")
    p.add_argument("--order", default="ngng", help="the turns: n is NCCL, g is goccl (default: %(default)s)")
    p.add_argument("--seconds", type=int, default=150, help="when to end, at the latest (default: %(default)s)")
    p.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="a variable of goccl's turns")
    p.add_argument("--commit", default="", help="what the file says of goccl")
    return p


def take(options, schema, program, arguments):
    """Runs the turns. Returns the results, which are also in the file after every turn."""
    cuda = gpus() > 0
    options.n = options.n or gpus() or 2
    here = pathlib.Path(__file__).resolve().parent.parent.parent
    options.library = os.path.realpath(options.library or here / "build" / "libnccl.so.2")
    libraries = [NAMES[c] if cuda else "gloo" for c in options.order]
    if cuda and "goccl" in libraries and not os.path.exists(options.library):
        raise SystemExit(f"{options.library} does not exist: build it (make libnccl), or give --library")
    options.json = os.path.abspath(options.json)
    result = {"schema": schema, "commit": options.commit, "command": sys.argv[1:],
              "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "ranks": options.n,
              "env": options.env, "failures": {}, "machine": {}, "rows": []}
    with tempfile.TemporaryDirectory() as folder:
        turns = []
        try:
            for i, library in enumerate(libraries):
                turns += [Turn(options, k, libraries[k], program, arguments, folder)
                          for k in range(len(turns), min(i + 2, len(libraries)))]
                left = options.seconds - (time.monotonic() - BEGIN)
                if left < 8:
                    result["failures"][f"{i}.{library}"] = "left out: no time"
                    continue
                # A turn that hangs leaves time to the others.
                why = turns[i].run(max(8, min(left, 1.6 * left / (len(libraries) - i))))
                if why:
                    result["failures"][f"{i}.{library}"] = why
                    print(f"turn {i}, {library}: {why}; {turns[i].log} says more", file=sys.stderr)
                for row in turns[i].read():
                    if row.get("kind") == "machine":
                        result["machine"][library] = row["machine"]
                    else:
                        result["rows"].append(row)
                result["seconds"] = round(time.monotonic() - BEGIN, 1)
                save(options.json, result)
        finally:
            for t in turns:
                t.end()
    save(options.json, result)
    return result


def save(path, result):
    with open(path + ".tmp", "w") as f:
        json.dump(result, f, indent=1)
        f.write("\n")
    os.replace(path + ".tmp", path)


def gpus():
    """The number of GPUs that processes see. PyTorch would say, but its import takes seconds."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return len(glob.glob("/dev/nvidia[0-9]*")) if visible is None else len([v for v in visible.split(",") if v])


def groups(rows, keys):
    """The rows by their values of keys, in the order of their first ones: {values: {library: [row, …]}}."""
    out = {}
    for r in rows:
        if all(k in r for k in keys):
            out.setdefault(tuple(r[k] for k in keys), {}).setdefault(r["library"], []).append(r)
    return out


def median(rows, key):
    """The median of a figure over the turns, or None."""
    values = [r[key] for r in rows if r.get(key) is not None]
    return statistics.median(values) if values else None


def ratio(libraries, key):
    """goccl's figure by NCCL's, or None."""
    ours, theirs = (median(libraries.get(x, []), key) for x in ("goccl", "nccl"))
    return ours / theirs if ours and theirs else None


def text(value, digits=2):
    return "-" if value is None else f"{value:.{digits}f}"
