"""Contexts, connections, memories, semaphores and communicators: the primitives under MSCCL++'s names.

An object keeps alive what it was made from and is closed with its last reference, in any order. Waits take seconds and can be interrupted.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import TYPE_CHECKING

from . import errors
from ._buffer import ANY, resolve, shared
from ._lib import SLICE, TIMEOUT, create, error, interruptible, lib, nanoseconds, take
from ._types import DeviceType, Transport, TransportFlags
from .bootstrap import Bootstrap
from .device import Device, current_device

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ._typing import BufferSpec
    from .comm import CommGroup

__all__ = ["Context", "Endpoint", "EndpointConfig", "Connection", "RegisteredMemory", "SemaphoreStub", "Semaphore", "Host2DeviceSemaphore",
           "Host2HostSemaphore", "MemoryDevice2DeviceSemaphore", "Communicator", "Future", "DeviceHandle"]


class _Object:
    """A goccl_object and what it was made from."""

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

    def __init__(self, owner: _Object) -> None:
        self.raw = take(lib.object_device_handle, owner.handle)
        self._owner = owner  # the addresses inside are valid for as long as this lives

    def __bytes__(self) -> bytes:
        return self.raw

    def __len__(self) -> int:
        return len(self.raw)


class Context(_Object):
    """Owns a process's communication resources; closing it ends everything made from it. timeout bounds host waits (default: GOCCL_TIMEOUT, else 30 s), spin_limit each
    wait in a kernel (default 10 minutes; negative: no bound), both in seconds."""

    def __init__(self, timeout: float | None = None, spin_limit: float | None = None) -> None:
        spin = 0 if spin_limit is None else -1 if spin_limit < 0 else nanoseconds(spin_limit)
        super().__init__(create(lib.context_create, nanoseconds(timeout), spin))

    @staticmethod
    def create() -> "Context":
        """A new context."""
        return Context()

    def register_memory(self, ptr: int | BufferSpec, size: int | None = None, transports: Transport | TransportFlags = Transport.CudaIpc, *,
                        device: Device | None = None) -> "RegisteredMemory":
        """Makes memory usable by transports: an address and a size in bytes, or a buffer. The memory must outlive the registration."""
        keep = None
        if not isinstance(ptr, int):
            keep = resolve(ptr)
            shared(keep)
            if size is not None and not 0 <= size <= keep.nbytes:
                raise errors.InvalidArgument(f"size {size}: the buffer has {keep.nbytes} bytes")
            ptr, size = keep.ptr, keep.nbytes if size is None else size
            if device is None and keep.device != ANY:
                device = Device(DeviceType(keep.kind), keep.device)
        device = device or current_device()
        h = create(lib.memory_register, self.handle, device.handle, ptr, size, TransportFlags(transports).bits)
        return RegisteredMemory(h, self, keep)

    def create_endpoint(self, config: EndpointConfig | Transport) -> "Endpoint":
        """An endpoint as an EndpointConfig, or a Transport on the current device, says."""
        config = EndpointConfig.of(config)
        return Endpoint(create(lib.endpoint_create, self.handle, int(config.transport), config.device.handle), config, self)

    def connect(self, local: "Endpoint", remote: "Endpoint") -> "Connection":
        """A connection from a local endpoint to a remote one."""
        return Connection(interruptible(create, lib.connection_create, self.handle, local.handle, remote.handle), self, local, remote)

    def deserialize_memory(self, data: bytes) -> "RegisteredMemory":
        """What the peer's RegisteredMemory.serialize gave."""
        data = bytes(data)
        return RegisteredMemory(create(lib.memory_deserialize, self.handle, data, len(data)), self)

    def deserialize_semaphore_stub(self, data: bytes) -> "SemaphoreStub":
        """What the peer's SemaphoreStub.serialize gave."""
        data = bytes(data)
        return SemaphoreStub(None, _handle=create(lib.semaphore_stub_deserialize, self.handle, data, len(data)), _keep=(self,))

    def abort(self, reason: str | None = None) -> None:
        """Ends every wait on host and device."""
        lib.context_abort(self.handle, reason.encode() if reason else None)

    def error(self) -> errors.GocclError | None:
        """Why the context was aborted, or what a kernel that gave up reported, or None."""
        r = lib.raw("context_error")(self.handle)
        return error(r) if r else None

    def recover(self) -> None:
        """Makes an aborted context usable again; no kernel of it may run."""
        lib.context_recover(self.handle)


class EndpointConfig:
    """What an endpoint is: its transport, and the device where its memory lives."""

    transport: Transport
    device: Device
    max_write_queue_size: int

    def __init__(self, transport: Transport = Transport.CudaIpc, device: Device | None = None, max_write_queue_size: int = -1, ib: Any = None) -> None:
        self.transport = Transport(transport)
        self.device = device or current_device()
        self.max_write_queue_size = max_write_queue_size

    @classmethod
    def of(cls, config: EndpointConfig | Endpoint | Transport) -> "EndpointConfig":
        """The configuration that a Transport, an Endpoint or a configuration stands for."""
        if isinstance(config, EndpointConfig):
            return config
        if isinstance(config, Endpoint):
            return cls(config.transport, config.device)
        return cls(Transport(config))


class Endpoint(_Object):
    """Half of a connection: an entity that can communicate, and how."""

    transport: Transport
    device: Device
    local: bool

    def __init__(self, handle: int, config: EndpointConfig | None = None, *keep: object) -> None:
        super().__init__(handle, *keep)
        values = [ctypes.c_int32() for _ in range(4)]
        lib.endpoint_info(handle, *map(ctypes.byref, values))
        self.transport = Transport(values[0].value)
        self.device = config.device if config else Device(DeviceType(values[1].value), values[2].value)
        self.local = bool(values[3].value)

    def serialize(self) -> bytes:
        """The endpoint as bytes, for the peer. They may hold a secret: send them by a bootstrap."""
        return take(lib.object_serialize, self.handle)

    @staticmethod
    def deserialize(data: bytes) -> "Endpoint":
        """What the peer's serialize gave."""
        data = bytes(data)
        return Endpoint(create(lib.endpoint_deserialize, data, len(data)))


class RegisteredMemory(_Object):
    """Memory that channels and connections may use: local memory that was registered, or a peer's."""

    def _info(self) -> tuple[int, int, int, int, bool]:
        data, original, size, flags, local = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_uint64(), ctypes.c_uint32(), ctypes.c_int32()
        lib.memory_info(self.handle, *map(ctypes.byref, (data, original, size, flags, local)))
        return data.value, original.value, size.value, flags.value, bool(local.value)

    def data(self) -> int:
        """The address here; 0 while a peer's memory is not mapped (see map)."""
        return self._info()[0]

    def size(self) -> int:
        """The size in bytes."""
        return self._info()[2]

    def transports(self) -> TransportFlags:
        """What it was registered for."""
        return TransportFlags._of(self._info()[3])

    @property
    def local(self) -> bool:
        """Whether it was registered here."""
        return self._info()[4]

    def map(self, device: Device | None = None, timeout: float | None = None) -> int:
        """Makes a peer's memory usable on device and returns its address there."""
        p = ctypes.c_size_t()
        interruptible(lib.memory_map, self.handle, (device or current_device()).handle, nanoseconds(timeout), ctypes.byref(p))
        return p.value

    def serialize(self) -> bytes:
        """The memory as bytes, by which a peer can use it: send them by a bootstrap."""
        return take(lib.object_serialize, self.handle)


class Connection(_Object):
    """One direction between two endpoints, seen from the local one."""

    def _info(self) -> list[int]:
        values = [ctypes.c_int32() for _ in range(3)]
        lib.connection_info(self.handle, *map(ctypes.byref, values))
        return [v.value for v in values]

    @property
    def context(self) -> Context:
        """The context that it was made by."""
        return next(k for k in self._keep if isinstance(k, Context))

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
        """Copies size bytes to the peer, asynchronously, in the order of the calls; src must not change until a flush."""
        lib.connection_write(self.handle, dst.handle, dst_offset, src.handle, src_offset, size)

    def atomic_add(self, dst: RegisteredMemory, dst_offset: int, delta: int) -> None:
        """Adds to a uint64 of the peer's memory after all earlier writes."""
        lib.connection_atomic_add(self.handle, dst.handle, dst_offset, delta)

    def update_and_sync(self, dst: RegisteredMemory, dst_offset: int, src_ptr: int, new_value: int) -> None:
        """Stores a uint64 at src_ptr, a host address or 0, and at the peer, after all earlier writes."""
        lib.connection_update_and_sync(self.handle, dst.handle, dst_offset, src_ptr, new_value)

    def flush(self, timeout_usec: int = -1) -> None:
        """Waits until everything before it is complete at the peer. A timeout_usec that is not positive is the context's timeout."""
        interruptible(lib.connection_flush, self.handle, int(timeout_usec) * 1000 if timeout_usec > 0 else 0)


class SemaphoreStub(_Object):
    """One side's half of a semaphore. It is exchanged with the peer's; the two make a Semaphore."""

    def __init__(self, connection: Connection | None, *, _handle: int = 0, _keep: tuple[object, ...] = ()) -> None:
        if not _handle:
            if connection is None:
                raise errors.InvalidArgument("a SemaphoreStub is made of a connection")
            _handle = create(lib.semaphore_stub_create, connection.handle)
        super().__init__(_handle, connection, *_keep)

    def serialize(self) -> bytes:
        """The stub as bytes, for the peer."""
        return take(lib.object_serialize, self.handle)


class Semaphore(_Object):
    """A pair of counters by which two sides signal each other: each side makes one from both stubs."""

    def __init__(self, local_stub: SemaphoreStub | None = None, remote_stub: SemaphoreStub | None = None, *, _handle: int = 0,
                 _keep: tuple[object, ...] = ()) -> None:
        if not _handle:
            if local_stub is None or remote_stub is None:
                raise errors.InvalidArgument("a Semaphore is made of two stubs: this side's and the peer's")
            _handle = create(lib.semaphore_create, local_stub.handle, remote_stub.handle)
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
        v = ctypes.c_int32()
        lib.semaphore_poll(self.handle, ctypes.byref(v))
        return bool(v.value)

    def wait(self, timeout: float | None = None) -> None:
        """Consumes one signal on the host. timeout None is the context's."""
        interruptible(lib.semaphore_wait, self.handle, nanoseconds(timeout))

    def device_handle(self) -> DeviceHandle:
        """This side for kernels."""
        return DeviceHandle(self)


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


class Future:
    """A value that another thread is working for. It always completes: with its value, or with an exception."""

    def __init__(self, handle: int, make: Callable[[int], Any] | None, *keep: object) -> None:
        self._object = _Object(handle, *keep)
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


class Communicator(_Object):
    """Makes connections, exchanges memories and builds semaphores between the ranks of a bootstrap.

    Calls give futures. Calls of one kind to one (rank, tag) meet each other in order; both sides make them.
    """

    group: CommGroup  # of the communicator that a CommGroup has made
    _goccl_comm: Any  # the collective communicator over this one, once an algorithm has run

    def __init__(self, bootstrap: Bootstrap, context: Context | None = None) -> None:
        self._context = context or Context()
        self._bootstrap = bootstrap
        self._pending: list[Future] = []
        self._sent: list[RegisteredMemory] = []  # peers use them for as long as this lives
        super().__init__(create(lib.communicator_create, bootstrap.handle, self._context.handle), bootstrap, self._context)

    def bootstrap(self) -> Bootstrap:
        """The bootstrap."""
        return self._bootstrap

    def context(self) -> Context:
        """The context."""
        return self._context

    def register_memory(self, ptr: int | BufferSpec, size: int | None = None, transports: Transport | TransportFlags = Transport.CudaIpc, *,
                        device: Device | None = None) -> RegisteredMemory:
        """As Context.register_memory."""
        return self._context.register_memory(ptr, size, transports, device=device)

    def send_memory(self, memory: RegisteredMemory, remote_rank: int, tag: int = 0) -> Future:
        """Lets the peer use local memory, which stays registered while the communicator lives, or until memory.close()."""
        self._sent.append(memory)
        return Future(create(lib.communicator_send_memory, self.handle, memory.handle, remote_rank, tag), None, self, memory)

    def recv_memory(self, remote_rank: int, tag: int = 0) -> Future:
        """The memory that the peer sends."""
        return Future(create(lib.communicator_recv_memory, self.handle, remote_rank, tag), lambda h: RegisteredMemory(h, self), self)

    def connect(self, local_config: Any, remote_rank: int, tag: int = 0) -> Future:
        """A connection with the peer: an EndpointConfig, a Transport or an Endpoint, and the peer's rank."""
        if isinstance(local_config, int) and not isinstance(local_config, Transport) or isinstance(remote_rank, (Transport, EndpointConfig, Endpoint)):
            local_config, remote_rank, tag = (remote_rank, local_config, tag) if isinstance(remote_rank, (Transport, EndpointConfig, Endpoint)) else \
                (tag, local_config, remote_rank)  # the older orders: (rank, config, tag) and (rank, tag, config)
        if isinstance(local_config, Endpoint):
            h = create(lib.communicator_connect_endpoint, self.handle, local_config.handle, remote_rank, tag)
        else:
            c = EndpointConfig.of(local_config)
            h = create(lib.communicator_connect, self.handle, int(c.transport), c.device.handle, remote_rank, tag)
        return Future(h, lambda h: Connection(h, self._context, self, local_config), self)

    def build_semaphore(self, connection: Connection, remote_rank: int, tag: int = 0) -> Future:
        """A semaphore over a connection to the peer, which does the same."""
        return Future(create(lib.communicator_build_semaphore, self.handle, connection.handle, remote_rank, tag),
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

    def connect_on_setup(self, remote_rank: int, tag: int, local_config: EndpointConfig | Endpoint | Transport) -> Future:
        """connect; setup waits for it."""
        return self._later(self.connect(EndpointConfig.of(local_config) if not isinstance(local_config, Endpoint) else local_config, remote_rank, tag))

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
