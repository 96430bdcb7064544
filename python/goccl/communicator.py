"""Communicator: connections, memories and semaphores between the ranks of a bootstrap."""

import ctypes
from collections.abc import Callable
from typing import Any

from . import errors
from ._lib import SLICE, TIMEOUT, Object, error, lib, nanoseconds
from ._types import Transport, TransportFlags
from ._typing import BufferSpec
from .bootstrap import Bootstrap
from .connection import Connection, Endpoint, EndpointConfig, EndpointConfigIb, RegisteredMemory
from .context import Context
from .device import Device, current_device
from .semaphore import Semaphore


class Future:
    """A value that another thread is working for. It always completes: with its value, or with an exception."""

    def __init__(self, handle: int, make: Callable[[int], Any] | None, *keep: object) -> None:
        self._object = Object(handle, *keep)
        self._make, self._value, self._done = make, None, False

    def get(self, timeout: float | None = None) -> Any:
        """Waits for the value, the same each time."""
        if self._done:
            return self._value
        wait, out = lib.raw("future_wait"), ctypes.c_uint64()
        left = None if timeout is None else nanoseconds(timeout)
        while True:
            step = SLICE if left is None else min(SLICE, left)
            r = wait(self._object.handle, step, ctypes.byref(out))
            if r == 0:
                break
            failure = error(r)
            if r != TIMEOUT or "not there yet" not in str(failure):
                raise failure
            if left is not None:
                left -= step
                if left <= 0:
                    raise failure
        self._value, self._done = (self._make(out.value) if self._make and out.value else None), True
        self._object.close()
        return self._value


class Communicator(Object):
    """Makes connections, exchanges memories and builds semaphores between the ranks of a bootstrap.

    Calls give futures. Calls of one kind to one (rank, tag) meet each other in order; both sides make them.
    """

    group: Any  # the CommGroup that made it, if one did
    _goccl_comm: Any  # the collective communicator over this one, once an algorithm has run

    def __init__(self, bootstrap: Bootstrap, context: Context | None = None, *, device: Device | None = None) -> None:
        self._context = context or Context()
        self._device = device
        self._bootstrap = bootstrap
        self._pending: list[Future] = []
        self._sent: list[RegisteredMemory] = []  # peers use them for as long as this lives
        super().__init__(lib.communicator_create(bootstrap.handle, self._context.handle), bootstrap,
                         self._context)

    def bootstrap(self) -> Bootstrap:
        """The bootstrap."""
        return self._bootstrap

    def context(self) -> Context:
        """The context."""
        return self._context

    def device(self) -> Device:
        """The device of collectives and plans: the one that was given, else the current one of the local rank."""
        if self._device is None:
            self._device = current_device(self._bootstrap.get_local_rank())
        return self._device

    def register_memory(self, ptr: int | BufferSpec, size: int | None = None,
                        transports: Transport | TransportFlags = Transport.CudaIpc, *,
                        device: Device | None = None) -> RegisteredMemory:
        """As Context.register_memory."""
        return self._context.register_memory(ptr, size, transports, device=device)

    def send_memory(self, memory: RegisteredMemory, remote_rank: int, tag: int = 0) -> Future:
        """Lets the peer use local memory, which stays registered while the communicator lives, or until
        memory.close()."""
        self._sent.append(memory)
        return Future(lib.communicator_send_memory(self.handle, memory.handle, remote_rank, tag), None, self,
                      memory)

    def recv_memory(self, remote_rank: int, tag: int = 0) -> Future:
        """The memory that the peer sends."""
        return Future(lib.communicator_recv_memory(self.handle, remote_rank, tag),
                      lambda h: RegisteredMemory(h, self._context, self), self)

    def connect(self, local_config: Any, remote_rank: int, tag: int = 0) -> Future:
        """A connection with the peer: an EndpointConfig, a Transport or an Endpoint, and the peer's rank."""
        # The older orders are (rank, config, tag) and (rank, tag, config).
        if isinstance(remote_rank, (Transport, EndpointConfig, Endpoint)):
            local_config, remote_rank = remote_rank, local_config
        elif isinstance(local_config, int) and not isinstance(local_config, Transport):
            local_config, remote_rank, tag = tag, local_config, remote_rank
        if isinstance(local_config, Endpoint):
            h = lib.communicator_connect_endpoint(self.handle, local_config.handle, remote_rank, tag)
        else:
            c = EndpointConfig.of(local_config)
            if c.ib != EndpointConfigIb():
                return self.connect(self._context.create_endpoint(c), remote_rank, tag)
            h = lib.communicator_connect(self.handle, int(c.transport), c.device.handle, remote_rank, tag)
        return Future(h, lambda h: Connection(h, self._context, self, local_config), self)

    def build_semaphore(self, connection: Connection, remote_rank: int, tag: int = 0) -> Future:
        """A semaphore over a connection to the peer, which does the same."""
        return Future(lib.communicator_build_semaphore(self.handle, connection.handle, remote_rank, tag),
                      lambda h: Semaphore(_handle=h, _keep=(connection,)), self, connection)

    def remote_rank_of(self, connection: Connection) -> int:
        """The peer of a connection."""
        return connection.remote_rank

    def tag_of(self, connection: Connection) -> int:
        """The tag of a connection."""
        return connection.tag

    # The deferred style: setup waits for what was asked for.

    def _later(self, future: Future) -> Future:
        self._pending.append(future)
        return future

    def connect_on_setup(self, remote_rank: int, tag: int,
                         local_config: EndpointConfig | Endpoint | Transport) -> Future:
        """connect; setup waits for it."""
        return self._later(self.connect(EndpointConfig.of(local_config)
                                        if not isinstance(local_config, Endpoint) else local_config, remote_rank, tag))

    def send_memory_on_setup(self, memory: RegisteredMemory, remote_rank: int, tag: int) -> None:
        """send_memory; setup waits for it."""
        self._later(self.send_memory(memory, remote_rank, tag))

    def recv_memory_on_setup(self, remote_rank: int, tag: int) -> Future:
        """recv_memory; setup waits for it."""
        return self._later(self.recv_memory(remote_rank, tag))

    def setup(self) -> None:
        """Waits for everything deferred since the last setup."""
        pending, self._pending = self._pending, []
        for f in pending:
            f.get()


class _Directed:
    """A semaphore by its older, directed name, made from a Communicator and a Connection or from a Semaphore."""

    def __init__(self, semaphore: Communicator | Semaphore, connection: Connection | None = None) -> None:
        if isinstance(semaphore, Communicator):
            if connection is None:
                raise errors.InvalidArgument("a semaphore of a Communicator needs the connection to its peer")
            self.semaphore: Semaphore = semaphore.build_semaphore(connection, connection.remote_rank).get()
        else:
            self.semaphore = semaphore

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self.semaphore, attribute)


class Host2DeviceSemaphore(_Directed):
    """A semaphore that the host signals and a kernel waits for."""


class Host2HostSemaphore(_Directed):
    """A semaphore that the host signals and waits for."""


class MemoryDevice2DeviceSemaphore(_Directed):
    """A semaphore that kernels signal and wait for."""
