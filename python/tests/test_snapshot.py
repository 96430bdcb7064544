"""Snapshots of suspended ranks, by a mock of the driver."""

import os
import shutil
import subprocess

import pytest

import jobs

RANKS = """
import threading
import goccl.nccl as nccl
comms = nccl.Communicator.init_all([0, 1])
def both(call):
    threads = [threading.Thread(target=call, args=(c,)) for c in comms]
    [t.start() for t in threads]
    [t.join() for t in threads]
for _ in range(2):
    both(lambda c: c.suspend())
    print("suspended", flush=True)
    input()
    both(lambda c: c.resume())
"""

TAKER = """
import subprocess, sys
import pytest
from goccl import errors, snapshot
ranks = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
for _ in range(2):
    assert ranks.stdout.readline() == "suspended\\n"
    assert snapshot.state(ranks.pid) == "running"
    snapshot.take([ranks.pid])
    assert snapshot.state(ranks.pid) == "checkpointed"
    with pytest.raises(errors.InvalidArgument, match="checkpointed"):
        snapshot.take([ranks.pid], timeout=5)
    snapshot.restore([ranks.pid])
    assert snapshot.state(ranks.pid) == "running"
    ranks.stdin.write("\\n")
    ranks.stdin.flush()
assert ranks.wait(60) == 0
"""


def test_snapshot(tmp_path):
    if not shutil.which("gcc"):
        pytest.skip("no C compiler for the mock driver")
    lib = tmp_path / "libmockcuda.so"
    source = os.path.join(jobs.ROOT, "internal", "driver", "testdata", "mockcuda.c")
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", str(lib), source, "-lpthread"], check=True)
    env = os.environ | {"GOCCL_CUDA_LIB": str(lib), "MOCKCUDA_DEVICES": "2", "GOCCL_DEVICE": "cuda",
                        "MOCKCUDA_CHECKPOINT": str(tmp_path)}
    subprocess.run([jobs.PYTHON, "-c", TAKER, RANKS], env=env, check=True, timeout=120)
