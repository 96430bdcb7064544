"""A typed program of a user: test_types.py has type checkers read it. It is not run."""
import numpy as np
import numpy.typing as npt
import goccl
from goccl import nccl, utils, errors
from goccl.comm import CommGroup
from goccl.language import AllGather, CollectiveProgram, MemoryChannel, Rank, SyncType

def job(bootstrap: goccl.Bootstrap) -> int:
    group: CommGroup = goccl.CommGroup(bootstrap=bootstrap)
    connections: dict[int, goccl.Connection] = group.make_connection([0, 1], goccl.Transport.CudaIpc)
    memory = goccl.GpuBuffer(2, dtype=np.int64)
    service = goccl.ProxyService()
    channels = group.make_port_channels(service, memory, connections)
    service.start_proxy()
    handle: bytes = channels[1].device_handle().raw
    ids: list[int] = [c.my_rank for c in [group]]
    return len(handle) + sum(ids)

def collective(comm: nccl.Communicator, a: npt.NDArray[np.float32]) -> None:
    comm.allreduce(a, a, nccl.SUM)
    with nccl.group():
        comm.send(a, 0)
        comm.recv(a, 0)
    comm.alltoallv(a, a, [1], [0], [1], [0])
    one, zero = np.ones(1, np.int64), np.zeros(1, np.int64)
    comm.alltoallv_device(a, a, one, zero, one, zero)
    n: int = comm.nranks
    op = comm.create_pre_mul_sum(2.0, goccl.DataType.float32)
    comm.allreduce(a, a, op)
    print(n)

def algorithms(group: CommGroup) -> None:
    for a in goccl.AlgorithmCollectionBuilder().build_default_algorithms(rank=0):
        name: str = a.name
        lo, hi = a.message_range
        r: int = a.execute(group.communicator, 0, 0, 0, 0, goccl.DataType.float16, goccl.ReduceOp.SUM)
        print(name, lo + hi, r)
    native = goccl.compile_native(name="x", file="x.cu")
    algorithm: goccl.Algorithm = goccl.Algorithm.create_from_native_capsule(native.create_x_algorithm())
    print(algorithm.collective)
    k = utils.KernelBuilder("x.cu", "k").get_compiled_kernel()
    image: bytes = utils.KernelBuilder("x.cu", "k", include_dirs=["include"], options=["-DN=1"], arch="sm_90").compile()
    print(len(image))
    k.launch_kernel(utils.pack(1, 2), 1, 32, 0, None)

def program() -> None:
    with CollectiveProgram("swap", AllGather(2, 1, False), 2) as p:
        channel = MemoryChannel(1, 0)
        channel.signal(tb=0, relaxed=True)
        channel.wait(tb=0, data_sync=SyncType.after)
        Rank(0).copy(Rank(0).get_output_buffer()[0], Rank(0).get_input_buffer()[0], tb=0)
    print(p.check()["collective"])
    spec = goccl.AlgoSpec(name="a", collective=AllGather(2, 1, False), nranks_per_node=2, world_size=2, in_place=True,
                          instances=1, protocol="Simple")
    print(spec.name)

try:
    goccl.Bootstrap.local(2)[0].recv(1, timeout=0.1)
except errors.Timeout as e:
    code: int = e.code
