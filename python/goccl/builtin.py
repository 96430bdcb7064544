"""goccl's collectives under the names of MSCCL++'s default algorithms."""

from typing import Any

from . import _e4m3b15, errors
from ._buffer import stream_handle
from ._lib import error
from ._types import DataType, ReduceOp
from ._typing import StreamSpec
from .algorithm import MAX_SIZE, Algorithm, check_sizes
from .communicator import Communicator
from .nccl._communicator import Communicator as Comm
from .nccl._calls import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, BROADCAST, REDUCE, REDUCE_SCATTER, REDUCING, request

_CODES = {"allreduce": ALL_REDUCE, "allgather": ALL_GATHER, "reducescatter": REDUCE_SCATTER, "alltoall": ALL_TO_ALL,
          "broadcast": BROADCAST, "reduce": REDUCE}


class _BuiltIn(Algorithm):
    """A collective of goccl's engine, which chooses the kernel by a measured table."""

    def _execute(self, comm: Communicator, input_buffer: int, output_buffer: int, input_size: int, output_size: int,
                 dtype: DataType, op: ReduceOp, stream: StreamSpec, executor: Any, nblocks: int,
                 nthreads_per_block: int, extras: dict[str, int] | None) -> None:
        c = comm.__dict__.get("_goccl_comm") or _communicator(comm)
        code = _CODES[self.collective]
        root = self._root(extras, c._size) if extras else 0
        if dtype is DataType.float8_e4m3b15:
            if code in REDUCING:
                def run(send: int, recv: int, wide: DataType, scale: int) -> None:
                    self._execute(comm, send, recv, scale * input_size, scale * output_size, wide, op, stream, executor,
                                  nblocks, nthreads_per_block, extras)

                others = code == REDUCE and root != c.rank
                _e4m3b15.reduce(c.device, stream, input_buffer, output_buffer, input_size, output_size, others, run)
                return
            dtype = DataType.uint8
        itemsize = dtype.itemsize
        check_sizes(self.collective, c._size, input_size, output_size, itemsize, code != REDUCE or root == c._rank)
        if code == REDUCE_SCATTER:
            count = output_size // itemsize
        elif code == ALL_TO_ALL:
            count = input_size // itemsize // c._size
        else:
            count = input_size // itemsize
        waits = c._host and not stream
        queue = c._queue(None) if waits else stream if stream.__class__ is int else stream_handle(stream)
        r = request(c._handle, code, dtype, 0 if op == 255 else op, root, input_buffer, output_buffer, count, queue, 0,
                    0, 0, 0, 0, 0, 0, 0, 0)
        if waits:
            c._enqueue(r, None, None)
            return
        result = c._submit(r, 1)
        if result:
            raise error(result)

    def _accumulates_in(self, dtype: DataType) -> DataType:
        narrow = (DataType.float8_e4m3b15, DataType.float16, DataType.bfloat16, DataType.float8_e4m3,
                  DataType.float8_e5m2)
        return DataType.float32 if dtype in narrow else dtype

    def _root(self, extras: dict[str, int], size: int) -> int:
        if set(extras) != {"root"} or self.collective not in ("broadcast", "reduce") or not 0 <= extras["root"] < size:
            raise errors.InvalidArgument(f"{self.name}: extras {extras!r}: a default broadcast or reduce takes its "
                                         f"root, of {size} ranks, "
                                         "and the others take nothing")
        return extras["root"]


def _communicator(comm: Communicator) -> Comm:
    """The collective communicator over a communicator of primitives, made by the first execution on every rank."""
    c = comm._goccl_comm = Comm.from_bootstrap(comm.bootstrap(), device=comm.device())
    return c


_UNICAST = "unicast form: loads from and stores to every peer, no multicast object. "
_DEFAULTS: tuple[tuple[str, str, tuple[int, int], dict[str, int], str], ...] = (
    ("default_allreduce_nvls_packet", "allreduce", (0, 1 << 20), {"nvls": 0, "packet": 1}, _UNICAST),
    ("default_allreduce_nvls_with_copy", "allreduce", (1 << 20, MAX_SIZE), {"nvls": 0, "copy": 1}, _UNICAST),
    ("default_allreduce_nvls", "allreduce", (1 << 20, MAX_SIZE), {"nvls": 0}, _UNICAST),
    ("default_allreduce_nvls_zero_copy", "allreduce", (1 << 16, MAX_SIZE), {"nvls": 0}, _UNICAST),
    ("default_allreduce_nvls_warp_pipeline", "allreduce", (1 << 20, 1 << 24), {"nvls": 0}, _UNICAST),
    ("default_allreduce_nvls_block_pipeline", "allreduce", (1 << 24, MAX_SIZE), {"nvls": 0}, _UNICAST),
    ("default_allreduce_allpair_packet", "allreduce", (0, 1 << 14), {"packet": 1}, ""),
    ("default_allreduce_packet", "allreduce", (0, 1 << 20), {"packet": 1}, ""),
    ("default_allreduce_fullmesh", "allreduce", (1 << 20, MAX_SIZE), {}, ""),
    ("default_allreduce_rsag", "allreduce", (1 << 20, MAX_SIZE), {}, ""),
    ("default_allreduce_rsag_pipeline", "allreduce", (1 << 20, MAX_SIZE), {}, ""),
    ("default_allreduce_rsag_zero_copy", "allreduce", (1 << 20, MAX_SIZE), {}, ""),
    ("default_allgather_fullmesh", "allgather", (0, MAX_SIZE), {}, ""),
    ("default_allgather_fullmesh2", "allgather", (0, 1 << 25), {}, ""),
    ("default_reducescatter", "reducescatter", (0, MAX_SIZE), {}, ""),
    ("default_alltoall", "alltoall", (0, MAX_SIZE), {}, ""),
    ("default_broadcast", "broadcast", (0, MAX_SIZE), {}, ""),
    ("default_reduce", "reduce", (0, MAX_SIZE), {}, ""),
)


def default_algorithms() -> list[Algorithm]:
    """One algorithm for each name, each time anew."""
    return [_BuiltIn(name, collective, sizes, tags, doc=note + "goccl chooses the kernel by message size.")
            for name, collective, sizes, tags, note in _DEFAULTS]
