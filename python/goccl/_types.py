"""Element types, reduction operators, transports and devices: the numbers of goccl.h under the names of MSCCL++ and
NCCL."""

import enum
import functools

from . import errors
from ._env import read


class DataType(enum.IntEnum):
    """Element types, numbered as in NCCL; those from 64 on are goccl's own and exist in Python only."""

    int8 = 0
    uint8 = 1
    int32 = 2
    uint32 = 3
    int64 = 4
    uint64 = 5
    float16 = 6
    float32 = 7
    float64 = 8
    bfloat16 = 9
    float8_e4m3 = 10
    float8_e5m2 = 11
    float8_e4m3fn = 10  # its full name: finite, with NaN. The formats fnuz are others, which goccl does not reduce
    float8_e4m3b15 = 64  # bias 15, every byte a finite number; algorithms and plans reduce it through float32

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return _ITEMSIZE[self]

    @classmethod
    def of(cls, name: str) -> "DataType":
        """The type of a name such as "float16", "torch.float16", "<f2" or "bfloat16"."""
        t = _NAMES.get(str(name).rpartition(".")[2].lower())
        if t is None:
            raise errors.InvalidArgument(f"element type {name}: goccl reduces {', '.join(t.name for t in cls)}")
        return t


_ITEMSIZE = dict(zip(DataType, [1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1, 1]))
_NAMES = {t.name: t for t in DataType} | {
    "half": DataType.float16, "float": DataType.float32, "double": DataType.float64, "bool": DataType.uint8,
    "char": DataType.int8, "int": DataType.int32, "long": DataType.int64, "byte": DataType.uint8,
    "float8_e4m3fn": DataType.float8_e4m3, "fp8_e4m3": DataType.float8_e4m3, "fp8_e5m2": DataType.float8_e5m2,
    "|i1": DataType.int8, "|u1": DataType.uint8, "|b1": DataType.uint8, "<i4": DataType.int32, "<u4": DataType.uint32,
    "<i8": DataType.int64, "<u8": DataType.uint64, "<f2": DataType.float16, "<f4": DataType.float32,
    "<f8": DataType.float64,
}


class ReduceOp(enum.IntEnum):
    """Reduction operators, numbered as in NCCL; NOP is for collectives that reduce nothing."""

    SUM = 0
    PROD = 1
    MAX = 2
    MIN = 3
    AVG = 4
    NOP = 255


class Transport(enum.IntEnum):
    """How bytes travel between two endpoints."""

    Unknown = 0
    CudaIpc = 1
    IB0 = 2
    IB1 = 3
    IB2 = 4
    IB3 = 5
    IB4 = 6
    IB5 = 7
    IB6 = 8
    IB7 = 9
    Ethernet = 10
    NumTransports = 11
    Nvlink = 1  # names in use for CudaIpc
    IPC = 1

    def __or__(self, other: "Transport | TransportFlags | int") -> "TransportFlags":
        return TransportFlags(self) | TransportFlags(other)

    __ror__ = __or__


class TransportFlags:
    """A set of transports."""

    __slots__ = ("bits",)

    def __init__(self, *members: "Transport | TransportFlags | int") -> None:
        self.bits = 0
        for m in members:
            self.bits |= m.bits if isinstance(m, TransportFlags) else (1 << Transport(m)) & ~1

    def has(self, transport: Transport) -> bool:
        """Whether transport is in the set."""
        return bool(self.bits >> transport & 1)

    def none(self) -> bool:
        """Whether the set is empty."""
        return not self.bits

    def any(self) -> bool:
        """Whether it is not."""
        return bool(self.bits)

    def all(self) -> bool:
        """Whether every transport is in the set."""
        return self.bits == (1 << Transport.NumTransports) - 2

    def count(self) -> int:
        """The number of transports in the set."""
        return self.bits.bit_count()

    @classmethod
    def _of(cls, bits: int) -> "TransportFlags":
        f = cls()
        f.bits = bits
        return f

    def __or__(self, other: "Transport | TransportFlags | int") -> "TransportFlags":
        return self._of(self.bits | TransportFlags(other).bits)

    __ror__ = __or__

    def __and__(self, other: "Transport | TransportFlags | int") -> "TransportFlags":
        return self._of(self.bits & TransportFlags(other).bits)

    def __xor__(self, other: "Transport | TransportFlags | int") -> "TransportFlags":
        return self._of(self.bits ^ TransportFlags(other).bits)

    def __invert__(self) -> "TransportFlags":
        return self._of(self.bits ^ ((1 << Transport.NumTransports) - 2))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (TransportFlags, Transport)) and self.bits == TransportFlags(other).bits

    def __hash__(self) -> int:
        return hash(self.bits)

    def __repr__(self) -> str:
        return "TransportFlags(" + " | ".join(t.name
                                              for t in Transport if t < Transport.NumTransports and self.has(t)) + ")"


class DeviceType(enum.IntEnum):
    """What a device is. CPU is the host device: shared memory, and threads of this process for kernels."""

    Unknown = 0
    CPU = 1
    GPU = 2


class PacketType(enum.IntEnum):
    """Packet formats. goccl's plans choose theirs; the argument is accepted where MSCCL++ has it."""

    LL8 = 0
    LL16 = 1


@functools.lru_cache(maxsize=1)
def host_only() -> bool:
    """Whether GOCCL_DEVICE=host keeps this process off the GPUs."""
    return read("GOCCL_DEVICE") == "host"
