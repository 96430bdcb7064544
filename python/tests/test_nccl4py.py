"""NVIDIA's nccl4py, from PyPI, on goccl's libnccl.so.2.

It asks cuda.core which GPU a communicator is on before every call, and cuda.core needs a driver. There is none here, so
that one attribute is put in its place; all else is NVIDIA's: the dlopen, the bindings, the checks of buffers, the
structs.
"""

import importlib.util
import os
import subprocess

import pytest

import jobs

if importlib.util.find_spec("nccl") is None or importlib.util.find_spec("nccl.core") is None:
    pytest.skip("no nccl4py", allow_module_level=True)

LIBRARIES = os.path.join(jobs.ROOT, "build")

COMMON = """
import os, sys, time, types
os.environ["GOCCL_DEVICE"] = "host"
import numpy as np
import nccl.core as nccl
from nccl.core.buffer import NcclBuffer

HOST = types.SimpleNamespace(device_id=NcclBuffer(np.ones(1)).device_id)
"""


def _python(code, *arguments):
    p = subprocess.run([jobs.PYTHON, "-c", COMMON + code, *arguments], capture_output=True, text=True, timeout=120,
                       env=os.environ | {"LD_LIBRARY_PATH": LIBRARIES})
    assert p.returncode == 0, p.stdout + p.stderr
    return p.stdout


def test_it_finds_our_library():
    out = _python("""
v = nccl.get_version()
print(v.libnccl.path, v.libnccl.version)
a, b = nccl.get_unique_id(), nccl.get_unique_id()
assert len(a.as_bytes) == 128 and a.as_bytes != b.as_bytes
""")
    path, version = out.split()
    assert os.path.samefile(path, os.path.join(LIBRARIES, "libnccl.so.2")) and version == "2.28.9"


def test_a_communicator_of_one():
    _python("""
c = nccl.Communicator.init(nranks=1, rank=0, unique_id=nccl.get_unique_id(),
                            config=nccl.NCCLConfig(blocking=True, comm_name="one"))
assert (c.nranks, c.rank, c.is_valid) == (1, 0, True)
p = c.properties
assert (p.rank, p.n_ranks, p.cuda_dev, p.device_api_support, p.multimem_support) == (0, 1, 0, False, False), p
assert c.get_async_error() == 0 and c.get_last_error() is not None
d = c.split(color=0, key=0)
assert d.nranks == 1
d.destroy()
c.finalize()
c.destroy()
assert not c.is_valid
try:
    nccl.Communicator.init(nranks=0, rank=0, unique_id=nccl.get_unique_id())
except Exception as e:
    assert "InvalidArgument" in str(e), e
else:
    raise AssertionError("no ranks")
""")


RANK = """
rank, n, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
path = os.path.join(folder, "id")
if rank == 0:
    uid = nccl.get_unique_id()
    with open(path + ".part", "wb") as f:
        f.write(uid.as_bytes)
    os.rename(path + ".part", path)
else:
    end = time.monotonic() + 60
    while not os.path.exists(path):
        assert time.monotonic() < end
        time.sleep(0.02)
    with open(path, "rb") as f:
        uid = nccl.UniqueId.from_bytes(f.read())
c = nccl.Communicator.init(nranks=n, rank=rank, unique_id=uid)
c._device = HOST
f32 = lambda *shape: np.full(shape, -1, np.float32)
mine = np.arange(6, dtype=np.float32) + rank
total = sum(np.arange(6, dtype=np.float32) + r for r in range(n))

out = f32(6); c.allreduce(mine, out, nccl.SUM); assert (out == total).all()
x = mine.copy()
c.reduce(x, x, nccl.SUM)
assert (x == total).all()                # root=None means all-reduce, in place
for op, f in ((nccl.MAX, np.maximum), (nccl.MIN, np.minimum), (nccl.PROD, np.multiply)):
    want = mine * 0 + (np.arange(6, dtype=np.float32))
    for r in range(1, n):
        want = f(want, np.arange(6, dtype=np.float32) + r)
    out = f32(6); c.allreduce(mine, out, op); assert np.allclose(out, want), op
out = f32(6); c.allreduce(mine, out, nccl.AVG); assert np.allclose(out, total / n)
out = f32(6); c.reduce(mine, out if rank == 1 else None, nccl.SUM, root=1); assert rank != 1 or (out == total).all()
x = mine.copy(); c.broadcast(x, x, root=1); assert (x == np.arange(6) + 1).all()
out = f32(n, 6); c.allgather(mine, out); assert (out == np.arange(6) + np.arange(n)[:, None]).all()
out = f32(6)
c.reduce_scatter(np.tile(mine, (n, 1)) * np.arange(1, n + 1, dtype=np.float32)[:, None], out, nccl.SUM)
assert (out == total * (rank + 1)).all()
src = (np.arange(n, dtype=np.float32) + 10 * rank).repeat(2); out = f32(2 * n)
c.alltoall(src, out); assert (out == (10 * np.arange(n) + rank).repeat(2)).all()
out = f32(n, 6)
c.gather(mine, out if rank == 0 else None, root=0)
assert rank or (out == np.arange(6) + np.arange(n)[:, None]).all()
out = f32(2)
c.scatter((np.arange(2 * n, dtype=np.float32) if rank == 0 else None), out, root=0)
assert (out == np.arange(2) + 2 * rank).all()
out = f32(6)
with nccl.group():
    c.send(mine, (rank + 1) % n)
    c.recv(out, (rank - 1) % n)
assert (out == np.arange(6) + (rank - 1) % n).all()
op = c.create_pre_mul_sum(2.0, nccl.FLOAT32)
out = f32(6); c.allreduce(mine, out, op); assert (out == 2 * total).all()
half = c.split(color=rank % 2, key=-rank)
half._device = HOST
assert half.nranks == (n + 1 - rank % 2) // 2
out = np.zeros(1, np.int64); half.allreduce(np.ones(1, np.int64), out, nccl.SUM); assert out[0] == half.nranks
half.destroy()
try:
    c.allreduce(mine, f32(6), nccl.SUM, stream=12345)
except Exception as e:
    assert "InvalidArgument" in str(e) or "InvalidUsage" in str(e), e
else:
    raise AssertionError("a stream that is none")
c.destroy()
print("OK")
"""


@pytest.mark.parametrize("n", [2, 3])
def test_collectives(n, tmp_path):
    ranks = [subprocess.Popen([jobs.PYTHON, "-c", COMMON + RANK, str(r), str(n), str(tmp_path)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, env=os.environ | {"LD_LIBRARY_PATH": LIBRARIES})
                              for r in range(n)]
    try:
        out = [p.communicate(timeout=120)[0] for p in ranks]
    finally:
        for p in ranks:
            p.kill()
    assert all(p.returncode == 0 for p in ranks) and all(o.strip().endswith("OK") for o in out), "\n".join(out)


def test_every_function_that_calls_need_is_there():
    """The bindings look up their functions with dlsym. Of these, the functions that NVIDIA's NCCL 2.28 has must be
    there; functions of later versions need not be."""
    import ctypes
    import glob
    import re

    folder = importlib.util.find_spec("nccl").submodule_search_locations[0]
    (lib,) = glob.glob(os.path.join(folder, "bindings", "_internal", "nccl.*.so"))
    with open(lib, "rb") as f:
        wanted = {m.decode() for m in re.findall(rb"(?<![A-Za-z_])nccl[A-Z][A-Za-z]+(?=\0)", f.read())}
    with open(os.path.join(jobs.ROOT, "capi", "testdata", "nvidia-nccl-2.28.9.txt"), encoding="utf-8") as f:
        functions = wanted & set(f.read().split())
    assert len(functions) >= 40, sorted(functions)
    ours = ctypes.CDLL(os.path.join(LIBRARIES, "libnccl.so.2"))
    assert [name for name in sorted(functions) if not hasattr(ours, name)] == []
