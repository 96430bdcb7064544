"""One rank of run.py: runs the units, contenders in the parts of the measurement, that the state file lacks.

Contenders of a part take turns at each size. Rank 0 writes which unit is being checked, and the units of a part at its
end: run.py starts the ranks again without what hangs or crashes, and then they do the part again.
"""

import argparse
import json
import os
import sys
import time

import torch

import all_reduce
import captured
import fused
import ours
import step
import timing
import torchs
from contender import peers
from job import Failed, Job
from nccl_abi import ABI, Windows, libraries

CRASHED = 4  # exit status: start again
TURNS = "turns"  # stands for all contenders of a part


def contenders(options):
    """All of them, those that others are made of first."""
    if options.preloaded:
        return [torchs.ProcessGroup("goccl preloaded", "nccl")]
    goccl, others = ours.library(), peers()
    nccl = libraries(options.against)
    norms = next((p for p in others if hasattr(p, "norm")), None)
    found = [goccl, ours.Kernels("one_shot"), ours.Kernels("two_shot"), ours.Kernels("apart"), ours.Operators(), *nccl]
    if options.device == "cuda":
        found += [torchs.ProcessGroup("NCCL process group", "nccl"),
                  *(torchs.Symmetric(shots, copies) for copies in (False, True) for shots in ("one", "two"))]
    else:
        found.append(torchs.ProcessGroup("gloo", "gloo"))
    found += others
    return found + [torchs.ThenNorm(c, norms) for c in found
                    if c in (goccl, *nccl) and not isinstance(c, Windows)
            or c in others and getattr(c, "then_norm", False)]


class State:
    """The units that are done, and the one that runs, in a file of rank 0."""

    def __init__(self, path, rank):
        self.path, self.rank, self.units, self.begun = path, rank, [], []
        if os.path.exists(path):
            with open(path) as f:
                self.units = json.load(f)["units"]
        self.done = {(u["part"], u["contender"]) for u in self.units}

    def write(self, running=None, unit=None):
        if unit:
            self.units.append(unit)
            self.begun = [b for b in self.begun if b is not unit]
        if self.rank == 0:
            with open(self.path + ".tmp", "w") as f:
                json.dump({"running": running, "units": self.units, "begun": self.begun}, f)
            os.replace(self.path + ".tmp", self.path)


def parts(job, options):
    """(name, whether a contender takes part, its rows) of each part."""
    quick = options.quick
    hidden, layers = (256, 4) if quick else (step.HIDDEN, options.layers)
    sizes = options.sizes or (all_reduce.SIZES[:3] if quick else all_reduce.SIZES)
    made = []

    def model():
        if not made:
            made.append(step.Model(job, hidden, layers))
        return made[0]
    mine = [c for c in options.found if isinstance(c, (ABI, ours.Kernels)) and c.name.startswith("goccl")]
    return {
        "all_reduce": (lambda c: c.plain, lambda c: all_reduce.unit(job, c, sizes)),
        "fused": (lambda c: c.fused, lambda c: fused.unit(job, c, quick)),
        "step": (lambda c: c.plain, lambda c: step.unit(job, c, quick, model(), True)),
        "step_fused": (lambda c: c.fused, lambda c: step.unit(job, c, quick, model(), False)),
        "captured": (lambda c: c.plain and c in mine, lambda c: captured.unit(job, c, quick, options.steps, True)),
        "captured_fused": (lambda c: c.fused and c.plain and c in mine,
                           lambda c: captured.unit(job, c, quick, options.steps, False)),
    }


def prepared(job, contender, failures):
    """Prepares a contender once; raises again what that raised."""
    if contender.name not in failures:
        failures[contender.name] = None
        try:
            job.together(contender.prepare, job, 16 << 20)
        except Failed as e:
            failures[contender.name] = str(e)
    if failures[contender.name]:
        raise Failed(failures[contender.name])


class Entry:
    """A contender in a part: its rows one after the other, each checked and not yet timed."""

    def __init__(self, job, state, part, contender, unit, failures):
        self.job, self.state, self.part, self.contender, self.failures = job, state, part, contender, failures
        self.result = {"part": part, "contender": contender.name, "default": contender.default, "rows": [],
                       "seconds": 0}
        self.rows, self.row = unit(contender), None

    def key(self):
        return self.row.get("quantised", False), self.row["bytes"], self.row["mode"]

    def begin(self):
        c = self.contender
        timing.warm(self.job, 0.1 if self.state.units else 1)
        if hasattr(c, "first"):
            prepared(self.job, c.first, self.failures)
        prepared(self.job, c, self.failures)
        self.result["version"] = c.version

    def advance(self, do=lambda: None):
        """Makes the next row, which is None after the last one and after a failure."""
        self.state.write(running=[self.part, self.contender.name])
        begin, self.row = time.monotonic(), None
        try:
            do()
            self.row = next(self.rows, None)
        except Failed as e:
            self.result["failure"] = str(e)
            print(f"{self.part}, {self.contender.name}: {e}", file=sys.stderr, flush=True)
            try:
                self.job.together(lambda: None)
            except Failed:
                self.state.write(unit=self.result)
                os._exit(CRASHED)  # the GPU's context is lost
        self.result["seconds"] = round(self.result["seconds"] + time.monotonic() - begin, 2)


def race(entries):
    """Times the contenders of a part: those that have a size take turns."""
    for e in entries:
        e.advance(e.begin)
        e.state.begun.append(e.result)
    while left := [e for e in entries if e.row]:
        key = min(e.key() for e in left)
        now = [e for e in left if e.key() == key]
        now[0].state.write(running=[now[0].part, TURNS if len(now) > 1 else now[0].contender.name])
        timing.turns(now[0].job, [e.row for e in now])
        for e in now:
            e.result["rows"].append(e.row)
            e.advance()
    for e in entries:
        e.state.write(unit=e.result)


def measure(job, options, state):
    failures = {}
    known = parts(job, options)
    for part in options.parts.split(","):
        takes, unit = known[part]
        entries = [Entry(job, state, part, c, unit, failures) for c in options.found
                   if takes(c) and any(t in c.name for t in options.only) and c.name not in options.without
                   and (part, c.name) not in state.done]
        if part.startswith("captured") or (part, TURNS) in state.done:  # what did not survive turns goes alone
            for e in entries:
                race([e])
        else:
            race(entries)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--state", required=True, help="the file of the units")
    p.add_argument("--parts", required=True)
    p.add_argument("--device", choices=("cuda", "cpu"), required=True)
    p.add_argument("--against", type=lambda s: s.split(",") if s else [], default=[], help="NVIDIA's libraries")
    p.add_argument("--preloaded", action="store_true", help="only the process group of nccl")
    p.add_argument("--only", type=lambda s: s.split(","), default=[""])
    p.add_argument("--steps", type=int, default=100000)
    p.add_argument("--without", action="append", default=[])
    p.add_argument("--sizes", type=lambda s: [int(n) for n in s.split(",")] if s else [], default=[])
    p.add_argument("--layers", type=int, default=step.LAYERS)
    p.add_argument("--quick", action="store_true")
    p.add_argument("--seconds", type=int, default=600)
    options = p.parse_args()
    torch.set_num_threads(2)
    job = Job(options.device, options.seconds)
    options.found = contenders(options)
    with torch.inference_mode():
        state = State(options.state, job.rank)
        state.write()
        measure(job, options, state)
    job.barrier()
    os._exit(0)  # the libraries end with the process


if __name__ == "__main__":
    main()
