"""The primitive API."""

import numpy as np
import pytest

import goccl
import jobs
from goccl import CommGroup, GpuBuffer, ProxyService, Transport


def _group(rank, n, uid):
    return CommGroup(interfaceIpPortTrio=uid, rank=rank, size=n)


def _mesh(rank, n, uid):
    g = _group(rank, n, uid)
    assert (g.my_rank, g.nranks, g.nranks_per_node) == (rank, n, n)
    with pytest.raises(goccl.Unsupported, match="InfiniBand"):
        g.my_ib_device(rank)
    nghrs = [r for r in range(n) if r != rank]
    connections = g.make_connection(nghrs, Transport.CudaIpc)
    assert sorted(connections) == nghrs and all(c.remote_rank == r for r, c in connections.items())
    part = 64
    memory = GpuBuffer(part * n, dtype=np.int32)
    whole = np.repeat(np.arange(1, n + 1), part)

    def fill(a, add=0):
        a[:] = 0
        a[rank * part:(rank + 1) * part] = rank + 1 + add

    service = ProxyService()
    channels = g.make_port_channels(service, memory, connections)
    service.start_proxy()
    for k in range(3):
        fill(memory, 10 * k)
        g.barrier()
        for c in channels.values():
            c.put_with_signal_and_flush(rank * part * 4, rank * part * 4, part * 4)
        for c in channels.values():
            c.wait()
        np.testing.assert_array_equal(memory, whole + 10 * k)
        g.barrier()
    assert all(len(c.device_handle().raw) == 144 for c in channels.values())
    service.stop_proxy()

    other = GpuBuffer((n, part), dtype=np.int32)
    fill(other.reshape(-1))
    g.barrier()
    memories = g.make_memory_channels(other, connections)
    for c in memories.values():
        c.put(rank * part * 4, rank * part * 4, part * 4)
        c.signal()
    for c in memories.values():
        c.wait()
        assert not c.poll()
    np.testing.assert_array_equal(other.reshape(-1), whole)
    assert all(len(c.device_handle().raw) == 56 for c in memories.values())

    scratch = GpuBuffer(n * part * 16, dtype=np.uint8)
    packets = g.make_memory_channels_with_scratch(other, scratch, connections)
    fill(other.reshape(-1), 5)
    g.barrier()
    for flag in (1, 2):
        for c in packets.values():
            c.put_packets(rank * part * 8, rank * part * 4, part * 4, flag)
        for r, c in packets.items():
            c.unpack_packets(r * part * 8, r * part * 4, part * 4, flag)
        np.testing.assert_array_equal(other.reshape(-1), whole + 5)
        g.barrier()

    semaphores = g.make_semaphores(connections, tag=9)
    for s in semaphores.values():
        s.signal()
    for s in semaphores.values():
        s.wait(5)
        assert not s.poll()
    with pytest.raises(TimeoutError):
        next(iter(semaphores.values())).wait(0.05)

    switch = g.make_switch_channel(GpuBuffer(128, dtype=np.float32), connections)
    assert len(switch.device_handle().raw) == 32

    a = np.arange(5, dtype=np.int64) + rank
    b = np.zeros(5, dtype=np.int64)
    g.send(a, (rank + 1) % n, 3)
    g.recv(b, (rank - 1) % n, 3)
    np.testing.assert_array_equal(b, np.arange(5) + (rank - 1) % n)
    g.barrier()
    g.close()


@pytest.mark.parametrize("n", [2, 4, 8])
def test_mesh(n):
    jobs.run(n, _mesh)


def _connections(rank, n, uid):
    b = goccl.TcpBootstrap.create(rank, n)
    b.initialize(uid)
    peer = 1 - rank
    ctx = goccl.Context.create()
    for transport in (Transport.CudaIpc, Transport.Ethernet):
        ep = ctx.create_endpoint(goccl.EndpointConfig(transport))
        b.send(ep.serialize(), peer)
        remote = goccl.Endpoint.deserialize(b.recv(peer))
        assert not remote.local and remote.transport == transport
        conn = ctx.connect(ep, remote)
        raw = goccl.RawGpuBuffer(4096)
        data = np.asarray(raw).view(np.uint64)
        mem = ctx.register_memory(raw, transports=transport)
        assert mem.size() == raw.nbytes and mem.local and mem.transports().has(transport)
        b.send(mem.serialize(), peer)
        theirs = ctx.deserialize_memory(b.recv(peer))
        data[:8] = np.arange(8) + 100 * (rank + 1)
        b.barrier()
        conn.write(theirs, 1024, mem, 0, 64)
        conn.atomic_add(theirs, 2048, 7)
        conn.update_and_sync(theirs, 2056, 0, 11)
        conn.flush()
        b.barrier()
        np.testing.assert_array_equal(data[128:136], np.arange(8) + 100 * (peer + 1))
        assert (data[256], data[257]) == (7, 11)
        with pytest.raises(goccl.InvalidArgument):
            conn.write(theirs, 4090, mem, 0, 64)
        b.barrier()
        stub = goccl.SemaphoreStub(conn)
        b.send(stub.serialize(), peer)
        sema = goccl.Semaphore(stub, ctx.deserialize_semaphore_stub(b.recv(peer)))
        sema.signal()
        sema.wait(5)
        b.barrier()
    ctx.close()  # before what was made from it
    b.close()


def test_connections():
    jobs.run(2, _connections)


def _deferred(rank, n, uid):
    b = goccl.TcpBootstrap.create(rank, n)
    b.initialize(uid)
    comm = goccl.Communicator(b)
    service = ProxyService()
    data = GpuBuffer(n, dtype=np.int64)
    data[rank] = rank + 1
    connections, remote, local = {}, {}, None
    for r in range(n):
        if r == rank:
            continue
        connections[r] = comm.connect_on_setup(r, 0, Transport.CudaIpc)
        local = comm.register_memory(data, transports=Transport.CudaIpc | Transport.Ethernet)
        comm.send_memory_on_setup(local, r, 0)
        remote[r] = comm.recv_memory_on_setup(r, 0)
    comm.setup()
    ids = {r: service.build_and_add_semaphore(comm, c.get()) for r, c in connections.items()}
    comm.setup()
    channels = {r: service.port_channel(i, service.add_memory(remote[r].get()), service.add_memory(local)) for r,
                i in ids.items()}
    service.start_proxy()
    for c in channels.values():
        c.put_with_signal(8 * rank, 8 * rank, 8)
        c.flush()
    for c in channels.values():
        c.wait()
    np.testing.assert_array_equal(data, np.arange(1, n + 1))
    assert comm.context().error() is None
    b.barrier()


def test_deferred_style():
    jobs.run(3, _deferred)


def test_in_one_process():
    """The basic-concepts tutorial's ping-pong: two endpoints of one process, no bootstrap."""
    import threading

    ctx = goccl.Context()
    d0, d1 = goccl.Device(goccl.DeviceType.CPU, 0), goccl.Device(goccl.DeviceType.CPU, 1)
    e0, e1 = (ctx.create_endpoint(goccl.EndpointConfig(Transport.CudaIpc, d)) for d in (d0, d1))
    c0, c1 = ctx.connect(e0, e1), ctx.connect(e1, e0)
    s0, s1 = goccl.SemaphoreStub(c0), goccl.SemaphoreStub(c1)
    m0 = goccl.BaseMemoryChannel(goccl.Semaphore(s0, s1))
    m1 = goccl.BaseMemoryChannel(goccl.Semaphore(s1, s0))

    def pong():
        for _ in range(1000):
            m1.wait()
            m1.signal()

    t = threading.Thread(target=pong)
    t.start()
    for _ in range(1000):
        m0.signal()
        m0.wait()
    t.join(10)
    assert not t.is_alive()
    ctx.abort("enough")
    with pytest.raises(goccl.Aborted, match="aborted"):
        m0.wait()
    assert ctx.error() is not None
    ctx.recover()


def test_fifo_and_errors():
    f = goccl.Fifo(100)
    assert f.size() == 128 and f.poll() is None and len(f.device_handle().raw) == 48
    with pytest.raises(goccl.InvalidUsage, match="empty"):
        f.pop()
    ctx = goccl.Context()
    with pytest.raises(goccl.InvalidArgument, match="is a context, not a"):
        from goccl._lib import lib

        lib.semaphore_stub_create(ctx.handle)
    ctx.close()
    ctx.close()
    with pytest.raises(goccl.InvalidArgument, match="destroyed"):
        ctx.create_endpoint(Transport.CudaIpc)
    with pytest.raises(goccl.InvalidArgument, match="two stubs"):
        goccl.Semaphore()
    with pytest.raises(goccl.InvalidArgument, match="connection"):
        goccl.SemaphoreStub(None)


def test_transport_flags():
    f = Transport.CudaIpc | Transport.IB3
    assert f.has(Transport.IB3) and f.count() == 2 and not f.all() and (~f).has(Transport.Ethernet) and "IB3" in repr(f)
    assert (f & Transport.IB3) == Transport.IB3 and goccl.TransportFlags().none()
