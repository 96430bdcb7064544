"""The benchmarks of PyTorch jobs, bench/training and bench/overlap, on gloo with tiny sizes."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

BENCH = pathlib.Path(__file__).resolve().parent.parent.parent / "bench"
pytest.importorskip("torch.distributed")


def run(program, tmp_path, *arguments):
    """The results of a benchmark that has no GPU, and not this package, but torch wherever it is."""
    out = tmp_path / "out.json"
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    env["PYTHONPATH"] = os.pathsep.join(p for p in path if p != str(BENCH.parent / "python"))
    done = subprocess.run([sys.executable, str(BENCH / program), *arguments, "--json", str(out), "--seconds", "400"],
                          env={**env, "CUDA_VISIBLE_DEVICES": ""}, capture_output=True, text=True, timeout=420)
    logs = "".join(p.read_text() for p in tmp_path.glob("*.log"))
    assert done.returncode == 0, done.stdout + done.stderr + logs
    return json.loads(out.read_text())


def losses(tmp_path, ranks, modes):
    result = run("training/run.py", tmp_path, "-n", str(ranks), "--order", "n", "--steps", "0", "--losses", "4",
                 "--tokens", "64", "--modes", modes)
    return {mode: c["losses"]["gloo"] for mode, c in result["losses"].items()}


def test_tensor_parallel_losses_are_those_of_one_rank(tmp_path):
    (one, two) = (losses(tmp_path, n, "tp")["tp"] for n in (1, 2))
    assert len(one) == 4 and one == pytest.approx(two, abs=2e-5)
    assert len(set(one)) == 4


def test_fsdp_losses_are_those_of_ddp(tmp_path):
    found = losses(tmp_path, 2, "ddp,fsdp")
    assert found["ddp"] == pytest.approx(found["fsdp"], abs=2e-5)


def test_training_steps(tmp_path):
    result = run("training/run.py", tmp_path, "--order", "nn", "--steps", "2", "--tokens", "32", "--modes", "ddp,tp")
    assert [(r["turn"], r["mode"]) for r in result["rows"]] == [(0, "ddp"), (0, "tp"), (1, "ddp"), (1, "tp")]
    for r in result["rows"]:
        assert r["min_ms"] <= r["ms"] <= r["max_ms"] and len(r["times"]) == 2
        assert r["tokens_per_s"] == pytest.approx(32 * (2 if r["mode"] == "ddp" else 1) / r["ms"] * 1e3)


@pytest.mark.parametrize("part", ["alone", "beside"])
def test_collectives(tmp_path, part):
    result = run("overlap/run.py", tmp_path, part, "--order", "n", "--sizes", "1K", "--rounds", "1")
    found = {(r["collective"], r.get("priority")) for r in result["rows"]}
    assert len(found) == len(result["rows"]) == (5 if part == "alone" else 8)
    assert all(r["wrong"] == 0 for r in result["rows"])
