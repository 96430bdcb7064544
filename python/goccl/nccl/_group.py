"""Groups: calls that are collected and submitted together."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from .. import errors
from .._lib import error, lib


class Group(threading.local):
    """The thread's open group: its depth, requests, and what the requests refer to."""

    depth = 0

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self.keep: list[Any] = []
        self.waits: dict[int, Any] = {}  # communicators by handle


current = Group()


def group_start() -> None:
    """Opens a group: calls are collected until the outermost group_end submits them together."""
    current.depth += 1


def group_end() -> None:
    """Submits the group. Sends and receives among it progress together; of several communicators' collectives none
    waits for another."""
    if current.depth == 0:
        raise errors.InvalidUsage("group_end without group_start")
    current.depth -= 1
    if current.depth:
        return
    requests, keep, waits = current.requests, current.keep, current.waits
    current.requests, current.keep, current.waits = [], [], {}
    if not requests:
        return
    submit = lib.raw("submit")
    r = submit(b"".join(requests), len(requests))
    if r:
        raise error(r)
    for comm in waits.values():
        comm._wait()
    del keep


@contextlib.contextmanager
def group() -> Iterator[None]:
    """``with group(): …`` collects the calls inside and submits them together. After an exception inside nothing is
    submitted."""
    group_start()
    try:
        yield
    except BaseException:
        current.depth -= 1
        if not current.depth:
            current.requests, current.keep, current.waits = [], [], {}
        raise
    group_end()
