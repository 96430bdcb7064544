"""nccl4py's API."""

import os
import signal
import time

import numpy as np
import pytest

import goccl
import jobs
from goccl import nccl

TYPES = ["int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]


def _collectives(rank, n, uid):
    c = jobs.communicator(rank, n, uid)
    assert (c.rank, c.nranks, c.device.is_host) == (rank, n, True)
    for dtype in TYPES if n < 8 else TYPES[-2:]:
        for count in (1, 7, 1000, 70001) if n < 8 else (7, 1000):
            base = (np.arange(count) % 5).astype(dtype)
            a = (base + rank).astype(dtype)
            total = sum((base + r).astype(dtype) for r in range(n)).astype(dtype)
            out = np.zeros_like(a)
            c.allreduce(a, out)
            np.testing.assert_array_equal(out, total)
            c.allreduce(a, out, nccl.MAX)
            np.testing.assert_array_equal(out, base + n - 1)
            c.allreduce(a, out, nccl.MIN)
            np.testing.assert_array_equal(out, base)
    for count in (1, 33, 50000) if n < 8 else (33,):
        a = np.arange(count, dtype=np.float32) + 100 * rank
        every = np.concatenate([np.arange(count, dtype=np.float32) + 100 * r for r in range(n)])
        out = np.zeros(n * count, np.float32)
        c.allgather(a, out)
        np.testing.assert_array_equal(out, every)
        for root in range(n):
            out[:] = -1
            c.gather(a, out if rank == root else None, root)
            np.testing.assert_array_equal(out, every if rank == root else -1)
            part = np.zeros(count, np.float32)
            c.scatter(every if rank == root else None, part, root)
            np.testing.assert_array_equal(part, a)
            b = a.copy()
            c.broadcast(b if rank == root else None, b, root)
            np.testing.assert_array_equal(b, every[root * count:(root + 1) * count])
            b = a.copy()
            c.broadcast(b, root=root)
            np.testing.assert_array_equal(b, every[root * count:(root + 1) * count])
            r = np.full(count, -1, np.float32)
            c.reduce(a, r if rank == root else None, nccl.SUM, root)
            want = n * np.arange(count, dtype=np.float32) + 100 * n * (n - 1) // 2
            np.testing.assert_array_equal(r, want if rank == root else -1)
        c.reduce(a, r, nccl.SUM)
        np.testing.assert_array_equal(r, want)
        part = np.zeros(count, np.float32)
        c.reduce_scatter(every * (rank + 1), part)
        np.testing.assert_allclose(part, a * (n * (n + 1) // 2), rtol=1e-6)
        out[:] = 0
        c.alltoall(every * (rank + 1), out)
        np.testing.assert_array_equal(out, np.concatenate([a * (r + 1) for r in range(n)]))
    b = np.full(10, rank, np.float64)
    c.allreduce(b, b, nccl.AVG)
    np.testing.assert_allclose(b, (n - 1) / 2)
    op = c.create_pre_mul_sum(0.5, nccl.FLOAT32)
    a = np.ones(9, np.float32)
    c.allreduce(a, a, op)
    np.testing.assert_array_equal(a, n / 2)
    op.close()
    with pytest.raises(goccl.InvalidUsage, match="closed"):
        c.allreduce(a, a, op)
    c.barrier()
    assert c.register_window(a) is None
    w = c.register_window(a, 1)
    assert w is not None
    kept = c.register_window(b, 1)  # ends with the communicator
    w.close()
    w.close()
    # A type that is only moved.
    m = np.arange(5, dtype=np.int16) + rank
    out = np.zeros(5 * n, np.int16)
    c.allgather(m, out)
    np.testing.assert_array_equal(out, np.concatenate([np.arange(5) + r for r in range(n)]))
    with pytest.raises(nccl.NcclInvalid, match="moved, not reduced"):
        c.allreduce(m, m)
    c.destroy()
    kept.close()


@pytest.mark.parametrize("n", [1, 2, 3, 4, 8])
def test_collectives(n):
    jobs.run(n, _collectives)


def _one_sided(rank, n, uid):
    c = jobs.communicator(rank, n, uid)
    raw = nccl.mem_alloc(4096)
    mine = np.asarray(raw).view(np.float32)
    window = c.register_window(raw, 1)
    right, left = (rank + 1) % n, (rank - 1) % n
    for stream in (None, goccl.Stream(goccl.Device(goccl.DeviceType.CPU, rank))):
        for i in range(20):
            data = np.full(100, rank * 100 + i, np.float32)
            c.put_signal(data, right, window, 7, signal_index=2, context=1, stream=stream)
            c.wait_signal(nccl.WaitSignalDesc(left, signal_index=2, context=1), stream=stream)
            if stream:
                stream.synchronize()
            assert (mine[7:107] == left * 100 + i).all() and mine[6] == 0 and mine[107] == 0
            c.signal(left, stream=stream)  # the part may be overwritten
            c.wait_signal([nccl.WaitSignalDesc(right)], stream=stream)
    with pytest.raises(nccl.NcclInvalid, match="to offset"):
        c.put_signal(data, right, window, 1000)
    with pytest.raises(nccl.NcclInvalid, match="want 0"):
        c.signal(right, flags=1)
    with pytest.raises(nccl.NcclInvalid, match="want a window"):
        c.put_signal(data, right, None)
    c.barrier()
    c.destroy()


@pytest.mark.parametrize("n", [1, 3])
def test_one_sided(n):
    jobs.run(n, _one_sided)


def _point_to_point(rank, n, uid):
    c = jobs.communicator(rank, n, uid)
    right, left = (rank + 1) % n, (rank - 1) % n
    for count in (0, 1, 300000):
        a, b = np.full(count, rank, np.int32), np.full(count, -1, np.int32)
        with nccl.group():
            c.send(a, right)
            c.recv(b, left)
        np.testing.assert_array_equal(b, left)
    with pytest.raises(ZeroDivisionError):
        with nccl.group():
            c.send(a, right)
            raise ZeroDivisionError
    s = goccl.Stream(c.device)
    x = np.ones(1000, np.float32)
    for _ in range(5):
        c.allreduce(x, x, stream=s)
    s.synchronize()
    np.testing.assert_array_equal(x, float(n) ** 5)
    with pytest.raises(goccl.InvalidUsage):
        nccl.group_end()
    c.destroy()


def test_point_to_point():
    jobs.run(3, _point_to_point)


def _alltoallv(rank, n, uid):
    c = jobs.communicator(rank, n, uid)
    counts = np.array([[(3 * r + 5 * p) % 7 * (1 if (r + p) % 4 else 5000) for p in range(n)] for r in range(n)])
    counts[n - 1, :] = 0  # the last rank sends nothing
    rc = counts.T
    sd, rd = np.cumsum(counts, 1) - counts, np.cumsum(rc, 1) - rc
    send = [np.arange(counts[r].sum(), dtype=np.float32) + 1000 * r for r in range(n)]
    want = np.concatenate([send[p][sd[p, rank]:sd[p, rank] + counts[p, rank]] for p in range(n)])
    out = np.full(rc[rank].sum(), -1, np.float32)
    mine = send[rank] if counts[rank].sum() else None
    c.alltoallv(mine, out, counts.ravel(), sd.ravel(), rc.ravel(), rd.ravel())
    np.testing.assert_array_equal(out, want)
    out[:] = -1
    c.alltoallv(mine, out, list(counts[rank]), list(sd[rank]), list(rc[rank]), list(rd[rank]), relaybuf=None)
    np.testing.assert_array_equal(out, want)
    bad = rc.copy()
    bad[0, n - 1 if n > 1 else 0] += 1
    with pytest.raises(nccl.NcclInvalid, match="which receives"):
        c.alltoallv(mine, out, counts.ravel(), sd.ravel(), bad.ravel(), rd.ravel())
    if rc[rank].sum():
        with pytest.raises(nccl.NcclInvalid, match="beyond its"):
            c.alltoallv(mine, out[:0], counts.ravel(), sd.ravel(), rc.ravel(), rd.ravel())
    with pytest.raises(nccl.NcclInvalid, match="entries"):
        c.alltoallv(mine, out, [1] * (n + 1), sd.ravel(), rc.ravel(), rd.ravel())
    with pytest.raises(nccl.NcclInvalid, match="negative"):
        c.alltoallv(mine, out, -counts.ravel() - 1, sd.ravel(), rc.ravel(), rd.ravel())
    c.destroy()


@pytest.mark.parametrize("n", [2, 4])
def test_alltoallv(n):
    jobs.run(n, _alltoallv)


def _alltoallv_device(rank, n, uid):
    c = jobs.communicator(rank, n, uid)
    s = goccl.Stream(c.device)
    counts = np.array([[(3 * r + 5 * p) % 7 * (1 if (r + p) % 4 else 5000) for p in range(n)] for r in range(n)],
                      np.int64)
    sd, rd = np.cumsum(counts, 1) - counts, np.cumsum(counts.T, 1) - counts.T
    for dtype in (np.float32, np.int16, np.complex64):  # the latter two can only be moved
        send = [(np.arange(counts[r].sum()) % 1000 + 1000 * r).astype(dtype) for r in range(n)]
        want = np.concatenate([send[p][sd[p, rank]:sd[p, rank] + counts[p, rank]] for p in range(n)])
        for stream in (None, s):
            out = np.full(counts[:, rank].sum(), -1, dtype)
            # Views of the matrices are not contiguous in every case; negative counts are 0.
            sends = np.where(counts[rank] == 0, -7, counts[rank])
            mine = [np.ascontiguousarray(a) for a in (sends, sd[rank], counts[:, rank], rd[rank])]
            c.alltoallv_device(send[rank], out, *mine, stream=stream)
            if stream is not None:
                s.synchronize()
            np.testing.assert_array_equal(out, want)
    with pytest.raises(nccl.NcclInvalid, match="sdispls holds"):
        c.alltoallv_device(send[rank], out, mine[0], mine[1][:-1], mine[2], mine[3])
    with pytest.raises(nccl.NcclInvalid, match="want .* int64"):
        c.alltoallv_device(send[rank], out, mine[0].astype(np.int32), *mine[1:])
    with pytest.raises(nccl.NcclInvalid, match="sizes are"):
        c.alltoallv_device(send[rank].astype(np.complex128), None, *mine)
    with pytest.raises(nccl.NcclInvalid, match="what an element is"):
        c.alltoallv_device(None, None, *mine)
    c.destroy()


@pytest.mark.parametrize("n", [1, 3])
def test_alltoallv_device(n):
    jobs.run(n, _alltoallv_device)


def _families(rank, n, uid):
    c = jobs.communicator(rank, n, uid)
    half = c.split(rank % 2, key=-rank)
    assert half.nranks == (n + 1 - rank % 2) // 2
    a = np.array([rank], np.int64)
    half.allreduce(a, a)
    assert a[0] == sum(r for r in range(n) if r % 2 == rank % 2)
    none = c.split(None if rank == 0 else 1)
    assert (none is None) == (rank == 0)
    if rank:
        few = c.shrink([0])
        a = np.array([1], np.int64)
        few.allreduce(a, a)
        assert a[0] == n - 1 and few.rank == rank - 1
    assert c.get_async_error() is None
    c.finalize()
    with pytest.raises(goccl.GocclError):
        c.allreduce(a, a)


def test_split_and_shrink():
    jobs.run(4, _families)


def _grow(rank, n, uid, record):
    config = nccl.NCCLConfig(max_ctas=4)
    if rank < n - 1:
        c = jobs.communicator(rank, n - 1, uid)
        new = c.get_unique_id() if rank == 0 else None
        if new:
            record.with_suffix(".tmp").write_bytes(bytes(new))
            record.with_suffix(".tmp").rename(record)
        grown = c.grow(n, new, config)
        c.destroy()
    else:
        while not record.exists():  # the job's time is bounded
            time.sleep(0.01)
        grown = nccl.Communicator.init(n, rank, nccl.UniqueId.from_bytes(record.read_bytes()), config)
    assert (grown.rank, grown.nranks) == (rank, n)
    a = np.full(100, rank, np.float32)
    grown.allreduce(a, a)
    assert (a == n * (n - 1) / 2).all()
    grown.destroy()


def test_grow(tmp_path):
    jobs.run(3, _grow, tmp_path / "id")


def _death(rank, n, uid, victim, record):
    c = jobs.communicator(rank, n, uid)
    a = np.ones(4, np.float32)
    c.allreduce(a, a)
    if rank == victim:
        time.sleep(1)  # until the others wait for this rank
        record.write_text(str(time.monotonic()))
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(goccl.PeerDead, match=rf"\bpeer {victim}\b"):
        c.allreduce(a, a)
    took = time.monotonic() - float(record.read_text())  # one clock for all processes
    assert 0 <= took < 10, f"the news took {took:.1f} s"
    failure = c.get_async_error()
    assert isinstance(failure, goccl.PeerDead) and f"peer {victim}" in str(failure)
    with pytest.raises(goccl.PeerDead, match=rf"\bpeer {victim}\b"):
        c.allreduce(a, a)
    c.abort()


# Only the news of the death ends the survivors' wait: without it they would still run.
def test_death_of_a_rank(tmp_path):
    jobs.run(3, _death, 1, tmp_path / "died", timeout=40, victim=1)


def test_many_ranks_in_one_process():
    comms = nccl.Communicator.init_all(3)
    data = [np.full(10, i, np.float32) for i in range(3)]
    with nccl.group():
        for c, d in zip(comms, data):
            c.allreduce(d, d)
    for d in data:
        np.testing.assert_array_equal(d, 3)
    for c in comms:
        c.destroy()
        c.destroy()
    with pytest.raises(goccl.InvalidArgument, match="destroyed"):
        comms[0].allreduce(data[0], data[0])


def test_wrong_arguments():
    (c,) = nccl.Communicator.init_all(1)
    a = np.ones(10, np.float32)
    with pytest.raises(nccl.NcclInvalid, match="are needed"):
        c.allreduce(a, a[:5])
    with pytest.raises(nccl.NcclInvalid, match="float64"):
        c.allreduce(a, np.ones(10))
    for call in (c.reduce, c.gather):
        with pytest.raises(nccl.NcclInvalid, match="without a root"):
            call(a, None)
    with pytest.raises(nccl.NcclInvalid, match="C-contiguous"):
        c.allreduce(a[::2], a[::2])
    with pytest.raises(nccl.NcclInvalid, match="no buffer"):
        c.allreduce(3, a)
    with pytest.raises(ValueError, match="root"):
        c.broadcast(a, a, 5)
    with pytest.raises(goccl.InvalidArgument, match="128 bytes"):
        nccl.UniqueId(b"short")
    with pytest.raises(goccl.InvalidArgument):
        nccl.Communicator.init(1, 0, nccl.get_unique_id(empty=True))


def test_unique_id():
    import pickle

    uid = nccl.get_unique_id()
    assert len(bytes(uid)) == 128 and pickle.loads(pickle.dumps(uid)) == uid
    assert uid.as_bytes.hex()[:40] not in repr(uid)
    c = nccl.Communicator.init(1, 0, uid)
    assert c.nranks == 1 and "nranks=1" in repr(c)


def test_buffers():
    (c,) = nccl.Communicator.init_all(1)
    raw = nccl.mem_alloc(64)
    view = np.asarray(raw).view(np.float32)
    view[:] = 3
    out = np.zeros(16, np.float32)
    c.allreduce(view, out)
    assert (out == 3).all()
    back = bytearray(64)
    c.allreduce(memoryview(back).cast("f"), memoryview(back).cast("f"))

    class OnlyDlpack:
        def __init__(self, a):
            self._a = a

        def __dlpack__(self, **k):
            return self._a.__dlpack__(**k)

        def __dlpack_device__(self):
            return self._a.__dlpack_device__()

    c.allreduce(OnlyDlpack(view.copy()), OnlyDlpack(out))
    cap = raw.to_dlpack("torch.float16", (4, 8))
    assert "dltensor" in repr(cap)
    del cap
    del view
    nccl.mem_free(raw)


def test_cta_policy():
    from goccl.nccl import _config

    wanted = {None: 0, 0: 1, 1: 2, 2: 3, 3: 3}  # zero wins over efficiency
    for flags, value in wanted.items():
        assert _config.pointer(nccl.NCCLConfig(cta_policy=flags))._obj.cta_policy == value
