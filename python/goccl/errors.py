"""Exceptions. Each carries the Go error's text; its class is the error's kind, and ``code`` the goccl_result of
goccl.h."""

from __future__ import annotations

import enum

__all__ = [
    "ErrorCode",
    "GocclError", "CudaError", "SysError", "InternalError", "InvalidArgument", "InvalidUsage", "PeerDead", "InProgress",
    "Timeout", "Aborted", "Mismatch", "Unsupported", "Closed", "Forked", "OutOfMemory",
]


class ErrorCode(enum.IntEnum):
    """MSCCL++'s kinds of errors. Every exception has one, its error_code; its class says more."""

    SystemError = 0
    InternalError = 1
    RemoteError = 2
    InvalidUsage = 3
    Timeout = 4
    Aborted = 5
    ExecutorError = 6


_BY_CODE: dict[int, type[GocclError]] = {}


class GocclError(RuntimeError):
    """What goccl failed at, where, and how to mend it."""

    code = 3

    def __init_subclass__(cls, code: int | None = None) -> None:
        if code is not None:
            cls.code = code
            _BY_CODE[code] = cls

    @property
    def error_code(self) -> ErrorCode:
        """MSCCL++'s kind of the error."""
        return _KINDS.get(type(self), ErrorCode.InvalidUsage)


class CudaError(GocclError, code=1):
    """The GPU or its driver failed, or there is none."""


class SysError(GocclError, OSError, code=2):
    """The operating system refused something."""


class InternalError(GocclError, code=3):
    """A defect of goccl."""


class InvalidArgument(GocclError, ValueError, code=4):
    """An argument is wrong."""


class InvalidUsage(GocclError, code=5):
    """The arguments are fine, the moment or the combination is not."""


class PeerDead(GocclError, ConnectionError, code=6):
    """A rank has died, left, or cannot be reached. The text names it."""


class InProgress(GocclError, code=7):
    """The communicator is still being set up."""


class Timeout(GocclError, TimeoutError, code=8):
    """A deadline passed."""


class Aborted(GocclError, code=9):
    """The communicator was aborted here."""


class Mismatch(GocclError, code=10):
    """Ranks called different operations."""


class Unsupported(GocclError, NotImplementedError, code=11):
    """This build, device or host cannot do it."""


class Closed(GocclError, code=12):
    """The object was closed."""


class Forked(GocclError, code=13):
    """This process was forked after goccl was first used."""


class OutOfMemory(GocclError, MemoryError, code=14):
    """The device or the host has no more memory."""


_KINDS = {CudaError: ErrorCode.SystemError, SysError: ErrorCode.SystemError, OutOfMemory: ErrorCode.SystemError,
          GocclError: ErrorCode.InternalError, InternalError: ErrorCode.InternalError, PeerDead: ErrorCode.RemoteError,
          Timeout: ErrorCode.Timeout, Aborted: ErrorCode.Aborted}


def from_result(code: int, text: str) -> GocclError:
    """The exception for a goccl_result and the text of goccl_last_error()."""
    return _BY_CODE.get(code, GocclError)(text or f"result {code}")
