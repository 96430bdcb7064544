#!/usr/bin/env python3
"""Kills ranks, and looks whether the others end in time and can go on.

    faults.py --lib PATH/libnccl.so.2 [--world N] [--device cuda|host] [--only NAME...] [--repeat K] [--json FILE]

Every scenario starts its ranks as processes. The C level is called by ctypes; "torch" goes through torch.distributed
with the library preloaded.

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
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback

from common import NO_MULTICAST, bounded, now, write_json
from rank import INIT_TIMEOUT, OP_TIMEOUT, Rank

SCENARIOS = ("loop", "graph", "init", "abort", "absent", "torch", "torch_async")
NEEDS_GPU = ("graph", "abort", "torch", "torch_async")
LIMIT = {"torch_async": 50}  # of seconds, for one scenario; 35 for the others


def rank_main(args):
    bounded(LIMIT.get(args.rank_of, 35) - 5)
    rank, status, failure = None, 0, None
    try:
        rank = Rank(args)
        rank.run(args.rank_of)
    except BaseException as e:  # whatever it was, it goes into the report
        status, failure = 1, f"{type(e).__name__}: {e}"
        traceback.print_exc()
    write_json(os.path.join(args.dir, f"result-{args.rank}.json"),
               {"ok": status == 0, "failure": failure, **(rank.times if rank else {})})
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
        env.update(LD_PRELOAD=os.path.abspath(args.lib), TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC="1000",
                   TORCH_NCCL_DUMP_ON_TIMEOUT="0")
    if name == "torch":
        env["TORCH_NCCL_BLOCKING_WAIT"] = "1"

    begin, ranks = now(), []
    for r in range(args.world):
        log = open(os.path.join(folder, f"log-{r}"), "w")
        ranks.append(subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--lib", os.path.abspath(args.lib), "--device", args.device,
             "--world", str(args.world),
             "--rank-of", name, "--rank", str(r), "--dir", folder], env=env, stdin=subprocess.DEVNULL, stdout=log,
             stderr=log))
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
            # PyTorch's watchdog ended the process, which is what it promises
            results[-1] = {"ok": True, "torn_down": p.returncode}
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
    p.add_argument("--repeat", type=int, default=1,
                   help="repeat every scenario: what a death interrupts differs from time to time, most of all in init")
    p.add_argument("--json")
    p.add_argument("--rank-of", choices=SCENARIOS, help=argparse.SUPPRESS)
    p.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    p.add_argument("--dir", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.rank_of:
        rank_main(args)
    if not args.world:
        args.world = 4 if args.device == "host" else subprocess.run(["nvidia-smi", "-L"], capture_output=True,
                text=True).stdout.count("GPU ")
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
