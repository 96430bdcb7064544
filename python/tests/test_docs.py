"""Every block of docs/python.md and python/README.md."""

import importlib.util
import os
import re
import subprocess

import pytest

import jobs
from test_native import mock  # noqa: F401

# (file, number, language, mark, text)
BLOCKS = []
for _name in ("docs/python.md", "python/README.md"):
    with open(os.path.join(jobs.ROOT, _name), encoding="utf-8") as _f:
        BLOCKS += [(_name, i, *m) for i, m in enumerate(re.findall(r"^```(\w+) ?([^\n]*)\n(.*?)^```", _f.read(),
                                                                   re.S | re.M))]
BY_HAND = {"skip: python/tests/test_wheel.py runs it",
           "skip: python/tests/test_torchcomms.py runs its calls where torchcomms is",
           "skip: python/tests/test_torch_symmetric.py and python/tests/gpu/symmetric.py run its calls"}
RUNS = "skip: python/tests/test_docs.py runs it"
TORCH = RUNS + " where torch is"
MOCK = RUNS + " with the file above and a mock GPU"


def test_every_block_is_run_somewhere():
    assert len(BLOCKS) >= 11
    for name, i, language, mark, _ in BLOCKS:
        assert mark in {RUNS, TORCH, MOCK, *BY_HAND} and language in ("python", "sh", "cuda"), (name, i, language, mark)
    assert os.path.exists(os.path.join(jobs.ROOT, "python", "tests", "test_wheel.py"))


def _of(*marks, language="python"):
    found = [pytest.param(text, id=f"{name}-{i}") for name, i, lang, mark,
             text in BLOCKS if mark in marks and lang == language]
    assert found
    return found


@pytest.mark.parametrize("text", _of(RUNS))
def test_python(text):
    p = jobs.python(text)
    assert p.returncode == 0, p.stderr
    assert not p.stderr


@pytest.mark.parametrize("text", _of(RUNS, language="sh"))
def test_shell(text, tmp_path):
    (tmp_path / "python").symlink_to(jobs.PYTHON)
    p = subprocess.run(["bash", "-euc", text], capture_output=True, text=True, timeout=120, cwd=jobs.ROOT,
                       env=os.environ | {"PATH": f"{os.path.dirname(jobs.PYTHON)}:{tmp_path}:{os.environ['PATH']}"})
    assert p.returncode == 0 and p.stdout.count("OK") == 4, p.stdout + p.stderr


@pytest.mark.parametrize("text", _of(TORCH))
def test_torch(text):
    if importlib.util.find_spec("torch") is None:
        pytest.skip("no torch")
    p = jobs.python(text + "\nimport torch, torch.distributed as dist\nt = torch.ones(3)\ndist.all_reduce(t)\nassert "
                           "dist.get_backend() == 'goccl'\n",
                    RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=jobs.address().rpartition(":")[2])
    assert p.returncode == 0, p.stderr


@pytest.mark.parametrize("text", _of(MOCK))
def test_native(text, mock, tmp_path):  # noqa: F811
    (source,) = [t for _, _, language, _, t in BLOCKS if language == "cuda"]
    (tmp_path / "allgather.cu").write_text(source)
    p = jobs.python(f"import os\nos.chdir({str(tmp_path)!r})\n" + text + """
from goccl.device import Device, DeviceType, RawGpuBuffer
import threading
def run(b):
    group = goccl.CommGroup(bootstrap=b, device=Device(DeviceType.GPU, b.get_rank()))
    send, recv = RawGpuBuffer(64, device=group.device), RawGpuBuffer(128, device=group.device)
    done.append(algorithm.execute(group.communicator, send.data(), recv.data(), 64, 128, goccl.DataType.uint8))
    group.barrier()
done = []
threads = [threading.Thread(target=run, args=(b,)) for b in goccl.Bootstrap.local(2)]
[t.start() for t in threads]
[t.join(60) for t in threads]
assert done == [0, 0]
""", **mock)
    assert p.returncode == 0, p.stderr
