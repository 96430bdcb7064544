"""The DSL, default algorithms, executors."""

import importlib.util
import json
import os

import numpy as np
import pytest

import goccl
import goccl.utils
import jobs
from goccl.language import (AlgoSpec, AllGather, AllReduce, AllToAll, Buffer, CollectiveProgram, Custom,
                            InputHook, LoopIterationContext, MemoryChannel, OutputHook, Rank, ReduceOperationType,
                            ReplicationPolicy, SyncType, ThreadBlockGroup)


def _example(name):
    spec = importlib.util.spec_from_file_location(name, os.path.join(jobs.ROOT, "python", "examples", name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _spec(n, **k):
    return AlgoSpec(**{"name": "allreduce_nvls", "collective": AllReduce(n, 1, True), "nranks_per_node": n,
                       "world_size": n, "in_place": True, "instances": 2, "min_message_size": 1 << 10} | k)


def test_the_guides_program_is_right():
    program = _example("dsl_allreduce").allreduce_nvls(_spec(4))
    report = program.check()
    assert (report["name"], report["collective"], report["num_ranks"], report["inplace"]) == ("allreduce_nvls",
                                                                                              "allreduce", 4, True)
    assert report["verified_steps"] > 0
    plan = json.loads(program.to_json())
    assert len(plan["gpus"]) == 4 and program.to_json(None).encode() == program.compile()


def allgather(n, cf=1, forget=False):
    with CollectiveProgram("ag", AllGather(n, cf, False), n) as p:
        channels = {(d, s): MemoryChannel(d, s) for s in range(n) for d in range(n) if d != s}
        for r in range(n):
            peers = [q for q in range(n) if q != r]
            for q in peers:
                channels[q, r].signal(tb=0, relaxed=True)
            for q in peers:
                channels[q, r].wait(tb=0, relaxed=True, data_sync=SyncType.after)
            own = Rank(r).get_input_buffer()[:]
            Rank(r).copy(Rank(r).get_output_buffer()[r * cf:(r + 1) * cf], own, tb=0)
            for q in peers:
                channels[q, r].put(Rank(q).get_output_buffer()[r * cf:(r + 1) * cf], own, tb=0)
            for q in peers:
                channels[q, r].signal(tb=0)
            for q in peers:
                if not (forget and r == 1):
                    channels[q, r].wait(tb=0)
    return p


def test_mistakes_point_at_the_author():
    with pytest.raises(goccl.InvalidArgument, match=r"test_language\.py:\d+"):
        allgather(2, forget=True).compile()
    with pytest.raises(goccl.InvalidArgument, match="chunks"):
        with CollectiveProgram("x", AllGather(2, 1, False), 2):
            Rank(0).get_input_buffer()[0:3]
    with pytest.raises(goccl.InvalidUsage, match="CollectiveProgram"):
        Rank(0)
    with pytest.raises(goccl.InvalidArgument, match="rank 2"):
        with CollectiveProgram("x", AllGather(2, 1, False), 2):
            Rank(2)


def test_a_wrong_result_is_found():
    with CollectiveProgram("wrong", AllGather(2, 1, False), 2) as p:
        for r in range(2):
            Rank(r).copy(Rank(r).get_output_buffer()[0:1], Rank(r).get_input_buffer()[:], tb=0)
    with pytest.raises(goccl.InvalidArgument, match="rank"):
        p.check()


def packets(spec):
    """All pairs by packets: one step, reduced in rank order."""
    n = spec.world_size
    with CollectiveProgram.from_spec(spec) as p:
        scratch = [Buffer(r, n * n) for r in range(n)]
        for r in range(n):
            mine = Rank(r).get_input_buffer()
            for q in range(n):
                if q != r:
                    MemoryChannel(q, r).put_packets(scratch[q][r * n:(r + 1) * n], mine[0:n], tb=0)
        for r in range(n):
            mine = Rank(r).get_input_buffer()
            Rank(r).reduce(mine[0:n], [scratch[r][q * n:(q + 1) * n] for q in range(n) if q != r], tb=0, packet=True,
                           reduce_op=ReduceOperationType.sum)
    return p


def test_other_operations_compile():
    spec = _spec(2, name="ll", protocol="LL", instances=1, use_double_scratch_buffer=True, min_message_size=0,
                 max_message_size=1 << 20)
    assert packets(spec).check()["protocol"] == "LL"
    with CollectiveProgram("pipe", AllReduce(2, 1, True), 2, replication_policy=ReplicationPolicy.interleaved) as p:
        chans = {(d, s): MemoryChannel(d, s) for s in range(2) for d in range(2) if d != s}
        for r in range(2):
            c = chans[1 - r, r]
            c.signal(tb=0, relaxed=True)
            c.wait(tb=0, relaxed=True, data_sync=SyncType.after)
            with LoopIterationContext(1 << 16, 1):
                own, theirs = Rank(r).get_input_buffer()[r:r + 1], Rank(1 - r).get_input_buffer()[r:r + 1]
                c.reduce(own, [theirs], tb=0)
                c.put(theirs, own, tb=0)
            c.signal(tb=0, data_sync=SyncType.before)
            c.wait(tb=0)
    assert p.check()["collective"] == "allreduce"
    with CollectiveProgram("swap", Custom("swap", 2, 1, 1, False, lambda r, c: [(1 - r, c)]), 2) as p:
        for r in range(2):
            c = MemoryChannel(1 - r, r)
            c.signal(tb=0, relaxed=True)
            c.wait(tb=0, relaxed=True, data_sync=SyncType.after)
            c.get(Rank(r).get_output_buffer()[:], Rank(1 - r).get_input_buffer()[:], tb_group=ThreadBlockGroup([0]))
            c.signal(tb=0)
            c.wait(tb=0)
    assert p.check()["collective"] == "swap"
    AllToAll(2, 1, False)


def tiles(n, count, forget=False):
    """An all-gather of tiles, each of which goes to the peers when the caller has written it."""
    with CollectiveProgram("tiles", AllGather(n, count, False), n) as p:
        begin = {(d, s): MemoryChannel(d, s) for s in range(n) for d in range(n) if d != s}
        data = {(d, s): MemoryChannel(d, s) for s in range(n) for d in range(n) if d != s}
        for r in range(n):
            peers = [q for q in range(n) if q != r]
            for q in peers:
                begin[q, r].signal(tb=0, relaxed=True)
            for q in peers:
                begin[q, r].wait(tb=0, relaxed=True, data_sync=SyncType.after)
            own, out = Rank(r).get_input_buffer(), Rank(r).get_output_buffer()
            ready = [InputHook(own[k]) for k in range(count)]
            there = {q: OutputHook(out[q * count:(q + 1) * count]) for q in range(n)}
            for k in range(count):
                if not (forget and k == 0):
                    ready[k].wait(tb=0)
                Rank(r).copy(out[r * count + k], own[k], tb=0)
                for q in peers:
                    data[q, r].put(Rank(q).get_output_buffer()[r * count + k], own[k], tb=0)
            there[r].signal(tb=0)
            for q in peers:
                data[q, r].signal(tb=0)
            for i, q in enumerate(peers):
                data[q, r].wait(tb=1 + i)
                there[q].signal(tb=1 + i)
    return p


def test_hooks_are_verified():
    assert tiles(2, 3).check()["verified_steps"] > 0
    with pytest.raises(goccl.InvalidArgument, match="hook 0 of rank 0"):
        tiles(2, 2, forget=True).check()


def _hooked(rank, n, uid):
    g = goccl.CommGroup(interfaceIpPortTrio=uid, rank=rank, size=n)
    executor = goccl.Executor(g.communicator)
    plan = goccl.ExecutionPlan(tiles(n, 2).to_json(), rank)
    runs, produce, consume = (goccl.Stream(g.communicator.device()) for _ in range(3))
    send, recv = (goccl.GpuBuffer(count, dtype=np.float32) for count in (2 * 64, 2 * 64 * n))
    send, recv = np.asarray(send), np.asarray(recv)
    for launch in range(3):
        executor.run(plan, send.ctypes.data, recv.ctypes.data, recv.nbytes, goccl.DataType.float32, 0, runs.handle)
        send[:] = 100 * launch + rank
        for k in range(2):
            executor.raise_hook(plan, k, launch + 1, produce.handle)
        for q in range(n):
            executor.await_hook(plan, 2 + q, launch + 1, consume.handle)
        consume.synchronize()
        np.testing.assert_array_equal(recv, np.repeat(100 * launch + np.arange(n), 2 * 64))
        runs.synchronize()
    assert executor.hook(plan, 0) % 8 == 0
    with pytest.raises(goccl.InvalidArgument, match="the plan raises it"):
        executor.raise_hook(plan, 2, 1, produce.handle)


@pytest.mark.parametrize("n", [2, 3])
def test_hooks_run(n):
    jobs.run(n, _hooked)


def counted(n, wrong=False):
    with CollectiveProgram("a2av", AllToAll(n, 1, False), n) as p:
        channels = {(d, s): MemoryChannel(d, s) for s in range(n) for d in range(n) if d != s}
        for r in range(n):
            own, peers = Rank(r).get_input_buffer(), [q for q in range(n) if q != r]
            for q in peers:
                channels[q, r].signal(tb=0, relaxed=True)
            for q in peers:
                channels[q, r].wait(tb=0, relaxed=True, data_sync=SyncType.after)
            Rank(r).copy(Rank(r).get_output_buffer()[r], own[r], tb=0, count=(r, r, 0))
            for q in peers:
                pair = (q, r, 0) if wrong else (r, q, 0)
                channels[q, r].put(Rank(q).get_output_buffer()[r], own[q], tb=0, count=pair)
            for q in peers:
                channels[q, r].signal(tb=0)
            for q in peers:
                channels[q, r].wait(tb=0)
    return p


def _counted(rank, n, uid):
    g = goccl.CommGroup(interfaceIpPortTrio=uid, rank=rank, size=n)
    executor, plan = goccl.Executor(g.communicator), goccl.ExecutionPlan(counted(n).to_json(), rank)
    stream = goccl.Stream(g.communicator.device())
    counts = 4 * (np.arange(n * n, dtype=np.uint64) + 1).reshape(n, n)
    send, recv = np.full(64 * n, 10 + rank, np.float32), np.full(64 * n, -1, np.float32)
    executor.run(plan, send.ctypes.data, recv.ctypes.data, send.nbytes, goccl.DataType.float32, 0, stream.handle,
                 counts.ctypes.data)
    stream.synchronize()
    for q in range(n):
        np.testing.assert_array_equal(recv[64 * q:64 * q + n * q + rank + 1], 10 + q)


def test_counts():
    with pytest.raises(goccl.InvalidArgument, match="limited by the count"):
        counted(2, wrong=True).check()
    jobs.run(3, _counted)


def _execute(rank, n, uid):
    g = goccl.CommGroup(interfaceIpPortTrio=uid, rank=rank, size=n)
    executor = goccl.Executor(g.communicator)
    f32 = goccl.utils.torch_dtype_to_mscclpp_dtype(np.dtype(np.float32))
    algorithm = goccl.compile(algo=_example("dsl_allreduce").allreduce_nvls, algo_spec=_spec(n), rank=rank)
    assert algorithm.is_dsl_algorithm() and algorithm.collective == "allreduce"
    low = goccl.compile(algo=packets,
                        algo_spec=_spec(n, name="ll", protocol="LL", instances=1, use_double_scratch_buffer=True,
                                        min_message_size=0,
                                                      max_message_size=1 << 20), rank=rank)
    for a, elements in ((algorithm, 1 << 10), (algorithm, 3 << 10), (low, 256), (low, 1 << 10), (algorithm, 1 << 18)):
        for _ in range(3):
            data = np.arange(elements, dtype=np.float32) + rank
            p, size = data.ctypes.data, data.nbytes
            a.execute(comm=g.communicator, executor=executor, input_buffer=p, output_buffer=p, input_size=size,
                      output_size=size, dtype=f32)
            np.testing.assert_array_equal(data, n * np.arange(elements, dtype=np.float32) + n * (n - 1) / 2)
    plan = goccl.ExecutionPlan(allgather(n).to_json(), rank)
    send, recv = np.full(64, rank, np.float32), np.zeros(64 * n, np.float32)
    executor.execute(rank, send.ctypes.data, recv.ctypes.data, send.nbytes, recv.nbytes, f32, plan)
    np.testing.assert_array_equal(recv, np.repeat(np.arange(n), 64))
    with pytest.raises(goccl.InvalidArgument, match="executor"):
        algorithm.execute(g.communicator, p, p, 4096, 4096, f32)
    with pytest.raises(goccl.InvalidArgument):
        algorithm.execute(g.communicator, p, p, 4, 4, f32, executor=executor)  # below its range

    collection = goccl.AlgorithmCollectionBuilder().build_default_algorithms(scratch_buffer=0, scratch_buffer_size=0,
                                                                             rank=rank)
    names = [a.name for a in collection]
    assert len(collection) == len(set(names)) and collection[0].name == "default_allreduce_nvls_packet"
    for a in collection:
        if "nvls" in a.name:
            assert a.tags["nvls"] == 0 and "unicast" in a.doc
        count = 24 * n
        src = np.arange(count, dtype=np.float32) + rank
        dst = np.zeros(count * n, np.float32)
        sizes = {"allgather": (count, count * n), "reducescatter": (count, count // n)}.get(a.collective,
                                                                                            (count, count))
        a.execute(comm=g.communicator, input_buffer=src.ctypes.data, output_buffer=dst.ctypes.data,
                  input_size=4 * sizes[0], output_size=4 * sizes[1], dtype=f32, op=goccl.ReduceOp.SUM, stream=0)
        total = n * np.arange(count, dtype=np.float32) + n * (n - 1) / 2
        want = {"allreduce": total, "allgather": np.concatenate([np.arange(count) + r for r in range(n)]),
                "broadcast": np.arange(count), "reducescatter": total[rank * count // n:(rank + 1) * count // n],
                "alltoall": np.concatenate([(np.arange(count) + r)[rank * count // n:(rank + 1) * count // n]
                                            for r in range(n)]),
                "reduce": total if rank == 0 else np.zeros(count)}[a.collective]
        np.testing.assert_array_equal(dst[:len(want)], want, err_msg=a.name)
    builder = goccl.AlgorithmCollectionBuilder()
    builder.add_algorithm_builder(algorithm)
    builder.set_algorithm_selector(lambda by, request: by["allreduce"]["allreduce_nvls"]
                                   if request.message_size > 1 << 20 else None)
    c = builder.build_default_algorithms()
    ask = lambda size: c.select(goccl.CollectiveRequest("allreduce", size, f32, n, n, rank)).name  # noqa: E731
    assert ask(2 << 20) == "allreduce_nvls" and ask(100) == "default_allreduce_nvls_packet"
    g.barrier()
    executor.close()


@pytest.mark.parametrize("n", [2, 4])
def test_execute(n):
    jobs.run(n, _execute)


def test_native_capsules_of_others_are_refused():
    with pytest.raises(goccl.InvalidArgument, match="NativeAlgorithm"):
        goccl.Algorithm.create_from_native_capsule(object())
    calls = []
    a = goccl.NativeAlgorithm("mine", "allgather", launch=lambda *x: calls.append(x),
                              initialize=lambda c: calls.append("init"), init_context=lambda *x: "context")

    class Comm:
        handle = 1

    for _ in range(2):
        goccl.Algorithm.create_from_native_capsule(a).execute(Comm(), 1, 2, 3, 4, goccl.DataType.int8)
    assert calls[0] == "init" and len(calls) == 3 and calls[1][0] == "context"
