#!/usr/bin/env python3
"""Measures communicators of PyTorch's process groups on NVIDIA's NCCL and on goccl, by turns, on all GPUs.

    run.py --json FILE [--counts 1,8,64] [--cycles N] [--order ngng] [--seconds N]

Every communicator has done one small all-reduce. first: GPU memory of the first one. further_N: GPU memory of each of N
more. made_N: ms from new_group to the end of the first all-reduce, the mean of those. left: memory of the GPU and of
the process that N cycles of new_group and destroy leave, behind as many that are not counted. The worst rank counts.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "turns"))

import turns  # noqa: E402


def show(result):
    """The table, for people."""
    print(f"{'figure':14} {'unit':5} {'nccl':>10} {'goccl':>10} {'goccl / nccl':>13}")
    for (figure, unit), libraries in turns.groups([r for r in result["rows"] if r["kind"] == "communicator"],
                                                  ("figure", "unit")).items():
        values = {name: turns.median(rows, "value") for name, rows in libraries.items()}
        cells = " ".join(f"{turns.text(values.get(name), 2):>10}" for name in ("nccl", "goccl"))
        print(f"{figure:14} {unit:5} {cells} {turns.text(turns.ratio(libraries, 'value'), 3):>13}")


def main():
    p = turns.parser(__doc__)
    p.add_argument("--counts", default="1,8,64", help="further communicators (default: %(default)s)")
    p.add_argument("--cycles", type=int, default=10, help="of new_group and destroy (default: %(default)s)")
    options = p.parse_args()
    result = turns.take(options, "goccl-communicator/1", HERE / "rank.py",
                        ["--counts", options.counts, "--cycles", str(options.cycles)])
    turns.save(options.json, result)
    show(result)
    return 1 if result["failures"] or not result["rows"] else 0


if __name__ == "__main__":
    sys.exit(main())
