"""Algorithms of users' kernels: compiled by NVRTC, described by Python functions, and run.

There is no GPU here. A mock of the driver takes the launches and notes their parameters; the kernel itself, the same
source compiled for the host, then runs on those parameters, all ranks at once.
"""

import glob
import os
import shutil
import subprocess

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
made = [native_allgather.algorithm(module) for _ in range(N)]
a = made[0]
assert (a.name, a.collective, a.is_native_algorithm()) == ("allgather", "allgather", True)
assert a.message_range == (0, 2**64 - 1)
for nbytes in (1, 1000, 4096, 1000):
    inputs = [bytes([17 * r + k & 255 for k in range(nbytes)]) for r in range(N)]
    sends = [buffer(r, inputs[r]) for r in range(N)]
    recvs = [buffer(r, bytes(N * nbytes)) for r in range(N)]
    for again in range(3):
        trace.start()
        def call(group):
            r = group.my_rank
            assert made[r].execute(group.communicator, sends[r].data(), recvs[r].data(), nbytes, N * nbytes,
                                   goccl.DataType.uint8, nthreads_per_block=32) == 0
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
  for (int r = 0; r < n; ++r)
    ranks.emplace_back(n, 32, allgather, all[r].channels, all[r].input, all[r].output, all[r].rank, all[r].bytes);
}
"""


@pytest.fixture(scope="module")
def on_the_host(tmp_path_factory):
    """The example's kernel, compiled by the C++ compiler of this machine."""
    if not shutil.which("g++"):
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("host")
    (folder / "host.cpp").write_text(HOST.replace("EXAMPLE", EXAMPLE))
    emulate = os.path.join(jobs.ROOT, "kernels", "internal", "hosttest", "testdata", "emulate.hpp")
    subprocess.run(["g++", "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-Wno-unknown-pragmas",
                    "-include", emulate, f"-I{INCLUDE}", "-shared", "-fPIC", "-o", str(folder / "host.so"),
                    str(folder / "host.cpp"), "-lpthread"], check=True)
    return str(folder / "host.so")


def test_the_guides_allgather_runs(mock, on_the_host, tmp_path):
    p = jobs.python(ALLGATHER, str(tmp_path / "trace"), on_the_host, EXAMPLE, timeout=120, **mock)
    assert p.returncode == 0 and p.stdout.strip() == "OK", p.stdout + p.stderr


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
        kernel = module.kernel("k", group.device)
        kernel.launch_kernel(pack(ctypes.c_uint64(output), context["scale"]), nblocks or 2, nthreads or 64, 0, stream)
    return goccl.NativeAlgorithm("mine", "allgather", initialize=initialize, init_context=init_context, context_key=key,
                                 launch=launch)

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
expected = sorted((5, 64, 0, struct.pack("<Qi", a, 3)) for a in (4096, 8192) for _ in range(N))
assert sorted(x[1:] for x in trace.launches()) == expected, trace.launches()
print("OK")
"""


def test_four_python_functions(mock, tmp_path):
    (tmp_path / "k.cu").write_text('extern "C" __global__ void k(void* p, int n) {}')
    p = jobs.python(PYTHON, str(tmp_path / "trace"), str(tmp_path / "k.cu"), timeout=120, **mock)
    assert p.returncode == 0 and p.stdout.strip() == "OK", p.stdout + p.stderr


ALL_KINDS = COMMON + """
trace = Trace(sys.argv[1])
module = goccl.compile_native(name="native", file=sys.argv[2], device=goccl.Device(goccl.DeviceType.GPU, 0))
memory = [[buffer(r, bytes(4096)) for r in range(N)] for _ in range(2)]

def words(address, n):
    return struct.unpack(f"<{n}Q", ctypes.string_at(address, 8 * n))  # the mock's GPU memory is the host's

def run(group):
    r = group.my_rank
    send, scratch = (b[r] for b in memory)
    connections = group.make_connection(range(N), goccl.Transport.CudaIpc)
    registered = group.register_local_memory(scratch, connections)
    service = goccl.ProxyService(context=group.communicator.context(), device=group.device)
    kinds = [group.make_memory_channels_with_scratch(send, registered, connections),
             group.make_port_channels(service, send, connections),
             {p: goccl.BaseMemoryChannel(s) for p, s in group.make_semaphores(connections).items()}]
    switch = group.make_switch_channel(scratch, connections)
    arrays = [group.device_handles(k) for k in kinds]
    (switches,) = [group.device_handles({p: switch for p in range(N)})]
    for p in range(N):
        handle = words(arrays[0].data() + 56 * p, 7)  # inbound, remote inbound, expected, abort, dst, src, packets
        if p == r:
            assert handle == (0,) * 7
        else:
            assert all(handle) and handle[5] == send.data() and handle[6] == scratch.data(), handle
        assert any(words(arrays[1].data() + 144 * p, 18)) == (p != r)
        assert any(words(arrays[2].data() + 32 * p, 4)) == (p != r)
    peers, numbers = words(switches.data(), 2)
    assert numbers == N | r << 32 and scratch.data() in words(peers, N)
    group.barrier()
    if r == 0:
        trace.start()
    group.barrier()
    params = goccl.utils.pack(*(ctypes.c_uint64(a.data()) for a in (*arrays, switches)))
    module.kernel("k", group.device).launch_kernel(params, 1, 32)
    group.barrier()
    if r == 0:
        assert len(trace.launches()) == N and params in [x[4] for x in trace.launches()]
    try:
        group.device_handles({})
        raise AssertionError
    except goccl.InvalidArgument:
        pass
    service.close()
import goccl.utils
ranks(run)
print("OK")
"""

KERNEL = """
#include <goccl/handle.cuh>
extern "C" __global__ void k(goccl::MemoryChannelHandle* a, goccl::PortChannelHandle* b,
                             goccl::BaseMemoryChannelHandle* c, goccl::SwitchChannelHandle* d) {}
"""


def test_kernels_take_every_kind_of_channel(mock, tmp_path):
    (tmp_path / "k.cu").write_text(KERNEL)
    p = jobs.python(ALL_KINDS, str(tmp_path / "trace"), str(tmp_path / "k.cu"), timeout=120, **mock)
    assert p.returncode == 0 and p.stdout.strip() == "OK", p.stdout + p.stderr
