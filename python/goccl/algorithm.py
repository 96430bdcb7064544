"""Algorithm: one way to do a collective, whatever it is made of."""

import ctypes
from typing import Any

from . import errors
from ._buffer import stream_handle
from ._checked import Structure, array
from ._types import DataType, ReduceOp
from ._typing import StreamSpec
from .communicator import Communicator

__all__ = ["Algorithm", "AlgorithmBuilder"]

MAX_SIZE = 2**64 - 1


def check_types(name: str, comm: Any, dtype: Any, op: Any) -> tuple[DataType, ReduceOp]:
    """The element type and operator. Values of other types are refused."""
    if not isinstance(getattr(comm, "handle", None), int):  # a native algorithm also takes others' communicators
        raise errors.InvalidArgument(f"{name}: comm is {comm!r}: pass a goccl.Communicator")
    try:
        return DataType(dtype), ReduceOp(op)
    except ValueError as e:
        raise errors.InvalidArgument(f"{name}: {e}: use goccl.DataType and goccl.ReduceOp") from None


class Algorithm:
    """One way to do a collective. ``execute`` enqueues it; all ranks execute the same algorithms in the same order."""

    class Constraint:
        """What job an algorithm is for; 0 is any."""

        def __init__(self, world_size: int = 0, n_ranks_per_node: int = 0) -> None:
            self.world_size, self.n_ranks_per_node = world_size, n_ranks_per_node

    def __init__(self, name: str, collective: str, message_size_range: tuple[int, int] = (0, MAX_SIZE),
                 tags: dict[str, int] | None = None, constraint: "Algorithm.Constraint | None" = None,
                 doc: str = "") -> None:
        self.name = name
        self.collective = collective
        self.message_size_range = message_size_range
        self.tags = dict(tags or {})
        self.constraint = constraint or Algorithm.Constraint()
        self.buffer_mode = "any"
        self.doc = doc

    @property
    def message_range(self) -> tuple[int, int]:
        """The message sizes in bytes that it is for, both ends included."""
        return self.message_size_range

    def set_message_size_range(self, min_message_size: int, max_message_size: int) -> None:
        """Changes message_size_range, which selectors read."""
        self.message_size_range = (min_message_size, max_message_size)

    def is_dsl_algorithm(self) -> bool:
        """Whether it is a plan and needs an Executor."""
        return False

    def is_native_algorithm(self) -> bool:
        """Whether it needs none."""
        return not self.is_dsl_algorithm()

    def execute(self, comm: Communicator, input_buffer: int, output_buffer: int, input_size: int, output_size: int,
                dtype: DataType, op: ReduceOp = ReduceOp.NOP, stream: StreamSpec = 0, executor: Any = None,
                nblocks: int = 0, nthreads_per_block: int = 0, extras: dict[str, int] | None = None, *,
                symmetric_memory: bool = False, accum_dtype: DataType | None = None) -> int:
        """Enqueues the collective on stream (0: the default stream; on the host device the call then waits) and returns
        0.

        Buffers are addresses, sizes in bytes. A reducing collective with NOP sums. An algorithm refuses what it cannot
        do: nblocks and nthreads_per_block are for kernels of one's own (0: goccl or the algorithm chooses), a plan has
        its own blocks; extras of a default algorithm is the root of a broadcast or reduce; any memory will do, so
        symmetric_memory is False; accum_dtype is the type that the algorithm accumulates in, or None. executor is the
        Executor that a plan needs.
        """
        dtype, op = check_types(self.name, comm, dtype, op)
        if nblocks or nthreads_per_block or symmetric_memory or accum_dtype is not None:
            self._check_options(dtype, nblocks, nthreads_per_block, symmetric_memory, accum_dtype)
        self._execute(comm, input_buffer, output_buffer, input_size, output_size, dtype, op, stream, executor, nblocks,
                      nthreads_per_block, extras)
        return 0

    def _execute(self, comm: Communicator, input_buffer: int, output_buffer: int, input_size: int, output_size: int,
                 dtype: DataType, op: ReduceOp, stream: StreamSpec, executor: Any, nblocks: int,
                 nthreads_per_block: int, extras: dict[str, int] | None) -> None:
        raise NotImplementedError

    _blocks_are_the_callers = False  # whether nblocks and nthreads_per_block may be given

    def _accumulates_in(self, dtype: DataType) -> DataType | None:
        """The type that sums of dtype are accumulated in, if it is known."""
        return None

    def _check_options(self, dtype: DataType, nblocks: int, nthreads_per_block: int, symmetric_memory: bool,
                       accum_dtype: DataType | None) -> None:
        """Refuses options that would be ignored."""
        if nblocks < 0 or nthreads_per_block < 0:
            raise errors.InvalidArgument(f"{self.name}: nblocks={nblocks}, nthreads_per_block={nthreads_per_block}: "
                                         "they are positive, or 0 for the algorithm's own")
        if symmetric_memory:
            raise errors.Unsupported(f"{self.name}: symmetric_memory: it works on any memory and takes no advantage of "
                                     "this; leave it out (collectives take advantage of "
                                     "goccl.nccl.Communicator.register_window)")
        if accum_dtype is not None and accum_dtype != self._accumulates_in(dtype):
            raise errors.Unsupported(f"{self.name}: accum_dtype={accum_dtype!r}: leave it out, it cannot be chosen")
        if (nblocks or nthreads_per_block) and not self._blocks_are_the_callers:
            raise errors.Unsupported(f"{self.name}: nblocks={nblocks}, nthreads_per_block={nthreads_per_block}: the "
                                     "caller cannot choose its blocks and threads, leave both 0 (GOCCL_MAX_CTAS bounds "
                                     "the blocks of goccl's kernels)")

    def reset(self) -> None:
        """Forgets what executions have prepared."""

    def build(self) -> "Algorithm":
        """Itself: an algorithm is its own builder."""
        return self

    @staticmethod
    def create_from_native_capsule(capsule: object) -> "Algorithm":
        """The algorithm that a module of compile_native gave."""
        if isinstance(capsule, Algorithm):
            return capsule
        if is_capsule(capsule):
            return CapsuleAlgorithm(capsule)
        raise errors.InvalidArgument(f"{type(capsule).__name__} is no algorithm of goccl.compile_native, and no "
                                     "capsule of a mscclpp::Algorithm: describe one with goccl.NativeAlgorithm")

    create_from_native_handle = create_from_native_capsule

    def __repr__(self) -> str:
        low, high = self.message_size_range
        return f"<{type(self).__name__} {self.name}: {self.collective}, {low}…{high} bytes>"


class AlgorithmBuilder:
    """What makes an algorithm when a collection is built: a function without arguments, another builder, or a
    subclass's build."""

    def __init__(self, builder: Any = None) -> None:
        self._builder = builder

    def build(self) -> Algorithm:
        """The algorithm."""
        if self._builder is None:
            raise errors.InvalidUsage(f"{type(self).__name__} has no build: give AlgorithmBuilder a function, or "
                                      "override build")
        made = self._builder.build() if hasattr(self._builder, "build") else self._builder()
        return Algorithm.create_from_native_handle(made)


def check_sizes(collective: str, n: int, input_size: int, output_size: int, itemsize: int,
                output_used: bool = True) -> None:
    """Refuses sizes that are not whole elements, or an output that is too small for a known collective of n ranks."""
    if input_size < 0 or output_size < 0 or input_size % itemsize or output_size % itemsize:
        raise errors.InvalidArgument(f"{collective}: input_size {input_size} and output_size {output_size} are not "
                                     f"whole elements of {itemsize} bytes")
    if collective == "reducescatter":
        if input_size < output_size * n:
            raise errors.InvalidArgument(f"reducescatter: input_size {input_size} is less than {n} ranks times "
                                         f"output_size {output_size}")
        return
    if collective == "alltoall" and input_size % (n * itemsize):
        raise errors.InvalidArgument(f"alltoall: input_size {input_size} does not divide into whole elements for {n} "
                                     "ranks")
    needed = input_size * n if collective == "allgather" else input_size
    if output_used and output_size < needed and collective in ("allreduce", "allgather", "alltoall", "broadcast",
                                                               "reduce"):
        raise errors.InvalidArgument(f"{collective}: output_size is {output_size}, {needed} bytes are needed")


_NAME = b"mscclpp::AlgorithmPtr"
_MAGIC = 0x31474C41434F47
_TEXT = 2048


class _Call(Structure):
    _fields_ = [("bootstrap", ctypes.c_uint64), ("context", ctypes.c_uint64), ("communicator", ctypes.c_uint64),
                ("input", ctypes.c_void_p), ("output", ctypes.c_void_p), ("input_size", ctypes.c_uint64),
                ("output_size", ctypes.c_uint64), ("type", ctypes.c_int32), ("op", ctypes.c_int32),
                ("stream", ctypes.c_size_t), ("blocks", ctypes.c_int32), ("threads", ctypes.c_int32),
                ("symmetric", ctypes.c_int32), ("extras", ctypes.c_int32), ("names", ctypes.POINTER(ctypes.c_char_p)),
                ("values", ctypes.POINTER(ctypes.c_size_t))]


class _Table(Structure):
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


def is_capsule(thing: object) -> bool:
    """Whether thing is a capsule of an algorithm."""
    return type(thing).__name__ == "PyCapsule" and bool(_valid(thing, _NAME))


class CapsuleAlgorithm(Algorithm):
    """An algorithm of a C++ module that compile_native built."""

    def __init__(self, capsule: object) -> None:
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
        super().__init__(self._table.name(self._object).decode(), self._table.collective(self._object).decode(),
                         (bounds[0], bounds[1]), doc="an algorithm of a C++ module")
        self._comms: dict[int, Any] = {}  # the C++ side uses their handles

    def execute(self, comm: Any, input_buffer: int, output_buffer: int, input_size: int, output_size: int,
                dtype: DataType, op: ReduceOp = ReduceOp.NOP, stream: StreamSpec = 0, executor: Any = None,
                nblocks: int = 0, nthreads_per_block: int = 0, extras: dict[str, int] | None = None, *,
                symmetric_memory: bool = False, accum_dtype: DataType | None = None) -> int:
        if nblocks < 0 or nthreads_per_block < 0:
            raise errors.InvalidArgument(f"{self.name}: nblocks={nblocks}, nthreads_per_block={nthreads_per_block}: "
                                         "they are positive, or 0 for its own")
        if accum_dtype is not None:
            raise errors.Unsupported(f"{self.name}: accum_dtype={accum_dtype!r}: leave it out, it cannot be chosen")
        dtype, op = check_types(self.name, comm, dtype, op)
        self._comms[comm.handle] = comm
        extras = extras or {}
        names = (ctypes.c_char_p * max(len(extras), 1))(*(k.encode() for k in extras))
        values = array("extras", ctypes.c_size_t, list(extras.values()))
        call = _Call(comm.bootstrap().handle, comm.context().handle, comm.handle, input_buffer, output_buffer,
                     input_size, output_size, int(dtype), int(op), stream_handle(stream), nblocks, nthreads_per_block,
                     symmetric_memory, len(extras), names, values)
        text = ctypes.create_string_buffer(_TEXT)
        self._check(self._table.execute(self._object, call, text, _TEXT), text)
        return 0

    def reset(self) -> None:
        """Forgets the algorithm's contexts; all ranks do it together."""
        text = ctypes.create_string_buffer(_TEXT)
        self._check(self._table.reset(self._object, text, _TEXT), text)

    def _check(self, result: int, text: Any) -> None:
        if result < 0:
            raise errors.GocclError(f"{self.name}: {text.value.decode(errors='replace')}")
        if result:  # a CommResult, numbered as a goccl_result
            raise errors.from_result(result, f"{self.name} returned {result}: its own code says why")
