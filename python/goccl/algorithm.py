"""Algorithms: goccl's own under the names of MSCCL++'s collection, and programs of goccl.language, executed in one way."""

from __future__ import annotations

import importlib, json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from . import errors
from ._buffer import stream_handle
from ._lib import create, error, interruptible, lib, nanoseconds, synchronize, take
from ._types import DataType, ReduceOp
from .device import Stream, current_device
from .nccl._communicator import Communicator as _Comm
from .nccl._request import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, BROADCAST, REDUCE, REDUCE_SCATTER, request as _request
from .primitives import Communicator, _Object

if TYPE_CHECKING:
    from typing import Any

    from ._typing import StreamSpec
    from .language.spec import AlgoSpec

__all__ = ["Algorithm", "AlgorithmCollection", "AlgorithmCollectionBuilder", "CollectiveRequest", "Executor", "ExecutionPlan", "compile", "DslCompiler"]

_MAX = 2**64 - 1


class Algorithm:
    """One way to do a collective. ``execute`` enqueues it; all ranks execute the same algorithms in the same order."""

    class Constraint:
        """What job an algorithm is for; 0 is any."""

        world_size: int
        n_ranks_per_node: int

        def __init__(self, world_size: int = 0, n_ranks_per_node: int = 0) -> None:
            self.world_size, self.n_ranks_per_node = world_size, n_ranks_per_node

    name: str
    collective: str
    message_size_range: tuple[int, int]
    tags: dict[str, int]
    constraint: Constraint
    buffer_mode: str
    doc: str

    def __init__(self, name: str, collective: str, message_size_range: tuple[int, int] = (0, _MAX), tags: dict[str, int] | None = None,
                 constraint: "Algorithm.Constraint | None" = None, doc: str = "") -> None:
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

    def execute(self, comm: Communicator, input_buffer: int, output_buffer: int, input_size: int, output_size: int, dtype: DataType,
                op: ReduceOp = ReduceOp.NOP, stream: int = 0, executor: "Executor | None" = None, nblocks: int = 0, nthreads_per_block: int = 0,
                extras: dict[str, int] | None = None, *, symmetric_memory: bool = False, accum_dtype: DataType | None = None) -> int:
        """Enqueues the collective on stream (0: the default stream; on the host device then the call waits) and returns 0.

        Buffers are addresses, sizes in bytes. A reducing collective with NOP sums. What an algorithm cannot do as it is told, it refuses: nblocks and
        nthreads_per_block are for kernels of one's own (0: goccl or the algorithm chooses), a plan has its blocks; extras of a default algorithm is the root
        of a broadcast or reduce; any memory will do, so symmetric_memory is False; accum_dtype is what the algorithm accumulates in, or None.
        """
        raise NotImplementedError

    def _refuse(self, nblocks: int, nthreads_per_block: int, symmetric_memory: bool, accum_dtype: DataType | None) -> None:
        """Refuses what an algorithm of goccl's or of the language would ignore."""
        self._refuse_kernels(nblocks, nthreads_per_block, symmetric_memory, accum_dtype)
        if nblocks or nthreads_per_block:
            raise errors.Unsupported(f"{self.name}: nblocks={nblocks}, nthreads_per_block={nthreads_per_block}: its blocks and threads are not the caller's choice, "
                                     "leave both 0 (GOCCL_MAX_CTAS bounds the blocks of goccl's kernels)")

    def _refuse_kernels(self, nblocks: int, nthreads_per_block: int, symmetric_memory: bool, accum_dtype: DataType | None) -> None:
        """Refuses what an algorithm of the user's kernels would ignore."""
        if nblocks < 0 or nthreads_per_block < 0:
            raise errors.InvalidArgument(f"{self.name}: nblocks={nblocks}, nthreads_per_block={nthreads_per_block}: they are positive, or 0 for the algorithm's own")
        if symmetric_memory:
            raise errors.Unsupported(f"{self.name}: symmetric_memory: it works on any memory and takes no advantage of this; leave it out "
                                     "(goccl.nccl.Communicator.register_window is what collectives take advantage of)")
        if accum_dtype is not None:
            raise errors.Unsupported(f"{self.name}: accum_dtype={accum_dtype!r}: leave it out, it cannot be chosen")

    def reset(self) -> None:
        """Forgets what executions have prepared."""

    @staticmethod
    def create_from_native_capsule(capsule: object) -> "Algorithm":
        """The algorithm that a module of compile_native gave."""
        if isinstance(capsule, Algorithm):
            return capsule
        if type(capsule).__name__ == "PyCapsule":  # its module imports this one
            return importlib.import_module("._capsule", __package__).CapsuleAlgorithm(capsule)  # type: ignore
        raise errors.InvalidArgument(f"{type(capsule).__name__} is neither an algorithm nor a capsule of a mscclpp::Algorithm")

    create_from_native_handle = create_from_native_capsule

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}: {self.collective}, {self.message_size_range[0]}…{self.message_size_range[1]} bytes>"


_CODES = {"allreduce": ALL_REDUCE, "allgather": ALL_GATHER, "reducescatter": REDUCE_SCATTER, "alltoall": ALL_TO_ALL, "broadcast": BROADCAST, "reduce": REDUCE}


def _check_sizes(collective: str, n: int, input_size: int, output_size: int, itemsize: int, output_used: bool = True) -> None:
    """Refuses sizes that are not whole elements, or an output that does not hold what a collective of n ranks writes to it."""
    if input_size < 0 or output_size < 0 or input_size % itemsize or output_size % itemsize:
        raise errors.InvalidArgument(f"{collective}: input_size {input_size} and output_size {output_size} are not whole elements of {itemsize} bytes")
    if collective == "reducescatter":
        if input_size < output_size * n:
            raise errors.InvalidArgument(f"reducescatter: input_size {input_size} is less than {n} ranks times output_size {output_size}")
        return
    if collective == "alltoall" and input_size % (n * itemsize):
        raise errors.InvalidArgument(f"alltoall: input_size {input_size} does not divide into whole elements for {n} ranks")
    needed = input_size * n if collective == "allgather" else input_size
    if output_used and output_size < needed and collective in _CODES:
        raise errors.InvalidArgument(f"{collective}: output_size is {output_size}, {needed} bytes are needed")


def _accumulates_in(dtype: DataType) -> DataType:
    """What goccl's own reductions accumulate in."""
    return DataType.float32 if dtype in (DataType.float16, DataType.bfloat16, DataType.float8_e4m3, DataType.float8_e5m2) else dtype


class _BuiltIn(Algorithm):
    """A collective of goccl's engine, which chooses the kernel by a measured table."""

    def execute(self, comm: Communicator, input_buffer: int, output_buffer: int, input_size: int, output_size: int, dtype: DataType,
                op: ReduceOp = ReduceOp.NOP, stream: StreamSpec = 0, executor: Executor | None = None, nblocks: int = 0,
                nthreads_per_block: int = 0, extras: dict[str, int] | None = None, *, symmetric_memory: bool = False, accum_dtype: DataType | None = None) -> int:
        if nblocks or nthreads_per_block or symmetric_memory or accum_dtype is not None:
            self._refuse(nblocks, nthreads_per_block, symmetric_memory, None if accum_dtype == _accumulates_in(dtype) else accum_dtype)
        c = comm.__dict__.get("_goccl_comm") or _communicator(comm)
        code = _CODES[self.collective]
        root = self._root(extras, c._size) if extras else 0
        itemsize = dtype.itemsize
        _check_sizes(self.collective, c._size, input_size, output_size, itemsize, code != REDUCE or root == c._rank)
        if code == REDUCE_SCATTER:
            count = output_size // itemsize
        elif code == ALL_TO_ALL:
            count = input_size // itemsize // c._size
        else:
            count = input_size // itemsize
        if c._host and not stream:
            c._enqueue(_request(c._handle, code, dtype, 0 if op == 255 else op, root, input_buffer, output_buffer, count, c._queue(None), 0, 0,
                                0, 0, 0, 0, 0, 0, 0), None, None)
            return 0
        r = c._submit(_request(c._handle, code, dtype, 0 if op == 255 else op, root, input_buffer, output_buffer, count,
                               stream if stream.__class__ is int else stream_handle(stream), 0, 0, 0, 0, 0, 0, 0, 0, 0), 1)
        if r:
            raise error(r)
        return 0


    def _root(self, extras: dict[str, int], size: int) -> int:
        if not isinstance(extras, dict) or set(extras) != {"root"} or self.collective not in ("broadcast", "reduce") or not 0 <= extras["root"] < size:
            raise errors.InvalidArgument(f"{self.name}: extras {extras!r}: a default broadcast or reduce takes its root, of {size} ranks, and the others take nothing")
        return extras["root"]


def _communicator(comm: Communicator) -> _Comm:
    """The collective communicator over a communicator of primitives, made by the first execution on every rank."""
    group = getattr(comm, "group", None)
    device = group.device if group is not None else current_device(comm.bootstrap().get_local_rank())
    c = _Comm.from_bootstrap(comm.bootstrap(), device=device)
    comm._goccl_comm = c
    return c


class AlgorithmCollection:
    """Algorithms, in order, and by collective."""

    def __init__(self, algorithms: "list[Algorithm] | None" = None) -> None:
        self._all: list[Algorithm] = list(algorithms or [])
        self._selectors: list[Callable[..., Any]] = []

    def register_algorithm(self, collective: str, algo_name: str, algorithm: Algorithm) -> None:
        """Adds an algorithm under a collective and a name."""
        algorithm.collective, algorithm.name = collective, algo_name
        self._all.append(algorithm)

    def get_by_collective(self, collective: str) -> "list[Algorithm]":
        """Those of one collective."""
        return [a for a in self._all if a.collective == collective]

    def select(self, request: "CollectiveRequest") -> Algorithm | None:
        """What the user's selector, then the fallback selector choose; without either the first whose range holds the message, programs first."""
        by: dict[str, dict[str, Algorithm]] = {}
        for a in self._all:
            by.setdefault(a.collective, {})[a.name] = a
        for s in self._selectors:
            chosen: Algorithm | None = s(by, request)
            if chosen is not None:
                return chosen
        fits = [a for a in self.get_by_collective(request.collective)
                if a.message_size_range[0] <= request.message_size <= a.message_size_range[1] and a.constraint.world_size in (0, request.world_size)]
        return next((a for a in fits if a.is_dsl_algorithm()), fits[0] if fits else None)

    def to_list(self) -> "list[Algorithm]":
        """All of them."""
        return list(self._all)

    def __iter__(self) -> Iterator[Algorithm]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, i: int) -> Algorithm:
        return self._all[i]


class CollectiveRequest:
    """What a selector is asked: the job, the collective and the message, sizes in bytes."""

    collective: str
    message_size: int
    dtype: DataType
    world_size: int
    n_ranks_per_node: int
    rank: int
    input_buffer: int
    output_buffer: int
    stream: int
    hints: dict[str, Any]

    def __init__(self, collective: str, message_size: int, dtype: DataType, world_size: int, n_ranks_per_node: int, rank: int, input_buffer: int = 0,
                 output_buffer: int = 0, stream: int = 0, hints: dict[str, Any] | None = None) -> None:
        self.collective, self.message_size, self.dtype = collective, message_size, dtype
        self.world_size, self.n_ranks_per_node, self.rank = world_size, n_ranks_per_node, rank
        self.input_buffer, self.output_buffer, self.stream, self.hints = input_buffer, output_buffer, stream, dict(hints or {})


_UNICAST = "unicast form: loads from and stores to every peer, no multicast object. "
_DEFAULTS: tuple[tuple[str, str, tuple[int, int], dict[str, int], str], ...] = (
    ("default_allreduce_nvls_packet", "allreduce", (0, 1 << 20), {"nvls": 0, "packet": 1}, _UNICAST),
    ("default_allreduce_nvls_with_copy", "allreduce", (1 << 20, _MAX), {"nvls": 0, "copy": 1}, _UNICAST),
    ("default_allreduce_nvls", "allreduce", (1 << 20, _MAX), {"nvls": 0}, _UNICAST),
    ("default_allreduce_nvls_zero_copy", "allreduce", (1 << 16, _MAX), {"nvls": 0}, _UNICAST),
    ("default_allreduce_nvls_warp_pipeline", "allreduce", (1 << 20, 1 << 24), {"nvls": 0}, _UNICAST),
    ("default_allreduce_nvls_block_pipeline", "allreduce", (1 << 24, _MAX), {"nvls": 0}, _UNICAST),
    ("default_allreduce_allpair_packet", "allreduce", (0, 1 << 14), {"packet": 1}, ""),
    ("default_allreduce_packet", "allreduce", (0, 1 << 20), {"packet": 1}, ""),
    ("default_allreduce_fullmesh", "allreduce", (1 << 20, _MAX), {}, ""),
    ("default_allreduce_rsag", "allreduce", (1 << 20, _MAX), {}, ""),
    ("default_allreduce_rsag_pipeline", "allreduce", (1 << 20, _MAX), {}, ""),
    ("default_allreduce_rsag_zero_copy", "allreduce", (1 << 20, _MAX), {}, ""),
    ("default_allgather_fullmesh", "allgather", (0, _MAX), {}, ""),
    ("default_allgather_fullmesh2", "allgather", (0, 1 << 25), {}, ""),
    ("default_reducescatter", "reducescatter", (0, _MAX), {}, ""),
    ("default_alltoall", "alltoall", (0, _MAX), {}, ""),
    ("default_broadcast", "broadcast", (0, _MAX), {}, ""),
    ("default_reduce", "reduce", (0, _MAX), {}, ""),
)


class AlgorithmCollectionBuilder:
    """Gathers algorithms into a collection."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Starts anew."""
        self._builders: list[Any] = []
        self._user: Callable[..., Any] | None = None
        self._fallback: Callable[..., Any] | None = None

    def add_algorithm_builder(self, builder: Any) -> None:
        """An Algorithm, or something whose build() gives one."""
        self._builders.append(builder)

    def set_algorithm_selector(self, selector: Callable[..., Any]) -> None:
        """selector(algorithms by collective and name, request) → Algorithm or None, asked first."""
        self._user = selector

    def set_fallback_algorithm_selector(self, selector: Callable[..., Any]) -> None:
        """The selector that is asked when the first gives None."""
        self._fallback = selector

    def build(self) -> AlgorithmCollection:
        """The collection of what was added."""
        c = AlgorithmCollection([b if isinstance(b, Algorithm) else b.build() for b in self._builders])
        c._selectors = [s for s in (self._user, self._fallback) if s]
        return c

    def build_default_algorithms(self, scratch_buffer: int = 0, scratch_buffer_size: int = 0, rank: int = 0) -> AlgorithmCollection:
        """goccl's collectives under the names of MSCCL++'s default algorithms.

        A name selects a collective and a message range; which kernel runs is goccl's choice by a measured table, for each size. Where a name says nvls, the
        tag nvls is 0 and doc says so: multicast is off, the unicast form runs. The scratch buffer is not needed: scratch is goccl's own.
        """
        out = [_BuiltIn(name, collective, sizes, tags, doc=note + "goccl chooses the kernel by message size.")
               for name, collective, sizes, tags, note in _DEFAULTS]
        c = self.build()
        c._all += out
        return c


class ExecutionPlan:
    """A plan file: a path, JSON text or its bytes."""

    rank: int

    def __init__(self, plan: str | bytes, rank: int = 0) -> None:
        if isinstance(plan, str) and not plan.lstrip().startswith("{"):
            with open(plan, "rb") as f:
                plan = f.read()
        self.data: bytes = plan.encode() if isinstance(plan, str) else bytes(plan)
        self.rank = rank
        self._report: dict[str, Any] | None = None

    @property
    def report(self) -> dict[str, Any]:
        """What the plan is, after verification."""
        if self._report is None:
            self._report = json.loads(take(lib.plan_check, self.data, len(self.data)))
        return self._report

    @property
    def name(self) -> str:
        """The plan's name."""
        return str(self.report["name"])

    @property
    def collective(self) -> str:
        """The plan's collective."""
        return str(self.report["collective"])

    @property
    def min_message_size(self) -> int:
        """The smallest message in bytes."""
        return int(self.report["min_message_size"])

    @property
    def max_message_size(self) -> int:
        """The largest message in bytes."""
        return int(self.report["max_message_size"])


class Executor:
    """Runs plans among the ranks of a communicator. Making it, and the first run of each plan, are collective. timeout, in seconds, bounds a launch's wait
    for its peers."""

    def __init__(self, comm: Communicator, *, timeout: float | None = None) -> None:
        group = getattr(comm, "group", None)
        self._device = group.device if group is not None else current_device(comm.bootstrap().get_local_rank())
        self._comm, self._timeout = comm, timeout
        self._loaded: dict[bytes, _Object] = {}
        self._launch = lib.raw("executor_launch")
        self._stream: Stream | None = None
        self._make()

    def _make(self) -> None:
        self._object = _Object(interruptible(create, lib.executor_create, self._comm.bootstrap().handle, self._device.handle, nanoseconds(self._timeout)),
                               self._comm)

    def load(self, plan: ExecutionPlan, reserve: int = 0) -> int:
        """Verifies plan and makes it ready, for messages of up to reserve bytes at once; collective. Later calls remember it."""
        o = self._loaded.get(plan.data)
        if o is None:
            o = _Object(interruptible(create, lib.executor_load, self._object.handle, plan.data, len(plan.data), reserve), self._object)
            self._loaded[plan.data] = o
        return o.handle

    def run(self, plan: ExecutionPlan, send: int, recv: int, message: int, dtype: DataType, op: int, stream: int) -> None:
        """Enqueues one run; message is in bytes of the input, or of the output for an all-gather."""
        o = self._loaded.get(plan.data)
        handle = o.handle if o is not None else self.load(plan)
        own = not stream and self._device.is_host
        if own:
            if self._stream is None:
                self._stream = Stream(self._device)
            stream = self._stream.handle
        r = self._launch(handle, send, recv, message, stream, dtype, op, 0)
        if r:
            raise error(r)
        if own:
            try:
                synchronize(self._device.handle, stream, self._raise)
            except KeyboardInterrupt:
                lib.executor_abort(self._object.handle)
                raise
            self._raise()

    def _raise(self) -> None:
        lib.executor_error(self._object.handle)

    def execute(self, rank: int, send_buff: int, recv_buff: int, send_buff_size: int, recv_buff_size: int, data_type: DataType, plan: ExecutionPlan,
                stream: int = 0, packet_type: Any = None, op: ReduceOp = ReduceOp.SUM) -> None:
        """MSCCL++'s form of run."""
        boot = self._comm.bootstrap()
        if rank != boot.get_rank():
            raise errors.InvalidArgument(f"rank {rank}: this is the executor of rank {boot.get_rank()}")
        _check_sizes(plan.collective, boot.get_n_ranks(), send_buff_size, recv_buff_size, data_type.itemsize)
        message = recv_buff_size if plan.collective == "allgather" else send_buff_size
        self.run(plan, send_buff, recv_buff, message, data_type, op, stream_handle(stream))

    def reset(self) -> None:
        """Forgets all plans and starts anew; collective."""
        self._loaded.clear()
        self._object.close()
        self._make()

    def close(self) -> None:
        """Ends the executor."""
        self._loaded.clear()
        self._object.close()


class DslAlgorithm(Algorithm):
    """A program of goccl.language, compiled and verified."""

    plan: ExecutionPlan

    def __init__(self, plan: ExecutionPlan, collective: str, tags: dict[str, int], constraint: Algorithm.Constraint) -> None:
        r = plan.report
        super().__init__(r["name"], collective, (r["min_message_size"], r["max_message_size"]), tags, constraint, doc="a program of goccl.language")
        self.plan = plan
        self._output = collective == "allgather"

    def is_dsl_algorithm(self) -> bool:
        return True

    def execute(self, comm: Communicator, input_buffer: int, output_buffer: int, input_size: int, output_size: int, dtype: DataType,
                op: ReduceOp = ReduceOp.NOP, stream: StreamSpec = 0, executor: Executor | None = None, nblocks: int = 0,
                nthreads_per_block: int = 0, extras: dict[str, int] | None = None, *, symmetric_memory: bool = False, accum_dtype: DataType | None = None) -> int:
        if executor is None:
            raise errors.InvalidArgument(f"{self.name} is a program: pass executor=goccl.Executor(comm)")
        if nblocks or nthreads_per_block or symmetric_memory or accum_dtype is not None:
            self._refuse(nblocks, nthreads_per_block, symmetric_memory, accum_dtype)
        if extras:
            raise errors.InvalidArgument(f"{self.name}: extras {extras!r}: a program takes none")
        _check_sizes(self.collective, self.constraint.world_size, input_size, output_size, dtype.itemsize)
        executor.run(self.plan, input_buffer, output_buffer, output_size if self._output else input_size, dtype, 0 if op == 255 else op,
                     stream if stream.__class__ is int else stream_handle(stream))
        return 0

    def build(self) -> "DslAlgorithm":
        """Itself: a compiled program is its own builder."""
        return self


class DslCompiler:
    """``compile(algo=function, algo_spec=spec, rank=rank)``: runs function(spec, **kwargs), which returns a CollectiveProgram, and compiles, verifies and
    wraps it. Every rank gets the same plan."""

    def __call__(self, algo: Callable[..., Any], algo_spec: AlgoSpec, rank: int = 0, **kwargs: Any) -> DslAlgorithm:
        program = algo(algo_spec, **kwargs)
        if not hasattr(program, "compile"):
            raise errors.InvalidArgument(f"{algo.__name__} returned {type(program).__name__}: it must return its CollectiveProgram")
        return DslAlgorithm(ExecutionPlan(program.compile(), rank), algo_spec.collective.name, algo_spec.tags,
                            Algorithm.Constraint(program.num_ranks, algo_spec.nranks_per_node))


compile: DslCompiler = DslCompiler()
