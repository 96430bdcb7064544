"""The torch guide's third way: an all-gather by a kernel of one's own (allgather.cu), compiled at run time without nvcc.

    torchrun --nproc_per_node=8 python/examples/native_allgather.py

Needs GPUs and torch. Without a GPU it says so and ends with status 77.
"""

import ctypes
import os
import sys

import goccl
import goccl.utils
from goccl.utils import pack


class Allgather:
    """The description around the kernel: what is made once for each job, once for each pair of buffers, and at each call."""

    def __init__(self, module) -> None:
        self.kernel = module.kernel("allgather")

    def initialize(self, comm) -> None:
        group = comm.group
        self.connections = group.make_connection(list(range(group.nranks)), goccl.Transport.CudaIpc)

    def init_context(self, comm, input, output, input_size, output_size, dtype):
        group = comm.group
        src = comm.register_memory(input, input_size, device=group.device)
        dst = comm.register_memory(output, output_size, device=group.device)
        for r in self.connections:
            comm.send_memory(dst, r, 1)
        peers = {r: comm.recv_memory(r, 1) for r in self.connections}
        semaphores = group.make_semaphores(self.connections, tag=1)
        channels = {r: goccl.MemoryChannel(semaphores[r], peers[r].get(), src) for r in self.connections}
        handles = b"".join(channels[r].device_handle().raw if r in channels else bytes(56) for r in range(group.nranks))
        import torch

        return {"channels": channels, "handles": torch.frombuffer(bytearray(handles), dtype=torch.uint8).cuda(), "rank": group.my_rank,
                "n": group.nranks, "own": dst}

    def launch(self, context, input, output, input_size, output_size, dtype, op, stream, nblocks, nthreads, extras) -> None:
        import torch

        n, rank = context["n"], context["rank"]
        own = torch.cuda.ExternalStream(stream) if stream else torch.cuda.default_stream()
        with torch.cuda.stream(own):
            source = torch.as_tensor(_Memory(input, input_size), device="cuda")
            torch.as_tensor(_Memory(output + rank * input_size, input_size), device="cuda").copy_(source)
        self.kernel.launch_kernel(pack(context["handles"], rank, n, ctypes.c_uint64(input_size)), n - 1, nthreads or 1024, 0, stream)


class _Memory:
    def __init__(self, ptr: int, nbytes: int) -> None:
        self.__cuda_array_interface__ = {"shape": (nbytes,), "typestr": "|u1", "data": (ptr, False), "version": 3}


def main() -> int:
    if not goccl.device_count():
        print("no GPU here")
        return 77
    import torch

    bootstrap = goccl.Bootstrap.from_env()
    rank, n = bootstrap.get_rank(), bootstrap.get_n_ranks()
    torch.cuda.set_device(bootstrap.get_local_rank())
    group = goccl.CommGroup(bootstrap=bootstrap)
    module = goccl.compile_native(name="goccl_native", file=os.path.join(os.path.dirname(os.path.abspath(__file__)), "allgather.cu"))
    description = Allgather(module)
    module.algorithm("allgather", "allgather", initialize=description.initialize, init_context=description.init_context, launch=description.launch)
    algorithm = goccl.Algorithm.create_from_native_capsule(module.create_allgather_algorithm())
    ok = True
    for elements in (1024, 1 << 20):
        tensor = torch.full((elements,), float(rank), device="cuda")
        out = torch.full((n * elements,), -1.0, device="cuda")
        torch.cuda.synchronize()
        for _ in range(3):
            algorithm.execute(group.communicator, tensor.data_ptr(), out.data_ptr(), tensor.nbytes, out.nbytes,
                              goccl.utils.torch_dtype_to_mscclpp_dtype(tensor.dtype), stream=torch.cuda.current_stream().cuda_stream)
        torch.cuda.synchronize()
        ok = ok and torch.equal(out, torch.arange(n, device="cuda").repeat_interleave(elements).float())
    print(f"rank {rank}: {'OK' if ok else 'FAIL'}", flush=True)
    group.barrier()
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
