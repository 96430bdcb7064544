"""Windows: memory that all ranks register together."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from .._buffer import Buffer, resolve, shared
from .._lib import lib
from .._typing import BufferSpec


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
