"""The base of goccl's exceptions."""

import enum


class ErrorCode(enum.IntEnum):
    """MSCCL++'s kinds of errors. Every exception has one, its error_code; its class says more."""

    SystemError = 0
    InternalError = 1
    RemoteError = 2
    InvalidUsage = 3
    Timeout = 4
    Aborted = 5
    ExecutorError = 6


_KINDS = {1: ErrorCode.SystemError, 2: ErrorCode.SystemError, 3: ErrorCode.InternalError, 6: ErrorCode.RemoteError,
          8: ErrorCode.Timeout, 9: ErrorCode.Aborted, 14: ErrorCode.SystemError}
_BY_CODE: "dict[int, type[GocclError]]" = {}


class GocclError(RuntimeError):
    """What goccl failed at, where, and how to mend it."""

    __module__ = "goccl.errors"
    code = 3

    def __init_subclass__(cls, code: int | None = None) -> None:
        if code is not None:
            cls.code, cls.__module__ = code, GocclError.__module__
            _BY_CODE[code] = cls

    @property
    def error_code(self) -> ErrorCode:
        """MSCCL++'s kind of the error."""
        return _KINDS.get(self.code, ErrorCode.InvalidUsage)


def from_result(code: int, text: str) -> GocclError:
    """The exception for a goccl_result and the text of goccl_last_error()."""
    return _BY_CODE.get(code, GocclError)(text or f"result {code}")
