"""Who is in the job: bootstraps, and the unique id by which ranks meet."""

import atexit
import ctypes
import weakref
from typing import Any

from . import errors
from ._checked import fit
from ._lib import interruptible, lib, nanoseconds
from ._typing import BytesLike

__all__ = ["UniqueId", "Bootstrap", "TcpBootstrap", "mpi_world"]

_open: "weakref.WeakSet[Bootstrap]" = weakref.WeakSet()


@atexit.register
def _leave() -> None:
    # A rank that ends without a goodbye looks dead to its peers.
    for b in list(_open):
        b.close()


class UniqueId:
    """The 128 bytes by which ranks meet. They hold a secret; the process that made them serves the meeting."""

    __slots__ = ("_raw",)

    def __init__(self, raw: bytes) -> None:
        raw = bytes(raw)
        if len(raw) != 128:
            raise errors.InvalidArgument(f"a unique id has 128 bytes, not {len(raw)}")
        self._raw = raw

    @classmethod
    def create(cls, timeout: float | None = None) -> "UniqueId":
        """A new id, served by this process."""
        buf = ctypes.create_string_buffer(128)
        lib.unique_id_create(nanoseconds(timeout), buf)
        return cls(buf.raw)

    @classmethod
    def from_bytes(cls, raw: bytes) -> "UniqueId":
        """The id of 128 bytes."""
        return cls(raw)

    @property
    def as_bytes(self) -> bytes:
        """The 128 bytes."""
        return self._raw

    def __bytes__(self) -> bytes:
        return self._raw

    def __len__(self) -> int:
        return 128

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UniqueId) and self._raw == other._raw

    def __hash__(self) -> int:
        return hash(self._raw)

    def __reduce__(self) -> "tuple[type[UniqueId], tuple[bytes]]":
        return (UniqueId, (self._raw,))

    def __repr__(self) -> str:
        return "UniqueId(…)"  # the bytes are a secret


class Bootstrap:
    """One rank's view of a job: small messages, gathers and barriers among its ranks. timeout is in seconds; None is
    the timeout of joining: the one that was given then, else GOCCL_TIMEOUT, else 30 s.

    It is closed with its last reference, which tells the peers that this rank has left.
    """

    def __init__(self, handle: int) -> None:
        self._adopt(handle)

    def _adopt(self, handle: int) -> None:
        self._handle = handle
        close = lib.raw("bootstrap_close")
        self._finalizer: weakref.finalize[[int], Bootstrap] | None = weakref.finalize(self, close, handle)
        self._finalizer.atexit = False
        _open.add(self)
        self._rank, self._size, self._local_rank, self._local_size = lib.bootstrap_info(handle)

    @classmethod
    def from_env(cls, timeout: float | None = None) -> "Bootstrap":
        """Joins the job that torchrun, mpirun, srun, Kubernetes or `goccl run` describes in the environment."""
        return cls(interruptible(lib.bootstrap_join_env, nanoseconds(timeout)))

    @classmethod
    def local(cls, size: int) -> "list[Bootstrap]":
        """All ranks of a job inside this process, one for each of its threads."""
        handles = (ctypes.c_uint64 * fit("bootstrap_local", ctypes.c_int32, size))()
        lib.bootstrap_local(size, handles)
        return [cls(h) for h in handles]

    @property
    def handle(self) -> int:
        """The goccl_bootstrap."""
        if not getattr(self, "_handle", 0):
            raise errors.InvalidUsage("the bootstrap has not joined a job: call initialize first")
        return self._handle

    def get_rank(self) -> int:
        """This rank."""
        return self._rank

    def get_n_ranks(self) -> int:
        """The number of ranks."""
        return self._size

    def get_n_ranks_per_node(self) -> int:
        """The number of ranks on this host."""
        return self._local_size

    get_n_ranks_per_ipc_domain = get_n_ranks_per_node

    def get_local_rank(self) -> int:
        """This rank's position among the ranks of its host."""
        return self._local_rank

    def send(self, data: BytesLike, peer: int, tag: int = 0, timeout: float | None = None) -> None:
        """Sends bytes to peer. They may be changed when it returns."""
        raw = bytes(data)
        interruptible(lib.bootstrap_send, self.handle, peer, tag, raw, len(raw), nanoseconds(timeout))

    def recv(self, peer: int, tag: int = 0, timeout: float | None = None) -> bytes:
        """The oldest message of peer under tag."""
        return interruptible(lib.bootstrap_recv, self.handle, peer, tag, nanoseconds(timeout))

    def all_gather(self, data: BytesLike, timeout: float | None = None) -> list[bytes]:
        """Everybody's data, which is equally long on all ranks, by rank."""
        raw = bytes(data)
        out = ctypes.create_string_buffer(max(len(raw) * self._size, 1))
        interruptible(lib.bootstrap_all_gather, self.handle, raw, len(raw), out, nanoseconds(timeout))
        return [out.raw[r * len(raw):(r + 1) * len(raw)] for r in range(self._size)]

    def broadcast(self, data: bytes | None, root: int = 0, timeout: float | None = None) -> bytes:
        """root's data, of any length."""
        if not 0 <= root < self._size:
            raise errors.InvalidArgument(f"root {root}: the ranks are 0 to {self._size - 1}")
        if self._rank == root:
            raw = bytes(data or b"")
            for r in range(self._size):
                if r != root:
                    self.send(raw, r, _BROADCAST_TAG, timeout)
            return raw
        return self.recv(root, _BROADCAST_TAG, timeout)

    def barrier(self, timeout: float | None = None) -> None:
        """Returns when every rank has called it."""
        interruptible(lib.bootstrap_barrier, self.handle, nanoseconds(timeout))

    def close(self) -> None:
        """Leaves the job. Closing twice is harmless."""
        finalizer = getattr(self, "_finalizer", None)
        if finalizer is not None:
            finalizer()


_BROADCAST_TAG = 0x60CC1


class TcpBootstrap(Bootstrap):
    """A bootstrap by sockets: create, then initialize with a unique id or with an address."""

    def __init__(self, rank: int, n_ranks: int) -> None:
        self._handle = 0
        self._rank, self._size, self._local_rank, self._local_size = rank, n_ranks, 0, 1
        self._id: UniqueId | None = None
        self._finalizer = None

    @staticmethod
    def create(rank: int, n_ranks: int) -> "TcpBootstrap":
        """Rank rank of n_ranks. Nothing is opened yet."""
        return TcpBootstrap(rank, n_ranks)

    @staticmethod
    def create_unique_id() -> UniqueId:
        """A new id, served by this process."""
        return UniqueId.create()

    def get_unique_id(self) -> UniqueId:
        """The id that this bootstrap was initialized with."""
        if self._id is None:
            raise errors.InvalidUsage("the bootstrap was not initialized with a unique id")
        return self._id

    def initialize(self, where: "UniqueId | str", timeout_sec: float | None = None) -> None:
        """Meets the other ranks: by a unique id, or at "ip:port", "host:port" or "interface:ip:port", where rank 0
        listens. timeout_sec None is GOCCL_TIMEOUT, else 30 s."""
        if self._handle:
            raise errors.InvalidUsage("the bootstrap is initialized already")
        if isinstance(where, str):
            args = (lib.bootstrap_join_address, where.encode())
        else:
            self._id = where if isinstance(where, UniqueId) else UniqueId(where)
            args = (lib.bootstrap_join_id, self._id.as_bytes)
        self._adopt(interruptible(*args, self._rank, self._size, nanoseconds(timeout_sec)))


def torch_world(group: Any) -> tuple[int, int, UniqueId]:
    """This rank, the number of ranks and a unique id of a torch process group (None: the default one). It need not be
    registered with torch.distributed: vLLM's elastic groups are not."""
    import torch
    import torch.distributed as dist

    group = dist.group.WORLD if group is None else group
    box = torch.tensor(list(UniqueId.create().as_bytes) if group.rank() == 0 else [0] * 128, dtype=torch.uint8)
    kinds = {d.type for d in group._device_types}
    box = box if "cpu" in kinds else box.to(kinds.pop())
    group.broadcast(box, 0).wait()
    return group.rank(), group.size(), UniqueId(bytes(box.tolist()))


def mpi_world() -> Any:
    """mpi4py's MPI.COMM_WORLD where MPI runs this program on more than one rank, else None. An MPI that cannot be
    loaded is like one that is absent: mpi4py's wheel holds no MPI library, and importing its MPI raises RuntimeError
    where none is found."""
    try:
        from mpi4py import MPI
    except (ImportError, OSError, RuntimeError):
        return None
    return MPI.COMM_WORLD if MPI.COMM_WORLD.size > 1 else None
