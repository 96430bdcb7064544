"""Integers of the ABI. ctypes drops the bits that a type does not hold; here such a number is an error."""

import ctypes
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from . import errors

_POINTERS = (ctypes.c_void_p, ctypes.c_char_p)


def bounds(ctype: Any) -> tuple[int, int] | None:
    """The least and the largest number of an integer type or an address; None for other types."""
    letter = getattr(ctype, "_type_", None)
    if not isinstance(letter, str) or letter not in "bBhHiIlLqQPz":
        return None
    bits = 8 * ctypes.sizeof(ctype)
    return (-1 << bits - 1, (1 << bits - 1) - 1) if letter.islower() and letter != "z" else (0, (1 << bits) - 1)


def fit(where: str, ctype: Any, number: int) -> int:
    """number, if it is one and the type holds it."""
    low, high = bounds(ctype)  # type: ignore[misc]
    if not hasattr(number, "__index__"):
        raise errors.InvalidArgument(f"{where}: {number!r} is no whole number")
    if not low <= number <= high:
        raise errors.InvalidArgument(f"{where}: {number} is out of range: want a number from {low} to {high}")
    return number


def array(where: str, ctype: Any, numbers: Sequence[int]) -> Any:
    """An array of numbers, of at least one element."""
    low, high = bounds(ctype)  # type: ignore[misc]
    if numbers and (min(numbers) < low or max(numbers) > high):
        for n in numbers:
            fit(where, ctype, n)
    return (ctype * max(len(numbers), 1))(*numbers)


class Structure(ctypes.Structure):
    """A ctypes.Structure whose fields refuse numbers that they cannot hold, when it is made and later."""

    _checks: dict[str, tuple[int, int, Any]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._checks = {name: (*ends, ctype) for name, ctype in cls.__dict__.get("_fields_", ())
                       if (ends := bounds(ctype)) is not None}

    def __setattr__(self, name: str, value: Any) -> None:
        check = self._checks.get(name)
        if check is not None and isinstance(value, int) and not check[0] <= value <= check[1]:
            fit(f"{type(self).__name__}.{name}", check[2], value)
        super().__setattr__(name, value)


def _leaves(name: str, ctype: Any) -> Iterator[tuple[str, Any]]:
    """The names and types of the numbers and addresses in a type, in order."""
    inner = getattr(ctype, "_fields_", None) or [(name, ctype._type_)] * getattr(ctype, "_length_", 0)
    for n, t in inner:
        yield from _leaves(n, t)
    if not inner:
        yield name, ctype


def packer(structure: type[Structure]) -> Callable[..., bytes]:
    """A function of the numbers in all fields, also in inner structures and arrays, that returns the structure as
    bytes: faster than to make the structure."""
    fields = list(_leaves("", structure))
    form = struct.Struct("@" + "".join("Q" if f[1] in _POINTERS else f[1]._type_ for f in fields))
    assert form.size == ctypes.sizeof(structure)
    raw = form.pack

    def pack(*values: Any) -> bytes:
        try:
            return raw(*values)
        except struct.error:
            for f, value in zip(fields, values):
                if bounds(f[1]) is not None:
                    fit(f"{structure.__name__}.{f[0]}", f[1], value)
            raise

    return pack
