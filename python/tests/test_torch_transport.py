"""PyTorch's one-sided transports on goccl: two processes on the host device."""

import asyncio
import os

import pytest

torch = pytest.importorskip("torch")
transports = pytest.importorskip("torch.distributed._transport")

import torch.distributed as dist  # noqa: E402

import jobs  # noqa: E402

jobs.preload("torch", "torch.distributed")


def _meet(rank, uid):
    """The store of both, this rank's transport, and a function that both call to exchange bytes."""
    torch.set_num_threads(1)
    from goccl.torch.transport import Transport

    transports.register_transport("goccl", Transport, replace=True)  # an installed goccl is an entry point
    store = dist.TCPStore("127.0.0.1", int(uid.rpartition(":")[2]), 2, rank == 0)
    transport = transports.new_transport_rank("goccl", "cpu", store=store, peer_rank=1 - rank, rank=rank)
    calls = iter(range(100))

    def exchange(data=b""):
        k = next(calls)
        store.set(f"{k}/{rank}", data)
        return store.get(f"{k}/{1 - rank}")

    return transport, exchange


def _reads_and_writes(rank, n, uid):
    transport, exchange = _meet(rank, uid)
    assert transport.connected()
    own = torch.arange(1000, dtype=torch.int32) + 1000 * rank
    other = torch.zeros(3_000_000, dtype=torch.int64)
    memory, large = transport.register_memory(own), transport.register_memory(other)
    kind = type(memory.to_remote_buffer())
    remote = kind.deserialize(exchange(memory.to_remote_buffer().serialize()))
    far = kind.deserialize(exchange(large.to_remote_buffer().serialize()))
    if rank == 0:
        got = torch.zeros(1000, dtype=torch.int32)
        mine = transport.register_memory(got)  # after connect
        assert transport.read(mine.to_mutable_view(), remote) == 0
        assert torch.equal(got, own + 1000)
        work = transport.read(mine.to_mutable_view(400, 40), remote, async_op=True)
        work.wait()
        assert work.is_completed() and torch.equal(got[100:110], own[:10] + 1000) and got[110] == 1110
        other.copy_(torch.arange(3_000_000))
        works = [transport.write(large.to_view(0, 8 * k), far, async_op=True) for k in (1, 1000, 3_000_000)]
        asyncio.run(transports.wait_all(works))
        asyncio.run(transport.write_async(memory.to_view(4, 8), remote))
        asyncio.run(transport.read_async(mine.to_mutable_view(0, 12), remote, timeout=20))
        assert got[:3].tolist() == [1, 2, 1002]
        assert transport.write(memory.to_view(0, 0), remote) == 0
        with pytest.raises(TypeError, match="no view"):
            transport.read(mine.to_view(), remote)
        with pytest.raises(ValueError, match="do not fit"):
            transport.write(large.to_view(), remote)
        with pytest.raises(ValueError, match="does not belong"):
            transport.write(memory.to_view(), memory.to_remote_buffer())
        with pytest.raises(ValueError, match="outside of the memory"):
            memory.to_view(4000, 1)
        with pytest.raises(ValueError, match="contiguous"):
            transport.register_memory(own[::2])
        with pytest.raises(RuntimeError, match="is connected"):
            transport.connect(b"")
    exchange()
    if rank == 1:
        assert torch.equal(other, torch.arange(3_000_000)) and own[:3].tolist() == [1, 2, 1002]
        transport.unregister_memory(memory)
        transport.unregister_memory(memory)
        with pytest.raises(RuntimeError, match="unregistered"):
            memory.to_view()
    exchange()
    if rank == 0:
        with pytest.raises(RuntimeError, match="no memory 1 of 4000 bytes is registered"):
            transport.read(mine.to_mutable_view(), remote)
    exchange()
    transport.close()
    transport.close()
    assert not transport.connected()
    with pytest.raises(RuntimeError, match="closed"):
        transport.register_memory(own)
    exchange()


def test_reads_and_writes():
    jobs.run(2, _reads_and_writes)


def _dies(rank, n, uid):
    transport, exchange = _meet(rank, uid)
    own = transport.register_memory(torch.zeros(10))
    remote = type(own.to_remote_buffer()).deserialize(exchange(own.to_remote_buffer().serialize()))
    if rank == 0:
        transport.read(own.to_mutable_view(), remote)
    exchange()
    if rank == 1:
        os.kill(os.getpid(), 9)
    with pytest.raises(Exception):
        for _ in range(1000):
            transport.read(own.to_mutable_view(), remote, timeout=5)
    transport.close()


def test_the_peer_dies():
    jobs.run(2, _dies, victim=1)
