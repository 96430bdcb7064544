"""Work: a collective under way, as torch.distributed sees it."""

import threading
import time
import weakref
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from .. import errors
from ._named import BACKEND


class _Late(errors.Timeout):
    """A wait that ended before its work did."""


class _Latest(threading.local):
    """The last work that this thread has made."""

    none = work = staticmethod(lambda: None)


latest = _Latest()


class Work(dist._Work):
    """A collective that was, or will be, enqueued.

    On GPUs wait makes the current stream wait; on the host device it waits itself, and then finishes: results that had
    to be staged are copied to where the caller wants them. Tensors are kept alive until then.
    """

    _event: Any = None  # on GPUs: where the queue's stream is past this work
    stream: Any = None  # on the host device
    one_sided = False
    _done = False  # nothing is left to wait for
    _failure: Exception | None = None
    _future: torch.futures.Future[Any] | None = None
    _others: "Sequence[Work]" = ()  # works of the same call, which end with this one

    def __init__(self, queue: Any, tensors: Any, result: Any, finish: Callable[[], Any] | None = None) -> None:
        super().__init__()
        self._on, self._tensors, self._result, self._finish = queue, tensors, result, finish
        self._lock = threading.Lock()
        if BACKEND:
            latest.work = weakref.ref(self)

    @classmethod
    def last(cls, works: "list[Work]", result: Any) -> "Work":
        """The last of the works of one call, made to stand for all of them: result is their common output."""
        if not works:
            raise errors.InvalidArgument("no tensors: pass at least one")
        work = works[-1]
        # On a GPU the end of the last is the end of all; on the host device each has results to copy.
        work._others = [w for w in works[:-1] if w._finish is not None or w._on is not work._on]
        work._result, work._done = result, work._done and not work._others
        return work

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits as far as the device demands; raises what the collective failed with. With a timeout that is positive
        it waits on the host, also on GPUs, and raises Timeout when that has passed; the work goes on."""
        if self._done and timeout is None and self._failure is None:
            return True
        seconds = timeout.total_seconds() if timeout is not None else 0
        if seconds <= 0 and not self._on.cuda:
            seconds = self._on.limit or 0
        end = time.monotonic() + seconds if seconds > 0 else None
        return self._wait(end)

    def _wait(self, end: float | None) -> bool:
        for w in self._others:
            w._wait(end)
        self._on.flush()
        if self._on.cuda:
            current = self._on.current()
            if self._event is not None:
                self._event.wait(current)
                self._on.raise_failure()
            if end is not None:
                reached = current.record_event()
                while not reached.query():
                    self._on.raise_failure()
                    if time.monotonic() >= end:
                        raise _Late("the work has not ended within the timeout of wait: it goes on")
                    time.sleep(0.001)
            return True
        with self._lock:
            if not self._done:
                try:
                    if not self._on.synchronize(self, end):
                        raise _Late("the work has not ended within the timeout of wait: it goes on")
                except _Late:
                    raise
                except Exception as e:
                    self._failure, self._finish = e, None
                self.end()
        if self._failure is not None:
            raise self._failure
        return True

    def finish(self) -> None:
        """Copies what was staged; autograd does not see it, as it does not see the collective."""
        if self._finish is not None:
            with torch.inference_mode():
                self._finish()
        self._finish = None

    def end(self) -> None:
        """On the host device, under the lock: the work has run."""
        if not self._done:
            try:
                self.finish()
            except Exception as e:
                self._failure = e
            self._done, self._tensors = True, None

    def synchronize(self) -> None:
        """As wait."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether the work is done, without waiting."""
        if not all(w.is_completed() for w in self._others):
            return False
        self._on.flush()
        if self._on.cuda:
            return self._event is None or self._event.query()
        if not self._done and self._on.idle(self):
            try:
                self.wait()
            except Exception:
                return True
        return self._done

    def is_success(self) -> bool:
        """Whether the work is done and did not fail."""
        return self.is_completed() and self.exception() is None

    def exception(self) -> Exception | None:
        """The error of the collective, or None."""
        return next((w._failure for w in (*self._others, self) if w._failure is not None), None)

    def result(self) -> Any:
        """The tensors that it wrote."""
        return self._result

    def source_rank(self) -> int:
        """Unknown: receives name their rank."""
        return -1

    def get_future(self) -> torch.futures.Future[Any]:
        """A future of the result. On GPUs it is complete at once, and its consumers' streams wait."""
        with self._lock:
            if self._future is not None:
                return self._future
            if self._on.cuda:
                self._future = torch.futures.Future(devices=[torch.device("cuda", self._on.index)])
            else:
                self._future = torch.futures.Future()
        if self._on.cuda:
            self._on.flush()
            with torch.cuda.stream(self._on.stream_of(self)):
                self._future.set_result(self._result)
        else:
            self._on.complete_later(self)
        return self._future
