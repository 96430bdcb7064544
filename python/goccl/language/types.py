"""The words of the language, as plan files spell them."""

import enum

__all__ = ["BufferType", "ChannelType", "SyncType", "ReduceOperationType"]


class BufferType(str, enum.Enum):
    """One of the three buffers of a rank."""

    input = "i"
    output = "o"
    scratch = "s"


class ChannelType(str, enum.Enum):
    """How a channel moves data."""

    memory = "memory"
    port = "port"
    switch = "switch"


class SyncType(str, enum.Enum):
    """Where the threads of a block meet around an operation that only a few of them execute."""

    none = "none"
    before = "before"
    after = "after"
    both = "both"


class ReduceOperationType(str, enum.Enum):
    """A reduction that a program fixes; without one it is the caller's."""

    sum = "sum"
    min = "min"
    max = "max"
    prod = "prod"
