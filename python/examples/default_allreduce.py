"""The torch guide's first way: default algorithms, chosen by name and by message size.

    python -m goccl run -n 4 -- python python/examples/default_allreduce.py      (numpy, host device)
    torchrun --nproc_per_node=8 python/examples/default_allreduce.py             (torch, GPUs)
"""

import sys

import numpy as np

import goccl
import goccl.utils


class CustomizedComm:
    def __init__(self, comm: goccl.CommGroup) -> None:
        self.comm = comm
        self.scratch = goccl.RawGpuBuffer(1 << 20)
        algorithms = goccl.AlgorithmCollectionBuilder().build_default_algorithms(
            scratch_buffer=self.scratch.data(), scratch_buffer_size=self.scratch.bytes(), rank=comm.my_rank)
        by = {a.name: a for a in algorithms if a.collective == "allreduce"}
        self._small, self._large = by["default_allreduce_nvls_packet"], by["default_allreduce_nvls_with_copy"]

    def all_reduce(self, address: int, size: int, dtype, stream: int = 0) -> None:
        algorithm = self._small if size < 1 << 20 else self._large
        algorithm.execute(comm=self.comm.communicator, input_buffer=address, output_buffer=address, input_size=size,
                          output_size=size, dtype=goccl.utils.torch_dtype_to_mscclpp_dtype(dtype),
                          op=goccl.ReduceOp.SUM, stream=stream)


def main() -> int:
    bootstrap = goccl.Bootstrap.from_env()
    rank, n = bootstrap.get_rank(), bootstrap.get_n_ranks()
    gpu = goccl.device_count() > 0
    if gpu:
        import torch

        torch.cuda.set_device(bootstrap.get_local_rank())
    comm = CustomizedComm(goccl.CommGroup(bootstrap=bootstrap))
    ok = True
    for elements in (1, 1000, 1 << 20):
        if gpu:
            data = torch.full((elements,), rank + 1, dtype=torch.float16, device="cuda")
            comm.all_reduce(data.data_ptr(), data.nbytes, data.dtype, torch.cuda.current_stream().cuda_stream)
            torch.cuda.synchronize()
        else:
            data = np.full(elements, rank + 1, dtype=np.float16)
            comm.all_reduce(data.ctypes.data, data.nbytes, data.dtype)
        ok = ok and bool((data == n * (n + 1) / 2).all())
    print(f"rank {rank}: {'OK' if ok else 'FAIL'}", flush=True)
    comm.comm.barrier()
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
