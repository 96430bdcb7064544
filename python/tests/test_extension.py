"""C++ modules of pybind11 and nanobind: what compile_native builds with a C++ compiler, and their algorithms."""

import os
import shutil
import sysconfig

import pytest

import jobs

CPP = os.path.join(jobs.ROOT, "capi", "testdata", "cpp")

SOURCES = {
    "pybind11": """
#include <pybind11/pybind11.h>
#include <gather.hpp>
PYBIND11_MODULE(gather_pybind11, m) {
  m.def("create_gather_algorithm", [] {
    auto* p = new std::shared_ptr<mscclpp::Algorithm>(Gather().build());
    return pybind11::capsule(p, mscclpp::ALGORITHM_NATIVE_CAPSULE_NAME,
                             [](void* q) { delete static_cast<std::shared_ptr<mscclpp::Algorithm>*>(q); });
  });
}
""",
    "nanobind": """
#include <nanobind/nanobind.h>
#include <gather.hpp>
NB_MODULE(gather_nanobind, m) {
  m.def("create_gather_algorithm", [] {
    auto* p = new std::shared_ptr<mscclpp::Algorithm>(Gather().build());
    return nanobind::capsule(p, mscclpp::ALGORITHM_NATIVE_CAPSULE_NAME,
                             [](void* q) noexcept { delete static_cast<std::shared_ptr<mscclpp::Algorithm>*>(q); });
  });
}
""",
}


def _build(library, file):
    import goccl

    return goccl.compile_native(name=f"gather_{library}", file=file, options=["-O0"], include_dirs=[CPP])


def _gather(rank, n, uid, library, file, cache):
    os.environ["GOCCL_CACHE_DIR"] = cache
    import numpy as np

    import goccl

    group = goccl.CommGroup(interfaceIpPortTrio=uid, rank=rank, size=n)
    comm = group.communicator
    algorithm = goccl.Algorithm.create_from_native_capsule(_build(library, file).create_gather_algorithm())
    assert (algorithm.name, algorithm.collective) == ("gather", "allgather")
    assert algorithm.message_size_range == (0, 2**64 - 1)
    given, out = goccl.GpuBuffer(64, np.uint8), goccl.GpuBuffer(64 * n, np.uint8)

    def execute(extras=None):
        return algorithm.execute(comm, given.ctypes.data, out.ctypes.data, 64, 64 * n, goccl.DataType.uint8,
                                 extras=extras)

    for turn in range(3):
        given[:] = rank + 10 * turn
        assert execute() == 0
        assert (np.asarray(out).reshape(n, 64) == np.arange(n)[:, None] + 10 * turn).all()
        group.barrier()
    with pytest.raises(goccl.GocclError, match="gather: told to fail"):
        execute({"fail": 1})
    with pytest.raises(goccl.Unsupported, match="accum_dtype"):
        algorithm.execute(comm, 0, 0, 0, 0, goccl.DataType.uint8, accum_dtype=goccl.DataType.float32)
    group.barrier()


LONG = pytest.mark.skipif(not os.environ.get("GOCCL_FULL"), reason="long: GOCCL_FULL=1")
HEADERS = os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))


@pytest.mark.parametrize("library", ["pybind11", pytest.param("nanobind", marks=LONG)])
def test_a_module_is_built_and_its_algorithm_runs(library, tmp_path, monkeypatch):
    pytest.importorskip(library)
    if not shutil.which("g++") or not HEADERS:
        pytest.skip("no C++ compiler, or no Python.h")
    file = tmp_path / "gather.cpp"
    file.write_text(SOURCES[library])
    monkeypatch.setenv("GOCCL_CACHE_DIR", str(tmp_path / "cache"))
    module = _build(library, str(file))
    built = sorted(p for p in (tmp_path / "cache").rglob("*.so"))
    assert len(built) == 1 and module.__file__ == str(built[0])
    before = built[0].stat().st_mtime_ns
    jobs.run(2, _gather, library, str(file), str(tmp_path / "cache"))
    assert [p.stat().st_mtime_ns for p in (tmp_path / "cache").rglob("*.so")] == [before]  # nobody built it again


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    import goccl

    file = tmp_path / "m.cu"
    file.write_text("#include <pybind11/pybind11.h>\n")
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.setattr("goccl._extension._nvcc", lambda: None)
    with pytest.raises(goccl.Unsupported, match=f"(?s){'no nvcc' if HEADERS else 'Python.h'}.*NVRTC.*NativeAlgorithm"):
        goccl.compile_native(name="m", file=str(file))
    other = tmp_path / "m.cpp"
    other.write_text(SOURCES["pybind11"])
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(goccl.Unsupported, match=f"(?s){'no C.. compiler' if HEADERS else 'Python.h'}.*NVRTC"):
        goccl.compile_native(name="m", file=str(other))


def test_capsules_of_others_are_refused():
    import ctypes

    import goccl

    with pytest.raises(goccl.InvalidArgument, match="no capsule of a mscclpp::Algorithm"):
        goccl.Algorithm.create_from_native_capsule(object())
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    words = (ctypes.c_uint64 * 8)()
    words[0] = ctypes.addressof(words) + 16  # an object whose table is zeros
    words[3] = ctypes.addressof(words) + 40
    with pytest.raises(goccl.InvalidArgument, match="other headers"):
        goccl.Algorithm.create_from_native_capsule(new(ctypes.addressof(words), b"mscclpp::AlgorithmPtr", None))
