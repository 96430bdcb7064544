"""One-sided operations: put with a signal, signal, and the wait for signals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .. import errors
from .._abi import SignalWait
from .._buffer import resolve
from .._lib import lib
from .._typing import BufferSpec, StreamSpec
from ._calls import Calls
from ._window import Window


@dataclass
class WaitSignalDesc:
    """op_count signals of a peer, of an index and a context (each 0 to 15)."""

    peer: int
    op_count: int = 1
    signal_index: int = 0
    context: int = 0


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
