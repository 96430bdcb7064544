"""Exceptions. Each carries the Go error's text; its class is the error's kind, and ``code`` the goccl_result of
goccl.h."""

from ._error import ErrorCode, GocclError
from ._error import from_result as from_result
from ._results import (Aborted, Closed, CudaError, Forked, InProgress, InternalError, InvalidArgument, InvalidUsage,
                       Mismatch, OutOfMemory, PeerDead, SysError, Timeout, Unsupported)

__all__ = [
    "ErrorCode",
    "GocclError", "CudaError", "SysError", "InternalError", "InvalidArgument", "InvalidUsage", "PeerDead", "InProgress",
    "Timeout", "Aborted", "Mismatch", "Unsupported", "Closed", "Forked", "OutOfMemory",
]
