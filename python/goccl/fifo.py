"""Fifo and ProxyTrigger, for proxies of one's own."""

import ctypes

from ._abi import Trigger
from ._lib import OnDevice, lib
from .device import Device, current_device
from .context import Context

__all__ = ["Fifo", "ProxyTrigger"]


class ProxyTrigger(Trigger):
    """A request of a kernel: type is a mask of 1 (data), 2 (flag) and 4 (sync)."""

    @property
    def fst(self) -> int:
        """The first word: size and type."""
        return self.size | self.type << 48

    @property
    def snd(self) -> int:
        """The second word: source offset and memory."""
        return self.src_offset | self.src << 48

    def __repr__(self) -> str:
        return "ProxyTrigger(" + ", ".join(f"{f[0]}={getattr(self, f[0])}" for f in self._fields_) + ")"


class Fifo(OnDevice):
    """A ring of triggers that kernels write and the host polls, for proxies of one's own."""

    def __init__(self, size: int = 512, *, context: Context | None = None, device: Device | None = None) -> None:
        context = context or Context()
        super().__init__(lib.fifo_create(context.handle, (device or current_device()).handle, size), context)

    def poll(self) -> ProxyTrigger | None:
        """The next trigger, which stays until pop, or None."""
        trigger = ProxyTrigger()
        return trigger if lib.fifo_poll(self.handle, ctypes.byref(trigger)) else None

    def pop(self) -> None:
        """Frees the slot of the polled trigger."""
        lib.fifo_pop(self.handle)

    def size(self) -> int:
        """The number of triggers."""
        return int(lib.fifo_size(self.handle))
