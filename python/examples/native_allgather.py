"""The torch guide's third way: an all-gather by a kernel of one's own, compiled at run time without nvcc or a C++
compiler.

    torchrun --nproc_per_node=8 python/examples/native_allgather.py

allgather.cu holds the kernel, Allgather below what is around it. Needs GPUs and torch. Without a GPU it says so and
ends with status 77.
"""

import ctypes
import os
import sys

import goccl
import goccl.utils

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "allgather.cu")


class Allgather:
    """initialize runs once per communicator, init_context once per pair of buffers, launch for each operation."""

    def __init__(self, module) -> None:
        self.module = module

    def initialize(self, comm) -> None:
        self.connections = comm.group.make_connection(range(comm.group.nranks), goccl.Transport.CudaIpc)

    def init_context(self, comm, input, output, input_size, output_size, dtype):
        group = comm.group
        source = comm.register_memory(input, input_size, device=group.device)
        target = comm.register_memory(output, output_size, device=group.device)
        channels = group.make_memory_channels_with_scratch(source, target, self.connections)
        return group, channels, group.device_handles(channels)

    def context_key(self, input, output, input_size, output_size, dtype):
        return input, output, input_size

    def launch(self, context, input, output, input_size, output_size, dtype, op, stream, nblocks, nthreads,
               extras) -> None:
        group, _, handles = context
        u64 = ctypes.c_uint64
        params = goccl.utils.pack(u64(handles.data()), u64(input), u64(output), group.my_rank, u64(input_size))
        self.module.kernel("allgather", group.device).launch_kernel(params, group.nranks, nthreads or 1024, 0, stream)


def algorithm(module) -> goccl.Algorithm:
    """The all-gather around the module's kernel."""
    d = Allgather(module)
    module.algorithm("allgather", "allgather", initialize=d.initialize, init_context=d.init_context,
                     context_key=d.context_key, launch=d.launch)
    return goccl.Algorithm.create_from_native_capsule(module.create_allgather_algorithm())


def main() -> int:
    if not goccl.device_count():
        print("no GPU here")
        return 77
    import torch

    bootstrap = goccl.Bootstrap.from_env()
    rank, n = bootstrap.get_rank(), bootstrap.get_n_ranks()
    torch.cuda.set_device(bootstrap.get_local_rank())
    group = goccl.CommGroup(bootstrap=bootstrap)
    allgather = algorithm(goccl.compile_native(name="goccl_native", file=FILE))
    ok = True
    for elements in (1024, 1 << 20):
        tensor = torch.full((elements,), float(rank), device="cuda")
        out = torch.full((n * elements,), -1.0, device="cuda")
        torch.cuda.synchronize()
        for _ in range(3):
            allgather.execute(group.communicator, tensor.data_ptr(), out.data_ptr(), tensor.nbytes, out.nbytes,
                              goccl.utils.torch_dtype_to_mscclpp_dtype(tensor.dtype),
                              stream=torch.cuda.current_stream().cuda_stream)
        torch.cuda.synchronize()
        ok = ok and torch.equal(out, torch.arange(n, device="cuda").repeat_interleave(elements).float())
    print(f"rank {rank}: {'OK' if ok else 'FAIL'}", flush=True)
    group.barrier()
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
