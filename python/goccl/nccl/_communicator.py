"""Communicator."""

from __future__ import annotations

import atexit
import ctypes
import itertools
import sys
import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import errors
from .._buffer import ANY, CUDA, Buffer, resolve, stream_handle
from .._lib import create, error, interruptible, lib, nanoseconds, synchronize
from .._types import DataType, ReduceOp
from ..bootstrap import Bootstrap, UniqueId
from ..device import Device, Stream, current_device
from ._group import current
from ._pre_mul_sum import PreMulSum, element
from ._request import (ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, ALL_TO_ALL_V, ALL_TO_ALL_V_DEVICE, BARRIER, BROADCAST, GATHER, NAMES, RECV, REDUCE,
                       REDUCE_SCATTER, REDUCING, SCATTER, SEND, request)
from ._window import Window

if TYPE_CHECKING:
    from typing import Any

    from .._typing import BufferSpec, StreamSpec
    from ..nccl import NCCLConfig

_IN_PROGRESS = errors.InProgress.code  # a split goes on in the background
_open: "weakref.WeakSet[Communicator]" = weakref.WeakSet()


@atexit.register
def _leave() -> None:
    # A program that ends by an exception may have left work that its peers will never join: nobody waits for that.
    failed = getattr(sys, "last_value", None) is not None
    for comm in list(_open):
        if comm._finalizer.alive:
            comm.abort() if failed else comm.destroy()


class _Config(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("non_blocking", ctypes.c_int32), ("timeout_ns", ctypes.c_int64), ("op_timeout_ns", ctypes.c_int64),
                ("name", ctypes.c_char_p), ("reserved", ctypes.c_uint64 * 4)]


class _Info(ctypes.Structure):
    _fields_ = [("rank", ctypes.c_int32), ("size", ctypes.c_int32), ("device_kind", ctypes.c_int32), ("device_index", ctypes.c_int32),
                ("device", ctypes.c_uint64), ("non_blocking", ctypes.c_int32), ("reserved", ctypes.c_int32)]


class Communicator:
    """One rank's membership in a communicator, on one device. Make one with init, from_bootstrap, from_env or init_all.

    Calls of one communicator come in the same order on every rank. A communicator that is forgotten is destroyed; at a clean exit too.
    """

    def __init__(self, handle: int, keep: object = None) -> None:
        self._handle = handle
        self._keep = keep
        self._submit = lib.raw("submit")
        self._stream = 0  # host device: the own stream, on which waits can be interrupted
        info = _Info()
        lib.comm_info_get(handle, ctypes.byref(info))
        self._rank: int = info.rank
        self._size: int = info.size
        self._device = Device._of_handle(info.device)
        self._host = self._device.is_host
        self._stream_lock = threading.Lock()
        self._finalizer = weakref.finalize(self, lib.raw("comm_destroy"), handle)
        self._finalizer.atexit = False  # _leave does it
        _open.add(self)

    # Making.

    @classmethod
    def init(cls, nranks: int, rank: int, unique_id: "UniqueId | Sequence[UniqueId]", config: NCCLConfig | None = None, *,
             device: Device | None = None) -> "Communicator":
        """Joins rank of nranks by unique_id, which one of the processes made. It is collective and returns when every rank has come.

        device: the default is the GPU that is current on this thread, or, where there is none, host device rank.
        """
        if isinstance(unique_id, Sequence) and not isinstance(unique_id, (bytes, bytearray)):
            unique_id = unique_id[0]
        raw = bytes(unique_id)
        device = device or current_device(rank)
        handle = create(lib.comm_start, raw, rank, nranks, device.handle, _config(config))
        try:
            interruptible(lib.comm_wait, handle, on_interrupt=lambda: lib.raw("comm_abort")(handle))
        except errors.GocclError:
            lib.raw("comm_abort")(handle)
            raise
        return cls(handle)

    @classmethod
    def from_bootstrap(cls, bootstrap: Bootstrap, config: NCCLConfig | None = None, *, device: Device | None = None) -> "Communicator":
        """A communicator of the bootstrap's ranks; it keeps the bootstrap open. Nobody else may use the bootstrap meanwhile."""
        device = device or current_device(bootstrap.get_local_rank())
        handle = interruptible(create, lib.comm_create, bootstrap.handle, device.handle, _config(config))
        return cls(handle, bootstrap)

    @classmethod
    def from_env(cls, config: NCCLConfig | None = None, *, device: Device | None = None) -> "Communicator":
        """The communicator of the job that torchrun, mpirun, srun or `goccl run` started."""
        return cls.from_bootstrap(Bootstrap.from_env(), config, device=device)

    @classmethod
    def init_all(cls, devices: "int | Sequence[Device | int]", config: NCCLConfig | None = None) -> "list[Communicator]":
        """All ranks in this process, rank i on devices[i]: Devices, or GPU numbers, or how many host devices."""
        from .._types import DeviceType

        if isinstance(devices, int):
            from ..device import device_count

            kind = DeviceType.GPU if device_count() >= devices else DeviceType.CPU
            devices = [Device(kind, i) for i in range(devices)]
        on = [d if isinstance(d, Device) else Device(DeviceType.GPU, d) for d in devices]
        n = len(on)
        out = (ctypes.c_uint64 * n)()
        interruptible(lib.comm_init_all, n, (ctypes.c_uint64 * n)(*[d.handle for d in on]), _config(config), out)
        return [cls(h) for h in out]

    def split(self, color: int | None, key: int = 0, config: NCCLConfig | None = None) -> "Communicator | None":
        """New communicators, one for each color, ranks ordered by key. A rank with color None takes part and gets None."""
        child = create(lib.comm_split_start, self._handle, -1 if color is None else color, key, _config(config))
        return self._child(child) if child else None

    def shrink(self, exclude_ranks: Sequence[int] = (), config: NCCLConfig | None = None, *, abort: bool = False) -> "Communicator":
        """A communicator without the ranks in exclude_ranks, which do not call it and may be dead. abort ends running work first."""
        exclude = list(exclude_ranks)
        child = create(lib.comm_shrink_start, self._handle, (ctypes.c_int32 * max(len(exclude), 1))(*exclude), len(exclude), int(abort), _config(config))
        return self._child(child)

    def _child(self, handle: int) -> "Communicator":
        try:
            interruptible(lib.comm_wait, handle, on_interrupt=lambda: lib.raw("comm_abort")(handle))
        except errors.GocclError:
            lib.raw("comm_abort")(handle)
            raise
        return Communicator(handle, self)

    # Ending.

    def finalize(self) -> None:
        """Waits for this rank's enqueued work; no call may follow but destroy."""
        interruptible(lib.comm_finalize, self._handle)

    def destroy(self) -> None:
        """Waits for this rank's enqueued work and frees the communicator. Twice is harmless."""
        self._finalizer()

    close = destroy

    def abort(self) -> None:
        """Ends running and later work and frees the communicator, without waiting for peers. Any thread may call it at any time."""
        if self._finalizer.detach():
            lib.comm_abort(self._handle)

    def revoke(self) -> None:
        """Ends running work; split, shrink and destroy are still possible."""
        lib.comm_revoke(self._handle)

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.destroy() if kind is None else self.abort()

    # What it is.

    @property
    def rank(self) -> int:
        """This rank."""
        return self._rank

    @property
    def nranks(self) -> int:
        """The number of ranks."""
        return self._size

    @property
    def device(self) -> Device:
        """The device."""
        return self._device

    @property
    def cuda_dev(self) -> int:
        """The device's number."""
        return self._device.id

    @property
    def ptr(self) -> int:
        """The goccl_comm."""
        return self._handle

    @property
    def is_valid(self) -> bool:
        """Whether the communicator has not been ended here."""
        return self._finalizer.alive

    def get_async_error(self) -> errors.GocclError | None:
        """What has gone wrong since it was made, or None."""
        r = lib.raw("comm_error")(self._handle)
        return error(r) if r and r != _IN_PROGRESS else None

    def get_last_error(self) -> str:
        """The text of the thread's latest failure."""
        text: bytes = lib.dll().goccl_last_error()
        return text.decode(errors="replace")

    def __repr__(self) -> str:
        return f"Communicator(rank={self._rank}, nranks={self._size}, device={self._device})"

    # Collectives.

    def allreduce(self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: ReduceOp | PreMulSum = ReduceOp.SUM, *, stream: StreamSpec = None) -> None:
        """Every rank's recvbuf gets the reduction of all sendbufs, the same bits everywhere. Both may be one buffer."""
        s, r = resolve(sendbuf), resolve(recvbuf)
        self._same(ALL_REDUCE, s, r, s.count, s.count)
        self._run(ALL_REDUCE, s, r, s.count, op, 0, stream)

    all_reduce = allreduce

    def reduce(self, sendbuf: BufferSpec, recvbuf: BufferSpec | None, op: ReduceOp | PreMulSum = ReduceOp.SUM, root: int | None = None, *,
               stream: StreamSpec = None) -> None:
        """root's recvbuf gets the reduction of all sendbufs; other ranks may pass None for recvbuf. root None: every rank gets it."""
        if root is None:
            if recvbuf is None:
                raise self._wrong(REDUCE, "without a root every rank passes recvbuf")
            return self.allreduce(sendbuf, recvbuf, op, stream=stream)
        s = resolve(sendbuf)
        r = self._at(root, recvbuf)
        self._same(REDUCE, s, r, s.count, s.count)
        self._run(REDUCE, s, r, s.count, op, root, stream)

    def broadcast(self, sendbuf: BufferSpec | None, recvbuf: BufferSpec | None = None, root: int = 0, *, stream: StreamSpec = None) -> None:
        """Every rank's recvbuf gets root's sendbuf; other ranks may pass None for sendbuf. recvbuf None: in place in sendbuf."""
        r = resolve(sendbuf if recvbuf is None else recvbuf)
        s = resolve(sendbuf) if sendbuf is not None and (self._rank == root or recvbuf is None) else None
        if self._rank == root and s is None:
            raise self._wrong(BROADCAST, "root passes sendbuf")
        self._same(BROADCAST, s, r, r.count, r.count)
        self._run(BROADCAST, s, r, r.count, 0, root, stream)

    def allgather(self, sendbuf: BufferSpec, recvbuf: BufferSpec, *, stream: StreamSpec = None) -> None:
        """recvbuf, nranks times as long as sendbuf, gets everybody's sendbuf in rank order."""
        s, r = resolve(sendbuf), resolve(recvbuf)
        self._same(ALL_GATHER, s, r, s.count, s.count * self._size)
        self._run(ALL_GATHER, s, r, s.count, 0, 0, stream)

    all_gather = allgather

    def gather(self, sendbuf: BufferSpec, recvbuf: BufferSpec | None, root: int | None = None, *, stream: StreamSpec = None) -> None:
        """root's recvbuf, nranks times as long as sendbuf, gets everybody's sendbuf. root None: every rank's does."""
        if root is None:
            if recvbuf is None:
                raise self._wrong(GATHER, "without a root every rank passes recvbuf")
            return self.allgather(sendbuf, recvbuf, stream=stream)
        s, r = resolve(sendbuf), self._at(root, recvbuf)
        self._same(GATHER, s, r, s.count, s.count * self._size)
        self._run(GATHER, s, r, s.count, 0, root, stream)

    def scatter(self, sendbuf: BufferSpec | None, recvbuf: BufferSpec, root: int = 0, *, stream: StreamSpec = None) -> None:
        """Rank i's recvbuf gets slice i of root's sendbuf, which is nranks times as long; other ranks may pass None for sendbuf."""
        r, s = resolve(recvbuf), self._at(root, sendbuf)
        self._same(SCATTER, s, r, r.count * self._size, r.count)
        self._run(SCATTER, s, r, r.count, 0, root, stream)

    def reduce_scatter(self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: ReduceOp | PreMulSum = ReduceOp.SUM, *, stream: StreamSpec = None) -> None:
        """Rank i's recvbuf gets the reduction of slice i of all sendbufs, which are nranks times as long."""
        s, r = resolve(sendbuf), resolve(recvbuf)
        self._same(REDUCE_SCATTER, s, r, r.count * self._size, r.count)
        self._run(REDUCE_SCATTER, s, r, r.count, op, 0, stream)

    def alltoall(self, sendbuf: BufferSpec, recvbuf: BufferSpec, *, stream: StreamSpec = None) -> None:
        """Slice p of sendbuf goes to slice rank of p's recvbuf; both are nranks slices long."""
        s, r = resolve(sendbuf), resolve(recvbuf)
        if s.count % self._size:
            raise self._wrong(ALL_TO_ALL, f"sendbuf has {s.count} elements, no multiple of {self._size} ranks")
        self._same(ALL_TO_ALL, s, r, s.count, s.count)
        self._run(ALL_TO_ALL, s, r, s.count // self._size, 0, 0, stream)

    all_to_all = alltoall

    def alltoallv(self, sendbuf: BufferSpec | None, recvbuf: BufferSpec | None, sendcounts: Sequence[int], sdispls: Sequence[int], recvcounts: Sequence[int],
                  rdispls: Sequence[int],
                  relaybuf: BufferSpec | None = None, *, stream: StreamSpec = None) -> None:
        """All-to-all with a length and a place of its own for every pair of ranks.

        The four arrays have nranks² entries, row-major, and row i is rank i's view, all in elements: it sends sendcounts[i·n+j] from sdispls[i·n+j] of its
        sendbuf to j, and receives recvcounts[i·n+j] from j at rdispls[i·n+j] of its recvbuf. Rank i's own row alone, nranks entries, will do. The arrays
        are copied. Buffers of ranks that send or receive nothing may be None. relaybuf is accepted and not needed: staging is goccl's own.
        """
        n = self._size
        rows, full = [], []
        for name, a in (("sendcounts", sendcounts), ("sdispls", sdispls), ("recvcounts", recvcounts), ("rdispls", rdispls)):
            a = a.tolist() if hasattr(a, "tolist") else list(a)
            if len(a) not in (n, n * n):
                raise self._wrong(ALL_TO_ALL_V, f"{name} has {len(a)} entries, neither nranks² = {n * n} nor, for this rank's row, {n}")
            if a and min(a) < 0:
                raise self._wrong(ALL_TO_ALL_V, f"{name} has the negative entry {min(a)}")
            full.append(a if len(a) == n * n else None)
            rows.append(a[self._rank * n:(self._rank + 1) * n] if len(a) == n * n else a)
        if n > 1 and full[0] is not None and full[2] is not None:
            for i, j in itertools.product(range(n), repeat=2):
                if full[0][i * n + j] != full[2][j * n + i]:
                    raise self._wrong(ALL_TO_ALL_V, f"rank {i} sends {full[0][i * n + j]} elements to {j}, which receives {full[2][j * n + i]} from {i}")
        s = resolve(sendbuf) if sendbuf is not None else None
        r = resolve(recvbuf) if recvbuf is not None else None
        for what, b, counts, displs in (("sendbuf", s, rows[0], rows[1]), ("recvbuf", r, rows[2], rows[3])):
            for p in range(n):
                if counts[p] and (b is None or displs[p] + counts[p] > b.count):
                    raise self._wrong(ALL_TO_ALL_V, f"rank {p}'s part of {what}, elements {displs[p]} to {displs[p] + counts[p]}, is beyond its "
                                                    f"{0 if b is None else b.count} elements")
        one = s or r
        if one is None:
            one = Buffer(0, 0, DataType.uint8, 1, CUDA if not self._host else 1, 0, None)
        if s is not None and r is not None and (s.dtype != r.dtype or s.itemsize != r.itemsize):
            raise self._wrong(ALL_TO_ALL_V, "sendbuf and recvbuf have different element types")
        if any(rows[2]):
            self._writable(ALL_TO_ALL_V, r)
        scale = 1 if one.dtype is not None else one.itemsize
        arrays = [(ctypes.c_int64 * n)(*[x * scale for x in row]) for row in rows]
        self._check(s, r)
        self._enqueue(request(self._handle, ALL_TO_ALL_V, _type(one), 0, 0, s.ptr if s else 0, r.ptr if r else 0, 0, self._queue(stream), 0, 0,
                               *[ctypes.addressof(a) for a in arrays], 0, 0, 0), (s, r, arrays), stream)

    def alltoallv_device(self, sendbuf: BufferSpec | None, recvbuf: BufferSpec | None, sendcounts: BufferSpec, sdispls: BufferSpec, recvcounts: BufferSpec,
                         rdispls: BufferSpec, *, stream: StreamSpec = None) -> None:
        """alltoallv with counts that are read on the device when the call runs on its stream: an earlier kernel of the stream may compute them, and a
        captured CUDA graph reads them anew at each replay. goccl's own: nccl4py has no such call.

        The four arrays are this rank's view, int64, nranks entries each, in elements, in memory of the device; they must stay as they are until the call
        has run. Negative counts are taken for 0. When the call runs, what lies outside of the buffers is an error, and is not touched. Every rank makes this
        call, not alltoallv.
        """
        what, n = ALL_TO_ALL_V_DEVICE, self._size
        arrays = []
        for name, a in (("sendcounts", sendcounts), ("sdispls", sdispls), ("recvcounts", recvcounts), ("rdispls", rdispls)):
            b = resolve(a)
            if b.dtype != DataType.int64 or b.count != n:
                raise self._wrong(what, f"{name} holds {b.count} {_name(b)}: want {n} int64")
            self._check(b)
            arrays.append(b)
        s = resolve(sendbuf) if sendbuf is not None else None
        r = resolve(recvbuf) if recvbuf is not None else None
        one = s or r
        if one is None:
            raise self._wrong(what, "one of sendbuf and recvbuf must say what an element is")
        self._same(what, s, r, 0, 0)
        self._check(s, r)
        self._writable(what, r)
        # The counts cannot be scaled here, so a type that is only moved goes as one of its size.
        number = one.dtype if one.dtype is not None else {1: DataType.uint8, 2: DataType.float16, 4: DataType.uint32, 8: DataType.uint64}.get(one.itemsize)
        if number is None:
            raise self._wrong(what, f"{_name(one)}: sizes are 1, 2, 4 and 8")
        self._enqueue(request(self._handle, what, int(number), 0, 0, s.ptr if s and s.count else 0, r.ptr if r and r.count else 0, 0, self._queue(stream), 0, 0,
                               *[a.ptr for a in arrays], s.count if s else 0, r.count if r else 0, 0), (s, r, arrays), stream)

    def send(self, sendbuf: BufferSpec, peer: int, *, stream: StreamSpec = None) -> None:
        """Sends to peer, which must recv as much. To exchange both ways at once, put both calls into one group."""
        s = resolve(sendbuf)
        self._run(SEND, s, None, s.count, 0, peer, stream)

    def recv(self, recvbuf: BufferSpec, peer: int, *, stream: StreamSpec = None) -> None:
        """Receives from peer."""
        r = resolve(recvbuf)
        self._run(RECV, None, r, r.count, 0, peer, stream)

    def barrier(self, *, stream: StreamSpec = None) -> None:
        """Later work on stream waits until every rank's stream got here."""
        self._enqueue(request(self._handle, BARRIER, 0, 0, 0, 0, 0, 0, self._queue(stream), 0, 0, 0, 0, 0, 0, 0, 0, 0), None, stream)

    def create_pre_mul_sum(self, scalar: Any, datatype: DataType | None = None) -> PreMulSum:
        """An operator that multiplies each input by scalar, then sums: a number with its datatype, or a one-element array, which is read now on the host and
        at each call on a GPU."""
        number = ctypes.c_uint32()
        if datatype is not None:
            raw, on_host, keep = element(scalar, DataType(datatype)), 1, None
            lib.op_create(self._handle, int(datatype), raw, on_host, ctypes.byref(number))
        else:
            b = resolve(scalar)
            if b.dtype is None or b.count != 1:
                raise errors.InvalidArgument("the factor is one element of a known type")
            keep = b
            lib.op_create(self._handle, int(b.dtype), b.ptr, int(b.kind != CUDA), ctypes.byref(number))
        return PreMulSum(self, number.value, keep)

    # Resources that goccl manages by itself.

    def register_buffer(self, buffer: BufferSpec) -> None:
        """Nothing: collectives work on any memory."""
        return None

    def register_window(self, buffer: BufferSpec, flags: int = 0) -> Window | None:
        """With flags 1 (NCCL_WIN_COLL_SYMMETRIC) a window, by which copy engines reach the peers unless GOCCL_COPY_ENGINE=0 is set; otherwise None:
        collectives work on any memory. All ranks register the same windows in the same order."""
        if not flags & 1:
            return None
        return Window(self._handle, buffer)

    # The way of a call.

    def _wrong(self, what: int, text: str) -> errors.InvalidArgument:
        return errors.InvalidArgument(f"goccl: {NAMES[what]} on rank {self._rank}: {text}")

    def _at(self, root: int, buffer: Any) -> Buffer | None:
        if self._rank == root:
            if buffer is None:
                raise errors.InvalidArgument(f"rank {root} is the root and passes both buffers")
            return resolve(buffer)
        return None

    def _same(self, what: int, s: Buffer | None, r: Buffer | None, scount: int, rcount: int) -> None:
        if s is not None and s.count < scount:
            raise self._wrong(what, f"sendbuf has {s.count} elements, {scount} are needed")
        if r is not None and r.count < rcount:
            raise self._wrong(what, f"recvbuf has {r.count} elements, {rcount} are needed")
        if s is not None and r is not None and (s.dtype != r.dtype or s.itemsize != r.itemsize):
            raise self._wrong(what, f"sendbuf holds {_name(s)}, recvbuf {_name(r)}")

    def _check(self, *buffers: Buffer | None) -> None:
        for b in buffers:
            if b is None or not b.nbytes:
                continue
            if (b.kind == CUDA) == self._host:
                raise errors.InvalidArgument(f"the buffer is in {'GPU' if b.kind == CUDA else 'host'} memory, the communicator works on {self._device}")
            if b.kind == CUDA and b.device not in (ANY, self._device.id):
                raise errors.InvalidArgument(f"the buffer is on GPU {b.device}, the communicator works on {self._device}")

    def _writable(self, what: int, r: Buffer | None) -> None:
        if r is not None and r.readonly and r.nbytes:
            raise self._wrong(what, "recvbuf is read-only")

    def _run(self, what: int, s: Buffer | None, r: Buffer | None, count: int, op: int | PreMulSum, root: int, stream: StreamSpec) -> None:
        self._check(s, r)
        if not (what == BROADCAST and self._rank == root and s is not None and r is not None and s.ptr == r.ptr):  # the root's own buffer is only read
            self._writable(what, r)
        b = s or r
        if b is None:
            raise self._wrong(what, "no buffer")
        if b.dtype is None:
            if what in REDUCING:
                raise self._wrong(what, "elements of this type can be moved, not reduced")
            count *= b.itemsize
        number = op.number if isinstance(op, PreMulSum) else int(op)
        self._enqueue(request(self._handle, what, _type(b), number, root, s.ptr if s else 0, r.ptr if r else 0, count, self._queue(stream), 0, 0,
                               0, 0, 0, 0, 0, 0, 0), (s, r), stream)

    def _queue(self, stream: StreamSpec) -> int:
        """The raw stream of a call. Without a stream on the host device it is the communicator's own, and the call waits for it."""
        if stream is None and self._host:
            if not self._stream:
                self._own()
            return self._stream
        return stream_handle(stream)

    def _own(self) -> None:
        with self._stream_lock:
            if not self._stream:
                self._own_stream = Stream(self._device)
                self._stream = self._own_stream.handle

    def _enqueue(self, request: bytes, keep: object, stream: StreamSpec) -> None:
        if current.depth:
            current.requests.append(request)
            current.keep.append(keep)
            if stream is None and self._host:
                current.waits[self._handle] = self
            elif self._host and isinstance(stream, Stream):
                stream._keep.append(keep)
            return
        r = self._submit(request, 1)
        if r:
            raise error(r)
        if self._host:
            if stream is None:
                self._wait()
            elif isinstance(stream, Stream):
                stream._keep.append(keep)

    def _wait(self) -> None:
        """Waits for the own stream. Ctrl-C aborts the communicator: the call's buffers must not be used by work that nobody waits for."""
        try:
            synchronize(self._device.handle, self._stream, self._raise_async)
        except KeyboardInterrupt:
            self.abort()
            raise
        self._raise_async()

    def _raise_async(self) -> None:
        r = lib.raw("comm_error")(self._handle)
        if r and r != _IN_PROGRESS:
            raise error(r)


def _type(b: Buffer) -> int:
    return int(DataType.uint8 if b.dtype is None else b.dtype)


def _name(b: Buffer) -> str:
    return f"elements of {b.itemsize} bytes" if b.dtype is None else b.dtype.name


def _config(config: NCCLConfig | None) -> Any:
    if config is None:
        return None
    c = _Config(ctypes.sizeof(_Config), 0, nanoseconds(getattr(config, "timeout", None)), nanoseconds(getattr(config, "op_timeout", None)),
                (getattr(config, "comm_name", None) or "").encode() or None)
    return ctypes.byref(c)
