"""Fused all-reduces: an all-reduce, then a residual sum, RMSNorm and quantisation."""

import ctypes

from .. import errors
from .._abi import FusedRequest, FusionConfig
from .._buffer import Buffer, resolve
from .._checked import packer
from .._lib import lib
from .._types import DataType
from .._typing import BufferSpec, StreamSpec
from ._calls import Calls

ALGORITHMS = ("", "one_shot", "two_shot", "apart")

_request = packer(FusedRequest)


class Fusion:
    """A workspace for fused all-reduces, made by Communicator.fusion on all ranks. It ends with its communicator, or by
    close when its work has ended."""

    def __init__(self, communicator: Calls, row_bytes: int = 0, scratch_bytes: int = 0) -> None:
        config = FusionConfig(ctypes.sizeof(FusionConfig), row_bytes, scratch_bytes)
        self._comm, self._handle = communicator, lib.fusion_create(communicator._handle, ctypes.byref(config))

    def all_reduce(self, input: BufferSpec, *, hidden: int, sum: BufferSpec | None = None,
                   residual: BufferSpec | None = None, residual_out: BufferSpec | None = None,
                   weight: BufferSpec | None = None, epsilon: float = 1e-6, norm: BufferSpec | None = None,
                   quant: BufferSpec | None = None, scale: BufferSpec | None = None,
                   scale_out: BufferSpec | None = None, divided_residual: bool = False, algorithm: str = "",
                   stream: StreamSpec = None) -> None:
        """Rows of hidden elements; outputs that are None are not written.

        sum gets the reduced input, residual_out that and the residual, norm its RMSNorm with weight, and quant (int8 or
        float8_e4m3) the norm divided by scale, a float, or, with scale_out instead, by a scale of each row. An output
        may be input or residual itself. With divided_residual a rank reads and writes only its own rows of residual,
        residual_out and sum: ceil(rows / ranks) of them. algorithm is one_shot, two_shot or apart; "": by size.
        """
        c, i = self._comm, resolve(input)
        if i.dtype is None or hidden < 1 or i.count % hidden:
            raise errors.InvalidArgument(f"the input has {i.count} elements, which are no rows of {hidden}")
        if algorithm not in ALGORITHMS:
            raise errors.InvalidArgument(f"no algorithm {algorithm!r}: there are {', '.join(ALGORITHMS[1:])}")
        rows = i.count // hidden
        own = [("sum", sum, i.count), ("residual", residual, i.count), ("residual_out", residual_out, i.count),
               ("weight", weight, hidden), ("norm", norm, i.count)]
        buffers = [i] + [_fits(name, b, n, i.dtype) for name, b, n in own]
        q = _fits("quant", quant, i.count, None)
        if q is not None and q.dtype not in (DataType.int8, DataType.float8_e4m3):
            raise errors.InvalidArgument("quant holds neither int8 nor float8_e4m3")
        if (q is not None) != ((scale is not None) != (scale_out is not None)):
            raise errors.InvalidArgument("quant needs either scale or scale_out, and they need quant")
        s = _fits("scale", scale, 1, DataType.float32)
        out = _fits("scale_out", scale_out, rows, DataType.float32)
        buffers += [q, s, out]
        c._check(*buffers)
        for b in (buffers[1], buffers[3], buffers[5], q, out):
            if b is not None and b.readonly and b.nbytes:
                raise errors.InvalidArgument("an output is read-only")
        kind = 0 if q is None else 1 if s is not None else 2
        request = _request(ctypes.sizeof(FusedRequest), rows, hidden, i.dtype, ALGORITHMS.index(algorithm),
                                *(0 if b is None else b.ptr for b in buffers), kind,
                                0 if q is None or q.dtype is None else q.dtype, epsilon, divided_residual,
                                c._queue(stream))
        lib.fusion_all_reduce(self._handle, request)
        c._enqueued(buffers, stream)

    def tune(self, rows: int, hidden: int, dtype: DataType) -> None:
        """Measures the algorithms for up to that many rows and keeps the fastest of each size, for calls that name
        none; without it they run apart. Collective."""
        lib.fusion_tune(self._handle, rows, hidden, int(dtype))

    def close(self) -> None:
        """Frees the workspace on this rank."""
        if self._handle:
            lib.fusion_destroy(self._handle)
            self._handle = 0


def _fits(name: str, buffer: BufferSpec | None, count: int, dtype: DataType | None) -> Buffer | None:
    if buffer is None:
        return None
    b = resolve(buffer)
    if b.count < count or dtype is not None and b.dtype != dtype:
        what = "elements" if b.dtype is None else b.dtype.name
        raise errors.InvalidArgument(f"{name} holds {b.count} {what}: want {count}"
                                     f"{'' if dtype is None else ' ' + dtype.name}")
    return b
