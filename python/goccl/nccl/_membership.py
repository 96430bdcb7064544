"""Membership: a rank in a communicator, from its making to its end."""

import atexit
import ctypes
import sys
import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import errors
from .._abi import CommInfo
from .._checked import array
from .._lib import error, interruptible, lib
from .._types import DeviceType
from ..bootstrap import Bootstrap, UniqueId, torch_world
from ..device import Device, current_device, device_count
from ._config import NCCLConfig, pointer

if TYPE_CHECKING:
    from typing_extensions import Self

IN_PROGRESS = errors.InProgress.code  # a split goes on in the background
_open: "weakref.WeakSet[Membership]" = weakref.WeakSet()


@atexit.register
def _leave() -> None:
    # A program that ends by an exception may have enqueued work that its peers never join, so it does not wait.
    failed = getattr(sys, "last_value", None) is not None
    for comm in list(_open):
        if comm._finalizer.alive:
            comm.abort() if failed else comm.destroy()


def _set_up(handle: int) -> int:
    """Waits for a communicator that is being set up; a failure frees it."""
    abort = lib.raw("comm_abort")
    try:
        interruptible(lib.comm_wait, handle, on_interrupt=lambda: abort(handle))
    except errors.GocclError:
        abort(handle)
        raise
    return handle


class Membership:
    """What a communicator is besides its calls: it is made, asked and ended."""

    def __init__(self, handle: int, keep: object = None) -> None:
        self._handle = handle
        self._keep = keep
        self._submit = lib.raw("submit").unchecked
        self._stream = 0  # host device: the own stream, on which waits can be interrupted
        info = CommInfo()
        lib.comm_info_get(handle, ctypes.byref(info))
        self._rank: int = info.rank
        self._size: int = info.size
        self._device = Device._of_handle(info.device)
        self._host = self._device.is_host
        self._stream_lock = threading.Lock()
        self._finalizer = weakref.finalize(self, lib.raw("comm_destroy"), handle)
        self._finalizer.atexit = False  # _leave does it
        _open.add(self)

    # Making.

    @classmethod
    def init(cls, nranks: int, rank: int, unique_id: "UniqueId | Sequence[UniqueId]", config: NCCLConfig | None = None,
             *, device: Device | None = None) -> "Self":
        """Joins rank of nranks by unique_id, which one of the processes made. It is collective and returns when every
        rank has come.

        device: the default is the GPU that is current on this thread, or, where there is none, host device rank.
        """
        if isinstance(unique_id, Sequence) and not isinstance(unique_id, (bytes, bytearray)):
            unique_id = unique_id[0]
        raw = bytes(unique_id)
        device = device or current_device(rank)
        return cls(_set_up(lib.comm_start(raw, rank, nranks, device.handle, pointer(config))))

    @classmethod
    def from_bootstrap(cls, bootstrap: Bootstrap, config: NCCLConfig | None = None, *,
                       device: Device | None = None) -> "Self":
        """A communicator of the bootstrap's ranks; it keeps the bootstrap open, and is the bootstrap's only user
        meanwhile."""
        device = device or current_device(bootstrap.get_local_rank())
        handle = interruptible(lib.comm_create, bootstrap.handle, device.handle, pointer(config))
        return cls(handle, bootstrap)

    @classmethod
    def from_torch(cls, group: Any = None, where: Any = None) -> "Self":
        """One of the ranks of a torch process group (None: the default one), on the GPU, or the host device, that a
        torch.device names. None: this process's current GPU, or the host device if there is none."""
        import torch

        rank, size, shared_id = torch_world(group)
        where = where or torch.device("cuda" if torch.cuda.is_available() else "cpu")
        if where.type != "cuda":
            return cls.init(size, rank, shared_id, device=Device(DeviceType.CPU, rank))
        index = torch.cuda.current_device() if where.index is None else where.index
        return cls.init(size, rank, shared_id, device=Device(DeviceType.GPU, index))

    @classmethod
    def from_env(cls, config: NCCLConfig | None = None, *, device: Device | None = None) -> "Self":
        """The communicator of the job that torchrun, mpirun, srun or `goccl run` started."""
        return cls.from_bootstrap(Bootstrap.from_env(), config, device=device)

    @classmethod
    def init_all(cls, devices: "int | Sequence[Device | int]", config: NCCLConfig | None = None) -> "list[Self]":
        """All ranks in this process, rank i on devices[i]: Devices, or GPU numbers, or how many host devices."""
        if isinstance(devices, int):
            kind = DeviceType.GPU if device_count() >= devices else DeviceType.CPU
            devices = [Device(kind, i) for i in range(devices)]
        on = [d if isinstance(d, Device) else Device(DeviceType.GPU, d) for d in devices]
        n = len(on)
        out = (ctypes.c_uint64 * n)()
        interruptible(lib.comm_init_all, n, (ctypes.c_uint64 * n)(*[d.handle for d in on]), pointer(config), out)
        return [cls(h) for h in out]

    def split(self, color: int | None, key: int = 0, config: NCCLConfig | None = None) -> "Self | None":
        """New communicators, one for each color, ranks ordered by key. A rank with color None takes part and gets
        None."""
        child = lib.comm_split_start(self._handle, -1 if color is None else color, key, pointer(config))
        return self._child(child) if child else None

    def shrink(self, exclude_ranks: Sequence[int] = (), config: NCCLConfig | None = None, *,
               abort: bool = False) -> "Self":
        """A communicator without the ranks in exclude_ranks, which do not call it and may be dead. Without
        exclude_ranks the ranks leave out those that have failed, and agree on them. abort ends running work first."""
        exclude = list(exclude_ranks)
        child = lib.comm_shrink_start(self._handle, array("exclude_ranks", ctypes.c_int32, exclude),
                       len(exclude), int(abort), pointer(config))
        return self._child(child)

    def get_unique_id(self) -> UniqueId:
        """The id by which new ranks join in the next grow. One rank of the communicator makes it, once for each."""
        raw = ctypes.create_string_buffer(128)
        lib.comm_unique_id(self._handle, 0, raw)
        return UniqueId(raw.raw)

    def grow(self, nranks: int, unique_id: UniqueId | None = None, config: NCCLConfig | None = None) -> "Self":
        """A communicator of nranks: these, which keep their numbers, and new ones behind them. Every rank calls it;
        the one that made the id passes it. A new rank calls init(nranks, its rank, the id)."""
        raw = None if unique_id is None else bytes(unique_id)
        return self._child(lib.comm_grow_start(self._handle, nranks, raw, pointer(config)))

    def _child(self, handle: int) -> "Self":
        return type(self)(_set_up(handle), self)

    # Memory.

    def suspend(self) -> None:
        """Frees the memory that the communicator needs only for its work. Collective; until resume it can only be
        ended, and graphs that were captured before must not be launched."""
        lib.comm_suspend_start(self._handle)
        interruptible(lib.comm_wait, self._handle)

    def resume(self) -> None:
        """Takes the memory anew that suspend has freed, at the same addresses, so graphs of before may be launched
        again. Collective."""
        lib.comm_resume_start(self._handle)
        interruptible(lib.comm_wait, self._handle)

    def memory_stats(self) -> tuple[int, int, bool]:
        """Bytes of the device that suspend frees, or has freed, those that it does not, and whether it is suspended."""
        free, keep, suspended = lib.comm_memory(self._handle)
        return free, keep, bool(suspended)

    # Ending.

    def finalize(self) -> None:
        """Waits for this rank's enqueued work; no call may follow but destroy."""
        interruptible(lib.comm_finalize, self._handle)

    def destroy(self) -> None:
        """Waits for this rank's enqueued work and frees the communicator. Twice is harmless."""
        self._finalizer()

    close = destroy

    def abort(self) -> None:
        """Ends running and later work and frees the communicator, without waiting for peers. Any thread may call it at
        any time."""
        if self._finalizer.detach():
            lib.comm_abort(self._handle)

    def revoke(self) -> None:
        """Ends running work; split, shrink and destroy are still possible."""
        lib.comm_revoke(self._handle)

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.destroy() if kind is None else self.abort()

    # Properties.

    @property
    def rank(self) -> int:
        """This rank."""
        return self._rank

    @property
    def nranks(self) -> int:
        """The number of ranks."""
        return self._size

    @property
    def device(self) -> Device:
        """The device."""
        return self._device

    @property
    def cuda_dev(self) -> int:
        """The device's number."""
        return self._device.id

    @property
    def ptr(self) -> int:
        """The goccl_comm."""
        return self._handle

    @property
    def is_valid(self) -> bool:
        """Whether the communicator has not been ended here."""
        return self._finalizer.alive

    def get_async_error(self) -> errors.GocclError | None:
        """The first error since the communicator was made, or None."""
        r = lib.raw("comm_error")(self._handle)
        return error(r) if r and r != IN_PROGRESS else None

    def get_last_error(self) -> str:
        """The text of the thread's latest failure."""
        text: bytes = lib.dll().goccl_last_error()
        return text.decode(errors="replace")

    def __repr__(self) -> str:
        return f"Communicator(rank={self._rank}, nranks={self._size}, device={self._device})"
