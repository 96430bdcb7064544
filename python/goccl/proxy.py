"""The proxy service and its channels: kernels ask, the host moves the bytes."""

from typing import Any

from . import errors
from ._lib import Object, interruptible, lib
from .channel import _FLUSH, _PUT, _PUT_WITH_SIGNAL, _PUT_WITH_SIGNAL_AND_FLUSH, _Channel
from .device import Device, current_device
from .communicator import Communicator
from .connection import Connection, RegisteredMemory
from .context import Context
from .semaphore import Semaphore

__all__ = ["ProxyService", "BasePortChannel", "PortChannel", "SimpleProxyChannel", "ProxyChannel"]


class ProxyService:
    """Moves data for kernels that ask by port channels: one fifo, one thread, any number of channels.

    The service belongs to the context of the first connection or memory that it is given, or to context.
    """

    def __init__(self, fifo_size: int = 512, *, context: Context | None = None, device: Device | None = None) -> None:
        self._size, self._context, self._device = fifo_size, context, device
        self._object: Object | None = None
        self._started = False
        self._keep: list[Any] = []

    def _service(self, context: Context | None = None) -> int:
        if self._object is None:
            self._context = self._context or context or Context()
            self._device = self._device or current_device()
            self._object = Object(lib.proxy_service_create(self._context.handle, self._device.handle,
                                         self._size), self._context)
            if self._started:
                lib.proxy_service_start(self._object.handle)
        return self._object.handle

    def start_proxy(self, blocking: bool = False) -> None:
        """Starts the proxy."""
        self._started = True
        if self._object is not None:
            lib.proxy_service_start(self._object.handle)

    def stop_proxy(self) -> None:
        """Carries out what kernels asked for before and stops; raises the first error since the last stop."""
        self._started = False
        if self._object is not None:
            interruptible(lib.proxy_service_stop, self._object.handle)

    def _id(self, function: Any, *handles: int) -> int:
        return int(function(self._service(), *handles))

    def add_semaphore(self, semaphore: Semaphore | Communicator | Any, connection: Connection | None = None) -> int:
        """Makes a semaphore usable by triggers; with a Communicator and a Connection it is built first."""
        if isinstance(semaphore, Communicator):
            if connection is None:
                raise errors.InvalidArgument("a semaphore of a Communicator needs the connection to its peer")
            return self.build_and_add_semaphore(semaphore, connection)
        semaphore = getattr(semaphore, "semaphore", semaphore)
        self._service(semaphore.connection().context)
        self._keep.append(semaphore)
        return self._id(lib.proxy_service_add_semaphore, semaphore.handle)

    def build_and_add_semaphore(self, comm: Communicator, connection: Connection) -> int:
        """Builds a semaphore with the connection's peer and adds it, without waiting for the peer."""
        self._service(comm.context())
        self._keep.append((comm, connection))
        return self._id(lib.proxy_service_build_semaphore, comm.handle, connection.handle)

    def add_memory(self, memory: RegisteredMemory) -> int:
        """Makes a memory usable by triggers."""
        self._service(memory.context)
        self._keep.append(memory)
        return self._id(lib.proxy_service_add_memory, memory.handle)

    def base_port_channel(self, semaphore_id: int) -> "BasePortChannel":
        """A channel whose triggers name memories by id."""
        return BasePortChannel(interruptible(lib.base_port_channel_create, self._service(), semaphore_id), self)

    def port_channel(self, semaphore_id: int, dst: int, src: int) -> "PortChannel":
        """A channel from src, local memory, to dst, the peer's, both by id."""
        return PortChannel(self, semaphore_id, dst, src)

    proxy_channel = base_port_channel

    def close(self) -> None:
        """Stops the service and frees it."""
        if self._object is not None:
            self._object.close()


class BasePortChannel(_Channel):
    """Lets kernels ask the proxy for transfers between memories that they name by id."""


class PortChannel(_Channel):
    """A port channel with its destination and its source chosen: the seeds' SimpleProxyChannel."""

    def __init__(self, service: ProxyService, semaphore_id: int = 0, dst: int = 0, src: int = 0) -> None:
        if isinstance(service, BasePortChannel):
            raise TypeError("make it with ProxyService.port_channel(semaphore_id, dst, src)")
        super().__init__(interruptible(lib.port_channel_create, service._service(), semaphore_id, dst, src),
                         service)

    def put(self, dst_offset: int, src_offset: int, nbytes: int) -> None:
        """Asks for a copy of nbytes."""
        self._blocking(_PUT, dst_offset, src_offset, nbytes)

    def put_with_signal(self, dst_offset: int, src_offset: int, nbytes: int) -> None:
        """Asks for a copy and a signal behind it."""
        self._blocking(_PUT_WITH_SIGNAL, dst_offset, src_offset, nbytes)

    def put_with_signal_and_flush(self, dst_offset: int, src_offset: int, nbytes: int) -> None:
        """put_with_signal, then waits until the source may change."""
        self._blocking(_PUT_WITH_SIGNAL_AND_FLUSH, dst_offset, src_offset, nbytes)

    def flush(self) -> None:
        """Waits until the sources of all earlier puts may change."""
        self._blocking(_FLUSH)


SimpleProxyChannel = PortChannel
ProxyChannel = BasePortChannel
