"""The buffer of a rank as the library has it."""

import ctypes
import weakref
from collections.abc import Collection, Sequence
from typing import Any

from .. import errors
from .._abi import MoeOffsets, MoeShape, MoeSize
from .._lib import interruptible, lib
from ..nccl import Communicator


class Engine:
    """A goccl_moe and its communicator."""

    def __init__(self, group: Any, nbytes: int, tokens: int, packet_tokens: int, blocks: int) -> None:
        self.own = not isinstance(group, Communicator)
        self.comm = Communicator.from_torch(group) if self.own else group
        self.rank, self.size = self.comm.rank, self.comm.nranks
        size = MoeSize(ctypes.sizeof(MoeSize), packet_tokens, nbytes, tokens, blocks)
        self.handle = interruptible(lib.moe_create, self.comm.ptr, ctypes.byref(size))
        self._finalizer = weakref.finalize(self, lib.raw("moe_destroy"), self.handle)
        self._finalizer.atexit = False
        self.masked: frozenset[int] = frozenset()
        self._host: bool = self.comm.device.is_host
        self._offsets: dict[tuple[int, ...], MoeOffsets] = {}

    def offsets(self, *shape: int) -> MoeOffsets:
        """The layout of handles of a shape: layout, hidden, top-k and experts."""
        out = self._offsets.get(shape)
        if out is None:
            out = MoeOffsets()
            lib.moe_layout(self.handle, ctypes.byref(MoeShape(*shape)), ctypes.byref(out))
            self._offsets[shape] = out
        return out

    def run(self, what: str, args: bytes) -> None:
        """Enqueues an operation. On the host device it waits for the peers, and Ctrl-C ends the communicator."""
        if self._host:
            interruptible(getattr(lib, what), self.handle, args, on_interrupt=self.comm.abort)
        else:
            getattr(lib, what)(self.handle, args)

    def set_mask(self, gone: Collection[int], replicas: Sequence[int] | None) -> None:
        if any(not 0 <= r < self.size for r in gone):
            raise errors.InvalidArgument(f"ranks {sorted(gone)} of {self.size}")
        flags = (ctypes.c_uint8 * self.size)(*(r in gone for r in range(self.size)))
        table = (ctypes.c_int32 * len(replicas))(*replicas) if replicas is not None else None
        interruptible(lib.moe_set_mask, self.handle, flags, self.size, table, len(table or ()),
                      on_interrupt=self.comm.abort)
        self.masked = frozenset(gone)

    def local(self, experts: int) -> int:
        if experts < 1 or experts % self.size:
            raise errors.InvalidArgument(f"{experts} experts on {self.size} ranks: want the same number on each rank")
        return experts // self.size

    def close(self) -> None:
        self._finalizer()
        if self.own:
            self.comm.destroy()
