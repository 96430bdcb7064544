"""PyTorch's one-sided transport between two processes (torch.distributed._transport, entry point "goccl").

A write goes by a goccl connection, and is complete when its flush is. A read is a write of the peer, whose transport
has a thread that serves such requests: the application at the peer takes no part. Requests and replies go by a store
that each transport serves.
"""

import itertools
import json
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _create_work_from_future
from torch.distributed import _transport
from torch.distributed._transport._serialization import _WireDescriptor
from torch.distributed._transport._work import _validate_timeout

from .. import _types
from .._types import DeviceType
from ..connection import Connection, Endpoint, EndpointConfig, RegisteredMemory
from ..context import Context
from ..device import Device
from .abilities import served

_SLICE = timedelta(seconds=5)  # of a wait for requests


@dataclass(frozen=True)
class RemoteBuffer(_WireDescriptor):
    """A peer's memory: the owner's token, the memory's number there, its length, and what connections need of it."""

    _backend = "goccl"
    _fields = {"token": str, "number": int, "length": int, "memory": bytes}

    token: str
    number: int
    length: int
    memory: bytes


class View:
    """A byte range of registered memory."""

    def __init__(self, memory: "Memory", offset: int, length: int) -> None:
        self.memory, self.offset, self._length = memory, offset, length

    def size(self) -> int:
        """The length in bytes."""
        return self._length


class MutableView(View):
    """A byte range that may be written to."""

    writable = True


class Memory:
    """A tensor that is registered with a transport."""

    def __init__(self, transport: "Transport", number: int, tensor: torch.Tensor, registered: RegisteredMemory) -> None:
        self.transport, self.number, self.tensor, self.registered = transport, number, tensor, registered
        self.length = tensor.nbytes

    def active(self) -> None:
        """Raises if the memory is no longer registered."""
        if self.number not in self.transport._memories:
            raise RuntimeError("the memory has been unregistered: register the tensor again")

    def _range(self, offset: int | None, length: int | None) -> tuple[int, int]:
        self.active()
        at = offset or 0
        n = self.length - at if length is None else length
        if not 0 <= at <= self.length or not 0 <= n <= self.length - at:
            raise ValueError(f"{n} bytes at {at} are outside of the memory, which has {self.length}")
        return at, n

    def to_view(self, offset: int | None = None, length: int | None = None) -> View:
        """length bytes from offset, by default all that follow."""
        return View(self, *self._range(offset, length))

    def to_mutable_view(self, offset: int | None = None, length: int | None = None) -> MutableView:
        """As to_view, for reads."""
        return MutableView(self, *self._range(offset, length))

    def to_remote_buffer(self, *, timeout: float | None = None) -> RemoteBuffer:
        """What the peer needs for access."""
        self.active()
        return RemoteBuffer(self.transport._token, self.number, self.length, self.registered.serialize())


class Transport(_transport.Transport):
    """One-sided transfers of tensors of one device. kind is "Ethernet", or "IB0" to "IB7"; timeout in seconds bounds
    calls that give none."""

    def __init__(self, device: torch.device | str | None = None, *, kind: str = "Ethernet",
                 timeout: float = 30.0) -> None:
        super().__init__(device or "cpu")
        _validate_timeout(timeout)
        self._default_timeout: float = timeout
        self._kind = _types.Transport[kind]
        self._on = Device(DeviceType.CPU, 0)
        if self.device.type == "cuda":
            self._on = Device(DeviceType.GPU, torch.cuda.current_device() if self.device.index is None
                              else self.device.index)
        self._context = Context(timeout)
        self._endpoint = self._context.create_endpoint(EndpointConfig(self._kind, self._on))
        self._token, self._numbers = secrets.token_hex(16), itertools.count(1)
        self._closed = self._ended = False
        self._memories: dict[int, Memory] = {}
        self._back: dict[str, Connection] = {}  # connections to who reads, by endpoint
        self._home: Any = None
        self._peer: Any = None  # token, store and connection of the peer
        self._worker = ThreadPoolExecutor(1, "goccl-transport")

    @staticmethod
    def supported() -> bool:
        """Whether libgoccl is there."""
        from .._lib import directory

        return directory() is not None

    def bind(self, *, timeout: float | None = None) -> bytes:
        """Begins to serve reads, and returns what the peer connects by."""
        self._usable()
        if self._home is None:
            self._home = served()
            self._server = threading.Thread(target=self._serve, name="goccl-transport-reads", daemon=True)
            self._server.start()
        return json.dumps([self._token, *self._home[1:], self._endpoint.serialize().hex()]).encode()

    def connect(self, peer_url: bytes, *, timeout: float | None = None) -> int:
        """Connects to the peer whose bind has returned peer_url."""
        self._usable()
        if self._peer is not None:
            raise RuntimeError("the transport is connected: make one for each peer")
        limit = timedelta(seconds=self._limit(timeout))
        token, host, port, endpoint = json.loads(peer_url)
        store = dist.TCPStore(host, port, None, False, limit, wait_for_workers=False)
        connection = self._context.connect(self._endpoint, Endpoint.deserialize(bytes.fromhex(endpoint)))
        self._peer = token, store, connection
        return 0

    def connected(self) -> bool:
        """Whether connect has succeeded, and close has not been called."""
        return self._peer is not None and not self._closed

    def _usable(self) -> None:
        if self._closed:
            raise RuntimeError("the transport is closed")

    def _limit(self, timeout: float | None) -> float:
        _validate_timeout(timeout)
        return self._default_timeout if timeout is None else timeout

    def register_memory(self, tensor: torch.Tensor, *, timeout: float | None = None) -> Memory:
        """Registers a contiguous tensor."""
        self._usable()
        self._check_device(tensor.device)
        if not tensor.is_contiguous() or not tensor.nbytes:
            raise ValueError("register a contiguous tensor that is not empty")
        registered = self._context.register_memory(tensor.data_ptr(), tensor.nbytes, self._kind, device=self._on)
        memory = Memory(self, next(self._numbers), tensor, registered)
        self._memories[memory.number] = memory
        return memory

    def unregister_memory(self, memory: Any, *, timeout: float | None = None) -> None:
        """Ends a registration. Transfers that were submitted before end first."""
        self._usable()
        if self._memories.get(memory.number) is memory:
            self._worker.submit(lambda: None).result(self._limit(timeout))
            del self._memories[memory.number]
            memory.registered.close()

    def _check_transfer(self, local_buffer: Any, remote_buffer: Any, *, mutable: bool) -> None:
        self._usable()
        if not isinstance(local_buffer, MutableView if mutable else View) or local_buffer.memory.transport is not self:
            raise TypeError("the local buffer is no view of this transport's memory")
        local_buffer.memory.active()
        if self._peer is None or not isinstance(remote_buffer, RemoteBuffer) or remote_buffer.token != self._peer[0]:
            raise ValueError("the remote buffer does not belong to the connected peer")
        if local_buffer.size() > remote_buffer.length:
            raise ValueError(f"{local_buffer.size()} bytes do not fit into the remote buffer of {remote_buffer.length}")

    def _submit(self, call: Callable[[float], None], async_op: bool, timeout: float | None) -> Any:
        limit = self._limit(timeout)
        job = self._worker.submit(call, max(limit, 0.001))
        if not async_op:
            job.result(limit)
            return 0
        done: torch.futures.Future[Any] = torch.futures.Future()

        def settle(job: Future[None]) -> None:
            failure = job.exception()
            done.set_exception(failure) if isinstance(failure, Exception) else done.set_result([])

        job.add_done_callback(settle)
        return _create_work_from_future(done)

    def write(self, local_buffer: Any, remote_buffer: Any, *, async_op: bool = False,
              timeout: float | None = None) -> Any:
        """Writes a local view to the begin of the remote buffer."""
        self._check_transfer(local_buffer, remote_buffer, mutable=False)

        def call(limit: float) -> None:
            self._put(self._peer[2], remote_buffer.memory, 0, local_buffer.memory, local_buffer.offset,
                      local_buffer.size(), limit)

        return self._submit(call, async_op, timeout)

    def _put(self, connection: Connection, to: bytes, at: int, memory: Memory, offset: int, size: int,
             limit: float) -> None:
        if size:
            connection.write(self._context.deserialize_memory(to), at, memory.registered, offset, size)
            connection.flush(int(limit * 1e6))

    def read(self, local_buffer: Any, remote_buffer: Any, *, async_op: bool = False,
             timeout: float | None = None) -> Any:
        """Reads into a local view from the begin of the remote buffer."""
        self._check_transfer(local_buffer, remote_buffer, mutable=True)

        def call(limit: float) -> None:
            token, store, _ = self._peer
            reply = f"{token}/{secrets.token_hex(16)}"
            store.queue_push(token, json.dumps([
                reply, self._endpoint.serialize().hex(), local_buffer.memory.registered.serialize().hex(),
                local_buffer.offset, remote_buffer.number, local_buffer.size(), limit]))
            store.wait([reply], timedelta(seconds=limit))
            failure = store.get(reply).decode()
            store.delete_key(reply)
            if failure:
                raise RuntimeError(f"read: the peer could not write: {failure}")

        return self._submit(call, async_op, timeout)

    def _serve(self) -> None:
        """Carries out the reads of peers."""
        store = dist.TCPStore(*self._home[1:], None, False, _SLICE, wait_for_workers=False)
        while not self._closed:
            try:
                request = json.loads(store.queue_pop(self._token))
            except RuntimeError:  # none has come in a while
                continue
            if request:
                store.set(request[0], self._served(*request[1:]))

    def _served(self, endpoint: str, to: str, at: int, number: int, size: int, limit: float) -> str:
        try:
            memory = self._memories.get(number)
            if memory is None or size > memory.length:
                return f"no memory {number} of {size} bytes is registered"
            if endpoint not in self._back:
                self._back[endpoint] = self._context.connect(self._endpoint,
                                                             Endpoint.deserialize(bytes.fromhex(endpoint)))
            self._put(self._back[endpoint], bytes.fromhex(to), at, memory, 0, size, limit)
        except Exception as e:
            return f"{type(e).__name__}: {e}"
        return ""

    def close(self, *, timeout: float | None = None) -> None:
        """Waits for submitted transfers and ends the transport. After a timeout it is to be called again. Closing twice
        is harmless."""
        if self._ended:
            return
        self._close_cuda_streams()
        self._closed = True
        self._worker.submit(lambda: None).result(self._limit(timeout))
        self._ended = True
        self._worker.shutdown()
        if self._home is not None:
            self._home[0].queue_push(self._token, "null")
            self._server.join()
        self._memories.clear()
        self._context.close()
