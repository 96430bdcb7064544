"""bench/inference on the host device, with test peers: one is right, one has a wrong element, one dies."""

import json
import os
import subprocess

import pytest

pytest.importorskip("torch")

import jobs  # noqa: E402

PEERS = '''
import os

import torch.distributed as dist

from contender import Contender


class Peer(Contender):
    def __init__(self, name, wrong):
        self.name, self.wrong = name, wrong

    def prepare(self, job, most):
        if self.name == "dies" and job.rank:
            os._exit(7)

    def all_reduce(self, job, x, out):
        def call():
            out.copy_(x)
            dist.all_reduce(out)
            out[0, 3] += self.wrong
        return call, out


def contenders():
    return [Peer("right", 0), Peer("wrong", 1), Peer("dies", 0), Peer("absent", 0)]
'''


def report(units, tmp_path):
    file = tmp_path / "report.json"
    file.write_text(json.dumps({"ranks": 2, "machine": {}, "units": units}))
    command = [jobs.PYTHON, os.path.join(jobs.ROOT, "bench", "inference", "report.py"), str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_report(tmp_path):
    """Versions of a library are apart, its own choice is marked, and a second table has the blocks."""
    def unit(name, default, us, blocks):
        rows = [{"bytes": 512, "mode": "graph", "us": us, "blocks": blocks}]
        return {"part": "all_reduce", "contender": name, "default": default, "rows": rows}
    lines = [" ".join(line.split()) for line in report([
        unit("NCCL 2.28.9", True, 9.0, 16), unit("NCCL 2.28.9 windows", False, 4.0, 8),
        unit("NCCL 2.32.3", True, 8.0, 16), unit("FlashInfer one-shot, PDL", False, 3.0, 1)], tmp_path).splitlines()]
    assert "NCCL 2.28.9 * 9.00" in lines and "NCCL 2.28.9 windows 4.00" in lines
    assert "best of NCCL 2.28.9 4.00" in lines and "best of NCCL 2.32.3 8.00" in lines
    assert "best of FlashInfer 3.00" in lines
    assert lines.index("NCCL 2.28.9 windows 8") > lines.index("best of FlashInfer 3.00")


STATE = '''
import sys

import rank

unit = {"part": "all_reduce", "contender": "some", "rows": [1]}
s = rank.State(sys.argv[1], 0)
s.begun.append(unit)
s.write(running=["all_reduce", "some"])
print(open(sys.argv[1]).read())
s.write(unit=unit)
print(open(sys.argv[1]).read())
'''


def test_state(tmp_path):
    """Rows of a part that time cuts short are in the file, and only once when the part ends."""
    command = [jobs.PYTHON, "-c", STATE, str(tmp_path / "state.json")]
    folder = os.path.join(jobs.ROOT, "bench", "inference")
    p = subprocess.run(command, capture_output=True, text=True, timeout=120,
                       env={**os.environ, "PYTHONPATH": os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])})
    assert p.returncode == 0, p.stderr
    running, ended = (json.loads(line) for line in p.stdout.splitlines())
    assert [u["rows"] for u in running["begun"]] == [[1]] and not running["units"]
    assert not ended["begun"] and [u["rows"] for u in ended["units"]] == [[1]]


def test_peers(tmp_path):
    (tmp_path / "peers").mkdir()
    (tmp_path / "peers" / "some.py").write_text(PEERS)
    file = tmp_path / "inference.json"
    p = subprocess.run([jobs.PYTHON, os.path.join(jobs.ROOT, "bench", "inference", "run.py"), "--json", str(file),
                        "--parts", "all_reduce,captured_fused", "--steps", "50", "--seconds", "540",
                        "--without", "absent"],
                       capture_output=True, text=True, timeout=580,
                       env={**os.environ, "GOCCL_PEERS": str(tmp_path / "peers")})
    assert p.returncode == 0, p.stdout + p.stderr
    units = {(u["part"], u["contender"]): u for u in json.loads(file.read_text())["units"]}
    rows = units["all_reduce", "right"]["rows"]
    assert [r["bytes"] for r in rows] == [512, 1024, 2048] and all(r["us"] > 0 for r in rows)
    assert "1 of 256 elements wrong, the first at 3" in units["all_reduce", "wrong"]["failure"]
    assert not units["all_reduce", "wrong"]["rows"]
    assert units["all_reduce", "dies"]["failure"] == "rank 1 ended with status 7"
    assert len(units["all_reduce", "goccl"]["rows"]) == 3 and ("all_reduce", "absent") not in units
    for algorithm in ("one_shot", "two_shot"):
        assert [r["wrong"] for r in units["captured_fused", f"goccl fusion {algorithm}"]["rows"]] == [0, 0]
    assert "wrong" in p.stdout and "dies" in p.stdout
