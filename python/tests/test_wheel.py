"""The wheel: one for every Python. It is built and installed with GOCCL_FULL=1 only, because that takes minutes and the
network."""

import glob
import os
import subprocess
import sys
import zipfile

import pytest

import jobs

pytestmark = pytest.mark.skipif(os.environ.get("GOCCL_FULL") != "1", reason="builds a wheel and virtual environments: "
                                                                            "GOCCL_FULL=1")


def _run(*command, **more):
    p = subprocess.run(command, capture_output=True, text=True, timeout=900, **more)
    assert p.returncode == 0, p.stdout + p.stderr
    return p.stdout


def _interpreters():
    """Python 3.10 and later on this machine, one of each version."""
    found = {sys.version_info[:2]: sys.executable}
    pattern = os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")
    for path in [*glob.glob(pattern), *(f"/usr/bin/python3.{m}" for m in range(10, 20))]:
        if os.path.exists(path):
            v = tuple(map(int, _run(path, "-c", "import sys; print(*sys.version_info[:2])").split()))
            if v >= (3, 10):
                found.setdefault(v, path)
    return found


SMOKE = """
import os
import goccl
assert len(os.listdir("/proc/self/task")) == 1
import numpy as np
from goccl import nccl
c = nccl.Communicator.init_all(1)[0]
a = np.ones(3, np.float32)
c.allreduce(a, a)
assert os.path.exists(os.path.join(goccl.get_include(), "goccl", "memory_channel.cuh"))
assert os.path.exists(os.path.join(goccl.get_lib(), "libnccl.so.2"))
assert "site-packages" in goccl.__file__, goccl.__file__
"""


def test_one_wheel_for_every_python(tmp_path):
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    _run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path),
         os.path.join(jobs.ROOT, "python"), env=env)
    (wheel,) = glob.glob(str(tmp_path / "goccl-*.whl"))
    assert "-py3-none-linux_" in wheel
    names = zipfile.ZipFile(wheel).namelist()
    assert {"goccl/lib/libgoccl.so", "goccl/lib/libnccl.so.2", "goccl/lib/goccl", "goccl/py.typed",
            "goccl/__init__.pyi", "goccl/include/nccl.h", "goccl/include/goccl.h",
            "goccl/include/goccl_moe.h", "goccl/include/goccl_primitive.h", "goccl/torch/symmetric_memory.cpp",
            "goccl/torch/symmetric_memory.cu"} <= set(names)
    (metadata,) = [n for n in names if n.endswith("METADATA")]
    assert b"file:" not in zipfile.ZipFile(wheel).read(metadata)
    assert not [n for n in names if "cpython" in n or n.startswith("mscclpp")]
    for version, python in sorted(_interpreters().items()):
        venv = tmp_path / "python{}.{}".format(*version)
        _run(python, "-m", "venv", str(venv))
        _run(str(venv / "bin" / "pip"), "install", "-q", wheel, env=env)
        _run(str(venv / "bin" / "python"), "-c", SMOKE, cwd=tmp_path, env=env)
        assert "goccl" in _run(str(venv / "bin" / "goccl"), "version", cwd=tmp_path, env=env)


def test_installed_from_a_checkout_with_the_other_name(tmp_path):
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    _run(sys.executable, "-m", "venv", str(tmp_path / "v"))
    _run(str(tmp_path / "v" / "bin" / "pip"), "install", "-q", "./python", "./python/mscclpp", cwd=jobs.ROOT, env=env)
    _run(str(tmp_path / "v" / "bin" / "python"), "-c", SMOKE + """
import mscclpp, mscclpp.comm as mscclpp_comm, mscclpp.utils as mscclpp_utils
from mscclpp.language.collectives import AllReduce
assert mscclpp is goccl and mscclpp_comm.CommGroup is goccl.CommGroup and mscclpp_utils.pack
""", cwd=tmp_path, env=env)
