"""NCCLConfig, and its form in the ABI."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from .._lib import nanoseconds

if TYPE_CHECKING:
    from typing import Any


class NCCLConfig:
    """The options of Communicator.init: timeouts in seconds, a name for logs. NCCL's own fields are accepted; goccl
    needs no tuning by them."""

    timeout: float | None
    op_timeout: float | None
    comm_name: str | None

    def __init__(self, *, timeout: float | None = None, op_timeout: float | None = None, comm_name: str | None = None,
                 **others: Any) -> None:
        self.timeout, self.op_timeout, self.comm_name = timeout, op_timeout, comm_name
        self.others: dict[str, Any] = others


class _Config(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("non_blocking", ctypes.c_int32), ("timeout_ns", ctypes.c_int64),
                ("op_timeout_ns", ctypes.c_int64), ("name", ctypes.c_char_p), ("reserved", ctypes.c_uint64 * 4)]


def pointer(config: NCCLConfig | None) -> Any:
    """The ABI's configuration; None is its defaults."""
    if config is None:
        return None
    c = _Config(ctypes.sizeof(_Config), 0, nanoseconds(getattr(config, "timeout", None)),
                nanoseconds(getattr(config, "op_timeout", None)),
                (getattr(config, "comm_name", None) or "").encode() or None)
    return ctypes.byref(c)
