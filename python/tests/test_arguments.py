"""Arguments that would be ignored, or would read or write foreign memory, are refused."""

import threading

import numpy as np
import pytest

import goccl
import jobs
from goccl import nccl

F32 = goccl.DataType.float32


@pytest.fixture(scope="module")
def group():
    return goccl.CommGroup(bootstrap=goccl.Bootstrap.local(1)[0])


def _algorithm(name):
    return next(a for a in goccl.AlgorithmCollectionBuilder().build_default_algorithms() if a.name == name)


def _program():
    from goccl.language import AllReduce, CollectiveProgram, Rank

    with CollectiveProgram("copy", AllReduce(1, 1, False), 1) as program:
        Rank(0).copy(Rank(0).get_output_buffer()[0], Rank(0).get_input_buffer()[0], tb=0)
    return goccl.compile(lambda spec: program,
                         goccl.AlgoSpec(name="copy", collective=AllReduce(1, 1, False), nranks_per_node=1, world_size=1,
                                        in_place=False,
                                                             instances=1, protocol="Simple"))


@pytest.mark.parametrize("wrong", [dict(dtype="float16"), dict(op="plus"), dict(comm=None), dict(comm="x"),
                                   dict(input_buffer=None), dict(input_buffer="a"), dict(input_size=16.0)], ids=str)
def test_execute_refuses_types_that_are_none(group, wrong):
    a, x = _algorithm("default_allreduce_packet"), np.ones(4, np.float32)
    right = dict(comm=group.communicator, input_buffer=x.ctypes.data, output_buffer=x.ctypes.data, input_size=x.nbytes,
                 output_size=x.nbytes, dtype=F32, op=goccl.ReduceOp.SUM)
    with pytest.raises(goccl.InvalidArgument):
        a.execute(**right | wrong)


@pytest.mark.parametrize("wrong", [dict(data_type="float32"), dict(op="plus"), dict(plan=None), dict(stream="x")],
                         ids=str)
def test_an_executor_refuses_types_that_are_none(group, wrong):
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    right = dict(rank=0, send_buff=x.ctypes.data, recv_buff=y.ctypes.data, send_buff_size=32, recv_buff_size=32,
                 data_type=F32, plan=_program().plan)
    executor = goccl.Executor(group.communicator)
    with pytest.raises(goccl.InvalidArgument):
        executor.execute(**right | wrong)
    executor.execute(**right)
    assert (y == x).all()
    with pytest.raises(goccl.InvalidArgument):
        goccl.Executor(None)


@pytest.mark.parametrize("wrong", ["a", None, 1.5])
def test_a_rank_is_a_whole_number(wrong):
    c = nccl.Communicator.init_all(1)[0]
    x = np.ones(4, np.float32)
    for call in (lambda: c.broadcast(x, x, root=wrong), lambda: c.send(x, wrong), lambda: c.recv(x, wrong)):
        with pytest.raises(goccl.InvalidArgument, match="no whole number"):
            call()


def test_a_reduction_is_a_reduce_op():
    c = nccl.Communicator.init_all(1)[0]
    x = np.ones(4, np.float32)
    with pytest.raises(goccl.InvalidArgument, match="'plus' is no reduction"):
        c.allreduce(x, x, "plus")


WRONG = [dict(nblocks=-5), dict(nblocks=4), dict(nthreads_per_block=-1), dict(nthreads_per_block=256),
         dict(symmetric_memory=True), dict(accum_dtype=goccl.DataType.float16), dict(extras={"depth": 1}),
         dict(extras={"root": 0})]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
@pytest.mark.parametrize("kind", ["default", "program"])
def test_execute_refuses_what_it_would_ignore(group, kind, wrong):
    a, x, y = _algorithm("default_allreduce_packet"), np.ones(8, np.float32), np.zeros(8, np.float32)
    arguments = [group.communicator, x.ctypes.data, y.ctypes.data, 32, 32, F32]
    if kind == "program":
        a, wrong = _program(), wrong | dict(executor=goccl.Executor(group.communicator))
    with pytest.raises(goccl.GocclError, match=next(iter(wrong))) as e:
        a.execute(*arguments, **wrong)
    assert isinstance(e.value, (goccl.Unsupported, goccl.InvalidArgument)) and not y.any()


def test_execute_takes_its_arguments_in_the_guides_order(group):
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    b = _algorithm("default_broadcast")
    assert b.execute(group.communicator, x.ctypes.data, y.ctypes.data, 32, 32, F32, goccl.ReduceOp.NOP, 0, None, 0, 0,
                     {"root": 0}) == 0 and y.all()
    with pytest.raises(goccl.InvalidArgument, match="root"):
        b.execute(group.communicator, x.ctypes.data, y.ctypes.data, 32, 32, F32, goccl.ReduceOp.NOP, 0, None, 0, 0,
                  {"root": 1})
    h = np.ones(8, np.float16)
    r = _algorithm("default_allreduce_packet")
    # the kernel accumulates in float32 by default
    assert r.execute(group.communicator, h.ctypes.data, h.ctypes.data, 16, 16, goccl.DataType.float16,
                     accum_dtype=F32) == 0


@pytest.mark.parametrize("name, sizes", [("default_allreduce_packet", (32, 16)), ("default_allgather_fullmesh",
                                                                                  (32, 28)),
                                                                                  ("default_reducescatter", (16, 32)),
                                         ("default_alltoall", (32, 16)), ("default_broadcast", (32, 0)),
                                         ("default_reduce", (32, 16)), ("default_allreduce_packet", (30, 32)),
                                         ("default_allreduce_packet", (-32, 32))])
def test_execute_does_not_go_beyond_its_buffers(group, name, sizes):
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    with pytest.raises(goccl.InvalidArgument, match="size"):
        _algorithm(name).execute(group.communicator, x.ctypes.data, y.ctypes.data, *sizes, F32)
    assert not y.any()


def test_a_program_does_not_go_beyond_its_buffers(group):
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    a, executor = _program(), goccl.Executor(group.communicator)
    for sizes in ((32, 16), (30, 32)):
        with pytest.raises(goccl.InvalidArgument, match="size"):
            a.execute(group.communicator, x.ctypes.data, y.ctypes.data, *sizes, F32, executor=executor)
        with pytest.raises(goccl.InvalidArgument, match="size"):
            executor.execute(0, x.ctypes.data, y.ctypes.data, *sizes, F32, a.plan)
    with pytest.raises(goccl.InvalidArgument, match="rank 3"):
        executor.execute(3, x.ctypes.data, y.ctypes.data, 32, 32, F32, a.plan)
    assert not y.any()


def test_another_fp8_is_not_taken_for_ours():
    assert goccl.DataType.of("torch.float8_e4m3fn") is goccl.DataType.float8_e4m3
    assert not hasattr(goccl.DataType, "float8_e4m3fnuz")
    for name in ("float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3b11fnuz"):
        with pytest.raises(goccl.InvalidArgument, match=name):
            goccl.DataType.of(f"torch.{name}")


@pytest.fixture(scope="module")
def comm():
    return nccl.Communicator.init_all(1)[0]


def _frozen(n=8):
    a = np.full(n, 7, np.float32)
    a.flags.writeable = False
    return a


X = np.arange(8, dtype=np.float32)
INTO = {
    "allreduce": lambda c, b: c.allreduce(X, b),
    "reduce": lambda c, b: c.reduce(X, b, root=0),
    "broadcast": lambda c, b: c.broadcast(X, b, 0),
    "allgather": lambda c, b: c.allgather(X, b),
    "gather": lambda c, b: c.gather(X, b, 0),
    "scatter": lambda c, b: c.scatter(X, b, 0),
    "reduce_scatter": lambda c, b: c.reduce_scatter(X, b),
    "alltoall": lambda c, b: c.alltoall(X, b),
    "alltoallv": lambda c, b: c.alltoallv(X, b, [8], [0], [8], [0]),
    "alltoallv_device": lambda c, b: c.alltoallv_device(X, b, *(np.array([v]) for v in (8, 0, 8, 0))),
    "recv": lambda c, b: c.recv(b, 0),
    "in place": lambda c, b: c.allreduce(b, b),
}


@pytest.mark.parametrize("call", INTO)
def test_read_only_memory_is_not_written(comm, call):
    for b in (_frozen(), memoryview(_frozen().tobytes()).cast("f")):
        before = bytes(b)
        with pytest.raises(goccl.InvalidArgument, match="read-only"):
            INTO[call](comm, b)
        assert bytes(b) == before


def test_read_only_memory_is_sent(comm):
    out = np.zeros(8, np.float32)
    comm.allreduce(_frozen(), out)
    assert (out == 7).all()
    comm.allreduce(memoryview(X.tobytes()).cast("f"), out)
    assert (out == X).all()
    comm.broadcast(_frozen(), root=0)  # the root's own
    received = bytearray(32)
    comm.allgather(X.tobytes(), received)
    assert received == X.tobytes()


def test_read_only_memory_is_not_shared(comm, group):
    with pytest.raises(goccl.InvalidArgument, match="read-only"):
        comm.register_window(_frozen(), 1)
    with pytest.raises(goccl.InvalidArgument, match="read-only"):
        group.register_local_memory(_frozen(), {})
    with pytest.raises(goccl.InvalidArgument, match="read-only"):
        group.communicator.context().register_memory(_frozen())
    with pytest.raises(goccl.InvalidArgument, match="32 bytes"):
        group.communicator.context().register_memory(X, 33)
    boot = group.bootstrap
    boot.send(b"12345678", 0)
    for wrong in (np.frombuffer(b"12345678", np.uint8), np.zeros(16, np.uint8)[::2]):
        with pytest.raises(goccl.InvalidArgument, match="read-only or not contiguous"):
            group.recv(wrong, 0)
    into = np.zeros(8, np.uint8)
    group.recv(into, 0)  # the message is still there
    assert into.tobytes() == b"12345678"


def test_what_is_no_plain_bytes_is_refused(comm):
    objects = np.array([object()] * 3)
    for a in (objects, np.zeros(3, [("x", "O")]), np.zeros((4, 4), np.float32)[:, 1], np.zeros(4, ">f4")):
        with pytest.raises(goccl.InvalidArgument):
            comm.allgather(a, np.zeros_like(a))
    for a in (np.array(["a", "bcd"]), np.array([1, 2], "M8[ns]"), np.array([b"ab"]), np.array([1 + 2j])):
        out = np.zeros_like(a)
        comm.allgather(a, out)
        assert (a == out).all()


COUNTS = [("SendCounts", 0, 17), ("SendDispls", 1, 9), ("SendDispls", 1, -1), ("RecvCounts", 2, 9),
          ("RecvDispls", 3, 1 << 61), ("RecvDispls", 3, -(1 << 63))]


@pytest.mark.parametrize("name, array, value", COUNTS)
def test_alltoallv_device_stays_within_its_buffers(name, array, value):
    c = nccl.Communicator.init_all(1)[0]
    around = np.full(4096 + 8 + 4096, 5, np.float32)
    counts = [np.array([v]) for v in (8, 0, 8, 0)]
    counts[array][0] = value
    if "Counts" in name:
        counts[0][0] = counts[2][0] = value  # both counts of a rank with itself must be equal
    s = goccl.Stream(c.device)
    with pytest.raises(goccl.InvalidArgument, match=name):
        c.alltoallv_device(np.zeros(16, np.float32), around[4096:4104], *counts, stream=s)
        s.synchronize()
        c._raise_async()
    assert (np.delete(around, range(4096, 4104)) == 5).all()
    c.abort()


def test_alltoallv_device_with_empty_buffers():
    c = nccl.Communicator.init_all(1)[0]
    empty = np.zeros(0, np.float32)
    c.alltoallv_device(empty, None, *(np.array([0]) for _ in range(4)))
    with pytest.raises(goccl.InvalidArgument):
        c.alltoallv_device(empty, empty, *(np.array([v]) for v in (1, 0, 1, 0)))
    c.abort()


def test_a_channel_has_two_ranks():
    from goccl.language import AllReduce, CollectiveProgram, MemoryChannel

    with CollectiveProgram("own", AllReduce(2, 1, False), 2):
        with pytest.raises(goccl.InvalidArgument, match="from rank 1 to itself"):
            MemoryChannel(1, 1)


def test_an_aborted_communicator_is_called_so():
    comm = nccl.Communicator.init_all(1)[0]
    comm.abort()
    with pytest.raises(goccl.GocclError, match="aborted"):
        comm.allreduce(np.zeros(1, np.float32), np.zeros(1, np.float32))
