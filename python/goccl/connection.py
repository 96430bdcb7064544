"""Endpoints, the connections between them, and the memory that they reach.

An object keeps alive what it was made from and is closed with its last reference, in any order. Waits take seconds and
can be interrupted.
"""

import dataclasses
import enum
from typing import Any

from ._lib import Object, interruptible, lib, nanoseconds
from ._types import DeviceType, Transport, TransportFlags
from .device import Device, current_device


class IbMode(enum.IntEnum):
    """How an InfiniBand connection signals."""

    Default = 0
    Host = 1
    HostNoAtomic = 2


@dataclasses.dataclass
class EndpointConfigIb:
    """An endpoint's InfiniBand options under MSCCL++'s names. Those that are not changed are chosen by goccl: its
    queues have other depths, and it signals and batches by itself (max_cq_poll_num, max_wr_per_send and mode have no
    effect). All endpoints of one adapter in a Context have the options of the first."""

    device_index: int = -1
    port: int = -1
    gid_index: int = -1
    max_cq_size: int = 1024
    max_cq_poll_num: int = 256
    max_send_wr: int = 8192
    max_recv_wr: int = 16
    max_wr_per_send: int = 64
    mode: IbMode = IbMode.Default

    def chosen(self) -> tuple[int, int, int, int, int]:
        """Port, index of the address, and depths of the queues, -1 where the default was not changed."""
        depths = ((getattr(self, n), getattr(EndpointConfigIb, n)) for n in ("max_cq_size", "max_send_wr",
                                                                             "max_recv_wr"))
        return self.port, self.gid_index, *(-1 if value == default else value for value, default in depths)


def _ib_option(name: str) -> Any:
    def get(self: "EndpointConfig") -> Any:
        """The option of ib."""
        return getattr(self.ib, name)

    return property(get, lambda self, value: setattr(self.ib, name, value))


class EndpointConfig:
    """What an endpoint is: its transport, and the device where its memory lives."""

    def __init__(self, transport: Transport = Transport.CudaIpc, device: Device | None = None,
                 max_write_queue_size: int = -1, ib: EndpointConfigIb | None = None) -> None:
        self.transport = Transport(transport)
        self.device = device or current_device()
        self.max_write_queue_size = max_write_queue_size
        self.ib = ib or EndpointConfigIb()

    (ib_device_index, ib_port, ib_gid_index, ib_max_cq_size, ib_max_cq_poll_num, ib_max_send_wr, ib_max_recv_wr,
     ib_max_wr_per_send, ib_mode) = (_ib_option(f.name) for f in dataclasses.fields(EndpointConfigIb))

    @classmethod
    def of(cls, config: "EndpointConfig | Endpoint | Transport") -> "EndpointConfig":
        """The configuration that a Transport, an Endpoint or a configuration stands for."""
        if isinstance(config, EndpointConfig):
            return config
        if isinstance(config, Endpoint):
            return cls(config.transport, config.device)
        return cls(Transport(config))


class Endpoint(Object):
    """Half of a connection: an entity that can communicate, and how."""

    def __init__(self, handle: int, config: EndpointConfig | None = None, *keep: object) -> None:
        super().__init__(handle, *keep)
        transport, kind, index, local = lib.endpoint_info(handle)
        self.transport, self.local = Transport(transport), bool(local)
        self.device = config.device if config else Device(DeviceType(kind), index)

    def serialize(self) -> bytes:
        """The endpoint as bytes, for the peer. They may hold a secret: send them by a bootstrap."""
        return lib.object_serialize(self.handle)

    @staticmethod
    def deserialize(data: bytes) -> "Endpoint":
        """What the peer's serialize gave."""
        data = bytes(data)
        return Endpoint(lib.endpoint_deserialize(data, len(data)))


class RegisteredMemory(Object):
    """Memory that channels and connections may use: local memory that was registered, or a peer's."""

    @property
    def context(self) -> Any:
        """The Context that it belongs to."""
        return self._keep[0]

    def _info(self) -> tuple[int, ...]:
        """Address, the owner's address, size, flags, and whether it is local."""
        return tuple(lib.memory_info(self.handle))

    def data(self) -> int:
        """The address here; 0 while a peer's memory is not mapped (see map)."""
        return self._info()[0]

    def size(self) -> int:
        """The size in bytes."""
        return self._info()[2]

    def transports(self) -> TransportFlags:
        """The transports that it was registered for."""
        return TransportFlags._of(self._info()[3])

    @property
    def local(self) -> bool:
        """Whether it was registered here."""
        return bool(self._info()[4])

    def map(self, device: Device | None = None, timeout: float | None = None) -> int:
        """Makes a peer's memory usable on device and returns its address there."""
        on = (device or current_device()).handle
        return int(interruptible(lib.memory_map, self.handle, on, nanoseconds(timeout)))

    def serialize(self) -> bytes:
        """The memory as bytes, by which a peer can use it: send them by a bootstrap."""
        return lib.object_serialize(self.handle)


class Connection(Object):
    """One direction between two endpoints, seen from the local one."""

    def _info(self) -> tuple[int, ...]:
        return tuple(lib.connection_info(self.handle))

    @property
    def context(self) -> Any:
        """The Context that it was made by."""
        return self._keep[0]

    def transport(self) -> Transport:
        """How bytes travel."""
        return Transport(self._info()[0])

    remote_transport = transport

    @property
    def remote_rank(self) -> int:
        """The peer's rank, or -1 when it is not known."""
        return self._info()[1]

    @property
    def tag(self) -> int:
        """The tag of the connection."""
        return self._info()[2]

    def write(self, dst: RegisteredMemory, dst_offset: int, src: RegisteredMemory, src_offset: int, size: int) -> None:
        """Copies size bytes to the peer, asynchronously, in the order of the calls; src must not change until a
        flush."""
        lib.connection_write(self.handle, dst.handle, dst_offset, src.handle, src_offset, size)

    def atomic_add(self, dst: RegisteredMemory, dst_offset: int, delta: int) -> None:
        """Adds to a uint64 of the peer's memory after all earlier writes."""
        lib.connection_atomic_add(self.handle, dst.handle, dst_offset, delta)

    def update_and_sync(self, dst: RegisteredMemory, dst_offset: int, src_ptr: int, new_value: int) -> None:
        """Stores a uint64 at src_ptr, a host address or 0, and at the peer, after all earlier writes."""
        lib.connection_update_and_sync(self.handle, dst.handle, dst_offset, src_ptr, new_value)

    def flush(self, timeout_usec: int = -1) -> None:
        """Waits until everything before it is complete at the peer. A timeout_usec that is not positive is the
        context's timeout."""
        interruptible(lib.connection_flush, self.handle, int(timeout_usec) * 1000 if timeout_usec > 0 else 0)
