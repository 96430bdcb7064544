"""Windows, memory that all ranks register together, and one-sided operations on them: put with a signal, signal, and
the wait for signals."""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .. import errors
from .._abi import SignalWait
from .._buffer import Buffer, resolve, shared
from .._lib import lib
from .._typing import BufferSpec, StreamSpec
from ._calls import Calls


@dataclass
class WaitSignalDesc:
    """op_count signals of a peer, of an index and a context (each 0 to 15)."""

    peer: int
    op_count: int = 1
    signal_index: int = 0
    context: int = 0


class Window:
    """Memory that all ranks have registered together. It ends with its communicator, or by close, which all ranks call
    when nothing uses it any more."""

    def __init__(self, communicator: int, nranks: int, buffer: BufferSpec) -> None:
        b = resolve(buffer)
        shared(b)
        self._nranks = nranks
        self._handle: int = lib.window_register(communicator, b.ptr, b.nbytes)
        self._flat: int = lib.flat_register(communicator, b.ptr, b.nbytes)
        self._where: Sequence[int] = ()  # a goccl_flat, once all ranks have registered
        self._keep: Buffer | None = b

    def flat(self) -> int:
        """The handle for one-sided operations. It waits until all ranks have registered, once."""
        if not self._where:
            where = (ctypes.c_uint64 * 8)()
            lib.flat_wait(self._flat, where)
            self._where = list(where)
        return self._flat

    def addresses(self) -> list[int]:
        """The addresses of all ranks' parts here, by rank, for kernels that load and store. It waits until all ranks
        have registered, once. It raises Unsupported where a rank's memory cannot be mapped (goccl.GpuBuffer's can)."""
        self.flat()
        base, stride = self._where[:2]
        return [base + r * stride for r in range(self._nranks)]

    def close(self) -> None:
        """Ends the window on this rank."""
        if self._handle:
            lib.window_deregister(self._flat)
            lib.window_deregister(self._handle)
            self._handle, self._flat, self._keep = 0, 0, None


class OneSided(Calls):
    """The one-sided calls of a communicator. They are not part of groups."""

    def put_signal(self, local_buffer: BufferSpec, peer: int, peer_window: Window, peer_window_offset: int = 0,
                   signal_index: int = 0, context: int = 0, flags: int = 0, *, stream: StreamSpec = None) -> None:
        """Copies the buffer into the peer's part of a window (register_window with flags 1), at an offset in elements,
        and then signals the peer. The buffer is kept by the caller until the peer has signalled or the stream has
        ended. flags: 0."""
        b = resolve(local_buffer)
        self._check(b)
        no_flags(flags)
        if not isinstance(peer_window, Window):
            raise errors.InvalidArgument(f"peer_window is {peer_window!r}: want a window of register_window(buffer, 1)")
        offset = peer_window_offset * b.itemsize
        self._queued(lambda s: lib.put_signal(peer_window.flat(), offset, b.ptr, b.nbytes, peer, context,
                                              signal_index, s), b, stream)

    def signal(self, peer: int, signal_index: int = 0, context: int = 0, flags: int = 0, *,
               stream: StreamSpec = None) -> None:
        """Signals a peer after the work before it on the stream. flags: 0."""
        no_flags(flags)
        self._queued(lambda s: lib.signal(self._handle, peer, context, signal_index, s), None, stream)

    def wait_signal(self, descs: WaitSignalDesc | Sequence[WaitSignalDesc], *, stream: StreamSpec = None) -> None:
        """Makes later work on the stream wait for signals, and uses them up. What the peers have put before is then
        visible."""
        all_ = [descs] if isinstance(descs, WaitSignalDesc) else list(descs)
        packed = (SignalWait * max(len(all_), 1))(*(SignalWait(d.op_count, d.peer, d.signal_index, d.context)
                                                    for d in all_))
        self._queued(lambda s: lib.wait_signal(self._handle, len(all_), packed, s), None, stream)

    def _queued(self, call: Callable[[int], None], keep: object, stream: StreamSpec) -> None:
        call(self._queue(stream))
        self._enqueued(keep, stream)


def no_flags(flags: int) -> None:
    if flags:
        raise errors.InvalidArgument(f"flags are {flags:#x}: want 0")
