"""A mesh of N ranks: each puts its part of a buffer into every other rank's by proxy channels, from a kernel of the
user's.

    mpirun -np 8 python python/examples/mesh.py        (with mpi4py)
    torchrun --nproc_per_node=8 python/examples/mesh.py
    GOCCL_DEVICE=host python -m goccl run -n 4 -- python python/examples/mesh.py

An argument IB connects the ranks by InfiniBand or RoCE instead of NVLink: rank r by adapter r.

On GPUs the kernel is mesh.cu, compiled at run time; on the host device the calling thread does what the kernel does.
"""

import os
import sys

import numpy as np

from goccl import (CommGroup, Device, DeviceType, GpuBuffer, ProxyService, SimpleProxyChannel, Transport, device_count,
                   mpi_world)
from goccl.utils import KernelBuilder, pack


def create_group() -> CommGroup:
    local = int(os.environ.get("LOCAL_RANK", os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", 0)))
    device = Device(DeviceType.GPU, local % device_count()) if device_count() else None
    if device is not None:
        select_gpu(device.id)
    return CommGroup(mpi_world(), device=device)  # by the environment where mpi_world() is None


def select_gpu(i: int) -> None:
    try:
        import cupy as cp

        cp.cuda.Device(i).use()
    except ImportError:
        import torch

        torch.cuda.set_device(i)


def create_connection(group: CommGroup, transport: str):
    remote_nghrs = list(range(group.nranks))
    remote_nghrs.remove(group.my_rank)
    if transport == "NVLink":
        tran = Transport.CudaIpc
    elif transport == "IB":
        tran = group.my_ib_device(group.my_rank % 8)
    else:
        raise ValueError(transport)
    return group.make_connection(remote_nghrs, tran)


def launch_kernel(my_rank: int, nranks: int, simple_channels: "dict[int, SimpleProxyChannel]", memory) -> None:
    file_dir = os.path.dirname(os.path.abspath(__file__))
    kernel = KernelBuilder(file="mesh.cu", kernel_name="simple_proxy_channel", file_dir=file_dir).get_compiled_kernel()
    size_of_channels = len(next(iter(simple_channels.values())).device_handle().raw)
    handles = [bytes(size_of_channels) if r == my_rank
               else simple_channels[r].device_handle().raw for r in range(nranks)]
    d_channels = GpuBuffer(size_of_channels * nranks, dtype=np.uint8)  # kept until the kernel has ended
    host = np.frombuffer(b"".join(handles), dtype=np.uint8)
    if hasattr(d_channels, "set"):
        d_channels.set(host)
    else:
        import torch

        d_channels.copy_(torch.from_numpy(host.copy()))
    size = memory.size if isinstance(memory.size, int) else memory.numel()
    params = pack(d_channels, my_rank, nranks, size)
    kernel.launch_kernel(params, nblocks=1, nthreads=512, shared=0, stream=None)
    synchronize(memory)
    del d_channels


def synchronize(memory) -> None:
    if type(memory).__module__.startswith("cupy"):
        import cupy as cp

        cp.cuda.runtime.deviceSynchronize()
    else:
        import torch

        torch.cuda.synchronize()


def on_the_host(my_rank: int, nranks: int, simple_channels: "dict[int, SimpleProxyChannel]",
                memory: np.ndarray) -> None:
    """The kernel, by the calling thread."""
    size_per_rank = memory.nbytes // nranks
    for channel in simple_channels.values():
        channel.put_with_signal_and_flush(my_rank * size_per_rank, my_rank * size_per_rank, size_per_rank)
    for channel in simple_channels.values():
        channel.wait()


def main() -> int:
    group = create_group()
    connections = create_connection(group, sys.argv[1] if len(sys.argv) > 1 else "NVLink")
    nelems = 1024 // group.nranks * group.nranks
    memory = GpuBuffer(nelems, dtype=np.int32)
    part = nelems // group.nranks
    memory[group.my_rank * part:(group.my_rank + 1) * part] = group.my_rank + 1
    if not group.device.is_host:
        synchronize(memory)
    proxy_service = ProxyService()
    simple_channels = group.make_proxy_channels(proxy_service, memory, connections)
    proxy_service.start_proxy()
    group.barrier()
    if group.nranks > 1:
        (on_the_host if group.device.is_host else launch_kernel)(group.my_rank, group.nranks, simple_channels, memory)
    group.barrier()
    got = memory if isinstance(memory, np.ndarray) else memory.get() if hasattr(memory, "get") else memory.cpu().numpy()
    good = np.array_equal(got, np.repeat(np.arange(1, group.nranks + 1), part))
    print(f"rank {group.my_rank} on {group.device}: {'OK' if good else f'FAIL: {got}'}", flush=True)
    proxy_service.stop_proxy()
    group.barrier()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
