"""The table that GOCCL_ALGORITHM (goccl/algorithm.cuh) leaves in an image: found, checked, and its expressions evaluated."""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING

from . import errors

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MAGIC, _VERSION = 0x4C415047, 1
_PREFIX = "goccl_algorithm_"
_NONE = 0xFFFFFFFF
_u32, _u64, _i64 = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int64

INPUT, OUTPUT, INPUT_SIZE, OUTPUT_SIZE, RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_SIZE, PEER, ELEMENT_SIZE, TYPE, OP, BLOCKS, THREADS, SCRATCH = range(15)
MEMORY, PORT, SEMAPHORE, SWITCH = range(1, 5)
HANDLE_SIZES = {MEMORY: 56, PORT: 112, SEMAPHORE: 32, SWITCH: 32}


def _structure(name: str, *fields: tuple[str, Any]) -> Any:
    return type(name, (ctypes.Structure,), {"_fields_": list(fields)})


_Code = _structure("_Code", ("start", _u32), ("length", _u32))
_Instruction = _structure("_Instruction", ("code", _u32), ("length", _u32), ("value", _i64))
_Connections = _structure("_Connections", ("transport", _u32), ("where", _Code))
_Channels = _structure("_Channels", ("kind", _u32), ("connections", _u32), ("to", _u32), ("source", _u32), ("packets", _u32))
_Argument = _structure("_Argument", ("size", _u32), ("channels", _u32), ("value", _Code))
_Launch = _structure("_Launch", ("kernel", ctypes.c_char * 64), ("condition", _Code), ("grid", _Code * 3), ("block", _Code * 3), ("shared", _Code),
                     ("arguments", _u32), ("parameters", _u32), ("argument", _Argument * 24))
_Table = _structure("_Table", ("magic", _u32), ("version", _u32), ("size", _u32), ("key", _u32), ("name", ctypes.c_char * 64),
                    ("collective", ctypes.c_char * 32), ("min_message_size", _u64), ("max_message_size", _u64), ("connections", _u32), ("scratch", _u32),
                    ("channels", _u32), ("launches", _u32), ("code_length", _u32), ("reserved", _u32), ("connection", _Connections * 4),
                    ("scratch_size", _Code * 4), ("channel", _Channels * 8), ("launch", _Launch * 4), ("code", _Instruction * 512))


def _divide(a: int, b: int) -> int:
    if b == 0:
        raise errors.InvalidArgument("an expression of the description divides by 0")
    return a // b


_TWO: dict[int, Callable[[int, int], int]] = {
    3: int.__add__, 4: int.__sub__, 5: int.__mul__, 6: _divide, 7: lambda a, b: a - b * _divide(a, b), 8: min, 9: max, 10: lambda a, b: int(a < b),
    11: lambda a, b: int(a <= b), 12: lambda a, b: int(a == b), 13: lambda a, b: int(bool(a) and bool(b)), 14: lambda a, b: int(bool(a) or bool(b)),
}
_SELECT = 15


class Description:
    """One algorithm of an image, checked when it is made."""

    def __init__(self, symbol: str, raw: bytes) -> None:
        t = _Table.from_buffer_copy(raw.ljust(ctypes.sizeof(_Table), b"\0"))
        if t.magic != _MAGIC or t.version != _VERSION or t.size != ctypes.sizeof(_Table) or len(raw) < t.size:
            raise errors.InvalidArgument(f"{symbol} is no description of goccl/algorithm.cuh version {_VERSION}: compile the file with this version's headers")
        self.symbol, self.name, self.collective = symbol[len(_PREFIX):], t.name.decode(), t.collective.decode()
        self.range = (t.min_message_size, t.max_message_size)
        self.key = t.key
        self.connections = [(c.transport, self._code(t, c.where)) for c in t.connection[:t.connections]]
        self.scratch = [self._code(t, c) for c in t.scratch_size[:t.scratch]]
        self.channels = [(c.kind, c.connections, *(None if m == _NONE else m for m in (c.to, c.source, c.packets))) for c in t.channel[:t.channels]]
        self.launches = [self._launch(t, x) for x in t.launch[:t.launches]]
        self._check()

    @staticmethod
    def _code(t: Any, c: Any) -> list[tuple[int, int, int]]:
        return [(i.code, i.length, i.value) for i in t.code[c.start:c.start + c.length]]

    def _launch(self, t: Any, x: Any) -> tuple[str, list[Any], list[list[Any]], list[Any], list[Any]]:
        arguments = [(a.size, None if a.channels == _NONE else a.channels, self._code(t, a.value)) for a in x.argument[:x.arguments]]
        if x.arguments != x.parameters:
            raise self._wrong(f"kernel {x.kernel.decode()} has {x.parameters} parameters and got {x.arguments} arguments")
        return (x.kernel.decode(), self._code(t, x.condition), [self._code(t, c) for c in (*x.grid, *x.block)], self._code(t, x.shared), arguments)

    def _wrong(self, text: str) -> errors.InvalidArgument:
        return errors.InvalidArgument(f"algorithm {self.name or self.symbol}: {text}")

    def _check(self) -> None:
        memories = 2 + len(self.scratch)
        if not self.launches:
            raise self._wrong("launch describes no kernel")
        for kind, over, *memory in self.channels:
            if kind != SWITCH and over >= len(self.connections):
                raise self._wrong(f"channels go over connections {over}, and initialize makes {len(self.connections)}")
            if any(m is not None and m >= memories for m in memory) or kind in (MEMORY, PORT, SWITCH) and memory[0] is None:
                raise self._wrong("channels name memory that context does not make")
        for kernel, _, _, _, arguments in self.launches:
            for size, channels, code in arguments:
                if channels is not None and channels >= len(self.channels):
                    raise self._wrong(f"an argument of kernel {kernel} is channels that context does not make")
                if channels is not None and size != 8:
                    raise self._wrong(f"an argument of kernel {kernel} is channels, its parameter of {size} bytes is no pointer")
                if channels is None and (size not in (1, 2, 4, 8) or not code):
                    raise self._wrong(f"an argument of kernel {kernel} has {size} bytes: arguments are pointers and integers")

    def evaluate(self, code: list[tuple[int, int, int]], values: list[Any], extras: dict[str, Any]) -> int:
        """The value of an expression; values are those of the variables, then the addresses of scratch."""
        stack: list[int] = []
        for op, length, value in code:
            if op == 0:
                stack.append(value)
            elif op == 1:
                v = values[value] if value < len(values) else None
                if v is None:
                    raise self._wrong("an expression uses what is not known there, such as peer outside of connect, or scratch while it is made")
                stack.append(v)
            elif op == 2:
                stack.append(int(extras.get((value & (2**64 - 1)).to_bytes(8, "little")[:length].decode(), 0)))
            elif op == _SELECT:
                b, a, condition = stack.pop(), stack.pop(), stack.pop()
                stack.append(a if condition else b)
            else:
                b, a = stack.pop(), stack.pop()
                stack.append(_TWO[op](a, b))
        return stack[-1]


def descriptions(image: bytes) -> "tuple[list[Description], set[str]]":
    """The algorithms that a cubin describes, and the names of its kernels."""
    if image[:4] != b"\x7fELF":
        raise errors.InternalError("descriptions are read from cubins")
    (table,) = struct.unpack_from("<Q", image, 40)
    size, count, _ = struct.unpack_from("<HHH", image, 58)
    # Of a section: name, type, flags, address, offset, size, link.
    sections = [struct.unpack_from("<IIQQQQI", image, table + i * size) for i in range(count)]
    found, kernels = [], set()
    for _, kind, _, _, offset, length, link in sections:
        if kind != 2:  # SHT_SYMTAB
            continue
        names = sections[link][4]
        for at in range(offset, offset + length, 24):
            name, info, _, section, value, n = struct.unpack_from("<IBBHQQ", image, at)
            text = image[names + name:image.index(b"\0", names + name)].decode()
            if info & 15 == 2:  # STT_FUNC
                kernels.add(text)
            elif text.startswith(_PREFIX) and 0 < section < count:
                start = sections[section][4] + value
                found.append(Description(text, image[start:start + n]))
    return found, kernels
