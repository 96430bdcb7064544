"""A rank: its memory, its copies, its clock. On GPUs arrays are torch's, on the host device they are numpy's."""

from __future__ import annotations

import ctypes
import os

import numpy as np

import goccl
import goccl.nccl as nccl


class Symmetric:
    """Zeroed memory that every rank has and all ranks map: the own part, and the addresses of all."""

    def __init__(self, comm: nccl.Communicator, shape: tuple[int, ...], dtype: str) -> None:
        host = comm.device.is_host
        self.own = goccl.GpuBuffer(shape, dtype if host else f"torch.{dtype}", device=comm.device)
        self.window = comm.register_window(self.own, 1)
        self.at = self.window.addresses()


def address(x) -> int:
    return x.ctypes.data if isinstance(x, np.ndarray) else x.data_ptr()


class Job:
    """This rank. On GPUs arrays are torch's, and ranks meet by torch.distributed; on the host device they are
    numpy's."""

    def __init__(self) -> None:
        self.host = goccl.device_count() == 0
        if self.host:
            bootstrap = goccl.Bootstrap.from_env()
            device = goccl.Device(goccl.DeviceType.CPU, bootstrap.get_rank())
            self.dtype = "float16"
        else:
            import torch
            import torch.distributed as dist

            local = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local)
            dist.init_process_group("cpu:gloo,cuda:nccl")
            bootstrap = goccl.CommGroup(torch_group=dist.group.WORLD).bootstrap
            device = goccl.Device(goccl.DeviceType.GPU, local)
            self.dtype = "bfloat16"
            self.driver = ctypes.CDLL("libcuda.so.1")
            self.side = torch.cuda.Stream()
        self.comm = nccl.Communicator.from_bootstrap(bootstrap, device=device)
        self.rank, self.n = self.comm.rank, self.comm.nranks
        if self.n < 2:
            raise RuntimeError("one rank has nothing to overlap: start at least two")
        self.peers = [(self.rank + k) % self.n for k in range(1, self.n)]
        self.failed = self.zeros((1,), "int32")

    def zeros(self, shape, dtype=None):
        dtype = dtype or self.dtype
        if self.host:
            return np.zeros(shape, dtype)
        import torch

        return torch.zeros(shape, dtype=getattr(torch, dtype), device="cuda")

    def random(self, shape, seed):
        """Numbers about 1/8, the same for a seed on all ranks."""
        if self.host:
            return (np.random.default_rng(seed).standard_normal(shape) / 8).astype(self.dtype)
        import torch

        g = torch.Generator(device="cuda").manual_seed(seed)
        return (torch.randn(shape, device="cuda", generator=g) / 8).to(getattr(torch, self.dtype))

    def widen(self, x):
        return x.astype(np.float32) if self.host else x.float()

    def stream(self):
        """The current stream, for goccl's calls."""
        if self.host:
            return None
        import torch

        return torch.cuda.current_stream()

    def synchronize(self) -> None:
        """Waits for the GPU, and raises if a kernel gave up a wait."""
        if not self.host:
            import torch

            torch.cuda.synchronize()
        if int(self.failed[0]):
            raise RuntimeError(f"rank {self.rank}: a kernel gave up waiting for rank {int(self.failed[0]) - 1}")

    # The copy engine. On a GPU it works on the stream `side`, beside kernels.

    def follow(self) -> None:
        """Makes later copies follow the current stream."""
        if not self.host:
            self.side.wait_stream(self.stream())

    def join(self) -> None:
        """Makes later work of the current stream follow the copies."""
        if not self.host:
            self.stream().wait_stream(self.side)

    def copy(self, to: int, source: int, size: int) -> None:
        if self.host:
            ctypes.memmove(to, source, size)
            return
        self._check("cuMemcpyAsync", self.driver.cuMemcpyAsync(ctypes.c_uint64(to), ctypes.c_uint64(source),
                                                               ctypes.c_size_t(size),
                                                               ctypes.c_void_p(self.side.cuda_stream)))

    def flag(self, to: int, value: int) -> None:
        """Stores value after the copies before it, which are then visible to what acquires it."""
        if self.host:
            ctypes.c_int32.from_address(to).value = value
            return
        self._check("cuStreamWriteValue32", self.driver.cuStreamWriteValue32_v2(
            ctypes.c_void_p(self.side.cuda_stream), ctypes.c_uint64(to), ctypes.c_uint32(value), 0))

    @staticmethod
    def _check(what: str, result: int) -> None:
        if result:
            raise RuntimeError(f"{what} failed with CUresult {result}")

    def close(self) -> None:
        self.comm.finalize()
        if not self.host:
            import torch.distributed as dist

            dist.destroy_process_group()

    def measure(self, run, times: int = 20) -> float:
        """Microseconds of a run: the median of five batches, on the slowest rank."""
        import torch
        import torch.distributed as dist

        batches = []
        for _ in range(6):  # the first one warms up
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            self.comm.barrier(stream=self.stream())
            begin.record()
            for _ in range(times):
                run()
            end.record()
            self.synchronize()
            batches.append(begin.elapsed_time(end) * 1000 / times)
        slowest = torch.tensor(sorted(batches[1:])[2], device="cuda")
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        return float(slowest)
