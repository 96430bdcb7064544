"""The torch guide's third way: an all-gather by a kernel of one's own, compiled at run time without nvcc or a C++ compiler.

    torchrun --nproc_per_node=8 python/examples/native_allgather.py [--python]

allgather.cu holds the kernel and the description of the algorithm around it. With --python the description is the class below instead: the same four parts as
Python functions, for what the one in CUDA C++ cannot say. Needs GPUs and torch. Without a GPU it says so and ends with status 77.
"""

import ctypes
import os
import sys

import goccl
import goccl.utils
from goccl.utils import pack

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "allgather.cu")


class InPython:
    """What is made once for each communicator, once for each pair of buffers, and done at each call."""

    def __init__(self, module) -> None:
        self.module = module

    def initialize(self, comm) -> None:
        group = comm.group
        self.connections = group.make_connection(list(range(group.nranks)), goccl.Transport.CudaIpc)

    def init_context(self, comm, input, output, input_size, output_size, dtype):
        group = comm.group
        source = comm.register_memory(input, input_size, device=group.device)
        own = comm.register_memory(output, output_size, device=group.device)
        for r in self.connections:
            comm.send_memory(own, r, 1)
        outputs = {r: comm.recv_memory(r, 1) for r in self.connections}
        semaphores = group.make_semaphores(self.connections, tag=1)
        channels = {r: goccl.MemoryChannel(semaphores[r], outputs[r].get(), source) for r in self.connections}
        raw = b"".join(channels[r].device_handle().raw if r in channels else bytes(56) for r in range(group.nranks))
        handles = goccl.RawGpuBuffer(len(raw), device=group.device)
        handles.copy_from(raw)
        return {"channels": channels, "handles": handles, "group": group}

    def context_key(self, input, output, input_size, output_size, dtype):
        return input, output, input_size

    def launch(self, context, input, output, input_size, output_size, dtype, op, stream, nblocks, nthreads, extras) -> None:
        group, u64 = context["group"], ctypes.c_uint64
        params = pack(u64(context["handles"].data()), u64(input), u64(output), group.my_rank, u64(input_size))
        self.module.kernel("allgather", group.device).launch_kernel(params, group.nranks, nthreads or 1024, 0, stream)


def algorithm(in_python: bool) -> goccl.Algorithm:
    """The all-gather, described in the .cu file or by the class above."""
    module = goccl.compile_native(name="goccl_native", file=FILE)
    if in_python:
        d = InPython(module)
        module.algorithm("allgather", "allgather", initialize=d.initialize, init_context=d.init_context, context_key=d.context_key, launch=d.launch)
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
    allgather = algorithm("--python" in sys.argv)
    ok = True
    for elements in (1024, 1 << 20):
        tensor = torch.full((elements,), float(rank), device="cuda")
        out = torch.full((n * elements,), -1.0, device="cuda")
        torch.cuda.synchronize()
        for _ in range(3):
            allgather.execute(group.communicator, tensor.data_ptr(), out.data_ptr(), tensor.nbytes, out.nbytes,
                              goccl.utils.torch_dtype_to_mscclpp_dtype(tensor.dtype), stream=torch.cuda.current_stream().cuda_stream)
        torch.cuda.synchronize()
        ok = ok and torch.equal(out, torch.arange(n, device="cuda").repeat_interleave(elements).float())
    print(f"rank {rank}: {'OK' if ok else 'FAIL'}", flush=True)
    group.barrier()
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
