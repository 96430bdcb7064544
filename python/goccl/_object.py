"""Objects of the C ABI and their device handles."""

from __future__ import annotations

import weakref
from typing import Any

from ._lib import lib


class Object:
    """A goccl_object, and the objects from which it was made, which it keeps alive."""

    _handle: int
    _keep: tuple[Any, ...]

    def __init__(self, handle: int, *keep: object) -> None:
        self._handle = handle
        self._keep = keep
        self._finalizer = weakref.finalize(self, lib.raw("object_close"), handle)
        self._finalizer.atexit = False

    @property
    def handle(self) -> int:
        """The goccl_object."""
        return self._handle

    def close(self) -> None:
        """Ends the object; nothing made from it may be used any more. Closing twice is harmless."""
        if self._finalizer.detach():
            lib.object_close(self._handle)


class DeviceHandle:
    """What a kernel gets: ``raw`` are the bytes of the handle's struct in the device headers."""

    __slots__ = ("raw", "_owner")
    raw: bytes

    def __init__(self, owner: Object) -> None:
        self.raw = lib.object_device_handle(owner.handle)
        self._owner = owner  # the addresses inside are valid for as long as this lives

    def __bytes__(self) -> bytes:
        return self.raw

    def __len__(self) -> int:
        return len(self.raw)
