"""Semaphores between two sides of a connection, and the stubs that they are made of."""

from . import errors
from ._lib import Object, OnDevice, interruptible, lib, nanoseconds
from .connection import Connection


class SemaphoreStub(Object):
    """One side's half of a semaphore. It is exchanged with the peer's; the two make a Semaphore."""

    def __init__(self, connection: Connection | None, *, _handle: int = 0, _keep: tuple[object, ...] = ()) -> None:
        if not _handle:
            if connection is None:
                raise errors.InvalidArgument("a SemaphoreStub is made of a connection")
            _handle = lib.semaphore_stub_create(connection.handle)
        super().__init__(_handle, connection, *_keep)

    def serialize(self) -> bytes:
        """The stub as bytes, for the peer."""
        return lib.object_serialize(self.handle)

    @staticmethod
    def deserialize(data: bytes) -> "RemoteStub":
        """What the peer's serialize gave, for Semaphore(local_stub, remote_stub)."""
        return RemoteStub(data)


class RemoteStub:
    """A peer's stub as bytes. It becomes one in the context of the local stub that it is joined with."""

    def __init__(self, data: bytes) -> None:
        self._data = bytes(data)

    def serialize(self) -> bytes:
        """The bytes that it was made of."""
        return self._data

    def within(self, local: SemaphoreStub) -> SemaphoreStub:
        """The stub in the context of a local one."""
        connection: Connection = local._keep[0]
        return SemaphoreStub(None, _handle=lib.semaphore_stub_deserialize(connection.context.handle, self._data,
                                                  len(self._data)))


class Semaphore(OnDevice):
    """A pair of counters by which two sides signal each other: each side makes one from both stubs."""

    def __init__(self, local_stub: SemaphoreStub | None = None, remote_stub: SemaphoreStub | RemoteStub | None = None,
                 *, _handle: int = 0, _keep: tuple[object, ...] = ()) -> None:
        if not _handle:
            if local_stub is None or remote_stub is None:
                raise errors.InvalidArgument("a Semaphore is made of two stubs: this side's and the peer's")
            if isinstance(remote_stub, RemoteStub):
                remote_stub = remote_stub.within(local_stub)
            _handle = lib.semaphore_create(local_stub.handle, remote_stub.handle)
        super().__init__(_handle, local_stub, remote_stub, *_keep)

    def connection(self) -> Connection:
        """The connection it signals by."""
        for k in self._keep:
            c = k._keep[0] if isinstance(k, SemaphoreStub) else k
            if isinstance(c, Connection):
                return c
        raise errors.InvalidUsage("the semaphore was made without a connection")

    def signal(self) -> None:
        """Signals the peer from the host, after all earlier writes of the connection."""
        lib.semaphore_signal(self.handle)

    def poll(self) -> bool:
        """Consumes one signal on the host if there is one."""
        return bool(lib.semaphore_poll(self.handle))

    def wait(self, timeout: float | None = None) -> None:
        """Consumes one signal on the host. timeout None is the context's."""
        interruptible(lib.semaphore_wait, self.handle, nanoseconds(timeout))
