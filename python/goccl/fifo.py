"""Fifo and ProxyTrigger, for proxies of one's own."""

from __future__ import annotations

import ctypes

from ._lib import lib
from .device import Device, current_device
from ._object import DeviceHandle, Object
from .context import Context

__all__ = ["Fifo", "ProxyTrigger"]


class ProxyTrigger:
    """A request of a kernel: type is a mask of 1 (data), 2 (flag) and 4 (sync)."""

    __slots__ = ("type", "size", "src", "src_offset", "dst", "dst_offset", "semaphore", "position")
    type: int
    size: int
    src: int
    src_offset: int
    dst: int
    dst_offset: int
    semaphore: int
    position: int

    def __init__(self, *values: int) -> None:
        for name, v in zip(self.__slots__, values):
            setattr(self, name, v)

    @property
    def fst(self) -> int:
        """The first word: size and type."""
        return self.size | self.type << 48

    @property
    def snd(self) -> int:
        """The second word: source offset and memory."""
        return self.src_offset | self.src << 48

    def __repr__(self) -> str:
        return "ProxyTrigger(" + ", ".join(f"{n}={getattr(self, n)}" for n in self.__slots__) + ")"


class Fifo(Object):
    """A ring of triggers that kernels write and the host polls, for proxies of one's own."""

    def __init__(self, size: int = 512, *, context: Context | None = None, device: Device | None = None) -> None:
        context = context or Context()
        super().__init__(lib.fifo_create(context.handle, (device or current_device()).handle, size), context)

    def poll(self) -> ProxyTrigger | None:
        """The next trigger, which stays until pop, or None."""
        words = (ctypes.c_uint64 * 8)()
        return ProxyTrigger(*words) if lib.fifo_poll(self.handle, words) else None

    def pop(self) -> None:
        """Frees the slot of the polled trigger."""
        lib.fifo_pop(self.handle)

    def size(self) -> int:
        """The number of triggers."""
        return int(lib.fifo_size(self.handle))

    def device_handle(self) -> DeviceHandle:
        """The kernels' end."""
        return DeviceHandle(self)
