#!/usr/bin/env python3
"""Starts a job that hangs in several ways, one after the other, and looks whether goccl watch names the rank.

    hang.py nccl|goccl|host DIR --goccl PROGRAM [--lib FOLDER] [--ranks N]

nccl    PyTorch on its own NCCL, with FOLDER/libgoccl-profiler.so as NCCL_PROFILER_PLUGIN
goccl   the same program on FOLDER/libnccl.so.2, by LD_PRELOAD
host    goccl's Python package on the host device, to test this script where there is no GPU

For each way to hang DIR gets what goccl watch shows while the job hangs: NAME.json, NAME.txt, and page/NAME/, a folder
with its page and data that any web server shows. summary.json has the verdicts. The job is killed at the end, with
SIGKILL; the exit status tells whether every verdict was right.
"""

import argparse
import contextlib
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
# No multicast: a program that creates multicast objects can take the host's GPUs out of service.
NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
# What must be said. The start of an operation on a GPU is not seen by goccl's recorder, so a stream that is busy looks
# to it like a kernel that makes no progress.
EXPECT = {"missing": ["missing"], "stopped": ["stopped"], "busy": ["busy"], "deadlock": ["deadlock"]}
BLIND = {"goccl": {"busy": ["gpu"]}}
START, ANSWER, NAMED = 100, 30, 20  # seconds: until the job runs, for an answer, for a verdict


def dies_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG


class Rank:
    """A process of the job. Its lines come by a thread."""

    def __init__(self, argv, env, log):
        self.process = subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                                        text=True, preexec_fn=dies_with_parent)
        self.lines, self.more = [], threading.Condition()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            with self.more:
                self.lines.append(line.strip())
                self.more.notify_all()

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def expect(self, line, seconds):
        """Waits for a line, and takes it."""
        with self.more:
            if not self.more.wait_for(lambda: line in self.lines or self.process.poll() is not None, seconds) or \
                    line not in self.lines:
                raise RuntimeError(f"process {self.process.pid} does not say {line!r}; it said {self.lines}, "
                                   f"its state is {self.process.poll()}")
            self.lines.remove(line)


class Watch:
    """goccl watch on the job, with its page."""

    def __init__(self, program, ranks, log):
        pids = ",".join(str(r.process.pid) for r in ranks)
        self.program, self.pids = program, pids
        self.process = subprocess.Popen([program, "watch", "--every", "500ms", "--http", "127.0.0.1:0", "--log", log,
                                         "--pid", pids], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
                                        preexec_fn=dies_with_parent)
        for line in self.process.stderr:
            if m := re.search(r"http on (\S+)", line):
                self.url = f"http://{m[1]}/"
                break
        else:
            raise RuntimeError("goccl watch has ended")

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=10) as r:
            return r.read()

    def save(self, folder, name):
        page = os.path.join(folder, "page", name)
        os.makedirs(page, exist_ok=True)
        data = self.get("snapshot.json")
        for path, text in ((os.path.join(page, "index.html"), self.get("")),
                           (os.path.join(page, "snapshot.json"), data)):
            with open(path, "wb") as f:
                f.write(text)
        once = [self.program, "watch", "--once", "--pid", self.pids]
        for suffix, more in ((".txt", []), (".json", ["--json"])):
            with open(os.path.join(folder, name + suffix), "wb") as f:
                subprocess.run(once + more, stdout=f, timeout=30, check=False)
        return json.loads(data)


def hang(kind, job, watch, victim, what, out):
    """Lets the job hang in one way until goccl watch has a verdict of the right kind, and lets it go on, if it can."""
    stopped = what == "stopped"
    if stopped:
        job[victim].process.send_signal(signal.SIGSTOP)
    for r, rank in enumerate(job):
        if not (stopped and r == victim):
            rank.tell(what)
    begin, expect = time.monotonic(), BLIND.get(kind, {}).get(what) or EXPECT[what]
    seen = []
    while time.monotonic() < begin + NAMED:
        seen = json.loads(watch.get("snapshot.json"))["verdicts"]
        if any(v["kind"] in expect and (v["rank"] == victim or what == "deadlock" or v["kind"] == "gpu") for v in seen):
            break
        time.sleep(0.2)
    else:
        expect = None
    took = time.monotonic() - begin
    snapshot = watch.save(out, f"{kind}.{what}")
    if stopped:
        job[victim].process.send_signal(signal.SIGCONT)
        job[victim].tell(what)
    if what == "missing":
        job[victim].tell("go")
    if what != "deadlock":
        for rank in job:
            rank.expect("through", ANSWER)
    result = {"library": kind, "situation": what, "right": expect is not None, "seconds": round(took, 2),
              "verdicts": seen or snapshot["verdicts"]}
    print(f"{kind} {what}: {'right' if expect else 'WRONG'} after {took:.1f} s")
    for v in result["verdicts"]:
        print(f"  {v['kind']} of rank {v['rank']}: {v['what']}", flush=True)
    return result


def dumps(kind, job, program, out):
    """What goccl watch says of PyTorch's own dumps of the hang."""
    for r, rank in enumerate(job):
        rank.tell(f"dump {os.path.join(out, f'{kind}_trace_{r}')}")
    for rank in job:
        rank.expect("dumped", ANSWER)
    with open(os.path.join(out, f"{kind}.dumps.txt"), "wb") as f:
        subprocess.run([program, "watch", "--once", "--pid", str(os.getpid()), "--dump",
                        os.path.join(out, f"{kind}_trace_*")], stdout=f, timeout=30, check=False)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("library", choices=("nccl", "goccl", "host"))
    p.add_argument("dir")
    p.add_argument("--goccl", required=True)
    p.add_argument("--lib", default="")
    p.add_argument("--ranks", type=int, default=4)
    a = p.parse_args()
    os.makedirs(a.dir, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that finally runs
    env = dict(os.environ, **NO_MULTICAST, NCCL_SOCKET_IFNAME="lo", TORCH_FR_BUFFER_SIZE="2000",
               TORCH_NCCL_TRACE_BUFFER_SIZE="2000", TORCH_NCCL_ENABLE_MONITORING="0", PYTHONUNBUFFERED="1")
    if a.library == "nccl":
        env["NCCL_PROFILER_PLUGIN"] = os.path.join(a.lib, "libgoccl-profiler.so")
    elif a.library == "goccl":
        env["LD_PRELOAD"] = os.path.join(a.lib, "libnccl.so.2")
    else:
        env["GOCCL_DEVICE"] = "host"
    ways, victim = [w for w in EXPECT if a.library != "host" or w != "busy"], min(2, a.ranks - 1)
    job, watch, results, status = [], None, [], 1
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(a.dir, f"{a.library}.log"), "w") as log:
        try:
            for r in range(a.ranks):
                job.append(Rank([sys.executable, os.path.join(HERE, "rank.py"),
                                 "host" if a.library == "host" else "torch", folder, str(r), str(a.ranks), str(victim)],
                                env, log))
            for rank in job:
                rank.expect("ready", START)
            watch = Watch(a.goccl, job, os.path.join(a.dir, f"{a.library}.events.jsonl"))
            for what in ways:
                results.append(hang(a.library, job, watch, victim, what, a.dir))
            if a.library != "host":
                dumps(a.library, job, a.goccl, a.dir)
            status = 0 if all(r["right"] for r in results) else 1
        finally:
            for x in job + ([watch] if watch else []):
                with contextlib.suppress(ProcessLookupError):
                    x.process.kill()
            for x in job + ([watch] if watch else []):
                x.process.wait(30)
            with open(os.path.join(a.dir, f"{a.library}.summary.json"), "w") as f:
                json.dump(results, f, indent=1)
    return status


sys.exit(main())
