"""PyTorch's symmetric memory on goccl's, by processes on the host device."""

import gc
import os
import shutil
import subprocess

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
import torch.distributed._symmetric_memory as symm_mem  # noqa: E402

import jobs  # noqa: E402

jobs.preload("torch", "torch.distributed")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache that has the allocator, so that no rank compiles it."""
    folder = str(tmp_path_factory.mktemp("cache"))
    done = jobs.python("""
import goccl.torch, torch, torch.distributed._symmetric_memory as symm_mem
try:
    symm_mem.set_backend("none")
except RuntimeError as e:
    assert "none" in str(e)
assert symm_mem.get_backend("cpu") is None
symm_mem.set_backend("GOCCL")
assert symm_mem.get_backend("cpu") == "GOCCL"
t = symm_mem.empty(100, dtype=torch.int16, device="cpu")
assert (t == 0).all()
""", timeout=600, GOCCL_CACHE_DIR=folder)
    assert done.returncode == 0, done.stderr
    return folder


def _init(rank, n, uid, cache, backend="goccl"):
    torch.set_num_threads(1)
    os.environ["GOCCL_CACHE_DIR"] = cache
    import goccl.torch  # noqa: F401

    dist.init_process_group(backend, init_method=f"tcp://127.0.0.1:{uid.rpartition(':')[2]}", rank=rank, world_size=n)
    symm_mem.set_backend("GOCCL")
    return dist.group.WORLD


def _loads_and_stores(rank, n, uid, cache, backend):
    group = _init(rank, n, uid, cache, backend)
    t = symm_mem.empty(2, 1000, dtype=torch.float32, device="cpu").fill_(rank)
    memory = symm_mem.rendezvous(t, group)
    assert (memory.rank, memory.world_size, memory.buffer_size) == (rank, n, t.nbytes)
    assert len(set(memory.buffer_ptrs)) == n and t.data_ptr() not in memory.signal_pad_ptrs
    assert memory.buffer_ptrs[rank] == t.data_ptr()  # kernels find their peers' tensors by the distance to it
    memory.barrier()
    for r in range(n):
        assert (memory.get_buffer(r, t.shape, t.dtype) == r).all()
    memory.barrier(channel=3)
    right, left = (rank + 1) % n, (rank - 1) % n
    for k in range(100):  # a put after a wait, so nothing is overwritten too early
        memory.get_buffer(right, (1000,), t.dtype, 1000).fill_(100 * k + rank)
        memory.put_signal(right, channel=1)
        memory.wait_signal(left, channel=1)
        assert (t[1] == 100 * k + left).all()
        memory.put_signal(left, channel=2)
        memory.wait_signal(right, channel=2)
    dist.barrier(group)
    assert all((memory.get_signal_pad(r) == 0).all() for r in range(n))
    t.fill_(rank + 1)
    dist.all_reduce(t, group=group)
    assert (t == n * (n + 1) // 2).all()
    # Another group, and another tensor.
    pair = dist.new_group([0, 1])
    if rank < 2:
        both = symm_mem.rendezvous(t, pair)
        assert both.world_size == 2 and both.buffer_ptrs != memory.buffer_ptrs
        both.barrier()
    other = symm_mem.empty(10, device="cpu")
    symm_mem.rendezvous(other, group)
    if hasattr(symm_mem, "is_symm_mem_tensor"):
        assert symm_mem.is_symm_mem_tensor(other) and not symm_mem.is_symm_mem_tensor(torch.empty(10))
    assert symm_mem.rendezvous(torch.empty(10), group) is None  # which PyTorch's operators check
    # Freed, while the ranks' maps of it still hold it.
    memory.barrier()
    t.fill_(7 + rank)
    memory.barrier()
    del t
    gc.collect()
    assert (memory.get_buffer(right, (2000,), torch.float32) == 7 + right).all()
    memory.barrier()
    del memory
    dist.destroy_process_group()


@pytest.mark.parametrize("backend", ["goccl", "gloo"])
def test_loads_and_stores(cache, backend):
    jobs.run(3, _loads_and_stores, cache, backend)


def _refusals(rank, n, uid, cache):
    group = _init(rank, n, uid, cache)
    t = symm_mem.empty(10 + rank, device="cpu")
    with pytest.raises(RuntimeError, match="allocate the same sizes"):
        symm_mem.rendezvous(t, group)
    memory = symm_mem.rendezvous(symm_mem.empty(10, device="cpu"), group)
    with pytest.raises(RuntimeError, match="channel 100000"):
        memory.barrier(channel=100000)
    with pytest.raises(RuntimeError, match=f"rank {n} of {n}"):
        memory.put_signal(n)
    with pytest.raises(RuntimeError, match="has waited 50 ms for rank"):
        memory.wait_signal(1 - rank, timeout_ms=50)
    dist.barrier()
    if rank == 0:
        memory.put_signal(1)
        with pytest.raises(RuntimeError, match="has waited 50 ms for rank 1"):
            memory.put_signal(1, timeout_ms=50)
    dist.barrier()
    if rank == 0:
        os.kill(os.getpid(), 9)
    memory.wait_signal(0)
    with pytest.raises(RuntimeError, match="rank 0"):
        memory.wait_signal(0)


def test_refusals(cache):
    jobs.run(2, _refusals, cache, victim=0)


def test_a_missing_compiler_is_named():
    done = jobs.python("""
import goccl.torch, os
import torch.distributed._symmetric_memory as symm_mem
os.environ["PATH"] = ""
os.environ.pop("CXX", None)
symm_mem.set_backend("GOCCL")
""", GOCCL_CACHE_DIR="off")
    assert "there is no C++ compiler: install g++, or set CXX" in done.stderr, done.stderr


def test_kernel_compiles(monkeypatch):
    from goccl.utils import KernelBuilder
    from test_native import _nvrtc

    monkeypatch.setenv("GOCCL_NVRTC", _nvrtc())
    folder = os.path.join(jobs.ROOT, "python", "goccl", "torch")
    builder = KernelBuilder("symmetric_memory.cu", "symmetric_signal", folder, arch="sm_90")
    assert b"symmetric_signal" in builder.compile()


THREADS = """
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>
#define __global__
static thread_local struct { unsigned x; } threadIdx;
static void __trap() { exit(3); }
#include "symmetric_memory.cu"

constexpr int N = 3, nobody = -2;
static uint32_t pad[N][64];
static uint32_t* pads[N] = {pad[0], pad[1], pad[2]};
static uint32_t ended;

void launch(int rank, int to, int from, int channel, uint64_t nanoseconds = 0) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; t++)
    threads.emplace_back([=] {
      threadIdx.x = t;
      symmetric_signal(pads, &ended, nanoseconds, rank, N, channel, to, from);
    });
  for (auto& t : threads) t.join();
}

int main(int argc, char**) {
  static std::atomic<int> at[N];
  std::atomic<int> early = 0;
  std::vector<std::thread> ranks;
  for (int r = 0; r < N; r++)
    ranks.emplace_back([&, r] {
      for (int k = 1; k <= 20; k++) {
        at[r] = k;
        launch(r, everyone, everyone, 2);
        for (auto& other : at) early += other < k;
        launch(r, (r + 1) % N, nobody, 1);
        launch(r, nobody, (r + N - 1) % N, 1);
      }
    });
  for (auto& r : ranks) r.join();
  for (auto& p : pad)
    for (auto word : p) early += word != 0;
  ended = argc == 1;
  launch(0, nobody, 1, 0, 1000000);  // ends by the abort, or traps
  printf("%d", early.load());
}
"""


def test_kernel_on_threads(tmp_path):
    if not shutil.which("g++"):
        pytest.skip("no g++")
    (tmp_path / "threads.cpp").write_text(THREADS)
    subprocess.run(["g++", "-std=c++20", "-O1", "-pthread", "-I" + os.path.join(jobs.ROOT, "kernels", "include"),
                    "-I" + os.path.join(jobs.ROOT, "python", "goccl", "torch"), "-o", str(tmp_path / "threads"),
                    str(tmp_path / "threads.cpp")], check=True)
    aborted = subprocess.run([str(tmp_path / "threads")], capture_output=True, timeout=100)
    assert (aborted.returncode, aborted.stdout) == (0, b"0")
    assert subprocess.run([str(tmp_path / "threads"), "late"], timeout=100).returncode == 3
