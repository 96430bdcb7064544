#!/usr/bin/env python3
"""Measures training steps of a small Llama on NVIDIA's NCCL and on goccl, by turns, on all GPUs of this machine.

    run.py --json FILE [--modes ddp,fsdp,tp,tp_graph] [--tokens 1024,4096] [--steps N] [--losses N] [--order ngng]
           [--seconds N]

8 blocks of hidden size 4096 in bfloat16, synthetic tokens, fixed seeds. ddp: DistributedDataParallel with its default
buckets. fsdp: FSDP2, fully_shard of every block. tp: tensor parallelism with sequence parallelism; tp_graph: its steps
in a CUDA graph, without the time of PyTorch's host code. With ddp and fsdp every GPU has so many tokens; with tp all
ranks share them. The slowest rank's time counts in every step; exposed is a step minus the same step without
communication. --losses N also trains N steps by deterministic kernels and compares the libraries' losses. Without GPUs
a tiny model on gloo tests the program.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "turns"))

import turns  # noqa: E402


def compare(rows):
    """The largest difference of losses between the libraries' first turns, and between two turns of NCCL, by mode."""
    out = {}
    for (mode, tokens), libraries in turns.groups([r for r in rows if r["kind"] == "losses"],
                                                  ("mode", "tokens")).items():
        first = {name: r[0]["losses"] for name, r in libraries.items()}
        found = {"tokens": tokens, "steps": len(next(iter(first.values()))), "losses": first}
        if "nccl" in first and "goccl" in first:
            found["most_apart"] = apart(first["nccl"], first["goccl"])
        for name, turn in libraries.items():
            if len(turn) > 1:
                found[f"{name}_twice"] = apart(turn[0]["losses"], turn[1]["losses"])
        out[mode] = found
    return out


def apart(a, b):
    return max(abs(x - y) for x, y in zip(a, b))


def show(result):
    """The tables, for people."""
    print(f"{'mode':8} {'tokens':>6}  {'library':7} {'ms a step':>9} {'min':>7} {'max':>7} {'exposed':>8} "
          f"{'tokens/s':>9} {'peak GB':>8} {'goccl / nccl':>13}")
    for (mode, tokens), libraries in turns.groups([r for r in result["rows"] if r["kind"] == "step"],
                                                  ("mode", "tokens")).items():
        ratio = turns.ratio(libraries, "ms")
        for name, rows in libraries.items():
            m = {k: turns.median(rows, k) for k in ("ms", "exposed_ms", "tokens_per_s", "peak_bytes")}
            peak = m["peak_bytes"] and m["peak_bytes"] / 1e9
            last = turns.text(ratio, 3) if name == "goccl" else ""
            print(f"{mode:8} {tokens:6}  {name:7} {m['ms']:9.2f} {min(r['min_ms'] for r in rows):7.2f} "
                  f"{max(r['max_ms'] for r in rows):7.2f} {m['exposed_ms']:8.2f} {m['tokens_per_s']:9.0f} "
                  f"{turns.text(peak, 1):>8} {last:>13}")
    for mode, c in result["losses"].items():
        ends = ", ".join(f"{name} {values[0]:.4f} to {values[-1]:.4f}" for name, values in c["losses"].items())
        print(f"losses of {c['steps']} steps, {mode}: {ends}; "
              + ", ".join(f"{k.replace('_', ' ')}: {c[k]:.2e}" for k in c if k not in ("tokens", "steps", "losses")))


def main():
    p = turns.parser(__doc__)
    p.add_argument("--modes", default="ddp,fsdp,tp,tp_graph")
    p.add_argument("--tokens", default="1024,4096")
    p.add_argument("--steps", type=int, default=16, help="timed steps of a turn (default: %(default)s); 0: none")
    p.add_argument("--losses", type=int, default=0, help="steps of which losses are compared (default: none)")
    options = p.parse_args()
    result = turns.take(options, "goccl-training/1", HERE / "rank.py",
                        ["--modes", options.modes, "--tokens", options.tokens, "--steps", str(options.steps),
                         "--losses", str(options.losses)])
    result["losses"] = compare(result["rows"])
    result["rows"] = [r for r in result["rows"] if r["kind"] != "losses"]
    turns.save(options.json, result)
    show(result)
    return 1 if result["failures"] or not (result["rows"] or result["losses"]) else 0


if __name__ == "__main__":
    sys.exit(main())
