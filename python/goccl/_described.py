"""DescribedAlgorithm: an algorithm whose four parts a .cu file describes (goccl/algorithm.cuh), carried out."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from . import errors
from ._description import (BLOCKS, ELEMENT_SIZE, HANDLE_SIZES, INPUT, INPUT_SIZE, LOCAL_RANK, LOCAL_SIZE, MEMORY, OP, OUTPUT, OUTPUT_SIZE, PEER, PORT, RANK,
                           SCRATCH, SEMAPHORE, THREADS, TYPE, WORLD_SIZE, Description)
from ._buffer import stream_handle
from ._lib import error, lib
from ._types import ReduceOp, Transport, TransportFlags
from .algorithm import Algorithm
from .channel import BaseMemoryChannel, MemoryChannel, SwitchChannel
from .device import Device, RawGpuBuffer, current_device
from .primitives import Communicator, EndpointConfig
from .proxy import ProxyService

if TYPE_CHECKING:
    from typing import Any

    from ._types import DataType
    from ._typing import StreamSpec
    from .algorithm import Executor
    from .native import NativeModule
    from .primitives import RegisteredMemory

__all__ = ["DescribedAlgorithm"]

_TAG = 0x60CC2  # of what is exchanged here
_PREPARED = 1024  # launches that are remembered


class _Job:
    """What initialize describes: one for each communicator, made by all ranks together."""

    def __init__(self, d: Description, comm: Communicator) -> None:
        self.comm = comm
        b = comm.bootstrap()
        group = getattr(comm, "group", None)
        self.device: Device = group.device if group is not None else current_device(b.get_local_rank())
        self.rank, self.size, self.local_rank, self.local_size = b.get_rank(), b.get_n_ranks(), b.get_local_rank(), b.get_n_ranks_per_node()
        self._service: ProxyService | None = None
        futures = []
        for transport, where in d.connections:
            config = EndpointConfig(Transport(transport), self.device)
            values = self.values()
            peers = []
            for r in range(self.size):
                values[PEER] = r
                if r != self.rank and d.evaluate(where, values, {}):
                    peers.append(r)
            futures.append({r: comm.connect(config, r, _TAG) for r in peers})
        self.connections = [{r: f.get() for r, f in each.items()} for each in futures]

    def values(self) -> list[Any]:
        """The variables that the job gives."""
        v: list[Any] = [None] * SCRATCH
        v[RANK], v[WORLD_SIZE], v[LOCAL_RANK], v[LOCAL_SIZE] = self.rank, self.size, self.local_rank, self.local_size
        return v

    def service(self) -> ProxyService:
        """The proxy of port channels, started by the first of them."""
        if self._service is None:
            self._service = ProxyService(context=self.comm.context(), device=self.device)
            self._service.start_proxy()
        return self._service


class _Context:
    """What context describes: one for each key, made by all ranks together."""

    def __init__(self, d: Description, job: _Job, values: list[Any], extras: dict[str, Any]) -> None:
        self.job = job
        flags: Transport | TransportFlags = Transport.CudaIpc
        for transport, _ in d.connections:
            flags = flags | Transport(transport)
        self.scratch: list[RawGpuBuffer] = []
        for size in d.scratch:
            n = d.evaluate(size, values, extras)
            if n < 1:
                raise errors.InvalidArgument(f"algorithm {d.name}: scratch of {n} bytes")
            self.scratch.append(RawGpuBuffer(n, device=job.device))
        self._areas = [(values[INPUT], values[INPUT_SIZE]), (values[OUTPUT], values[OUTPUT_SIZE]), *((s.data(), s.bytes()) for s in self.scratch)]
        self._flags = flags
        self._local: dict[int, RegisteredMemory] = {}
        self._keep: list[Any] = []
        self.arrays = [self._channels(job, *entry) for entry in d.channels]

    def _memory(self, number: int) -> RegisteredMemory:
        m = self._local.get(number)
        if m is None:
            ptr, size = self._areas[number]
            m = self._local[number] = self.job.comm.register_memory(ptr, size, self._flags, device=self.job.device)
        return m

    def _channels(self, job: _Job, kind: int, over: int, to: Any, source: Any, packets: int | None) -> RawGpuBuffer:
        """The device handles of channels, in rank order, in device memory."""
        comm, size = job.comm, HANDLE_SIZES[kind]
        if kind not in (MEMORY, PORT, SEMAPHORE):
            channel = SwitchChannel(comm, self._memory(to), job.device, _TAG)
            self._keep.append(channel)
            return self._array(channel.device_handle().raw)
        connections = job.connections[over]
        semaphores, ids = {}, {}
        if kind == PORT:
            ids = {r: job.service().build_and_add_semaphore(comm, c) for r, c in connections.items()}
        else:
            semaphores = {r: comm.build_semaphore(c, r, _TAG) for r, c in connections.items()}
        peers = {}
        if kind != SEMAPHORE:
            sent = [comm.send_memory(self._memory(to), r, _TAG) for r in connections]
            peers = {r: comm.recv_memory(r, _TAG) for r in connections}
            for f in sent:
                f.get()
        channels: dict[int, Any] = {}
        for r in connections:
            if kind == SEMAPHORE:
                channels[r] = BaseMemoryChannel(semaphores[r].get())
            elif kind == MEMORY:
                own = self._memory(packets) if packets is not None else None
                channels[r] = MemoryChannel(semaphores[r].get(), peers[r].get(), self._memory(source), own)
            else:
                service = job.service()
                channels[r] = service.port_channel(ids[r], service.add_memory(peers[r].get()), service.add_memory(self._memory(source)))
        self._keep.append(channels)
        return self._array(b"".join(channels[r].device_handle().raw if r in channels else bytes(size) for r in range(job.size)))

    def _array(self, raw: bytes) -> RawGpuBuffer:
        array = RawGpuBuffer(len(raw), device=self.job.device)
        array.copy_from(raw)
        return array


class DescribedAlgorithm(Algorithm):
    """An algorithm of a compiled .cu file, made by ``NativeModule.create_<name>_algorithm()``.

    The first execution on a communicator makes its connections, the first for each key a context; all ranks do both together, so they must execute the same
    calls in the same order. Later executions enqueue what was prepared. Failures that the description's author made are InvalidArgument.
    """

    def __init__(self, module: NativeModule, description: Description) -> None:
        super().__init__(description.name, description.collective, description.range, doc=f"described in {module.file}")
        self._module, self._description = module, description
        self._jobs: dict[Communicator, _Job] = {}
        self._contexts: dict[tuple[Any, ...], _Context] = {}
        self._prepared: dict[tuple[Any, ...], list[Any]] = {}
        self._launch = lib.raw("kernel_launch")

    def execute(self, comm: Communicator, input_buffer: int, output_buffer: int, input_size: int, output_size: int, dtype: DataType,
                op: ReduceOp = ReduceOp.NOP, stream: StreamSpec = 0, executor: Executor | None = None, nblocks: int = 0,
                nthreads_per_block: int = 0, extras: dict[str, int] | None = None, *, symmetric_memory: bool = False, accum_dtype: DataType | None = None) -> int:
        if nblocks < 0 or nthreads_per_block < 0 or symmetric_memory or accum_dtype is not None:
            self._refuse_kernels(nblocks, nthreads_per_block, symmetric_memory, accum_dtype)
        call = (comm, input_buffer, output_buffer, input_size, output_size, dtype, op, nblocks, nthreads_per_block,
                tuple(sorted(extras.items())) if extras else None)
        launches = self._prepared.get(call)
        if launches is None:
            launches = self._prepare(call, extras or {})
        if stream.__class__ is not int:
            stream = stream_handle(stream)
        for function, shape, shared, params, n in launches:
            r = self._launch(function, stream, shape, shared, params, n)
            if r:
                raise error(r)
        return 0

    def _prepare(self, call: tuple[Any, ...], extras: dict[str, Any]) -> list[Any]:
        """The launches of a call, with everything in them evaluated."""
        comm, input_buffer, output_buffer, input_size, output_size, dtype, op, nblocks, nthreads, _ = call
        d = self._description
        job = self._jobs.get(comm)
        if job is None:
            job = self._jobs[comm] = _Job(d, comm)
        values = job.values()
        for variable, value in ((INPUT, input_buffer), (OUTPUT, output_buffer), (INPUT_SIZE, input_size), (OUTPUT_SIZE, output_size),
                                (ELEMENT_SIZE, dtype.itemsize), (TYPE, int(dtype)), (OP, int(op)), (BLOCKS, nblocks), (THREADS, nthreads)):
            values[variable] = value
        parts = (input_buffer, output_buffer, input_size, output_size, int(dtype), int(op))
        key = (comm, *(p for bit, p in enumerate(parts) if d.key >> bit & 1))
        context = self._contexts.get(key)
        if context is None:
            context = self._contexts[key] = _Context(d, job, values, extras)
        values += [s.data() for s in context.scratch]
        launches = []
        for kernel, condition, shape, shared, arguments in d.launches:
            numbers = [d.evaluate(code, values, extras) for code in shape]
            if not d.evaluate(condition, values, extras) or 0 in numbers[:3]:
                continue
            if min(numbers) < 1 or max(numbers) >= 1 << 31:
                raise errors.InvalidArgument(f"algorithm {d.name}: kernel {kernel} on {numbers[:3]} blocks of {numbers[3:]} threads")
            params = bytearray()
            for size, channels, code in arguments:
                value = context.arrays[channels].data() if channels is not None else d.evaluate(code, values, extras)
                params.extend(bytes(-len(params) % size))
                params.extend((value & (1 << 8 * size) - 1).to_bytes(size, "little"))
            launches.append((self._module.kernel(kernel, job.device)._function.handle, (ctypes.c_uint32 * 9)(*numbers), d.evaluate(shared, values, extras),
                             bytes(params), len(params)))
        if len(self._prepared) >= _PREPARED:
            self._prepared.clear()
        self._prepared[call] = launches
        return launches

    def reset(self) -> None:
        """Forgets contexts and what was prepared; no kernel of it may run, and all ranks do it together."""
        self._prepared.clear()
        self._contexts.clear()

    def build(self) -> "DescribedAlgorithm":
        """Itself: a compiled description is its own builder."""
        return self
