"""What Python costs: time of a call on the host, for execute() on a CUDA tensor, nccl.Communicator.allreduce and
torch.distributed.

    torchrun --nproc_per_node=2 python/tests/gpu/overhead.py
"""

import time

import torch
import torch.distributed as dist

import goccl.torch
import goccl.utils
from goccl.nccl._calls import request as _request


def main() -> None:
    rank = goccl.torch.init()
    comm = goccl.torch.CustomizedComm()
    x = torch.ones(1024, dtype=torch.float16, device="cuda")
    p, size = x.data_ptr(), x.nbytes
    dtype = goccl.utils.torch_dtype_to_mscclpp_dtype(x.dtype)
    stream = torch.cuda.Stream().cuda_stream
    algorithm, own = comm._small, comm.comm.communicator
    algorithm.execute(own, p, p, size, size, dtype, goccl.ReduceOp.SUM, stream)
    c = own._goccl_comm
    submit, raw = c._submit, _request(c._handle, 1, int(dtype), 0, 0, p, p, 1024, stream, 0, 0, 0, 0, 0, 0, 0, 0, 0)

    def best(f, n=2000) -> float:
        result = 1e9
        for _ in range(5):
            torch.cuda.synchronize()
            comm.comm.barrier()
            t = time.perf_counter()
            for k in range(n):
                f()
                if k % 200 == 199:  # the launch queue must not fill: then one measures the GPU
                    a = time.perf_counter()
                    torch.cuda.synchronize()
                    t += time.perf_counter() - a
            result = min(result, (time.perf_counter() - t) / n)
        return result * 1e6

    below = best(lambda: submit(raw, 1))
    above = best(lambda: algorithm.execute(own, p, p, size, size, dtype, goccl.ReduceOp.SUM, stream))
    tensor = best(lambda: c.allreduce(x, x, stream=stream))
    torch_call = best(lambda: dist.all_reduce(x))
    if rank == 0:
        print(f"C call {below:.2f} us; execute() {above:.2f} us ({above - below:.2f} above); nccl.allreduce(tensor) "
              f"{tensor:.2f} us; dist.all_reduce {torch_call:.2f} us")
    comm.comm.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
