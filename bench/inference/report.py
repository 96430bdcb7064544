#!/usr/bin/env python3
"""Prints the results of run.py as tables: report.py FILE."""

import json
import sys

TITLES = {"all_reduce": "all-reduce alone", "fused": "+ residual + RMSNorm, hidden 8192",
          "step": "inside a decode step: µs that it adds to a layer",
          "step_fused": "inside a decode step, with residual and RMSNorm: µs that both add to a layer",
          "captured": "captured steps with fresh data", "captured_fused": "captured steps with fresh data, fused"}


OTHERS = " [other processes]"  # not to be compared


def size(n):
    return f"{n >> 20}M" if n >= 1 << 20 else f"{n >> 10}K" if n >= 1024 else str(n)


def library(contender):
    """A contender's library: the first word of its name, and the second if that is a version."""
    words = contender.split()
    return " ".join(words[:2 if words[1:] and words[1][0].isdigit() else 1]).rstrip(",")


def failures(result):
    """What went wrong with goccl's own contenders."""
    return [u for u in result["units"] if "failure" in u and u["contender"].startswith("goccl")]


def show(result, out=sys.stdout):
    """Prints a table of each part and mode: a line a contender, in µs; and how many SMs the all-reduces alone take."""
    print(f"{result['ranks']} x {result['machine'].get('gpus', ['host device'])[0]}, {result.get('seconds', 0)} s",
          file=out)
    print("* the library chooses by itself", file=out)
    for part, title in TITLES.items():
        units = [u for u in result["units"] if u["part"] == part]
        modes = dict.fromkeys((r["mode"], r.get("quantised", False)) for u in units for r in u["rows"])
        for mode, quantised in modes:
            lines = [(u["contender"] + " *" * u.get("default", False) + OTHERS * (u.get("group", "main") != "main"),
                      {r["bytes"]: r for r in u["rows"]
                       if (r["mode"], r.get("quantised", False)) == (mode, quantised)}) for u in units]
            title_here = f"{title}{', FP8' if quantised else ''}, {mode}"
            _table(title_here, [*lines, *_best(lines)], _cell, out)
            if any("blocks" in r for _, rows in lines for r in rows.values()):
                _table(title_here + ": thread blocks, at most one SM each", lines, _blocks, out)
    for group, why in result.get("cut", {}).items():
        print(f"\n{group}: units are missing: {why}", file=out)
    for u in result["units"]:
        if "failure" in u:
            print(f"\n{u['part']}, {u['contender']}: {u['failure'][:300]}", file=out)


def _table(title, lines, cell, out):
    sizes = sorted({n for _, rows in lines for n in rows})
    print(f"\n## {title}\n{'':44}" + "".join(f"{size(n):>8}" for n in sizes), file=out)
    for name, rows in lines:
        if rows:
            print(f"{name:44}" + "".join(f"{cell(rows.get(n)):>8}" for n in sizes), file=out)


def _best(lines):
    """The best of each library's configurations, beside its default, which has another line."""
    for which in dict.fromkeys(library(name) for name, _ in lines):
        found = {}
        for name, rows in lines:
            for n, row in rows.items():
                if library(name) == which and OTHERS not in name and row["us"] is not None:
                    found[n] = min(found.get(n, row), row, key=lambda r: r["us"])
        yield f"best of {which}", found


def _cell(row):
    if row is None:
        return "-"
    if row["us"] is None:
        return f"{row['wrong']} bad" if row["wrong"] else f"{row['steps']}"
    return f"{row['us']:.2f}" if row["us"] < 100 else f"{row['us']:.0f}"


def _blocks(row):
    return str(row["blocks"]) if row and row.get("blocks") else "-"


if __name__ == "__main__":
    with open(sys.argv[1]) as f:
        show(json.load(f))
