"""The torch integration guide's programs, approaches 1 and 2, with their own imports, on CPU tensors."""

import os
import subprocess

import pytest

pytest.importorskip("torch")

import jobs  # noqa: E402

GUIDE = '''
import os, sys
import goccl
goccl.install_alias()
import torch
import mscclpp
import mscclpp.utils as mscclpp_utils
from mscclpp.language.collectives import AllReduce
from mscclpp.language.channel import SwitchChannel, MemoryChannel, BufferType, SyncType
from mscclpp.language.program import CollectiveProgram
from mscclpp.language.rank import Rank


def init_communicator():
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    interface_trio = f"lo:{os.environ['MSCCLPP_MASTER_ADDR']}:{os.environ['MSCCLPP_MASTER_PORT']}"
    return mscclpp.CommGroup(interfaceIpPortTrio=interface_trio, rank=rank, size=world_size)


def load_algorithms(scratch_buffer: torch.Tensor, rank: int):
    collection_builder = mscclpp.AlgorithmCollectionBuilder()
    return collection_builder.build_default_algorithms(
        scratch_buffer=scratch_buffer.data_ptr(), scratch_buffer_size=scratch_buffer.nbytes, rank=rank)


class DefaultComm:
    def __init__(self, comm: mscclpp.CommGroup):
        self.comm = comm
        dlpack = mscclpp.RawGpuBuffer(1 << 20).to_dlpack(data_type=str(torch.float16))
        self.scratch_buffer = torch.utils.dlpack.from_dlpack(dlpack)
        algorithms = load_algorithms(self.scratch_buffer, comm.my_rank)
        self._algo_small = [a for a in algorithms
                            if a.collective == "allreduce" and a.name == "default_allreduce_nvls_packet"][0]
        self._algo_large = [a for a in algorithms
                            if a.collective == "allreduce" and a.name == "default_allreduce_nvls_with_copy"][0]

    def all_reduce(self, tensor: torch.Tensor, stream=None):
        algo = self._algo_small if tensor.nbytes < (1 << 20) else self._algo_large
        algo.execute(
            comm=self.comm.communicator,
            input_buffer=tensor.data_ptr(),
            output_buffer=tensor.data_ptr(),
            input_size=tensor.nbytes,
            output_size=tensor.nbytes,
            dtype=mscclpp_utils.torch_dtype_to_mscclpp_dtype(tensor.dtype),
            op=mscclpp.ReduceOp.SUM,
            stream=stream.cuda_stream if stream else 0,
        )


def allreduce_nvls(spec: mscclpp.AlgoSpec) -> CollectiveProgram:
    gpu_size = spec.world_size
    with CollectiveProgram(
        spec.name, spec.collective, gpu_size, instances=spec.instances, protocol=spec.protocol,
        num_threads_per_block=spec.num_threads_per_block,
        min_message_size=spec.min_message_size, max_message_size=spec.max_message_size,
    ) as program:
        nvls_chan = SwitchChannel(rank_list=[gpu for gpu in range(gpu_size)], buffer_type=BufferType.input)
        channels = {}
        for gpu in range(gpu_size):
            for peer in range(gpu_size):
                if peer != gpu:
                    channels[(peer, gpu)] = MemoryChannel(peer, gpu)
        for gpu in range(gpu_size):
            for peer in range(gpu_size):
                if peer != gpu:
                    channels[(peer, gpu)].signal(tb=0, relaxed=True)
            for peer in range(gpu_size):
                if peer != gpu:
                    channels[(peer, gpu)].wait(tb=0, relaxed=True, data_sync=SyncType.after)
        for gpu in range(gpu_size):
            rank = Rank(gpu)
            input_buffer = rank.get_input_buffer()
            nvls_chan.at_rank(gpu).reduce(buffer_offset=gpu, size=1, dst_chunk=input_buffer[gpu:gpu + 1], tb=0)
            nvls_chan.at_rank(gpu).broadcast(src_chunk=input_buffer[gpu:gpu + 1], buffer_offset=gpu, size=1, tb=0)
        for gpu in range(gpu_size):
            for peer in range(gpu_size):
                if peer != gpu:
                    channels[(peer, gpu)].signal(tb=0, relaxed=True, data_sync=SyncType.before)
            for peer in range(gpu_size):
                if peer != gpu:
                    channels[(peer, gpu)].wait(tb=0, relaxed=True)
    return program


def setup_algorithm(rank: int, world_size: int, nranks_per_node: int):
    spec = mscclpp.language.AlgoSpec(
        name="allreduce_nvls", collective=AllReduce(world_size, 1, True), nranks_per_node=nranks_per_node,
        world_size=world_size, in_place=True,
        instances=nranks_per_node, protocol="Simple", num_threads_per_block=1024, min_message_size=1 << 20,
        max_message_size=48 << 30, tags={"nvls": 1},
    )
    return mscclpp.compile(algo=allreduce_nvls, algo_spec=spec, rank=rank)


class DslComm:
    def __init__(self, comm: mscclpp.CommGroup, algorithm):
        self.comm = comm
        self.executor = mscclpp.Executor(comm.communicator)
        self.algorithm = algorithm

    def all_reduce(self, tensor: torch.Tensor, stream=None):
        self.algorithm.execute(
            comm=self.comm.communicator,
            executor=self.executor,
            input_buffer=tensor.data_ptr(),
            output_buffer=tensor.data_ptr(),
            input_size=tensor.nbytes,
            output_size=tensor.nbytes,
            dtype=mscclpp_utils.torch_dtype_to_mscclpp_dtype(tensor.dtype),
            stream=stream.cuda_stream if stream else 0,
        )


group = init_communicator()
n, rank = group.nranks, group.my_rank
for comm, sizes in ((DefaultComm(group), (7, 1000, 1 << 20)),
                    (DslComm(group, setup_algorithm(rank, n, n)), (1 << 19, 1 << 20))):
    for size in sizes:
        for dtype in (torch.float32, torch.bfloat16):
            t = torch.arange(size, dtype=torch.float32).remainder(16).to(dtype) + rank
            for k in range(3):
                x = t.clone()
                comm.all_reduce(x)
                want = (n * torch.arange(size, dtype=torch.float32).remainder(16) + n * (n - 1) / 2).to(dtype)
                assert torch.equal(x, want), (type(comm).__name__, size, dtype, k, x, want)
group.barrier()
print("OK", flush=True)
'''


@pytest.mark.parametrize("n", [2, 4])
def test_guide(n):
    port = jobs.address().rpartition(":")[2]
    env = os.environ | {"WORLD_SIZE": str(n), "MSCCLPP_MASTER_ADDR": "127.0.0.1", "MSCCLPP_MASTER_PORT": port,
                        "OMP_NUM_THREADS": "1"}
    ranks = [subprocess.Popen([jobs.PYTHON, "-c", GUIDE], env=env | {"RANK": str(r), "LOCAL_RANK": str(r)},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for r in range(n)]
    try:
        out = [p.communicate(timeout=120)[0] for p in ranks]
    finally:
        for p in ranks:
            p.kill()
    assert all(p.returncode == 0 for p in ranks) and all(o.endswith("OK\n") for o in out), "\n".join(out)
