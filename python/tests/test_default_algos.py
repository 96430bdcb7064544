"""goccl.default_algos: programs for several hosts, proven, and run by ranks that are threads of this process."""

import threading

import numpy as np
import pytest

import goccl
from goccl import default_algos
from goccl.language import AlgoSpec, AllGather, AllReduce, Broadcast, ReduceScatter

F32 = goccl.DataType.float32


def _spec(collective, per_host, **more):
    return AlgoSpec("program", collective, per_host, collective.num_ranks, collective.inplace, max_message_size=1 << 30,
                    **more)


def compiled(name, n, per_host, inplace, group):
    collective = {"allgather": AllGather, "allreduce": AllReduce, "reducescatter": ReduceScatter}[name](n, 1, inplace)
    more = {} if name == "allgather" else {"thread_block_group_size": group}
    return goccl.compile(algo=getattr(default_algos, name + "_multi_nodes"), algo_spec=_spec(collective, per_host),
                         **more)


def in_threads(n, function):
    """function(rank, bootstrap) for each of n ranks."""
    failures = []

    def one(b):
        try:
            function(b.get_rank(), b)
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=one, args=(b,)) for b in goccl.Bootstrap.local(n)]
    [t.start() for t in threads]
    [t.join(60) for t in threads]
    assert not any(t.is_alive() for t in threads)
    if failures:
        raise failures[0]


SHAPES = [("allgather", False), ("allgather", True), ("reducescatter", False), ("reducescatter", True),
          ("allreduce", True)]


@pytest.mark.parametrize("name, inplace", SHAPES)
@pytest.mark.parametrize("n, per_host", [(2, 2), (2, 1), (4, 2), (8, 4), (6, 2)])
def test_programs_are_proven(name, inplace, n, per_host):
    for group in (1, 2):
        assert compiled(name, n, per_host, inplace, group).plan.report["verified"]


def test_programs_run():
    n, count = 4, 40

    def rank(r, boot):
        group = goccl.CommGroup(bootstrap=boot, device=goccl.Device(goccl.DeviceType.CPU, r))
        executor = goccl.Executor(group.communicator)
        inputs = [np.arange(n * count, dtype=np.float32) + 1000 * q for q in range(n)]
        for name, inplace in SHAPES:
            a = compiled(name, n, 2, inplace, 2)
            for _ in range(3):
                if name == "allgather":
                    want = np.concatenate([x[:count] for x in inputs])
                    out = np.zeros(n * count, np.float32)
                    send = out[r * count:(r + 1) * count] if inplace else np.zeros(count, np.float32)
                    send[:] = inputs[r][:count]
                else:
                    want = sum(inputs)
                    send = inputs[r].copy()
                    out = send if inplace else np.zeros(count, np.float32)
                    if name == "reducescatter":
                        want = want[r * count:(r + 1) * count]
                        out = send[r * count:(r + 1) * count] if inplace else out
                a.execute(group.communicator, send.ctypes.data, out.ctypes.data, send.nbytes, out.nbytes, F32,
                          executor=executor)
                np.testing.assert_array_equal(out, want, err_msg=f"{name} {inplace}")
        group.barrier()
        executor.close()

    in_threads(n, rank)


def test_specs_that_do_not_fit():
    for collective, more in ((Broadcast(4, 1), {}), (AllGather(4, 2), {}), (AllGather(4, 1), {"instances": 2})):
        with pytest.raises(goccl.InvalidArgument, match="allgather with chunk_factor 1"):
            goccl.compile(algo=default_algos.allgather_multi_nodes, algo_spec=_spec(collective, 2, **more))
    with pytest.raises(goccl.InvalidArgument, match="3 to a host"):
        goccl.compile(algo=default_algos.allgather_multi_nodes, algo_spec=_spec(AllGather(4, 1), 3))
    with pytest.raises(goccl.InvalidArgument, match="in place"):
        goccl.compile(algo=default_algos.allreduce_multi_nodes, algo_spec=_spec(AllReduce(4, 1, False), 2))
