"""Effects of importing."""

import os

import jobs


def test_import_is_quick_and_starts_nothing():
    code = """
import time, threading, os
t = time.process_time()  # not the time of whatever else the machine does
import goccl
d = time.process_time() - t
maps = open("/proc/self/maps").read()
print(d, len(os.listdir("/proc/self/task")), "libgoccl" in maps, "numpy" in maps)
"""
    best = 1.0
    for _ in range(3):
        p = jobs.python(code)
        assert p.returncode == 0, p.stderr
        seconds, tasks, library, numpy = p.stdout.split()
        assert (tasks, library, numpy) == ("1", "False", "False")
        best = min(best, float(seconds))
    assert best < 0.150


def test_every_public_name_exists():
    import goccl

    for name in goccl.__all__:
        assert getattr(goccl, name) is not None
    import goccl.nccl as nccl

    for name in nccl.__all__:
        assert hasattr(nccl, name)


def test_fork_after_import():
    code = """
import os, goccl, goccl.nccl as nccl
pid = os.fork()
if pid == 0:
    c = nccl.Communicator.init_all(1)[0]
    os._exit(0 if c.nranks == 1 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    p = jobs.python(code)
    assert p.stdout.strip() == "0", p.stdout + p.stderr


def test_fork_after_use_is_refused_not_hung():
    code = """
import os, goccl, goccl.nccl as nccl
import numpy as np
comms = nccl.Communicator.init_all(1)
pid = os.fork()
if pid == 0:
    try:
        comms[0].allreduce(np.ones(3), np.ones(3))
    except goccl.Forked as e:
        os._exit(7 if "fork" in str(e) else 8)
    os._exit(1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
a = np.ones(3)
comms[0].allreduce(a, a)
"""
    p = jobs.python(code, timeout=120)
    assert p.returncode == 0 and p.stdout.strip() == "7", p.stdout + p.stderr


def test_missing_library_says_what_to_do():
    p = jobs.python("import goccl; goccl.Bootstrap.from_env()", GOCCL_LIBRARY="/nonexistent/libgoccl.so")
    assert p.returncode == 1 and "make libgoccl" in p.stderr


def test_program():
    import subprocess

    p = subprocess.run([jobs.PYTHON, "-m", "goccl", "version"], capture_output=True, text=True, env=dict(os.environ))
    if p.returncode == 127:
        import pytest

        pytest.skip(p.stderr)
    assert p.returncode == 0 and "goccl" in p.stdout


def test_every_line_of_the_stub_is_an_export():
    import re

    import goccl

    with open(os.path.join(os.path.dirname(goccl.__file__), "__init__.pyi"), encoding="utf-8") as f:
        text = f.read()
    named = dict(reversed(m) for m in re.findall(r"^from (\.[\w.]+) import (\w+) as \2$", text, re.M))
    assert len(named) > 60 and named == goccl._HOME and len(named) == text.count("\nfrom ")
