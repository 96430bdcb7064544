"""Context: it owns a process's communication resources."""

from . import errors
from ._buffer import ANY, resolve, shared
from ._lib import Object, error, interruptible, lib, nanoseconds
from ._types import DeviceType, Transport, TransportFlags
from ._typing import BufferSpec
from .connection import Connection, Endpoint, EndpointConfig, RegisteredMemory
from .device import Device, current_device
from .semaphore import SemaphoreStub


class Context(Object):
    """Owns a process's communication resources; closing it ends everything made from it. timeout bounds host waits
    (default: GOCCL_TIMEOUT, else 30 s), spin_limit each wait in a kernel (default 10 minutes; negative: no bound), both
    in seconds."""

    def __init__(self, timeout: float | None = None, spin_limit: float | None = None) -> None:
        spin = 0 if spin_limit is None else -1 if spin_limit < 0 else nanoseconds(spin_limit)
        super().__init__(lib.context_create(nanoseconds(timeout), spin))

    @staticmethod
    def create() -> "Context":
        """A new context."""
        return Context()

    def register_memory(self, ptr: int | BufferSpec, size: int | None = None,
                        transports: Transport | TransportFlags = Transport.CudaIpc, *,
                        device: Device | None = None) -> "RegisteredMemory":
        """Makes memory usable by transports: an address and a size in bytes, or a buffer. The memory must outlive the
        registration."""
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
        h = lib.memory_register(self.handle, device.handle, ptr, size, TransportFlags(transports).bits)
        return RegisteredMemory(h, self, keep)

    def create_endpoint(self, config: EndpointConfig | Transport) -> "Endpoint":
        """An endpoint as an EndpointConfig, or a Transport on the current device, says."""
        config = EndpointConfig.of(config)
        h = lib.endpoint_create_rdma(self.handle, int(config.transport), config.ib.device_index,
                   config.device.handle, *config.ib.chosen())
        return Endpoint(h, config, self)

    def connect(self, local: "Endpoint", remote: "Endpoint") -> "Connection":
        """A connection from a local endpoint to a remote one."""
        return Connection(interruptible(lib.connection_create, self.handle, local.handle, remote.handle), self,
                          local, remote)

    def deserialize_memory(self, data: bytes) -> "RegisteredMemory":
        """What the peer's RegisteredMemory.serialize gave."""
        data = bytes(data)
        return RegisteredMemory(lib.memory_deserialize(self.handle, data, len(data)), self)

    def deserialize_semaphore_stub(self, data: bytes) -> "SemaphoreStub":
        """What the peer's SemaphoreStub.serialize gave."""
        data = bytes(data)
        return SemaphoreStub(None, _handle=lib.semaphore_stub_deserialize(self.handle, data, len(data)),
                             _keep=(self,))

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
