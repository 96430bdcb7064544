"""Algorithms of users' kernels: compiled by NVRTC, described in CUDA C++ or Python, and run.

There is no GPU here. A mock of the driver takes the launches and notes their parameters; the kernel itself, the same source compiled for the host, then runs
on those parameters, all ranks at once.
"""

import ctypes
import glob
import os
import shutil
import subprocess
import textwrap

import pytest

import jobs

EXAMPLE = os.path.join(jobs.ROOT, "python", "examples", "allgather.cu")
INCLUDE = os.path.join(jobs.ROOT, "kernels", "include")


def _nvrtc():
    found = glob.glob(os.path.join(jobs.ROOT, ".tools", "nvrtc", "**", "libnvrtc.so.12"), recursive=True)
    if not found:
        pytest.skip("no libnvrtc: make tools installs one")
    return found[0]


@pytest.fixture(scope="module")
def mock(tmp_path_factory):
    """The environment of a program that has two, three… mock GPUs."""
    nvrtc = _nvrtc()
    if not shutil.which("gcc"):
        pytest.skip("no C compiler for the mock driver")
    lib = tmp_path_factory.mktemp("mock") / "libmockcuda.so"
    source = os.path.join(jobs.ROOT, "internal", "driver", "testdata", "mockcuda.c")
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", str(lib), source, "-lpthread"], check=True)
    return {"GOCCL_CUDA_LIB": str(lib), "MOCKCUDA_DEVICES": "3", "GOCCL_DEVICE": "", "GOCCL_NVRTC": nvrtc}


COMMON = """
import ctypes, os, struct, sys, threading
import numpy as np
import goccl

N = 3

class Trace:
    # What the mock notes: see struct trace and struct note of mockcuda/trace.c.
    def __init__(self, path):
        with open(path, "wb") as f:
            f.truncate(8 << 20)
        os.environ["MOCKCUDA_TRACE"] = path
        self.path = path
    def start(self):
        with open(self.path, "r+b") as f:
            f.write(struct.pack("<IIQ", 1, 0, 0))
    def launches(self):
        with open(self.path, "rb") as f:
            raw = f.read()
        used, at, out = struct.unpack_from("<Q", raw, 8)[0], 64, []
        while at < 64 + used:
            size, kind, _, grid, block, shared = struct.unpack_from("<6I", raw, at)
            nparams, nname = struct.unpack_from("<2I", raw, at + 56)
            if kind == 1:
                name = raw[at + 64:at + 64 + nname].decode()
                out.append((name, grid, block, shared, raw[at + 64 + nname:at + 64 + nname + nparams]))
            at += size
        return out

def buffer(rank, data):
    b = goccl.RawGpuBuffer(len(data), device=goccl.Device(goccl.DeviceType.GPU, rank))
    b.copy_from(data)
    return b

def ranks(function):
    failures = []
    def one(b):
        try:
            group = goccl.CommGroup(bootstrap=b, device=goccl.Device(goccl.DeviceType.GPU, b.get_rank()))
            function(group)
            group.barrier()
        except BaseException:
            import traceback
            failures.append(traceback.format_exc())
    threads = [threading.Thread(target=one, args=(b,)) for b in goccl.Bootstrap.local(N)]
    [t.start() for t in threads]
    [t.join(60) for t in threads]
    assert not failures, "\\n".join(failures)
"""

ALLGATHER = COMMON + """
trace = Trace(sys.argv[1])
run = ctypes.CDLL(sys.argv[2]).run_allgather
sys.path.insert(0, os.path.dirname(sys.argv[3]))
import native_allgather
module = goccl.compile_native(name="native", file=sys.argv[3], device=goccl.Device(goccl.DeviceType.GPU, 0))
assert module.algorithms == ["allgather"], module.algorithms
made = [native_allgather.algorithm(in_python=sys.argv[4] == "python") for _ in range(N)]
a = made[0]
assert (a.name, a.collective, a.is_native_algorithm(), a.message_range) == ("allgather", "allgather", True, (0, 2**64 - 1))
for nbytes in (1, 1000, 4096, 1000):
    inputs = [bytes([17 * r + k & 255 for k in range(nbytes)]) for r in range(N)]
    sends = [buffer(r, inputs[r]) for r in range(N)]
    recvs = [buffer(r, bytes(N * nbytes)) for r in range(N)]
    for again in range(3):
        trace.start()
        def call(group):
            r = group.my_rank
            assert made[r].execute(group.communicator, sends[r].data(), recvs[r].data(), nbytes, N * nbytes, goccl.DataType.uint8, nthreads_per_block=32) == 0
        if not again:
            groups = []
            def first(group):
                groups.append(group)
                call(group)
            ranks(first)
        else:
            [call(g) for g in groups]  # prepared: nobody waits for anybody
        launches = trace.launches()
        assert [x[:4] for x in launches] == [("allgather", N, 32, 0)] * N, launches
        params = b"".join(x[4] for x in launches)
        assert len(params) == N * 40
        run(N, params)
        for r in range(N):
            assert recvs[r].to_bytes() == b"".join(inputs), (nbytes, again, r)
            recvs[r].copy_from(bytes(N * nbytes))
for m in made:
    m.reset()
print("OK")
"""

HOST = """
#include "EXAMPLE"
#include <vector>

struct Params {
  goccl::MemoryChannelHandle* channels;
  const uint8_t* input;
  uint8_t* output;
  int rank;
  uint64_t bytes;
};
static_assert(sizeof(Params) == 40, "as CUDA lays kernel parameters out");

extern "C" void run_allgather(int n, const Params* all) {
  std::vector<Launch> ranks;
  for (int r = 0; r < n; ++r) ranks.emplace_back(n, 32, allgather, all[r].channels, all[r].input, all[r].output, all[r].rank, all[r].bytes);
}
extern "C" const void* table(unsigned* size) {
  *size = sizeof goccl_algorithm_allgather;
  return &goccl_algorithm_allgather;
}
"""


@pytest.fixture(scope="module")
def on_the_host(tmp_path_factory):
    """The example, kernel and description, compiled by the C++ compiler of this machine."""
    if not shutil.which("g++"):
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("host")
    (folder / "host.cpp").write_text(HOST.replace("EXAMPLE", EXAMPLE))
    emulate = os.path.join(jobs.ROOT, "kernels", "internal", "hosttest", "testdata", "emulate.hpp")
    subprocess.run(["g++", "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-Wno-unknown-pragmas", "-include", emulate, f"-I{INCLUDE}",
                    "-shared", "-fPIC", "-o", str(folder / "host.so"), str(folder / "host.cpp"), "-lpthread"], check=True)
    return str(folder / "host.so")


@pytest.mark.parametrize("described", ["cuda", "python"])
def test_the_guides_allgather_runs(described, mock, on_the_host, tmp_path):
    p = jobs.python(ALLGATHER, str(tmp_path / "trace"), on_the_host, EXAMPLE, described, timeout=120, **mock)
    assert p.returncode == 0 and p.stdout.strip() == "OK", p.stdout + p.stderr


def _compile(source, monkeypatch):
    from goccl._description import descriptions
    from goccl.utils import compile_source

    monkeypatch.setenv("GOCCL_NVRTC", _nvrtc())
    return descriptions(compile_source(textwrap.dedent(source), "test.cu", arch=(9, 0)))


def test_two_compilers_make_one_table(monkeypatch, on_the_host):
    with open(EXAMPLE, encoding="utf-8") as f:
        (d,), kernels = _compile(f.read(), monkeypatch)
    from goccl._description import Description

    host = ctypes.CDLL(on_the_host)
    host.table.restype = ctypes.POINTER(ctypes.c_char)
    size = ctypes.c_uint()
    at = host.table(ctypes.byref(size))
    assert vars(Description("goccl_algorithm_allgather", at[:size.value])) == vars(d)
    assert kernels == {"allgather"}


EVERYTHING = """
#include <goccl/algorithm.cuh>
#include <goccl/handle.cuh>

extern "C" __global__ void small(goccl::MemoryChannelHandle* a, goccl::PortChannelHandle* b, goccl::SwitchChannelHandle* s, uint8_t* scratch, uint8_t narrow,
                                 uint16_t half, int n) {}
extern "C" __global__ void large(goccl::BaseMemoryChannelHandle* a, uint8_t* end) {}

struct Everything : goccl::Algorithm {
  static constexpr uint64_t minMessageSize = 16, maxMessageSize = 1 << 20;
  goccl::Connections ring, all;
  goccl::Channels memory, port, semaphores, multi;
  goccl::Memory scratch;

  constexpr void initialize(goccl::Initialize& job) {
    using namespace goccl;
    ring = job.connect((peer - rank + worldSize) % worldSize == 1 || (rank - peer + worldSize) % worldSize == 1);
    all = job.connect();
  }
  constexpr void context(goccl::Context& c) {
    using namespace goccl;
    scratch = c.scratch(worldSize * maximum(inputSize, 4096));
    memory = c.memoryChannels(scratch, input, scratch, all);
    port = c.portChannels(output, input, ring);
    semaphores = c.semaphores(ring);
    multi = c.switchChannel(scratch);
  }
  constexpr void key(goccl::Key& k) { k.inputSize().type(); }
  constexpr void launch(goccl::Launch& l) {
    using namespace goccl;
    l.kernel(GOCCL_KERNEL(small))
        .when(inputSize < 1024)
        .blocks(minimum(ceilDivide(inputSize, 256), 4), 2)
        .threads(select(threads != 0, threads, 64))
        .shared(inputSize * 2)
        .arguments(memory, port, multi, scratch, rank, inputSize / elementSize, extra("depth") - 7);
    l.kernel(GOCCL_KERNEL(large)).when(!(inputSize < 1024)).blocks(worldSize - 1).threads(32).arguments(semaphores, output + outputSize);
  }
};
GOCCL_ALGORITHM(everything, Everything, "allreduce")
"""


def test_expressions(monkeypatch):
    (d,), kernels = _compile(EVERYTHING, monkeypatch)
    assert (d.name, d.collective, d.range, kernels) == ("everything", "allreduce", (16, 1 << 20), {"small", "large"})
    from goccl._description import INPUT_SIZE, PEER, RANK, SCRATCH, WORLD_SIZE

    values = [None] * SCRATCH
    values[WORLD_SIZE], values[INPUT_SIZE] = 5, 700
    for rank in range(5):
        for peer in range(5):
            values[RANK], values[PEER] = rank, peer
            assert d.evaluate(d.connections[0][1], values, {}) == int((peer - rank) % 5 in (1, 4))
    assert d.evaluate(d.scratch[0], values, {}) == 5 * 4096
    small = d.launches[0]
    assert d.evaluate(small[2][0], values, {}) == 3
    assert d.evaluate(small[4][6][2], values, {"depth": 3}) == -4
    import goccl

    with pytest.raises(goccl.InvalidArgument, match="peer"):
        values[PEER] = None
        d.evaluate(d.connections[0][1], values, {})


ALL_KINDS = COMMON + """
trace = Trace(sys.argv[1])
module = goccl.compile_native(name="native", file=sys.argv[2], device=goccl.Device(goccl.DeviceType.GPU, 0))
made = [module.create_everything_algorithm() for _ in range(N)]
sends, recvs = [buffer(r, bytes(4096)) for r in range(N)], [buffer(r, bytes(4096)) for r in range(N)]

def words(address, n):
    return struct.unpack(f"<{n}Q", ctypes.string_at(address, 8 * n))  # the mock's GPU memory is the host's

def first(group):
    r, c, a = group.my_rank, group.communicator, made[group.my_rank]
    group.barrier()
    if r == 0:
        trace.start()
    group.barrier()
    a.execute(c, sends[r].data(), recvs[r].data(), 512, 512, goccl.DataType.float32, extras={"depth": 9})
    a.execute(c, sends[r].data(), recvs[r].data(), 512, 512, goccl.DataType.float32, nthreads_per_block=128)
    a.execute(c, sends[r].data(), recvs[r].data(), 2048, 2048, goccl.DataType.float32)
    a.execute(c, sends[r].data() + 512, recvs[r].data(), 2048, 2048, goccl.DataType.float32)  # addresses are not part of the key
    assert len(a._contexts) == 2, a._contexts
    group.barrier()
ranks(first)
launches = trace.launches()
small, large = [x for x in launches if x[0] == "small"], [x for x in launches if x[0] == "large"]
assert len(small) == 2 * N and len(large) == 2 * N
for name, grid, block, shared, params in small:
    assert grid == 4 and block in (64, 128) and shared == 1024, (grid, block, shared)
    memory, port, switch, scratch, rank, half, depth = struct.unpack("<4QBxHi", params)
    assert half == 128 and depth == (2 if block == 64 else -7) and rank < N
    for p in range(N):
        handle = words(memory + 56 * p, 7)  # inbound, remote inbound, expected, abort, dst, src, packets
        if p == rank:
            assert handle == (0,) * 7
        else:
            assert all(handle) and handle[5] == sends[rank].data() and handle[6] == scratch, handle
        assert any(words(port + 112 * p, 14)) == (p != rank)  # three ranks are a ring of all
    peers, numbers = words(switch, 2)
    assert numbers == N | rank << 32 and scratch in words(peers, N)
for name, grid, block, shared, params in large:
    semaphores, end = struct.unpack("<2Q", params)
    assert (grid, block) == (N - 1, 32) and end in [b.data() + 2048 for b in recvs] and any(words(semaphores, 12))
print("OK")
"""


def test_every_kind_of_channel(mock, tmp_path):
    (tmp_path / "everything.cu").write_text(EVERYTHING)
    p = jobs.python(ALL_KINDS, str(tmp_path / "trace"), str(tmp_path / "everything.cu"), timeout=120, **mock)
    assert p.returncode == 0 and p.stdout.strip() == "OK", p.stdout + p.stderr


@pytest.mark.parametrize("body, text", [
    ("l.kernel(GOCCL_KERNEL(k)).arguments(goccl::rank);", "another number of parameters"),
    ("l.kernel(GOCCL_KERNEL(k)).blocks(2);", "2 parameters and got 0 arguments"),
    ("", "launch describes no kernel"),
    ("goccl::Channels never; l.kernel(GOCCL_KERNEL(k)).arguments(never, never);", "channels that context does not make"),
])
def test_wrong_descriptions(body, text, monkeypatch):
    import goccl

    source = """
    #include <goccl/algorithm.cuh>
    extern "C" __global__ void k(void* a, int b) {}
    struct Wrong : goccl::Algorithm { constexpr void launch(goccl::Launch& l) { %s } };
    GOCCL_ALGORITHM(wrong, Wrong, "allgather")
    """
    with pytest.raises(goccl.InvalidArgument, match=text):
        _compile(source % (body or "(void)l;"), monkeypatch)


PYTHON = COMMON + """
from goccl.utils import pack
trace = Trace(sys.argv[1])
module = goccl.compile_native(name="native", file=sys.argv[2], device=goccl.Device(goccl.DeviceType.GPU, 0))
calls = []

def described(group):
    def initialize(comm):
        calls.append("initialize")
        return group.make_connection(list(range(N)), goccl.Transport.CudaIpc)
    def init_context(comm, input, output, input_size, output_size, dtype):
        calls.append("context")
        return {"scale": output_size // input_size}
    def key(input, output, input_size, output_size, dtype):
        return (input_size, dtype)
    def launch(context, input, output, input_size, output_size, dtype, op, stream, nblocks, nthreads, extras):
        module.kernel("k", group.device).launch_kernel(pack(ctypes.c_uint64(output), context["scale"]), nblocks or 2, nthreads or 64, 0, stream)
    return goccl.NativeAlgorithm("mine", "allgather", initialize=initialize, init_context=init_context, context_key=key, launch=launch)

def run(group):
    a = goccl.Algorithm.create_from_native_capsule(described(group))
    group.barrier()
    if group.my_rank == 0:
        trace.start()
    group.barrier()
    for address in (4096, 8192):
        a.execute(group.communicator, 1 << 20, address, 8, 24, goccl.DataType.float32, nblocks=5)
    group.barrier()
ranks(run)
assert calls.count("initialize") == N and calls.count("context") == N, calls
assert sorted(x[1:] for x in trace.launches()) == sorted((5, 64, 0, struct.pack("<Qi", a, 3)) for a in (4096, 8192) for _ in range(N)), trace.launches()
print("OK")
"""


def test_four_python_functions(mock, tmp_path):
    (tmp_path / "k.cu").write_text('extern "C" __global__ void k(void* p, int n) {}')
    p = jobs.python(PYTHON, str(tmp_path / "trace"), str(tmp_path / "k.cu"), timeout=120, **mock)
    assert p.returncode == 0 and p.stdout.strip() == "OK", p.stdout + p.stderr


def test_a_pybind_module_is_refused(tmp_path):
    import goccl

    (tmp_path / "m.cu").write_text("#include <pybind11/pybind11.h>\n")
    with pytest.raises(goccl.Unsupported, match="goccl/algorithm.cuh"):
        goccl.compile_native(name="m", file=str(tmp_path / "m.cu"))
    with pytest.raises(goccl.InvalidArgument, match="no algorithm"):
        goccl.Algorithm.create_from_native_capsule(object())
