"""Calls: the way of a call from its buffers to the library."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from .. import errors
from .._buffer import ANY, CUDA, Buffer, resolve, stream_handle
from .._lib import error, lib, synchronize
from .._types import DataType
from ..device import Stream
from ._group import current
from ._membership import IN_PROGRESS, Membership
from ._request import BROADCAST, NAMES, REDUCING, request

if TYPE_CHECKING:
    from typing import Any

    from .._typing import StreamSpec
    from ._pre_mul_sum import PreMulSum


class Calls(Membership):
    """What the calls of a communicator share: checks, the stream, the group, the wait."""

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

    def _run(self, what: int, s: Buffer | None, r: Buffer | None, count: int, op: int | PreMulSum, root: int,
             stream: StreamSpec) -> None:
        self._check(s, r)
        # the root's own buffer is only read
        if not (what == BROADCAST and self._rank == root and s is not None and r is not None and s.ptr == r.ptr):
            self._writable(what, r)
        b = s or r
        if b is None:
            raise self._wrong(what, "no buffer")
        if b.dtype is None:
            if what in REDUCING:
                raise self._wrong(what, "elements of this type can be moved, not reduced")
            count *= b.itemsize
        try:
            number = operator.index(op)
        except TypeError:
            raise self._wrong(what, f"{op!r} is no reduction: use a ReduceOp, or create_pre_mul_sum") from None
        self._enqueue(request(self._handle, what, type_of(b), number, root, s.ptr if s else 0, r.ptr if r else 0, count,
                              self._queue(stream), 0, 0,
                               0, 0, 0, 0, 0, 0, 0), (s, r), stream)

    def _queue(self, stream: StreamSpec) -> int:
        """The raw stream of a call. Without a stream on the host device it is the communicator's own, and the call
        waits for it."""
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
