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


class GocclError(RuntimeError):
    """What goccl failed at, where, and how to mend it."""

    code = 3

    @property
    def error_code(self) -> ErrorCode:
        """MSCCL++'s kind of the error."""
        return _KINDS.get(type(self), ErrorCode.InvalidUsage)


class CudaError(GocclError):
    """The GPU or its driver failed, or there is none."""

    code = 1


class SysError(GocclError, OSError):
    """The operating system refused something."""

    code = 2


class InternalError(GocclError):
    """A defect of goccl."""

    code = 3


class InvalidArgument(GocclError, ValueError):
    """An argument is wrong."""

    code = 4


class InvalidUsage(GocclError):
    """The arguments are fine, the moment or the combination is not."""

    code = 5


class PeerDead(GocclError, ConnectionError):
    """A rank has died, left, or cannot be reached. The text names it."""

    code = 6


class InProgress(GocclError):
    """The communicator is still being set up."""

    code = 7


class Timeout(GocclError, TimeoutError):
    """A deadline passed."""

    code = 8


class Aborted(GocclError):
    """The communicator was aborted here."""

    code = 9


class Mismatch(GocclError):
    """Ranks called different operations."""

    code = 10


class Unsupported(GocclError, NotImplementedError):
    """This build, device or host cannot do it."""

    code = 11


class Closed(GocclError):
    """The object was closed."""

    code = 12


class Forked(GocclError):
    """This process was forked after goccl was first used."""

    code = 13


class OutOfMemory(GocclError, MemoryError):
    """The device or the host has no more memory."""

    code = 14


_BY_CODE = {c.code: c for c in (CudaError, SysError, InternalError, InvalidArgument, InvalidUsage, PeerDead, InProgress,
                                Timeout, Aborted, Mismatch, Unsupported, Closed, Forked, OutOfMemory)}


_KINDS = {CudaError: ErrorCode.SystemError, SysError: ErrorCode.SystemError, OutOfMemory: ErrorCode.SystemError,
          GocclError: ErrorCode.InternalError, InternalError: ErrorCode.InternalError, PeerDead: ErrorCode.RemoteError,
          Timeout: ErrorCode.Timeout, Aborted: ErrorCode.Aborted}


def from_result(code: int, text: str) -> GocclError:
    """The exception for a goccl_result and the text of goccl_last_error()."""
    return _BY_CODE.get(code, GocclError)(text or f"result {code}")
