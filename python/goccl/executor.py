"""Execution plans, and the executor that runs them."""

import json
from typing import Any

from . import _e4m3b15, errors
from ._buffer import stream_handle
from ._lib import Object, error, interruptible, lib, nanoseconds, synchronize
from ._types import DataType, ReduceOp
from .algorithm import check_sizes, check_types
from .communicator import Communicator
from .device import Stream


class ExecutionPlan:
    """A plan file: a path, JSON text or its bytes. trust: it is not verified, neither here nor by an executor; a wrong
    one may hang until the deadline or give a wrong result."""

    def __init__(self, plan: str | bytes, rank: int = 0, *, trust: bool = False) -> None:
        if isinstance(plan, str) and not plan.lstrip().startswith("{"):
            with open(plan, "rb") as f:
                plan = f.read()
        self.data: bytes = plan.encode() if isinstance(plan, str) else bytes(plan)
        self.rank, self.trust = rank, trust
        self.key = self.data, trust
        self._report: dict[str, Any] | None = None

    @property
    def report(self) -> dict[str, Any]:
        """What the plan is, after verification. With trust only its structure is checked, and "verified" is False."""
        if self._report is None:
            report = lib.plan_describe if self.trust else lib.plan_check
            self._report = json.loads(report(self.data, len(self.data)))
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
    """Runs plans among the ranks of a communicator. Making it, and the first run of each plan, are collective. timeout,
    in seconds, bounds a launch's wait for its peers."""

    def __init__(self, comm: Communicator, *, timeout: float | None = None) -> None:
        if not isinstance(comm, Communicator):
            raise errors.InvalidArgument(f"Executor: comm is {comm!r}: pass a goccl.Communicator")
        self._comm, self._device, self._timeout = comm, comm.device(), timeout
        self._loaded: dict[tuple[bytes, bool], Object] = {}
        self._launch, self._counted = lib.raw("executor_launch"), lib.raw("executor_launch_counted")
        self._stream: Stream | None = None
        self._make()

    def _make(self) -> None:
        self._object = Object(interruptible(lib.executor_create, self._comm.bootstrap().handle,
                                            self._device.handle, nanoseconds(self._timeout)),
                               self._comm)

    def load(self, plan: ExecutionPlan, reserve: int = 0) -> int:
        """Verifies plan, unless it is trusted, and makes it ready, for messages of up to reserve bytes at once;
        collective. Later calls remember it."""
        o = self._loaded.get(plan.key)
        if o is None:
            load = lib.executor_load_trusted if plan.trust else lib.executor_load
            o = Object(interruptible(load, self._object.handle, plan.data, len(plan.data), reserve),
                       self._object)
            self._loaded[plan.key] = o
        return o.handle

    def run(self, plan: ExecutionPlan, send: int, recv: int, message: int, dtype: DataType, op: int,
            stream: int, counts: int = 0) -> None:
        """Enqueues one run; message is in bytes of the input, or of the output for an all-gather. counts is the address
        of the table of a plan with counts: how many bytes each rank sends to each."""
        if dtype is DataType.float8_e4m3b15:
            if plan.collective in _e4m3b15.REDUCING:
                self._through_float32(plan, send, recv, message, op, stream)
                return
            if plan.collective not in _e4m3b15.MOVING:
                raise errors.Unsupported(f"{plan.name}: a custom collective does not run on float8_e4m3b15; use "
                                         "float32")
            dtype = DataType.uint8
        o = self._loaded.get(plan.key)
        handle = o.handle if o is not None else self.load(plan)
        own = not stream and self._device.is_host
        if own:
            if self._stream is None:
                self._stream = Stream(self._device)
            stream = self._stream.handle
        if counts:
            r = self._counted(handle, send, recv, message, counts, stream, dtype, op, 0)
        else:
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

    def hook(self, plan: ExecutionPlan, hook: int) -> int:
        """The address of the counter of a hook of this rank: 8 bytes of device memory. A kernel that fills input adds 1
        for every run, by a release; one that reads the output of the n-th run waits until it has grown to n."""
        return lib.executor_hook(self.load(plan), hook)

    def raise_hook(self, plan: ExecutionPlan, hook: int, n: int, stream: int) -> None:
        """Enqueues on stream, which must not be the stream of the runs: the input that hook guards is there for the
        first n runs."""
        lib.executor_raise_hook(self.load(plan), hook, n, stream)

    def await_hook(self, plan: ExecutionPlan, hook: int, n: int, stream: int) -> None:
        """Enqueues on stream, which must not be the stream of the runs, a wait for the output that hook guards, of the
        n-th run. On the host device; on a GPU a kernel waits for the counter."""
        lib.executor_await_hook(self.load(plan), hook, n, stream)

    def register(self, buffer: int) -> None:
        """Makes the buffer at that address known to all peers; collective. A plan with hooks needs it on GPUs for every
        buffer that peers touch."""
        lib.executor_register(self._object.handle, buffer)

    def _through_float32(self, plan: ExecutionPlan, send: int, recv: int, message: int, op: int, stream: int) -> None:
        boot = self._comm.bootstrap()
        output = message // boot.get_n_ranks() if plan.collective == "reducescatter" else message
        others = plan.collective == "reduce" and plan.report["root"] != boot.get_rank()
        _e4m3b15.reduce(self._device, stream, send, recv, message, output, others,
                        lambda send, recv, wide, scale: self.run(plan, send, recv, scale * message, wide, op, stream))

    def _raise(self) -> None:
        lib.executor_error(self._object.handle)

    def execute(self, rank: int, send_buff: int, recv_buff: int, send_buff_size: int, recv_buff_size: int,
                data_type: DataType, plan: ExecutionPlan, stream: int = 0, packet_type: Any = None,
                op: ReduceOp = ReduceOp.SUM) -> None:
        """MSCCL++'s form of run."""
        boot = self._comm.bootstrap()
        if rank != boot.get_rank():
            raise errors.InvalidArgument(f"rank {rank}: this is the executor of rank {boot.get_rank()}")
        if not isinstance(plan, ExecutionPlan):
            raise errors.InvalidArgument(f"plan is {plan!r}: pass a goccl.ExecutionPlan")
        data_type, op = check_types(plan.name, self._comm, data_type, op)
        check_sizes(plan.collective, boot.get_n_ranks(), send_buff_size, recv_buff_size, data_type.itemsize)
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
