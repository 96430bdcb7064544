"""CommGroup: a job's ranks, and channels between them in one call each."""

import os
from collections.abc import Iterable
from typing import Any

from . import errors
from ._buffer import ANY, CUDA, resolve, shared
from ._types import DeviceType, Transport, TransportFlags
from ._typing import BufferSpec
from .bootstrap import Bootstrap, TcpBootstrap, UniqueId, torch_world
from .channel import MemoryChannel, SwitchChannel, connect_nvls_collective
from .device import Device, RawGpuBuffer, current_device
from .communicator import Communicator
from .connection import Connection, EndpointConfig, RegisteredMemory
from .context import Context
from .semaphore import Semaphore
from .proxy import BasePortChannel, PortChannel, ProxyService

__all__ = ["CommGroup"]

_Scratch = BufferSpec | RegisteredMemory | dict[int, RegisteredMemory]


class CommGroup:
    """The ranks of a job and a communicator of primitives among them.

    Made from an mpi4py communicator, from a torch process group, from an address with rank and size, or, with no
    arguments, from the environment of torchrun, mpirun, srun or `goccl run`. Tensors are numpy, cupy or torch arrays,
    or other buffers that goccl takes.
    """

    bootstrap: Bootstrap

    def __init__(self, mpi_comm: Any = None, torch_group: Any = None, interfaceIpPortTrio: str = "",
                 rank: int | None = None, size: int | None = None, *, bootstrap: Bootstrap | None = None,
                 device: Device | None = None) -> None:
        if bootstrap is not None:
            self.bootstrap = bootstrap
        elif interfaceIpPortTrio:
            if rank is None or size is None:
                raise errors.InvalidArgument("interfaceIpPortTrio needs rank and size")
            self.bootstrap = TcpBootstrap.create(rank, size)
            self.bootstrap.initialize(interfaceIpPortTrio)
        elif mpi_comm is not None:
            self.bootstrap = TcpBootstrap.create(mpi_comm.rank, mpi_comm.size)
            uid: bytes = mpi_comm.bcast(UniqueId.create().as_bytes if mpi_comm.rank == 0 else None, 0)
            self.bootstrap.initialize(UniqueId(uid))
        elif torch_group is not None:
            *place, shared_id = torch_world(torch_group)
            self.bootstrap = TcpBootstrap.create(*place)
            self.bootstrap.initialize(shared_id)
        else:
            self.bootstrap = Bootstrap.from_env()
        self.my_rank = self.bootstrap.get_rank()
        self.nranks = self.bootstrap.get_n_ranks()
        self.nranks_per_node = self.bootstrap.get_n_ranks_per_node()
        self.nranks_per_ipc_domain = self.ipc_domain_n_ranks = self.nranks_per_node
        self.device = device or current_device(self.bootstrap.get_local_rank())
        self.communicator = Communicator(self.bootstrap, Context(), device=self.device)
        self.communicator.group = self

    def barrier(self) -> None:
        """Returns when every rank has called it."""
        self.bootstrap.barrier()

    def send(self, tensor: Any, peer: int, tag: int = 0) -> None:
        """Sends a numpy array's bytes to peer by the bootstrap: for small things."""
        self.bootstrap.send(memoryview(tensor).cast("B") if not isinstance(tensor, (bytes, bytearray)) else tensor,
                            peer, tag)

    def recv(self, tensor: Any, peer: int, tag: int = 0) -> None:
        """Receives into a numpy array that has the message's size."""
        view = memoryview(tensor)
        if view.readonly or not view.c_contiguous:
            raise errors.InvalidArgument("the array is read-only or not contiguous: receive into one that can be "
                                         "written")
        view = view.cast("B")
        data = self.bootstrap.recv(peer, tag)
        if len(data) != len(view):
            raise errors.InvalidArgument(f"rank {peer} sent {len(data)} bytes, the array has {len(view)}")
        view[:] = data

    def my_ib_device(self, local_rank: int) -> Transport:
        """The InfiniBand transport of a local rank; raises Unsupported where there is no adapter."""
        root = "/sys/class/infiniband"
        found = sorted(os.listdir(root), key=lambda name: (len(name), name)) if os.path.isdir(root) else []
        if not found:
            raise errors.Unsupported("this host has no InfiniBand adapter (/sys/class/infiniband is empty): use "
                                     "Transport.CudaIpc on one host, Transport.Ethernet between hosts")
        if not 0 <= local_rank < min(len(found), 8):
            raise errors.InvalidArgument(f"local rank {local_rank}: this host has the InfiniBand adapters "
                                         f"{', '.join(found)}")
        return Transport(Transport.IB0 + local_rank)

    def make_connection(self, all_ranks: int | Iterable[int],
                        endpoints: Transport | EndpointConfig | dict[int, Transport | EndpointConfig],
                        use_switch: bool = False, *, tag: int = 0) -> Any:
        """Connections with the ranks in all_ranks (the own one is left out), by rank. endpoints is a Transport, an
        EndpointConfig, or a dict of either by rank. Both sides call it. With use_switch and IPC a connection among all
        ranks for switch channels, see connect_nvls_collective."""
        if use_switch and not isinstance(endpoints,
                                         dict) and EndpointConfig.of(endpoints).transport == Transport.CudaIpc:
            return connect_nvls_collective(self.communicator,
                                           {self.my_rank, *([all_ranks] if isinstance(all_ranks, int) else all_ranks)},
                                           1 << 30)
        ranks = [all_ranks] if isinstance(all_ranks, int) else [r for r in all_ranks if r != self.my_rank]
        futures = {}
        for r in ranks:
            e = endpoints[r] if isinstance(endpoints, dict) else endpoints
            if isinstance(e, (int, Transport)):
                e = EndpointConfig(Transport(e), self.device)
            futures[r] = self.communicator.connect(e, r, tag)
        return {r: f.get() for r, f in futures.items()}

    def _transports(self, connections: "dict[int, Connection]") -> Transport | TransportFlags:
        flags: Transport | TransportFlags = Transport.CudaIpc
        for c in connections.values():
            flags = flags | c.transport()
        return flags

    def register_local_memory(self, tensor: BufferSpec | RegisteredMemory,
                              connections: "dict[int, Connection]") -> RegisteredMemory:
        """tensor, registered for the transports of connections. A RegisteredMemory is returned unchanged."""
        if isinstance(tensor, RegisteredMemory):
            return tensor
        b = resolve(tensor)
        shared(b)
        here = b.kind != CUDA or b.device in (ANY, self.device.id)
        device = self.device if here else Device(DeviceType.GPU, b.device)
        if (b.kind == CUDA) == self.device.is_host:
            raise errors.InvalidArgument(f"the tensor is in {'GPU' if b.kind == CUDA else 'host'} memory, this group "
                                         f"works on {self.device}")
        m = self.communicator.register_memory(b.ptr, b.nbytes, self._transports(connections), device=device)
        m._keep += (b,)
        return m

    def register_tensor_with_connections(self, tensor: BufferSpec | RegisteredMemory,
                                         connections: "dict[int, Connection]", *,
                                         tag: int = 0) -> "dict[int, RegisteredMemory]":
        """Exchanges memories with the peers of connections: their tensors by rank, and the own one under the own
        rank."""
        local = self.register_local_memory(tensor, connections)
        sent = [self.communicator.send_memory(local, r, tag) for r in connections]
        got = {r: self.communicator.recv_memory(r, tag) for r in connections}
        try:
            for f in sent:
                f.get()
        except errors.InvalidArgument as e:
            if "cannot be shared" not in str(e):
                raise
            raise errors.InvalidArgument(f"{e} (make the tensor with goccl.GpuBuffer)") from None
        return {self.my_rank: local} | {r: f.get() for r, f in got.items()}

    def make_semaphores(self, connections: "dict[int, Connection]", *, tag: int = 0) -> "dict[int, Semaphore]":
        """A semaphore with the peer of each connection."""
        futures = {r: self.communicator.build_semaphore(c, r, tag) for r, c in connections.items()}
        return {r: f.get() for r, f in futures.items()}

    def make_memory_channels(self, tensor: BufferSpec,
                             connections: "dict[int, Connection]") -> "dict[int, MemoryChannel]":
        """Channels by rank, each from tensor here to the peer's tensor."""
        semaphores = self.make_semaphores(connections)
        memories = self.register_tensor_with_connections(tensor, connections)
        return {r: MemoryChannel(semaphores[r], memories[r], memories[self.my_rank]) for r in connections}

    def make_memory_channels_with_scratch(self, tensor: BufferSpec | RegisteredMemory,
                                          registeredScratchBuffer: _Scratch,
                                          connections: "dict[int, Connection]") -> "dict[int, MemoryChannel]":
        """Channels by rank from tensor here to the peer's scratch buffer, with the own scratch as packet buffer. The
        scratch is a tensor, the RegisteredMemory of one, or the memories that register_tensor_with_connections
        exchanged."""
        scratch = self._scratch(registeredScratchBuffer, connections)
        semaphores = self.make_semaphores(connections)
        local = self.register_local_memory(tensor, connections)
        return {r: MemoryChannel(semaphores[r], scratch[r], local, scratch[self.my_rank]) for r in connections}

    def _scratch(self, scratch: _Scratch, connections: dict[int, Connection]) -> dict[int, RegisteredMemory]:
        return scratch if isinstance(scratch, dict) else self.register_tensor_with_connections(scratch, connections)

    def _semaphore_ids(self, proxy: ProxyService, connections: dict[int, Connection]) -> dict[int, int]:
        return {r: proxy.build_and_add_semaphore(self.communicator, c) for r, c in connections.items()}

    make_sm_channels = make_memory_channels
    make_sm_channels_with_scratch = make_memory_channels_with_scratch

    def register_semaphore_with_proxy(self, proxy_service: ProxyService,
                                      connections: "dict[int, Connection]") -> dict[int, BasePortChannel]:
        """Base port channels by rank."""
        ids = self._semaphore_ids(proxy_service, connections)
        return {r: proxy_service.base_port_channel(i) for r, i in ids.items()}

    def register_memory_with_proxy(self, proxy_service: ProxyService, tensor: BufferSpec,
                                   connections: "dict[int, Connection]") -> dict[int, int]:
        """Memory ids by rank, the own one included."""
        memories = self.register_tensor_with_connections(tensor, connections)
        return {r: proxy_service.add_memory(m) for r, m in memories.items()}

    def make_port_channels(self, proxy_service: ProxyService, tensor: BufferSpec,
                           connections: "dict[int, Connection]") -> "dict[int, PortChannel]":
        """Port channels by rank, each from tensor here to the peer's tensor."""
        ids = self._semaphore_ids(proxy_service, connections)
        memories = self.register_memory_with_proxy(proxy_service, tensor, connections)
        return {r: proxy_service.port_channel(ids[r], memories[r], memories[self.my_rank]) for r in connections}

    def make_port_channels_with_scratch(self, proxy_service: ProxyService, tensor: BufferSpec | RegisteredMemory,
                                        registeredScratchBuffer: _Scratch,
                                        connections: dict[int, Connection]) -> dict[int, PortChannel]:
        """Port channels by rank from tensor here to the peer's scratch buffer."""
        scratch = self._scratch(registeredScratchBuffer, connections)
        ids = self._semaphore_ids(proxy_service, connections)
        src = proxy_service.add_memory(self.register_local_memory(tensor, connections))
        return {r: proxy_service.port_channel(ids[r], proxy_service.add_memory(scratch[r]), src) for r in connections}

    make_proxy_channels = make_port_channels
    make_proxy_channels_with_scratch = make_port_channels_with_scratch

    def make_switch_channel(self, tensor: BufferSpec, connections: "dict[int, Connection]", *,
                            tag: int = 0) -> SwitchChannel:
        """The unicast switch channel over every rank's tensor."""
        return SwitchChannel(self.communicator, self.register_local_memory(tensor, connections), self.device, tag)

    def device_handles(self, channels: dict[int, Any]) -> RawGpuBuffer:
        """The device handles of channels or semaphores in the memory of the device, as an array in rank order for
        kernels. The entry of a rank without a channel is zeros."""
        handles = {r: c.device_handle().raw for r, c in channels.items()}
        if not handles:
            raise errors.InvalidArgument("device_handles: no channel: a kernel needs the handle of one peer at least")
        none = bytes(len(next(iter(handles.values()))))
        raw = b"".join(handles.get(r, none) for r in range(self.nranks))
        array = RawGpuBuffer(len(raw), device=self.device)
        array.copy_from(raw)
        return array

    def close(self) -> None:
        """Ends everything made here, then leaves the job."""
        self.communicator.close()
        self.communicator.context().close()
        self.bootstrap.close()
