"""DeviceQueue: one communicator of a process group, on one device, and the stream on which its work runs."""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import torch

from .. import errors
from .._lib import TIMEOUT, lib, synchronize
from .._types import DeviceType
from ..device import Device, Stream
from ..nccl import Communicator, NCCLConfig, UniqueId, group
from .work import Work

raw_stream: Any = getattr(torch._C, "_cuda_getCurrentRawStream", None)


class DeviceQueue:
    """The work of a process group on one device, in order.

    Sends and receives are collected and go out together when one of them is waited for, or with the next
    collective, so an isend and an irecv that cross those of the peer cannot block each other.
    """

    def __init__(self, comm: Communicator, device: torch.device, limit: float | None = None) -> None:
        self.comm, self.limit = comm, limit
        self.cuda, self.index = device.type == "cuda", comm.device.id
        self._told: errors.GocclError | None = None
        self.failed: Callable[[], None] = lambda: None  # called once, when the communicator has failed
        self._side: Any = torch.cuda.Stream(self.index) if self.cuda else None
        # On the host device works have streams, so that a wait for one does not wait for later ones. The engine runs
        # them in order, whatever their streams. _open are those that are not known to have ended, _spare free streams.
        self._open: deque[Work] = deque()
        self._spare: list[Stream] = []
        self._gone = False
        self._ready: Any = self._side.record_event() if self.cuda else None  # used under the lock
        self._known: tuple[int, Any] = (-1, None)
        self._pending: list[tuple[Callable[[Communicator, Any], Any], Work, Any]] = []
        self._lock = threading.RLock()
        self._completions: queue.SimpleQueue[Work | None] | None = None

    @classmethod
    def meet(cls, store: Any, rank: int, size: int, device: torch.device, timeout: float | None,
             number: int, exact: str | None = None) -> "DeviceQueue":
        """A queue of all ranks, which meet by the store. number tells queues of one kind of device apart."""
        cuda = device.type == "cuda"
        key = f"goccl/{device.type}/{number}"
        if rank == 0:
            uid = UniqueId.create()
            store.set(key, uid.as_bytes.hex())
        else:
            uid = UniqueId(bytes.fromhex(store.get(key).decode()))
        own = Device(DeviceType.GPU if cuda else DeviceType.CPU, device.index if cuda else rank)
        limit = max(timeout, 1800) if cuda and timeout else timeout
        config = NCCLConfig(timeout=timeout, op_timeout=limit, exact=exact)
        try:
            return cls(Communicator.init(size, rank, uid, config, device=own), device)
        except errors.Timeout as e:
            raise errors.Timeout(f"the group's timeout of {timeout} s has passed (timeout= of init_process_group, "
                                 f"new_group): {e}") from e

    # Streams.

    def current(self) -> Any:
        """The thread's current stream. Only another one than the last is made an object of again."""
        raw, known = raw_stream(self.index), self._known
        if known[0] != raw:
            known = self._known = raw, torch.cuda.current_stream(self.index)
        return known[1]

    def submit(self, call: Callable[[Communicator, Any], Any], tensors: Any, result: Any, asynchronous: bool = True,
               finish: Callable[[], Any] | None = None, one_sided: bool = False) -> Work:
        """Enqueues call(comm, stream) behind what the caller has enqueued, and returns its Work. finish copies staged
        results: on GPUs it is enqueued, on the host device it runs in Work.wait. one_sided calls have only their
        stream's order."""
        with self._lock:
            self.flush()
            work = Work(self, tensors, result, finish)
            try:
                if not self.cuda:
                    call(self.comm, self._opened([work], one_sided))
                elif not asynchronous:  # the caller will wait at once, on this stream: no event is needed
                    call(self.comm, raw_stream(self.index))
                    work.finish()
                    work._tensors, work._done = None, True
                else:
                    self._ready.record(self.current())
                    self._ready.wait(self._side)
                    call(self.comm, self._side.cuda_stream)
                    if finish is not None:
                        with torch.cuda.stream(self._side):
                            work.finish()
                    self._left(work, self._side.record_event())
            except Exception as e:
                work._finish = None
                if isinstance(e, (errors.PeerDead, errors.Timeout)):  # the communicator may learn of it a moment later
                    self.failure(e)
                raise
        return work

    def _opened(self, works: list[Work], one_sided: bool = False) -> Stream:
        """The host stream of works that begin together."""
        if self._open and (one_sided or self._open[-1].one_sided):
            stream = self._open[-1].stream
        else:
            stream = self._spare.pop() if self._spare else Stream(self.comm.device)
        for work in works:
            work.stream, work.one_sided = stream, one_sided
        self._open.extend(works)
        return stream

    def _left(self, work: Work, event: Any) -> None:
        """Gives work, which is on the queue's stream, its end; the allocator keeps the tensors' memory for it."""
        for t in {id(t): t for t in work._tensors if t is not None and t.is_cuda}.values():
            t.record_stream(self._side)
        work._tensors, work._event = None, event

    def stream_of(self, work: Work) -> Any:
        """The stream that work is on."""
        return self._side if work._event is not None else torch.cuda.current_stream(self.index)

    # Point to point.

    def later(self, call: Callable[[Communicator, Any], Any], tensors: Any, result: Any) -> Work:
        """A send or receive, to go out with the next flush."""
        with self._lock:
            work = Work(self, tensors, result)
            ready = self.current().record_event() if self.cuda else None
            self._pending.append((call, work, ready))
        return work

    def flush(self) -> None:
        """Submits the pending calls as one group."""
        if not self._pending:
            return
        with self._lock:
            pending = self._pending  # until they are submitted, so that other threads wait here
            if not pending:
                return
            stream = self._side or self._opened([work for _, work, _ in pending])
            try:
                with group():
                    for call, _, ready in pending:
                        if ready is not None:
                            self._side.wait_event(ready)
                        call(self.comm, stream)
            except Exception as e:
                for _, work, _ in pending:
                    work._failure, work._done = e, True
                raise
            finally:
                self._pending = []
            event = self._side.record_event() if self.cuda else None
            for _, work, _ in pending if self.cuda else ():
                self._left(work, event)

    # Waiting.

    def raise_failure(self) -> None:
        """Raises the communicator's error, if there is one."""
        failure = self.failure()
        if failure is not None:
            raise failure

    def failure(self, told: errors.GocclError | None = None) -> errors.GocclError | None:
        """The communicator's error, the first one that a call has told, or None. The first time that there is one
        failed is called."""
        self._told = self._told or told
        failure = (None if self._gone else self.comm.get_async_error()) or self._told
        if failure is not None:
            failed, self.failed = self.failed, lambda: None
            failed()
        return failure

    def synchronize(self, work: Work, end: float | None = None) -> bool:
        """Waits for a work of the host device, until the clock says end. Whether it is done."""
        left = None if end is None else max(end - time.monotonic(), 0)
        try:
            synchronize(self.comm.device.handle, work.stream.handle, self.raise_failure, left)
        except errors.Timeout:
            self.raise_failure()
            return False
        except KeyboardInterrupt:
            self.comm.abort()
            raise
        self.raise_failure()
        over = [work]
        with self._lock:
            if work in self._open:
                self._open.remove(work)
            while self._open and self._ran(self._open[0]) == 0:  # nobody may ever wait for it
                over.append(self._open.popleft())
        for w in over[1:]:
            with w._lock:
                w.end()
        with self._lock:  # nobody waits for the streams now
            for s in {w.stream for w in over} - {w.stream for w in self._open} - {*self._spare}:
                s._keep.clear()
                self._spare.append(s)
        return True

    def settle(self) -> None:
        """Waits for all work of the host device."""
        for work in list(self._open):
            with work._lock:
                self.synchronize(work)
                work.end()

    def idle(self, work: Work) -> bool:
        """Whether a work of the host device has run."""
        return self._ran(work) != TIMEOUT

    def _ran(self, work: Work) -> int:
        return int(lib.raw("stream_synchronize")(self.comm.device.handle, work.stream.handle, 1))

    def complete_later(self, work: Work) -> None:
        """Completes a host work's future on the queue's own thread, which is started by the first one."""
        with self._lock:
            if self._completions is None:
                self._completions = queue.SimpleQueue()
                threading.Thread(target=_complete, args=(self._completions,), name="goccl-torch", daemon=True).start()
        self._completions.put(work)

    def drop(self) -> None:
        """Forgets calls that have not gone out."""
        with self._lock:
            self._pending.clear()

    def close(self, abort: bool = False) -> None:
        """Ends the queue."""
        if self._completions is not None:
            self._completions.put(None)
        if not abort:
            try:
                self.flush()
                self.settle()
                self._told = self.failure()
            except errors.GocclError:
                abort = True
        if abort:
            return self.comm.abort()
        self.comm.destroy()
        self._gone = True


def _complete(works: queue.SimpleQueue[Work | None]) -> None:
    while (work := works.get()) is not None:
        future = work.get_future()  # there already: that is what brought the work here
        try:
            work.wait()
        except Exception as e:
            future.set_exception(e)
        else:
            future.set_result(work._result)
        del work
