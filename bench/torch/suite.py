"""PyTorch's DistributedTest suite, which its wheel has, on CPU tensors: on goccl beside gloo.

    python bench/torch/suite.py FOLDER [--tests TESTS] [-k EXPRESSION]

writes FOLDER/suite.json, and the table FOLDER/suite.md. It needs pytest, numpy, expecttest and PyTorch 2.15 or later.
The tests that PyTorch keeps for gloo run on goccl too: the suite is told that it tests gloo, and makes groups of
goccl. World size 3, as PyTorch's own runs. With TESTS, a folder of files of PyTorch's test/distributed, those run
instead: where they make groups of gloo, groups of goccl are made.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from xml.etree import ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
WANT = os.environ.get("SUITE_BACKEND", "")  # gloo or goccl; "" in the process that starts both

# Why a test that passes on gloo does not on goccl, by the beginning of its name.
REASONS = {
    "test_barrier_timeout_global": "fails on gloo, too",
    "test_send_recv_any_source": "goccl receives from a rank that is named, as NCCL",
    # of TESTS, by file
    "test_c10d_ops::test_allreduce_ops": "goccl has BAND, BOR and BXOR, which the test wants to be refused",
    "test_c10d_ops::test_batch_isend_irecv": "it asks for supports_coalescing; sends and receives go together anyway",
    "test_c10d_ops::test_reduce_ops": "goccl has BAND, BOR and BXOR, which the test wants to be refused",
}

if WANT:
    os.environ.update(BACKEND="gloo", WORLD_SIZE="3", OMP_NUM_THREADS="1", GOCCL_DEVICE="host")
    import torch
    import torch.multiprocessing
    from torch.testing._internal.distributed import distributed_test

    import goccl.torch  # noqa: F401

    torch.set_num_threads(1)
    _context = torch.multiprocessing.get_context("forkserver")

    class _AsGloo(str):
        """goccl, where a test asks whether it is gloo."""

        def __eq__(self, other):
            return other in ("gloo", "goccl")

        def __ne__(self, other):
            return not self == other

        __hash__ = str.__hash__

    distributed_test.BACKEND = _AsGloo("goccl") if WANT == "goccl" else "gloo"

    def _enter(environment, target, args, kwargs):
        os.environ.clear()
        os.environ.update(environment)
        target(*args, **kwargs)

    def _process(target, name, args, kwargs):
        return _context.Process(target=_enter, name=name, args=(dict(os.environ), target, args, kwargs))

    class TestSuite(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        """The suite, its processes forked from one that has imported PyTorch."""

        def setUp(self):
            """Starts the ranks of a test."""
            super().setUp()
            self._spawn_processes()

        def _spawn_processes(self):
            _context.set_forkserver_preload(["suite"])
            self._start_processes(_process)


def _run(backend, tests, arguments):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.xml")
        path = [folder, tests or HERE, HERE, os.path.join(HERE, "../../python"), os.environ.get("PYTHONPATH", "")]
        if tests and backend == "goccl":
            os.makedirs(os.path.join(folder, "instead-0.dist-info"))
            for name, text in (("METADATA", "Name: instead\nVersion: 0\n"),
                               ("entry_points.txt", "[torch.backends]\ninstead = instead:gloo\n")):
                with open(os.path.join(folder, "instead-0.dist-info", name), "w") as f:
                    f.write(text)
        subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "instead", "--junitxml",
                        out, *arguments, tests or os.path.join(HERE, "suite.py")],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env=os.environ | {"SUITE_BACKEND": backend, "GOCCL_DEVICE": "host", "TEMP_DIR": folder,
                                         "INIT_METHOD": f"file://{folder}/init", "GOCCL_CACHE_DIR": "off",
                                         "PYTHONPATH": os.pathsep.join(path),
                                         "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": "300" if tests else "60"})
        results = {}
        for case in ElementTree.parse(out).iter("testcase"):
            kind = next((c.tag for c in case if c.tag in ("failure", "error", "skipped")), "passed")
            file = case.get("classname").split(".")[-2] + "::" if tests else ""
            results[file + case.get("name")] = {"error": "failed", "failure": "failed"}.get(kind, kind)
        return results


def _table(results):
    gloo, goccl = results["gloo"], results["goccl"]
    lines = ["| | passed | failed | skipped |", "|---|--:|--:|--:|"]
    for file in sorted({test.rpartition("::")[0] for test in gloo | goccl}):
        for name, of in results.items():
            n = Counter(kind for test, kind in of.items() if test.rpartition("::")[0] == file)
            lines.append(f"| {file} {name} | {n['passed']} | {n['failed']} | {n['skipped']} |")
    lines += ["", "| differs or fails | gloo | goccl | why |", "|---|---|---|---|"]
    for test in sorted(gloo | goccl):
        a, b = gloo.get(test, "-"), goccl.get(test, "-")
        if a != b or "failed" in (a, b):
            why = next((r for start, r in REASONS.items() if test.startswith(start)), "")
            lines.append(f"| `{test}` | {a} | {b} | {why} |")
    return "\n".join(lines) + "\n"


def main(folder, *arguments):
    """Runs the suite on both and writes what came of it."""
    import torch

    tests = ""
    if arguments[:1] == ("--tests",):
        tests, arguments = os.path.abspath(arguments[1]), arguments[2:]
    results = {backend: _run(backend, tests, arguments) for backend in ("gloo", "goccl")}
    commit = subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "suite.json"), "w") as f:
        json.dump({"commit": commit.strip(), "torch": torch.__version__, "machine": f"{os.cpu_count()} processors",
                   "command": "python bench/torch/suite.py FOLDER" + " --tests TESTS" * bool(tests),
                   "results": results}, f, indent=1)
        f.write("\n")
    with open(os.path.join(folder, "suite.md"), "w") as f:
        f.write(_table(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
