"""Kernels, parameters, memory."""

import ctypes
import gc
import glob
import os
import shutil
import subprocess

import numpy as np
import pytest

import goccl
import jobs
from goccl.utils import compile_source, pack, torch_dtype_to_mscclpp_dtype


def test_pack():
    a = np.zeros(4)
    assert pack(1, 2) == b"\1\0\0\0\2\0\0\0"
    assert pack(a, 1, -2, True) == a.ctypes.data.to_bytes(8, "little") + b"\1\0\0\0\xfe\xff\xff\xff\1\0\0\0"
    assert pack(1, a) == b"\1" + bytes(7) + a.ctypes.data.to_bytes(8, "little")  # the pointer at its alignment
    assert pack(ctypes.c_size_t(5), 1.0) == b"\5" + bytes(7) + b"\0\0\x80?"
    assert pack(np.float32(1), np.int64(2)) == b"\0\0\x80?" + bytes(4) + b"\2" + bytes(7)
    with pytest.raises(goccl.InvalidArgument, match="c_int64"):
        pack(1 << 40)


def test_types():
    assert torch_dtype_to_mscclpp_dtype(np.dtype("float16")) is goccl.DataType.float16
    assert goccl.DataType.of("torch.bfloat16").itemsize == 2
    with pytest.raises(goccl.InvalidArgument, match="complex"):
        goccl.DataType.of("complex64")


@pytest.fixture
def nvrtc(monkeypatch):
    found = glob.glob(os.path.join(jobs.ROOT, ".tools", "nvrtc", "**", "libnvrtc.so.12"), recursive=True)
    if not found:
        pytest.skip("no libnvrtc: make tools installs one")
    monkeypatch.setenv("GOCCL_NVRTC", found[0])


KERNEL = """
#include <assert.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include "beside.cuh"
#include <elsewhere.cuh>
extern "C" __global__ void k(__half* h, __nv_bfloat16* b) {
  assert(h != nullptr);
  h[1] = __hadd(h[0], __int2half_rn(BESIDE + ELSEWHERE));
  b[1] = __hadd(b[0], __int2bfloat16_rn(MACRO + OPTION));
}
"""


@pytest.mark.parametrize("arch", [(9, 0), "sm_90"])
def test_kernel_builder_without_a_gpu(nvrtc, tmp_path, arch):
    (tmp_path / "k.cu").write_text(KERNEL)
    (tmp_path / "beside.cuh").write_text("#define BESIDE 1")
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "elsewhere.cuh").write_text("#define ELSEWHERE 2")
    b = goccl.utils.KernelBuilder("k.cu", "k", str(tmp_path), {"MACRO": 3}, include_dirs=[tmp_path / "include"],
                                  options=["-DOPTION=4"], arch=arch)
    image = b.compile()
    assert image[:4] == b"\x7fELF" and b"k" in image
    m = goccl.compile_native("k", str(tmp_path / "k.cu"), ("-DMACRO=3", "-DOPTION=4"),
                             include_dirs=[str(tmp_path / "include")], arch=arch)
    assert m.name == "k" and m.file.endswith("k.cu")
    for load in b.get_compiled_kernel, lambda: m.kernel("k"):
        with pytest.raises(goccl.InvalidArgument, match="open a GPU"):
            load()


@pytest.mark.parametrize("arch", ["sm_90a", "90", "sm_", "sm_9", "volta", (0, 9), (9, 10)])
def test_wrong_architectures(arch):
    with pytest.raises(goccl.InvalidArgument, match="arch"):
        compile_source("", arch=arch)


def test_compile(nvrtc):
    for name in ("mesh", "allgather"):
        with open(os.path.join(jobs.ROOT, "python", "examples", name + ".cu"), encoding="utf-8") as f:
            image = compile_source(f.read(), name + ".cu", arch=(9, 0))
        assert image[:4] == b"\x7fELF"
    with pytest.raises(goccl.InvalidArgument, match=r"bad\.cu\(1\)"):
        compile_source("broken", "bad.cu", arch=(9, 0))


def test_gpu_buffer():
    b = goccl.GpuBuffer((3, 4), dtype=np.float16)
    assert b.shape == (3, 4) and not b.any()
    view = b[1]
    del b
    gc.collect()
    view[:] = 7  # the view keeps the memory
    assert (view == 7).all()
    with pytest.raises(goccl.InvalidArgument):
        goccl.GpuBuffer(3, order="F")


def test_dlpack_keeps_the_memory():
    raw = goccl.RawGpuBuffer(4096)
    np.asarray(raw)[:] = 9
    a = np.from_dlpack(raw)
    del raw
    gc.collect()
    assert a.shape == (4096,) and (a == 9).all()
    with pytest.raises(goccl.InvalidArgument, match="needs"):
        goccl.RawGpuBuffer(4096).to_dlpack("float32", (2048,))


def test_env_names(monkeypatch):
    for name in ("SOCKET_FAMILY", "SOCKET_IFNAME", "HOSTID", "DEBUG"):
        monkeypatch.setenv("NCCL_" + name, "theirs")
        assert getattr(goccl.env(), name.lower()) == "theirs"
        monkeypatch.setenv("GOCCL_" + name, "ours")
        assert getattr(goccl.env(), name.lower()) == "ours"


def test_env():
    assert goccl.env().device == "host" and not goccl.is_nvls_supported()
    assert os.path.exists(os.path.join(goccl.get_include(), "goccl", "memory_channel.cuh"))


def test_headers():
    """One folder has the headers of NCCL, goccl and kernels, and programs compile against it."""
    if not shutil.which("gcc"):
        pytest.skip("no C compiler")
    for names in (["nccl.h"], ["goccl.h", "goccl_moe.h", "goccl_primitive.h"]):
        source = "".join(f"#include <{n}>\n" for n in names) + "int x;\n"
        p = subprocess.run(["gcc", "-fsyntax-only", "-Wall", "-Werror", f"-I{goccl.get_include()}", "-x", "c", "-"],
                           input=source, capture_output=True, text=True)
        assert p.returncode == 0, p.stderr


def test_alias():
    code = """
import goccl; goccl.install_alias(); goccl.install_alias()
import mscclpp, mscclpp.comm as mscclpp_comm, mscclpp.utils, mscclpp.language.rank, mscclpp.ext
from mscclpp import ProxyService, Transport
from mscclpp.utils import KernelBuilder, pack
from mscclpp.language.collectives import AllReduce
from mscclpp.language.channel import SwitchChannel, MemoryChannel, BufferType, SyncType
assert mscclpp is goccl and mscclpp_comm.CommGroup is goccl.CommGroup
import goccl.language.rank, goccl.comm
assert mscclpp.language.rank.Rank is goccl.language.rank.Rank
assert goccl.comm.__name__ == "goccl.comm" and goccl.__spec__.name == "goccl"
mscclpp.AlgoSpec, mscclpp.AlgorithmCollectionBuilder, mscclpp.ext.AlgorithmCollectionBuilder
mscclpp.language.utils.AlgoSpec
"""
    p = jobs.python(code)
    assert p.returncode == 0, p.stderr
