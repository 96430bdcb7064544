"""Calls: the way of a call from its buffers to the library."""

import operator
import struct
from typing import Any

from .. import errors
from .._abi import Request
from .._buffer import ANY, CUDA, Buffer, plain, resolve, stream_handle
from .._checked import packer
from .._lib import error, lib, synchronize
from .._types import DataType
from .._typing import StreamSpec
from ..device import Stream
from ._group import current
from ._membership import IN_PROGRESS, Membership

request = packer(Request)

# The numbers of the operations in the ABI.
(ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, ALL_TO_ALL_V, BROADCAST, REDUCE, GATHER, SCATTER, SEND, RECV,
 BARRIER, ALL_TO_ALL_V_DEVICE) = range(1, 14)
REDUCING = (ALL_REDUCE, REDUCE_SCATTER, REDUCE)
NAMES = ("", "allreduce", "allgather", "reduce_scatter", "alltoall", "alltoallv", "broadcast", "reduce", "gather",
         "scatter", "send", "recv", "barrier", "alltoallv_device")
# These have no recvbuf, or no sendbuf, on some ranks.
SENDING, RECEIVING = (SEND, REDUCE, GATHER), (RECV, BROADCAST, SCATTER)


class PreMulSum:
    """A created operator: it multiplies each input by a factor, then sums. It belongs to its communicator and is freed
    with it, or by close."""

    def __init__(self, comm: int, number: int, keep: object) -> None:
        self._comm, self.number, self._keep = comm, number, keep

    def __index__(self) -> int:
        if not self.number:
            raise errors.InvalidUsage("the operator is closed")
        return self.number

    def close(self) -> None:
        """Frees the operator."""
        if self.number:
            lib.op_destroy(self._comm, self.number)
            self.number = 0


def element(value: Any, t: DataType) -> bytes:
    """A number as an element of a type."""
    codes = {DataType.int8: "b", DataType.uint8: "B", DataType.int32: "i", DataType.uint32: "I", DataType.int64: "q",
             DataType.uint64: "Q", DataType.float16: "e", DataType.float32: "f", DataType.float64: "d"}
    if t in codes:
        return struct.pack("<" + codes[t], value).ljust(8, b"\0")
    if t == DataType.bfloat16:
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
        return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF).ljust(8, b"\0")
    raise errors.InvalidArgument(f"give the factor of {t.name} as an array of one element")


class Calls(Membership):
    """What the calls of a communicator share: checks, the stream, the group, the wait."""

    def _wrong(self, what: int, text: str) -> errors.InvalidArgument:
        return errors.InvalidArgument(f"goccl: {NAMES[what]} on rank {self._rank}: {text}")

    def _at(self, root: int, buffer: Any) -> Any:
        if self._rank == root and buffer is None:
            raise errors.InvalidArgument(f"rank {root} is the root and passes both buffers")
        return buffer if self._rank == root else None

    def _same(self, what: int, s: Buffer | None, r: Buffer | None, scount: int, rcount: int) -> None:
        for name, b, count in (("sendbuf", s, scount), ("recvbuf", r, rcount)):
            if b is not None and b.count < count:
                raise self._wrong(what, f"{name} has {b.count} elements, {count} are needed")
        if s is not None and r is not None and (s.dtype != r.dtype or s.itemsize != r.itemsize):
            raise self._wrong(what, f"sendbuf holds {name_of(s)}, recvbuf {name_of(r)}")

    def _check(self, *buffers: Buffer | None) -> None:
        for b in buffers:
            if b is None or not b.nbytes:
                continue
            if (b.kind == CUDA) == self._host:
                raise errors.InvalidArgument(f"the buffer is in {'GPU' if b.kind == CUDA else 'host'} memory, the "
                                             f"communicator works on {self._device}")
            if b.kind == CUDA and b.device not in (ANY, self._device.id):
                raise errors.InvalidArgument(f"the buffer is on GPU {b.device}, the communicator works on "
                                             f"{self._device}")

    def _writable(self, what: int, r: Buffer | None) -> None:
        if r is not None and r.readonly and r.nbytes:
            raise self._wrong(what, "recvbuf is read-only")

    def _run(self, what: int, x: Any, y: Any, xs: int, ys: int, op: int | PreMulSum, root: int,
             stream: StreamSpec) -> None:
        """A call whose sendbuf x has xs parts and whose recvbuf y has ys parts; None is no buffer."""
        try:
            number = operator.index(op)
        except TypeError:
            raise self._wrong(what, f"{op!r} is no reduction: use a ReduceOp, or create_pre_mul_sum") from None
        one, parts = (y, ys) if x is None and what in RECEIVING else (x, xs)
        kind = plain(one, y)
        if kind is not None and (one.is_cpu if self._host else one.is_cuda and one.get_device() == self._device.id):
            count, rest = divmod(one.numel(), parts)
            if not rest and (what in SENDING if y is None else y.numel() == ys * count):
                self._post(what, kind, number, root, 0 if x is None else x.data_ptr(), 0 if y is None else y.data_ptr(),
                           count, stream, (x, y))
                return
        # The long way, which refuses what cannot be done.
        s = None if x is None and what in RECEIVING else resolve(x)
        r = None if y is None and what in SENDING else s if y is x else resolve(y)
        b: Any = r if s is None or what in (BROADCAST, SCATTER, REDUCE_SCATTER) else s
        count, rest = divmod(b.count, min(xs, ys))
        if rest:
            raise self._wrong(what, f"sendbuf has {b.count} elements, no multiple of {xs} ranks")
        self._same(what, s, r, xs * count, ys * count)
        self._check(s, r)
        # the root's own buffer is only read
        if not (what == BROADCAST and self._rank == root and s is not None and r is not None and s.ptr == r.ptr):
            self._writable(what, r)
        if b.dtype is None:
            if what in REDUCING:
                raise self._wrong(what, "elements of this type can be moved, not reduced")
            count *= b.itemsize
        self._post(what, type_of(b), number, root, s.ptr if s else 0, r.ptr if r else 0, count, stream, (s, r))

    def _post(self, what: int, kind: int, op: int, root: int, send: int, recv: int, count: int, stream: StreamSpec,
              keep: object, *lists: int) -> None:
        """goccl_request's arguments, checked; lists are its fields from send_counts on. keep lives until it has run."""
        raw = stream if type(stream) is int else self._queue(stream)
        self._enqueue(request(self._handle, what, kind, op, root, send, recv, count, raw, 0, 0, *lists,
                              *(0,) * (7 - len(lists))), keep, stream)

    def _queue(self, stream: StreamSpec) -> int:
        """The raw stream of a call. Without a stream on the host device it is the communicator's own, and the call
        waits for it."""
        if stream is not None or not self._host:
            return stream_handle(stream)
        with self._stream_lock:
            if not self._stream:
                self._own_stream = Stream(self._device)
                self._stream = self._own_stream.handle
        return self._stream

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
        self._enqueued(keep, stream)

    def _enqueued(self, keep: object, stream: StreamSpec) -> None:
        """After a call outside of a group: waits for the own stream, or keeps the buffers as long as the stream."""
        if self._host:
            if stream is None:
                self._wait()
            elif isinstance(stream, Stream):
                stream._keep.append(keep)

    def _wait(self) -> None:
        """Waits for the own stream. Ctrl-C aborts the communicator, because the caller may free the call's buffers
        afterwards."""
        try:
            synchronize(self._device.handle, self._stream, self._raise_async)
        except KeyboardInterrupt:
            self.abort()
            raise
        self._raise_async()

    def _raise_async(self) -> None:
        r = lib.raw("comm_error")(self._handle)
        if r and r != IN_PROGRESS:
            raise error(r)


def type_of(b: Buffer) -> int:
    return int(DataType.uint8 if b.dtype is None else b.dtype)


def name_of(b: Buffer) -> str:
    return f"elements of {b.itemsize} bytes" if b.dtype is None else b.dtype.name
