"""Names of MSCCL++ that programs written for it use, beyond the tutorials' names."""

import dataclasses
import json
import os
import warnings

import numpy as np
import pytest

import goccl
import jobs
from goccl.language.channel import *  # noqa: F403
from goccl.language.collectives import *  # noqa: F403
from goccl.language.general import *  # noqa: F403
from goccl.language.program import *  # noqa: F403
from goccl.language.rank import *  # noqa: F403
from test_default_algos import F32, in_threads


def _swap(post=None, pair=True):
    """Two ranks put their input into the other's output, as MSCCL++'s tests of operations are written."""
    collective = Custom("custom", 2, 1, 1, False, post) if post else TestCollective(2, 1, 1)
    with CollectiveProgram("swap", collective, 2, max_message_size=1 << 20) as p:
        channels = [MemoryChannel(1 - r, r) for r in range(2)]
        for r, c in enumerate(channels):
            c.signal(tb=0, relaxed=True)
            c.wait(tb=0, relaxed=True, data_sync=SyncType.after)
            c.put(Rank(1 - r).get_output_buffer()[0:1], Rank(r).get_input_buffer()[0:1], tb=0)
            c.signal(tb=0, data_sync=SyncType.before)
            if pair:
                c.wait(tb=0, data_sync=SyncType.after)
        text = JSON()
    return p, text


def test_json_of_the_open_program():
    p, text = _swap(lambda r, c: [(1 - r, 0)])
    assert json.loads(text)["name"] == "swap" and text == p.to_json()
    with pytest.raises(goccl.InvalidUsage):
        JSON()


def test_unpaired_signals_build_with_a_warning():
    with pytest.warns(RuntimeWarning, match="rank 0 signals rank 1 2 times, which waits 1 times"):
        p, text = _swap(pair=False)
    with pytest.raises(goccl.InvalidArgument, match="do not pair"):
        p.compile()
    with pytest.raises(goccl.InvalidArgument, match="unbalanced"):
        goccl.ExecutionPlan(text).report
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _swap()
        with CollectiveProgram("wrong", TestCollective(2, 1, 1), 2):
            MemoryChannel(1, 0).put(Rank(0).get_output_buffer()[0:1], Rank(0).get_input_buffer()[0:1], tb=0)
            with pytest.raises(goccl.InvalidArgument, match="remote chunk"):
                JSON()


def test_a_custom_collective_is_verified_or_called_unverified():
    stated = goccl.ExecutionPlan(_swap(lambda r, c: [(1 - r, 0)])[1])
    assert stated.report["verified"] and stated.collective == "custom"
    with pytest.raises(goccl.InvalidArgument, match="wrong result"):
        goccl.ExecutionPlan(_swap(lambda r, c: [(r, 0)])[1]).report
    text = _swap()[1]
    with pytest.raises(goccl.InvalidArgument, match="unverified(.|\n)*nothing says what the collective"):
        goccl.ExecutionPlan(text).report
    trusted = goccl.ExecutionPlan(text, trust=True)
    assert trusted.report["verified"] is False and trusted.name == "swap"

    def rank(r, boot):
        group = goccl.CommGroup(bootstrap=boot, device=goccl.Device(goccl.DeviceType.CPU, r))
        executor = goccl.Executor(group.communicator)
        send, recv = np.full(8, r, np.float32), np.zeros(8, np.float32)

        def run(plan):
            executor.execute(r, send.ctypes.data, recv.ctypes.data, send.nbytes, recv.nbytes, F32, plan)

        with pytest.raises(goccl.InvalidArgument, match="unverified"):
            executor.load(goccl.ExecutionPlan(text))
        for plan in (trusted, stated):
            recv[:] = -1
            run(plan)
            np.testing.assert_array_equal(recv, np.full(8, 1 - r))
        spec = goccl.AlgoSpec("swap", TestCollective(2, 1, 1), max_message_size=1 << 20)
        with pytest.raises(goccl.InvalidArgument, match="unverified"):
            goccl.compile(algo=lambda spec: _swap()[0], algo_spec=spec)
        algorithm = goccl.compile(algo=lambda spec: _swap()[0], algo_spec=spec, trust=True)
        recv[:] = -1
        algorithm.execute(group.communicator, send.ctypes.data, recv.ctypes.data, send.nbytes, recv.nbytes, F32,
                          executor=executor)
        np.testing.assert_array_equal(recv, np.full(8, 1 - r))
        group.barrier()
        executor.close()

    in_threads(2, rank)


def test_a_group_reads_and_puts_packets_by_a_port_channel():
    n = 2
    with CollectiveProgram("gather", AllGather(n, 1), n, protocol="LL", use_double_scratch_buffer=True,
                           max_message_size=1 << 20) as p:
        scratch, blocks = [Buffer(r, n) for r in range(n)], ThreadBlockGroup([0, 1, 2])
        for r in range(n):
            rank, o = Rank(r), 1 - r
            rank.copy_packets(scratch[r][r:r + 1], rank.get_input_buffer()[0:1], tb_group=blocks)
            PortChannel(o, r).read_put_packets(scratch[o][r:r + 1], scratch[r][r:r + 1], tb_group=blocks)
            for c in range(n):
                rank.unpack_packets(rank.get_output_buffer()[c:c + 1], scratch[r][c:c + 1], tb=3 + c)
    plan = goccl.ExecutionPlan(p.compile())
    pushes = [op for g in json.loads(plan.data)["gpus"]
              for t in g["threadblocks"] for op in t["ops"] if op.get("channel_type") == "port"]
    assert plan.report["verified"] and len(pushes) == 6 and {op["tbg_info"]["tbg_size"] for op in pushes} == {3}

    def rank(r, boot):
        group = goccl.CommGroup(bootstrap=boot, device=goccl.Device(goccl.DeviceType.CPU, r))
        executor = goccl.Executor(group.communicator)
        for count in (4, 1000):
            send, recv = np.arange(count, dtype=np.float32) + r, np.zeros(n * count, np.float32)
            executor.execute(r, send.ctypes.data, recv.ctypes.data, send.nbytes, recv.nbytes, F32, plan)
            np.testing.assert_array_equal(recv, np.concatenate([np.arange(count), np.arange(count) + 1]))
        group.barrier()
        executor.close()

    in_threads(n, rank)
    with CollectiveProgram("put", AllGather(n, 1), n):
        with pytest.raises(TypeError):
            PortChannel(1, 0).put(None, None, tb_group=blocks)


def _primitives(rank, n, uid):
    g = goccl.CommGroup(interfaceIpPortTrio=uid, rank=rank, size=n)
    (peer,) = (r for r in range(n) if r != rank)
    connections = g.make_connection([peer],
                                    goccl.EndpointConfig(goccl.Transport.CudaIpc, g.device,
                                                         ib=goccl.EndpointConfigIb(port=1)))
    memory, scratch = goccl.GpuBuffer(64, dtype=np.int32), goccl.GpuBuffer(64 * 16, dtype=np.uint8)
    registered = g.register_local_memory(scratch, connections)
    channel = g.make_memory_channels_with_scratch(memory, registered, connections)[peer]
    port = g.make_port_channels_with_scratch(service := goccl.ProxyService(), memory, registered, connections)[peer]
    service.start_proxy()
    memory[:] = rank + 1
    g.barrier()
    channel.put_packets(0, 0, 256, 1)
    channel.unpack_packets(0, 0, 256, 1)
    np.testing.assert_array_equal(memory, np.full(64, peer + 1))
    g.barrier()
    port.put_with_signal_and_flush(0, 0, 256)
    port.wait()
    np.testing.assert_array_equal(np.asarray(scratch)[:256].view(np.int32), np.full(64, rank + 1))
    with pytest.raises(goccl.InvalidArgument):
        port._run(11)  # a port channel has no relaxed signal

    stub = goccl.SemaphoreStub(connections[peer])
    g.bootstrap.send(stub.serialize(), peer, 5)
    semaphore = goccl.Semaphore(stub, goccl.SemaphoreStub.deserialize(g.bootstrap.recv(peer, 5)))
    with pytest.raises(goccl.GocclError):
        goccl.Semaphore(stub, goccl.SemaphoreStub.deserialize(b"junk"))
    base = goccl.BaseMemoryChannel(semaphore)
    for c in (base, channel):
        c.relaxed_signal()
        c.relaxed_wait()
        assert not c.poll()

    values = goccl.GpuBuffer(16, dtype=np.float32)
    switch = g.make_connection([peer], goccl.Transport.CudaIpc,
                               use_switch=True).bind_allocated_memory(values.ctypes.data, values.nbytes)
    assert switch.buffer_size == 64 and switch.get_device_ptr() == values.ctypes.data
    assert len(switch.device_handle().raw) == 32
    nvls = goccl.connect_nvls_collective(g.communicator, range(n), 64)
    assert nvls.bind_allocated_memory(values.ctypes.data, 64).buffer_size == 64
    with pytest.raises(goccl.InvalidArgument, match="0 of the connection's buffer_size are left"):
        nvls.bind_allocated_memory(values.ctypes.data, 64)
    with pytest.raises(goccl.Unsupported, match="all_ranks"):
        goccl.connect_nvls_collective(g.communicator, [rank], 64)
    g.barrier()
    service.stop_proxy()
    g.close()


def test_primitives():
    jobs.run(2, _primitives)


def test_error_codes():
    import goccl.errors as errors

    assert goccl.Timeout("").error_code == goccl.ErrorCode.Timeout == 4
    codes = {name: getattr(errors, name)("").error_code.name for name in errors.__all__ if name not in ("ErrorCode",)}
    assert codes["PeerDead"] == "RemoteError" and codes["SysError"] == "SystemError"
    assert codes["InvalidArgument"] == "InvalidUsage"
    with pytest.raises(goccl.GocclError) as e:
        goccl.Bootstrap.from_env(timeout=-1)
    assert e.value.error_code == goccl.ErrorCode.InvalidUsage


def test_endpoint_configuration():
    c = goccl.EndpointConfig(goccl.Transport.CudaIpc, goccl.Device(goccl.DeviceType.CPU, 0))
    assert dataclasses.asdict(c.ib) == dataclasses.asdict(goccl.EndpointConfigIb()) and c.ib_max_send_wr == 8192
    c.ib_port, c.ib_mode = 2, goccl.IbMode.HostNoAtomic
    assert c.ib.port == 2 and c.ib.mode == 2


def test_the_environment_is_read_only(monkeypatch):
    monkeypatch.setenv("GOCCL_TIMEOUT", "7")
    e = goccl.env()
    assert e.timeout == "7" and e.hostid == os.environ.get("GOCCL_HOSTID", "") and e.ib_gid_index == -1
    with pytest.raises(AttributeError):
        e.timeout = "8"
    with pytest.raises(AttributeError):
        e.new = 1


def test_npkit_says_that_it_does_nothing(tmp_path):
    with pytest.warns(RuntimeWarning, match="no NPKit events"):
        goccl.npkit.init(0)
    goccl.npkit.dump(str(tmp_path))
    goccl.npkit.shutdown()
    assert not list(tmp_path.iterdir())


def test_numa_and_bulk():
    p = jobs.python("""
import os, goccl
before = os.sched_getaffinity(0)
goccl.numa.numa_bind(-1)
assert os.sched_getaffinity(0) == before
if os.path.exists("/sys/devices/system/node/node0/cpulist"):
    goccl.numa.numa_bind(0)
    with open("/sys/devices/system/node/node0/cpulist") as f:
        ranges = [r.split("-") for r in f.read().strip().split(",")]
    assert os.sched_getaffinity(0) <= {c for r in ranges for c in range(int(r[0]), int(r[-1]) + 1)}
try:
    goccl.numa.numa_bind(12345)
    raise AssertionError
except goccl.InvalidArgument as e:
    assert "12345" in str(e)
assert goccl.is_bulk_supported() is False and goccl.Device(goccl.DeviceType.CPU, 0).numa_node == -1
""", GOCCL_DEVICE="host")
    assert p.returncode == 0, p.stderr


def test_algorithm_builders():
    def make(name="mine"):
        return goccl.NativeAlgorithm(name, "allgather", launch=lambda *a: None)

    class Mine(goccl.AlgorithmBuilder):
        def build(self):
            return make("subclass")

    b = goccl.AlgorithmCollectionBuilder()
    goccl.AlgorithmCollectionBuilder.reset()
    for builder in (goccl.AlgorithmBuilder(make), Mine(), goccl.AlgorithmBuilder(Mine()), make("itself")):
        b.add_algorithm_builder(builder)
    assert [a.name for a in b.build()] == ["mine", "subclass", "subclass", "itself"]
    b.reset()
    assert len(b.build()) == 0
    with pytest.raises(goccl.InvalidUsage, match="build"):
        goccl.AlgorithmBuilder().build()
