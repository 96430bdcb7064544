"""Channels: what kernels move data and signal by."""

from collections.abc import Iterable
from typing import Any

from . import errors
from ._lib import OnDevice, interruptible, lib
from .device import Device, current_device
from .communicator import Communicator
from .connection import Connection, RegisteredMemory
from .semaphore import Semaphore

__all__ = ["BaseMemoryChannel", "MemoryChannel", "SwitchChannel", "NvlsConnection", "connect_nvls_collective"]

(_SIGNAL, _WAIT, _PUT, _GET, _PUT_WITH_SIGNAL, _PUT_WITH_SIGNAL_AND_FLUSH, _FLUSH, _PUT_PACKETS, _UNPACK_PACKETS, _POLL,
 _RELAXED_SIGNAL, _RELAXED_WAIT) = range(1, 13)


class _Channel(OnDevice):
    """The common part of channels. The methods beside device_handle are the device handle's, for programs on the host
    device, where the calling thread is the kernel; on a GPU they are refused."""

    def _run(self, op: int, a: int = 0, b: int = 0, size: int = 0, flag: int = 0) -> None:
        lib.channel_run(self.handle, op, a, b, size, flag)

    def _blocking(self, op: int, a: int = 0, b: int = 0, size: int = 0, flag: int = 0) -> None:
        interruptible(lib.channel_run, self.handle, op, a, b, size, flag, on_interrupt=self._interrupt)

    def _interrupt(self) -> None:
        for k in self._keep:
            context = k.connection().context if isinstance(k, Semaphore) else getattr(k, "_context", None)
            if context is not None:
                context.abort("interrupted")
                return

    def signal(self) -> None:
        """Signals the peer; what was put before is visible to it then."""
        self._blocking(_SIGNAL)

    def wait(self) -> None:
        """Consumes one signal of the peer. It ends with an error after the context's spin limit or when the peer
        dies."""
        self._blocking(_WAIT)

    def poll(self) -> bool:
        """Consumes one signal if there is one."""
        return bool(lib.channel_run(self.handle, _POLL, 0, 0, 0, 0))


def _semaphore(semaphore: Any, connection: Any) -> Semaphore:
    if isinstance(semaphore, Communicator):
        semaphore = semaphore.build_semaphore(connection, connection.remote_rank).get()
    found: Semaphore = getattr(semaphore, "semaphore", semaphore)
    return found


class _Relaxed(_Channel):
    """A channel of load and store."""

    def relaxed_signal(self) -> None:
        """Signals the peer without publishing what was put before."""
        self._blocking(_RELAXED_SIGNAL)

    def relaxed_wait(self) -> None:
        """Consumes one signal of the peer; what the peer has put need not be visible."""
        self._blocking(_RELAXED_WAIT)


class BaseMemoryChannel(_Relaxed):
    """Signals and waits in kernels, and moves no data."""

    def __init__(self, semaphore: Semaphore | Communicator | Any, connection: Connection | None = None) -> None:
        semaphore = _semaphore(semaphore, connection)
        super().__init__(lib.base_memory_channel_create(semaphore.handle), semaphore)


class MemoryChannel(_Relaxed):
    """Moves data in kernels by load and store: from local memory src to the peer's memory dst, and packets into the
    peer's packet buffer.

    packet_buffer is local memory into which the peer puts packets.
    """

    def __init__(self, semaphore: Semaphore | Any, dst: RegisteredMemory, src: RegisteredMemory,
                 packet_buffer: RegisteredMemory | int | None = None) -> None:
        semaphore = _semaphore(semaphore, None)
        if isinstance(packet_buffer, int):
            if packet_buffer:
                raise errors.InvalidArgument(f"packet_buffer {packet_buffer:#x}: want a RegisteredMemory, or 0 or None "
                                             "for no packets")
            packet_buffer = None
        h = lib.memory_channel_create(semaphore.handle, dst.handle, src.handle,
                   packet_buffer.handle if packet_buffer is not None else 0)
        super().__init__(h, semaphore, dst, src, packet_buffer)

    def put(self, dst_offset: int, src_offset: int, nbytes: int) -> None:
        """Copies nbytes from src to the peer's dst; signal publishes it."""
        self._run(_PUT, dst_offset, src_offset, nbytes)

    def get(self, dst_offset: int, src_offset: int, nbytes: int) -> None:
        """Copies nbytes from the peer's dst to src."""
        self._run(_GET, dst_offset, src_offset, nbytes)

    def put_with_signal(self, dst_offset: int, src_offset: int, nbytes: int) -> None:
        """put, then signal."""
        self._run(_PUT_WITH_SIGNAL, dst_offset, src_offset, nbytes)

    def put_packets(self, dst_offset: int, src_offset: int, nbytes: int, flag: int) -> None:
        """Writes nbytes of src as packets of epoch flag into the peer's dst, which is its packet buffer."""
        self._run(_PUT_PACKETS, dst_offset, src_offset, nbytes, flag)

    def unpack_packets(self, packet_offset: int, src_offset: int, nbytes: int, flag: int) -> None:
        """Waits for packets of epoch flag in the packet buffer and writes their payload to src."""
        self._blocking(_UNPACK_PACKETS, packet_offset, src_offset, nbytes, flag)


class SwitchChannel(_Channel):
    """Reduces from, and broadcasts to, the same range of every rank's memory; unicast. All ranks make it together, with
    memory of one size."""

    def __init__(self, communicator: "Communicator", memory: RegisteredMemory, device: Device | None = None,
                 tag: int = 0) -> None:
        device = device or current_device()
        h = interruptible(lib.switch_channel_create, communicator.handle, device.handle, memory.handle, tag, 0)
        super().__init__(h, communicator, memory)
        self.buffer_size = memory.size()

    def get_device_ptr(self) -> int:
        """The address of the own memory, which kernels use with the channel."""
        memory: RegisteredMemory = self._keep[1]
        return memory.data()


class NvlsConnection:
    """What connect_nvls_collective gives: switch channels over memory that all ranks bind together."""

    def __init__(self, communicator: Communicator, buffer_size: int) -> None:
        self._communicator, self._left = communicator, buffer_size

    def bind_allocated_memory(self, device_ptr: int, size: int) -> SwitchChannel:
        """A switch channel over size bytes of every rank's memory; all ranks call it with one size, in one order."""
        if not 0 < size <= self._left:
            raise errors.InvalidArgument(f"bind_allocated_memory: {size} bytes; {self._left} of the connection's "
                                         "buffer_size are left")
        self._left -= size
        device = self._communicator.device()
        return SwitchChannel(self._communicator, self._communicator.register_memory(device_ptr, size, device=device),
                             device)


def connect_nvls_collective(communicator: Communicator, all_ranks: Iterable[int], buffer_size: int) -> NvlsConnection:
    """A connection among all ranks of communicator for up to buffer_size bytes of switch channels. They are unicast:
    multicast is off."""
    n = communicator.bootstrap().get_n_ranks()
    if sorted(all_ranks) != list(range(n)):
        raise errors.Unsupported(f"connect_nvls_collective: all_ranks must be the communicator's ranks 0 to {n - 1}: "
                                 "make a communicator of fewer ranks")
    return NvlsConnection(communicator, buffer_size)
