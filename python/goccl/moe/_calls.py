"""The structures of goccl.h for experts."""

from __future__ import annotations

import ctypes
from ctypes import c_int32, c_uint32, c_uint64, c_void_p

from .._lib import lib

QUANTIZE, POWER_OF_TWO, LISTS = 1, 2, 4
ROWS, EXPERTS = 0, 1
BFLOAT16, FLOAT8 = 9, 10


class Size(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("packet_tokens", c_int32), ("bytes", c_uint64), ("tokens", c_uint32),
                ("blocks", c_uint32)]


class Shape(ctypes.Structure):
    _fields_ = [("layout", c_uint32), ("hidden", c_uint32), ("top_k", c_uint32), ("experts", c_uint32)]


class Offsets(ctypes.Structure):
    _fields_ = [(n, c_uint64) for n in ("bytes", "counts", "total", "prefix", "totals", "ranges")]


class Handle(ctypes.Structure):
    _fields_ = [("shape", Shape), ("memory", c_void_p), ("tokens", c_uint64)]


class Count(ctypes.Structure):
    _fields_ = [("handle", Handle), ("top_k_index", c_void_p), ("ranks", c_void_p), ("experts", c_void_p),
                ("in_rank", c_void_p), ("stream", c_uint64)]


class Notify(ctypes.Structure):
    _fields_ = [("handle", Handle), ("top_k_index", c_void_p), ("in_rank", c_void_p), ("counts", c_void_p),
                ("stream", c_uint64)]


class Dispatch(ctypes.Structure):
    _fields_ = [("handle", Handle), ("x", c_void_p), ("scales", c_void_p), ("type", c_uint32), ("flags", c_uint32),
                ("blocks", c_uint32), ("reserved", c_uint32), ("index", c_void_p), ("weights", c_void_p),
                ("recv_x", c_void_p), ("recv_scales", c_void_p), ("recv_rows", c_uint64), ("recv_index", c_void_p),
                ("recv_weights", c_void_p), ("recv_source", c_void_p), ("stream", c_uint64)]


class Combine(ctypes.Structure):
    _fields_ = [("handle", Handle), ("x", c_void_p), ("rows", c_uint64), ("weights", c_void_p), ("index", c_void_p),
                ("bias", c_void_p * 2), ("out", c_void_p), ("out_weights", c_void_p), ("blocks", c_uint32),
                ("reserved", c_uint32), ("stream", c_uint64)]


def bytes_for(ranks: int, tokens: int, hidden: int, top_k: int, experts: int) -> int:
    """The bytes of a buffer for tokens of a shape."""
    n = c_uint64()
    lib.moe_bytes(ranks, tokens, ctypes.byref(Shape(ROWS, hidden, top_k, experts)), ctypes.byref(n))
    return n.value
