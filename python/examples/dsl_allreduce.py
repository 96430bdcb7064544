"""The torch guide's second way: an all-reduce written in the language, over a switch channel, compiled, verified and
executed.

    python -m goccl run -n 4 -- python python/examples/dsl_allreduce.py          (numpy, host device)
    torchrun --nproc_per_node=8 python/examples/dsl_allreduce.py                 (torch, GPUs)
"""

import sys

import numpy as np

import goccl
import goccl.utils
from goccl.language import AlgoSpec
from goccl.language.channel import BufferType, MemoryChannel, SwitchChannel, SyncType
from goccl.language.collectives import AllReduce
from goccl.language.program import CollectiveProgram
from goccl.language.rank import Rank


def allreduce_nvls(spec: AlgoSpec) -> CollectiveProgram:
    """Every rank reduces its part from all ranks and stores the result to all."""
    n = spec.world_size
    with CollectiveProgram.from_spec(spec) as program:
        switch = SwitchChannel(rank_list=list(range(n)), buffer_type=BufferType.input)
        channels = {(peer, gpu): MemoryChannel(peer, gpu) for gpu in range(n) for peer in range(n) if peer != gpu}
        for gpu in range(n):
            peers = [p for p in range(n) if p != gpu]
            for peer in peers:
                channels[peer, gpu].signal(tb=0, relaxed=True)
            for peer in peers:
                channels[peer, gpu].wait(tb=0, relaxed=True, data_sync=SyncType.after)
        for gpu in range(n):
            own = Rank(gpu).get_input_buffer()[gpu:gpu + 1]
            switch.at_rank(gpu).reduce(buffer_offset=gpu, size=1, dst_chunk=own, tb=0)
            switch.at_rank(gpu).broadcast(src_chunk=own, buffer_offset=gpu, size=1, tb=0)
        for gpu in range(n):
            peers = [p for p in range(n) if p != gpu]
            for peer in peers:
                channels[peer, gpu].signal(tb=0, relaxed=True, data_sync=SyncType.before)
            for peer in peers:
                channels[peer, gpu].wait(tb=0, relaxed=True)
    return program


def main() -> int:
    bootstrap = goccl.Bootstrap.from_env()
    rank, n = bootstrap.get_rank(), bootstrap.get_n_ranks()
    if goccl.device_count():
        import torch

        torch.cuda.set_device(bootstrap.get_local_rank())
    group = goccl.CommGroup(bootstrap=bootstrap)
    spec = AlgoSpec(name="allreduce_nvls", collective=AllReduce(n, 1, True), nranks_per_node=n, world_size=n,
                    in_place=True, instances=2, num_threads_per_block=1024, min_message_size=1 << 10,
                    max_message_size=48 << 30, tags={"nvls": 1})
    algorithm = goccl.compile(algo=allreduce_nvls, algo_spec=spec, rank=rank)
    executor = goccl.Executor(group.communicator)
    ok = True
    for elements in (1 << 12, 1 << 18):
        if group.device.is_host:
            data = np.full(elements, rank + 1, dtype=np.float32)
            address, size, dtype, stream = data.ctypes.data, data.nbytes, data.dtype, 0
        else:
            import torch

            data = torch.full((elements,), rank + 1, dtype=torch.float32, device="cuda")
            address, size, dtype = data.data_ptr(), data.nbytes, data.dtype
            stream = torch.cuda.current_stream().cuda_stream
        algorithm.execute(comm=group.communicator, executor=executor, input_buffer=address, output_buffer=address,
                          input_size=size, output_size=size, dtype=goccl.utils.torch_dtype_to_mscclpp_dtype(dtype),
                          stream=stream)
        if not group.device.is_host:
            torch.cuda.synchronize()
        ok = ok and bool((data == n * (n + 1) / 2).all())
    print(f"rank {rank} on {group.device}: {'OK' if ok else 'FAIL'}", flush=True)
    group.barrier()
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
