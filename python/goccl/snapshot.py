"""Snapshots: the GPU state of suspended ranks moves to host memory and back, on the same addresses.

Every rank suspends its communicators (goccl.nccl.Communicator.suspend); another process, which may trace them, calls
``take`` and later ``restore``; then the ranks resume. In between, tools such as CRIU find the state in host memory.
"""

import ctypes
from collections.abc import Callable, Iterable

from ._checked import array
from ._lib import lib

__all__ = ["take", "restore", "state"]

_STATES = ("running", "locked", "checkpointed", "failed")


def take(pids: Iterable[int], timeout: float = 60) -> None:
    """Moves the GPU state of all ranks on this host to host memory. If that fails for one, it is undone for all. A
    process that calls the driver waits until restore."""
    _each(lib.snapshot_take, pids, timeout)


def restore(pids: Iterable[int], timeout: float = 60) -> None:
    """Undoes take."""
    _each(lib.snapshot_restore, pids, timeout)


def state(pid: int) -> str:
    """running, locked (its calls of the driver wait), checkpointed, or failed."""
    return _STATES[lib.snapshot_state(pid)]


def _each(step: Callable[..., None], pids: Iterable[int], timeout: float) -> None:
    listed = list(pids)
    step(array("pids", ctypes.c_int32, listed), len(listed), int(timeout * 1e9))
