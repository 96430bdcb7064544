#!/usr/bin/env python3
"""Measures collectives beside GEMMs, or alone, on NVIDIA's NCCL and on goccl, by turns, on all GPUs of this machine.

    run.py beside --json FILE [--sizes 16M,64M,256M] [--priorities same,high] [--collectives all_reduce,…]
    run.py alone --json FILE [--sizes 1K,64K,1M,16M,256M,1G] [--collectives all_reduce,…]

beside: products of 8192 x 8192 matrices in bfloat16 run on one stream and collectives on another, about as long as
each other. "both / max" is the time of both over the longer one alone: 1 is perfect. high: PyTorch's
is_high_priority_stream. alone: microseconds a call, eager and in graphs. Every collective's data and every product is
checked. The slowest rank's time counts, and of the rounds the median. Without GPUs small sizes on gloo test the
program.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "turns"))

import turns  # noqa: E402

SIZES = {"alone": "1K,64K,1M,16M,256M,1G", "beside": "16M,64M,256M"}
COLLECTIVES = {"alone": "all_reduce,all_gather,reduce_scatter,all_to_all,send_recv",
               "beside": "all_reduce,all_gather,reduce_scatter,all_to_all"}


def size(n):
    for unit, letter in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if n >= unit:
            return f"{n // unit}{letter}"
    return str(n)


def show_alone(rows):
    for (name, n), libraries in turns.groups(rows, ("collective", "bytes")).items():
        cells = []
        for key in ("graph_us", "eager_us"):
            figures = " ".join(f"{x} {turns.text(turns.median(found, key), 1):>8}" for x, found in libraries.items())
            cells.append(f"{key[:-3]}: {figures} ratio {turns.text(turns.ratio(libraries, key), 3):>6}")
        print(f"{name:15} {size(n):>5}  {'   '.join(cells)}")


def show_beside(rows):
    print(f"{'collective':15} {'size':>5} {'priority':8} {'library':7} {'alone us':>9} {'alone ms':>9} {'gemms ms':>9} "
          f"{'both ms':>8} {'both / max':>10}")
    for (name, n, priority), libraries in turns.groups(rows, ("collective", "bytes", "priority")).items():
        for library, found in libraries.items():
            m = {k: turns.median(found, k)
                 for k in ("alone_us", "collectives_ms", "gemms_ms", "both_ms", "both_by_max")}
            print(f"{name:15} {size(n):>5} {priority:8} {library:7} {m['alone_us']:9.1f} {m['collectives_ms']:9.2f} "
                  f"{m['gemms_ms']:9.2f} {m['both_ms']:8.2f} {m['both_by_max']:10.2f}")


def main():
    p = turns.parser(__doc__)
    p.add_argument("part", choices=("beside", "alone"))
    p.add_argument("--sizes", default="", help="with K, M or G")
    p.add_argument("--collectives", default="")
    p.add_argument("--priorities", default="same,high", help="of beside (default: %(default)s)")
    p.add_argument("--rounds", type=int, default=5, help="(default: %(default)s)")
    p.set_defaults(seconds=70)
    options = p.parse_args()
    known = {name for names in COLLECTIVES.values() for name in names.split(",")}
    if unknown := set(filter(None, options.collectives.split(","))) - known:
        p.error(f"no collective {', '.join(sorted(unknown))}: {', '.join(sorted(known))}")
    small = "" if turns.gpus() else "1K,64K"
    result = turns.take(options, f"goccl-{options.part}/1", HERE / "rank.py",
                        [options.part, "--sizes", options.sizes or small or SIZES[options.part],
                         "--collectives", options.collectives or COLLECTIVES[options.part],
                         "--priorities", options.priorities, "--rounds", str(options.rounds)])
    (show_alone if options.part == "alone" else show_beside)(result["rows"])
    wrong = sum(r["wrong"] for r in result["rows"])
    print(f"{len(result['rows'])} rows, {wrong} wrong elements, {result.get('seconds', 0)} s")
    return 1 if wrong or result["failures"] or not result["rows"] else 0


if __name__ == "__main__":
    sys.exit(main())
