"""Algorithms of C++ modules: a PyCapsule holds a std::shared_ptr<mscclpp::Algorithm>. It is called through the table
of C functions that every such object has behind its virtual table (capi/include/goccl/algorithm_table.hpp)."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from . import errors
from ._buffer import stream_handle
from ._types import ReduceOp
from .algorithm import Algorithm

if TYPE_CHECKING:
    from typing import Any

    from ._types import DataType
    from ._typing import StreamSpec

__all__ = ["CapsuleAlgorithm"]

_NAME = b"mscclpp::AlgorithmPtr"
_MAGIC = 0x31474C41434F47
_TEXT = 2048


class _Call(ctypes.Structure):
    _fields_ = [("bootstrap", ctypes.c_uint64), ("context", ctypes.c_uint64), ("communicator", ctypes.c_uint64),
                ("input", ctypes.c_void_p), ("output", ctypes.c_void_p), ("input_size", ctypes.c_uint64),
                ("output_size", ctypes.c_uint64), ("type", ctypes.c_int32), ("op", ctypes.c_int32),
                ("stream", ctypes.c_size_t), ("blocks", ctypes.c_int32), ("threads", ctypes.c_int32),
                ("symmetric", ctypes.c_int32), ("extras", ctypes.c_int32), ("names", ctypes.POINTER(ctypes.c_char_p)),
                ("values", ctypes.POINTER(ctypes.c_size_t))]


class _Table(ctypes.Structure):
    _fields_ = [("magic", ctypes.c_uint64), ("name", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)),
                ("collective", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)),
                ("range", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64))),
                ("execute", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(_Call), ctypes.c_char_p,
                                             ctypes.c_uint64)),
                ("reset", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64))]


_valid = ctypes.pythonapi.PyCapsule_IsValid
_valid.argtypes, _valid.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_int
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p


class Capsule:
    """The algorithm of a capsule. Sizes are in bytes."""

    name: str
    collective: str
    message_size_range: tuple[int, int]

    def __init__(self, capsule: object) -> None:
        if not _valid(capsule, _NAME):
            raise errors.InvalidArgument("the capsule is none of a mscclpp::Algorithm")
        self._capsule = capsule  # owns the object
        self._object = ctypes.c_void_p.from_address(_pointer(capsule, _NAME)).value
        if not self._object:
            raise errors.InvalidArgument("the capsule holds no algorithm: its shared_ptr is null")
        table = ctypes.c_void_p.from_address(self._object + ctypes.sizeof(ctypes.c_void_p)).value
        if not table or ctypes.c_uint64.from_address(table).value != _MAGIC:
            raise errors.InvalidArgument("the capsule's algorithm was built with other headers than goccl's: build the "
                                         "module with goccl.compile_native")
        self._table = _Table.from_address(table)
        bounds = (ctypes.c_uint64 * 2)()
        self._table.range(self._object, bounds)
        self.name = self._table.name(self._object).decode()
        self.collective = self._table.collective(self._object).decode()
        self.message_size_range = bounds[0], bounds[1]
        self._comms: dict[int, Any] = {}  # the C++ side uses their handles

    def execute(self, comm: Any, input_buffer: int, output_buffer: int, input_size: int, output_size: int, dtype: int,
                op: int, stream: StreamSpec, blocks: int, threads: int, extras: dict[str, int],
                symmetric: bool) -> None:
        """mscclpp::Algorithm::execute."""
        self._comms[comm.handle] = comm
        names = (ctypes.c_char_p * max(len(extras), 1))(*(k.encode() for k in extras))
        values = (ctypes.c_size_t * max(len(extras), 1))(*extras.values())
        call = _Call(comm.bootstrap().handle, comm.context().handle, comm.handle, input_buffer, output_buffer,
                     input_size, output_size, dtype, op, stream_handle(stream), blocks, threads, symmetric,
                     len(extras), names, values)
        text = ctypes.create_string_buffer(_TEXT)
        self._check(self._table.execute(self._object, call, text, _TEXT), text)

    def reset(self) -> None:
        """mscclpp::Algorithm::reset."""
        text = ctypes.create_string_buffer(_TEXT)
        self._check(self._table.reset(self._object, text, _TEXT), text)

    def _check(self, result: int, text: Any) -> None:
        if result < 0:
            raise errors.GocclError(f"{self.name}: {text.value.decode(errors='replace')}")
        if result:  # a CommResult, numbered as a goccl_result
            raise errors.from_result(result, f"{self.name} returned {result}: its own code says why")


class CapsuleAlgorithm(Algorithm):
    """An algorithm of a C++ module that compile_native built."""

    def __init__(self, capsule: object) -> None:
        self._native = Capsule(capsule)
        super().__init__(self._native.name, self._native.collective, self._native.message_size_range,
                         doc="an algorithm of a C++ module")

    def execute(self, comm: Any, input_buffer: int, output_buffer: int, input_size: int, output_size: int,
                dtype: DataType, op: ReduceOp = ReduceOp.NOP, stream: StreamSpec = 0, executor: Any = None,
                nblocks: int = 0, nthreads_per_block: int = 0, extras: dict[str, int] | None = None, *,
                symmetric_memory: bool = False, accum_dtype: DataType | None = None) -> int:
        if nblocks < 0 or nthreads_per_block < 0:
            raise errors.InvalidArgument(f"{self.name}: nblocks={nblocks}, nthreads_per_block={nthreads_per_block}: "
                                         "they are positive, or 0 for its own")
        if accum_dtype is not None:
            raise errors.Unsupported(f"{self.name}: accum_dtype={accum_dtype!r}: leave it out, it cannot be chosen")
        self._native.execute(comm, input_buffer, output_buffer, input_size, output_size, int(dtype), int(op), stream,
                             nblocks, nthreads_per_block, extras or {}, symmetric_memory)
        return 0

    def reset(self) -> None:
        """Forgets the algorithm's contexts; all ranks do it together."""
        self._native.reset()

    def build(self) -> "CapsuleAlgorithm":
        """Itself."""
        return self
