"""The examples of GEMMs that overlap communication. Their protocol runs here on the host device with kernels of numpy;
Triton's own kernels run by its interpreter where Triton is; those of CUDA are compiled.

As a program this module is such a job: goccl run -n 3 -- python test_overlap.py
"""

import ctypes
import os
import subprocess
import sys
import time

import numpy as np
import pytest

import jobs

EXAMPLES = os.path.join(jobs.ROOT, "python", "examples")
sys.path.insert(0, EXAMPLES)

import overlap  # noqa: E402


class Numpy:
    """The kernels of the examples, a tile at a time, in another order of tiles."""

    TILE = HOST_TILE = (4, 8)

    @staticmethod
    def _wait(word, number):
        end = time.monotonic() + 60
        while word[0] < number:
            if time.monotonic() > end:
                raise TimeoutError
            time.sleep(0)

    @staticmethod
    def _view(address, shape):
        raw = (ctypes.c_uint16 * int(np.prod(shape))).from_address(address)
        return np.frombuffer(raw, np.float16).reshape(shape)

    def gathered(self, job, shape, shard, gathered, b, c, flags, number):
        rows, part = shape.rows, shape.rows // shape.chunks
        mine, others = self._view(shard, (rows, shape.inner)), self._view(gathered, (job.n * rows, shape.inner))
        for source in reversed(range(job.n)):
            for k in reversed(range(shape.chunks)):
                at = slice(source * rows + k * part, source * rows + (k + 1) * part)
                if source == job.rank:
                    c[at] = mine[k * part:(k + 1) * part].astype("f4") @ b.astype("f4")
                    continue
                self._wait(flags[source * shape.chunks + k:], number)
                c[at] = others[at].astype("f4") @ b.astype("f4")

    def scattered(self, job, shape, x, w, slots, flags, number):
        rows, tile, tiles = shape.rows, shape.tile, shape.rows // shape.tile[0]
        for owner in range(job.n):
            slot = self._view(int(slots[owner]) + job.rank * rows * shape.columns * 2, (rows, shape.columns))
            for column in range(0, shape.columns, tile[1]):
                for row in range(0, rows, tile[0]):
                    at = slice(row, row + tile[0]), slice(column, column + tile[1])
                    first = owner * rows + row
                    slot[at] = x[first:first + tile[0]].astype("f4") @ w[:, at[1]].astype("f4")
                    index = job.rank * tiles * (shape.columns // tile[1]) + column // tile[1] * tiles + row // tile[0]
                    ctypes.c_int32.from_address(int(flags[owner]) + 4 * index).value = number

    def reduced(self, job, shape, slots, out, flags, number):
        tiles = shape.rows // shape.tile[0] * (shape.columns // shape.tile[1])
        for i in range(job.n * tiles):
            self._wait(flags[i:], number)
        out[:] = self._view(slots, (job.n, shape.rows, shape.columns)).astype("f4").sum(0)


class Wrong(Numpy):
    """Adds the tiles of rank 0 only."""

    def reduced(self, job, shape, slots, out, flags, number):
        super().reduced(job, shape, slots, out, flags, number)
        out[:] = self._view(slots, (shape.rows, shape.columns))


def _job(n, program, *arguments, **environment):
    from goccl.__main__ import _program

    if _program() is None:
        pytest.skip("the goccl program is not built")
    return subprocess.run([jobs.PYTHON, "-m", "goccl", "run", "-n", str(n), "--", jobs.PYTHON, program, *arguments],
                          capture_output=True, text=True, timeout=240, env={**os.environ, **environment})


@pytest.mark.parametrize("n", [2, 3])
def test_protocol(n):
    p = _job(n, __file__, "--steps", "5")
    assert p.returncode == 0 and p.stdout.count("OK") == n, p.stdout + p.stderr


def test_check_notices_a_wrong_sum():
    p = _job(2, __file__, "--steps", "1", WRONG="1")
    assert p.returncode != 0 and "WRONG" in p.stdout, p.stdout + p.stderr


def test_shape_is_refused():
    with pytest.raises(ValueError, match="whole tiles of 16 rows"):
        overlap.Shape(40, 16, 16, 2, (16, 16))
    with pytest.raises(ValueError, match="columns is 24"):
        overlap.Shape(32, 16, 24, 2, (16, 16))
    p = _job(1, __file__)
    assert p.returncode != 0 and "at least two" in p.stderr, p.stdout + p.stderr


def test_triton():
    pytest.importorskip("triton")
    p = _job(2, os.path.join(EXAMPLES, "gemm_overlap_triton.py"), "--steps", "2", TRITON_INTERPRET="1",
             GOCCL_DEVICE="host")
    assert p.returncode == 0 and p.stdout.count("OK") == 2, p.stdout + p.stderr


GIVES_UP = """
import numpy as np, triton.language as tl
import gemm_overlap_triton as example, overlap
flags, failed, one = np.zeros(4, "int32"), np.zeros(1, "int32"), np.zeros((16, 16), "float16")
flags[0] = 1
example.reduced_kernel[(1,)](*map(overlap.address, (np.zeros((32, 16), "float16"), one, flags, failed)), 1, 16, 16,
                             ranks=2, DTYPE=tl.float16, M_TILE=16, N_TILE=16, POLLS=5)
print("waited for rank", failed[0] - 1)
"""


def test_triton_gives_up_a_wait():
    pytest.importorskip("triton")
    p = subprocess.run([jobs.PYTHON, "-c", GIVES_UP], capture_output=True, text=True, timeout=120, cwd=EXAMPLES,
                       env={**os.environ, "TRITON_INTERPRET": "1"})
    assert p.stdout == "waited for rank 1\n", p.stdout + p.stderr


def test_cuda_compiles(monkeypatch):
    from test_native import _nvrtc

    import goccl

    monkeypatch.setenv("GOCCL_NVRTC", _nvrtc())
    module = goccl.compile_native(name="overlap", file=os.path.join(EXAMPLES, "gemm_overlap.cu"), arch="sm_90",
                                  device=goccl.Device(goccl.DeviceType.CPU, 0))
    image = module._image
    assert all(name in image for name in (b"gathered", b"scattered", b"reduced"))


@pytest.mark.parametrize("name", ["gemm_overlap_triton", "gemm_overlap_cuda"])
def test_says_that_it_needs_a_gpu(name):
    if name == "gemm_overlap_triton":
        pytest.importorskip("triton")
    p = subprocess.run([jobs.PYTHON, os.path.join(EXAMPLES, name + ".py")], capture_output=True, text=True, timeout=120,
                       env={**os.environ, "TRITON_INTERPRET": "0"})
    assert p.returncode == 77 and "no GPU" in p.stdout, p.stdout + p.stderr


if __name__ == "__main__":
    sys.exit(overlap.main(Wrong() if os.environ.get("WRONG") else Numpy(), __doc__))
