"""What PyTorch 2.15 asks of a backend besides its collectives: subgroups, elastic membership, memory, hooks."""

import ctypes
import secrets
import socket
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as _c10d

from .. import errors
from .._lib import lib
from ..device import GpuBuffer
from ..nccl._group import current as group_of_thread
from ..nccl._group import group_end, group_start
from ._named import BACKEND, Named
from ._tensors import option
from .device_queue import DeviceQueue
from .work import Work

if TYPE_CHECKING:
    from typing_extensions import Self


def served() -> tuple[Any, str, int]:
    """A store that this process serves, and the host and port by which others reach it."""
    host = socket.gethostname()
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        host = "127.0.0.1"
    store = dist.TCPStore(host, 0, None, True, wait_for_workers=False)
    return store, host, int(store.port)


if BACKEND:
    class Options(_c10d.Backend.Options):
        """pg_options of init_process_group and new_group: the level of exact sums, "run", "batch", "placement" or
        "reference"."""

        def __init__(self, exact: str | None = None, timeout: timedelta = timedelta(minutes=30)) -> None:
            super().__init__("goccl", timeout=timeout)
            self.exact = exact


class Abilities(Named):
    """A process group's queues, one for each device, and what can be done with all of them."""

    supports_splitting = supports_shrinking = supports_reconfigure = supports_abort_hooks = BACKEND
    _supports_time_estimate = BACKEND

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta | None = None) -> None:
        super().__init__(store, rank, size)
        self._seconds = timeout.total_seconds() if timeout is not None else None
        self._queues: dict[torch.device, DeviceQueue] = {}
        self._lock = threading.Lock()
        self._hooks: dict[int, Callable[[], None]] = {}
        self._home: Any = None  # the store by which others reach this process in reconfigure
        self._shrunk = self.windows = self._monitored = 0  # how many were made, the same on all ranks
        if BACKEND:
            self._options = _c10d.Backend.Options("goccl", timeout=timeout or timedelta(minutes=30))

    @property
    def options(self) -> Any:
        """The options that the backend was made with."""
        return self._options

    def _queue(self, tensor_or_device: torch.Tensor | torch.device) -> DeviceQueue:
        device = tensor_or_device if isinstance(tensor_or_device, torch.device) else tensor_or_device.device
        queue = self._queues.get(device)
        if queue is not None:
            return queue
        if device.type not in ("cpu", "cuda"):
            raise errors.InvalidArgument(f"a tensor on {device}: goccl works on cpu and cuda")
        if device.type == "cpu" or device.index is None:
            device = torch.device("cpu" if device.type == "cpu" else f"cuda:{torch.cuda.current_device()}")
        with self._lock:
            queue = self._queues.get(device)
            if queue is None:
                number = sum(1 for d in self._queues if d.type == device.type)
                queue = self._queues[device] = DeviceQueue.meet(self._store, self._rank_, self._size_, device,
                                                                self._seconds, number,
                                                                getattr(getattr(self, "_options", None), "exact", None))
                queue.failed = self._failed
        return queue

    def eager_connect_single_device(self, device: torch.device) -> None:
        """Makes the communicator of a device now."""
        self._queue(device)

    def set_timeout(self, timeout: timedelta) -> None:
        """The timeout of later waits on the host, and of communicators that are made later. The deadline of collectives
        on a GPU stays as it was when their communicator was made."""
        self._seconds = timeout.total_seconds()
        if BACKEND:
            self._options._timeout = timeout
        for queue in self._queues.values():
            queue.limit = self._seconds

    # Other groups.

    def _other(self, store: Any, rank: int, size: int, opts: Any) -> "Self":
        timeout = opts._timeout if opts is not None else timedelta(seconds=self._seconds or 1800)
        made = type(self)(store, rank, size, timeout)
        if opts is not None:
            made._options = opts
        return made

    def split(self, store: Any, ranks: list[int], opts: Any = None) -> "Self":
        """A backend of some of the ranks, which alone take part."""
        return self._other(store, list(ranks).index(self._rank_), len(ranks), opts)

    def merge(self, store: Any, opts: Any, rank: int, size: int) -> "Self":
        """A backend of this group's ranks and others."""
        return self._other(store, rank, size, opts)

    def perform_nocolor_split(self, device: torch.device) -> None:
        """Nothing: ranks outside of a new group take no part in making it."""

    def shrink(self, ranks_to_exclude: list[int], shrink_flags: int = 0, opts: Any = None) -> "Self":
        """A backend without some ranks, which may be dead. With SHRINK_ABORT running work is ended first."""
        left = [r for r in range(self._size_) if r not in set(ranks_to_exclude)]
        self._shrunk += 1
        store = dist.PrefixStore(f"goccl/shrunk/{self._shrunk}", self._store)
        made = self._other(store, left.index(self._rank_), len(left), opts)
        for device, queue in self._queues.items():
            if shrink_flags:
                queue.drop()
            comm = queue.comm.shrink(ranks_to_exclude, abort=bool(shrink_flags))
            made._queues[device] = DeviceQueue(comm, device)
            made._queues[device].failed = made._failed
        return made

    # Elastic membership.

    def get_reconfigure_handle(self) -> str:
        """By what peers reach this process in reconfigure: a store that it serves from now on."""
        if self._home is None:
            store, host, port = served()
            self._home = store, f"{secrets.token_hex(8)}@{host}:{port}"
        return str(self._home[1])

    def reconfigure(self, opts: Any) -> Work:
        """Becomes a member of a new communicator: of the processes of opts.handles, in the order of a list, and in any
        order of a set. What the old one still does is ended. opts.uuid is new each time."""
        handles = list(opts.handles) if isinstance(opts.handles, list) else sorted(opts.handles)
        mine = self.get_reconfigure_handle()
        if mine not in handles:
            raise errors.InvalidArgument(f"reconfigure: this process's handle {mine} is not among the handles: pass "
                                         "every member's get_reconfigure_handle()")
        self.abort()
        timeout = opts.timeout or timedelta(seconds=self._seconds or 300)
        host, _, port = handles[0].partition("@")[2].rpartition(":")
        store = self._home[0] if handles[0] == mine else dist.TCPStore(host, int(port), None, False, timeout)
        self._store = dist.PrefixStore(f"goccl/{opts.uuid}", store)
        self._rank_, self._size_ = handles.index(mine), len(handles)
        queue = self._queue(torch.device("cpu"))
        return queue.submit(lambda c, s: c.barrier(stream=s), (), [])

    # Memory.

    def suspend(self) -> None:
        """Frees memory that communicators need only for their work. Collective; until resume nothing else may run."""
        for queue in self._queues.values():
            queue.comm.suspend()

    def resume(self) -> None:
        """Takes the memory that suspend has freed."""
        for queue in self._queues.values():
            queue.comm.resume()

    def memory_stats(self) -> dict[str, int]:
        """Bytes of all communicators under ProcessGroupNCCL's names: those that suspend frees, those that it does not,
        and both; suspended is 1 in between."""
        each = [queue.comm.memory_stats() for queue in self._queues.values()]
        free, keep = (sum(m[i] for m in each) for i in (0, 1))
        return {"suspend": free, "suspended": int(any(m[2] for m in each)), "persist": keep, "total": free + keep}

    def supports_tensor_alloc(self, device: Any) -> bool:
        """Whether allocate_tensor has memory for a device, given by PyTorch as a number for GPUs."""
        return BACKEND and (isinstance(device, int) or device.type in ("cpu", "cuda"))

    def allocate_tensor(self, size: int, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """A tensor in memory that every peer can map, as windows of kernels that load and store need it."""
        n = size * dtype.itemsize
        on = self._queue(torch.device(device)).comm.device
        memory: torch.Tensor = GpuBuffer(max(n, 1), "torch.uint8", device=on)
        return memory[:n].view(dtype)

    # Failures.

    def registerAbortHook(self, hook_id: int, hook: Callable[[], None]) -> None:
        """hook is called before the group is aborted, and when one of its collectives has failed."""
        self._hooks[hook_id] = hook

    def unregisterAbortHook(self, hook_id: int) -> None:
        """Forgets a hook."""
        self._hooks.pop(hook_id, None)

    register_abort_hook, unregister_abort_hook = registerAbortHook, unregisterAbortHook

    def _failed(self) -> None:
        for _, hook in sorted(self._hooks.items()):
            hook()

    def get_error(self) -> Any:
        """The kind of the first failure."""
        for queue in self._queues.values():
            failure = queue.failure()
            if isinstance(failure, errors.Timeout):
                return _c10d.ErrorType.TIMEOUT
            if isinstance(failure, errors.PeerDead):
                return _c10d.ErrorType.REMOTE_ERROR
            if failure is not None:
                return _c10d.ErrorType.COMM_ERROR
        return _c10d.ErrorType.SUCCESS

    def monitored_barrier(self, opts: Any = None, waitAllRanks: bool = False) -> None:
        """A barrier at the store, for debugging. Where ranks do not come in time rank 0 raises their names: the first
        one's, or with waitAllRanks all."""
        limit = option(opts, "timeout", timedelta(-1))
        if limit < timedelta(0):  # not set
            limit = timedelta(seconds=self._seconds or 1800)
        self._monitored += 1
        store = dist.PrefixStore(f"goccl/monitored/{self._monitored}", self._store)
        if self._rank_:
            store.set(str(self._rank_), "")
            try:
                store.wait(["0"], limit)
            except RuntimeError as e:
                raise errors.Timeout(f"Rank {self._rank_} successfully reached monitoredBarrier, but received errors "
                                     "while waiting for send/recv from rank 0: its error names the ranks that have "
                                     f"not come: {e}") from e
            return
        if not limit:
            raise errors.Timeout("Rank 0 timed out in monitoredBarrier after 0 ms: give it time for the other ranks")
        end, late = time.monotonic() + limit.total_seconds(), []
        for r in range(1, self._size_):
            try:
                store.wait([str(r)], timedelta(seconds=max(end - time.monotonic(), 0.001)))
            except RuntimeError:
                late.append(str(r))
                if not waitAllRanks:
                    break
        if late:
            raise errors.Timeout(f"Rank{'s' * waitAllRanks} {', '.join(late)} failed to pass monitoredBarrier in "
                                 f"{limit.total_seconds() * 1e3:g} ms")
        store.set("0", "")

    def abort(self) -> None:
        """Ends running work without waiting for peers."""
        if self._queues:
            self._failed()
        for queue in self._queues.values():
            queue.close(abort=True)
        self._queues.clear()

    def shutdown(self) -> None:
        """Waits for enqueued work and leaves."""
        for queue in self._queues.values():
            queue.close()
        self._queues.clear()

    def _wait_for_pending_works(self) -> None:
        for queue in self._queues.values():
            queue.flush()
            if queue.cuda:
                queue._side.synchronize()
            else:
                queue.settle()

    # Estimates.

    def _start_time_estimate(self) -> None:
        for queue in self._queues.values():
            queue.flush()
            queue.settle()
        group_start()

    def _end_time_estimate(self) -> float:
        """The microseconds of the calls since _start_time_estimate, none of which has run."""
        requests, micros = group_of_thread.requests, ctypes.c_double()
        group_of_thread.requests, group_of_thread.waits, group_of_thread.keep = [], {}, []
        group_end()
        if requests:
            lib.estimate(b"".join(requests), len(requests), ctypes.byref(micros))
        return micros.value
