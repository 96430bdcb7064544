"""Programs of goccl.language as algorithms."""

from collections.abc import Callable
from typing import Any

from . import errors
from ._buffer import stream_handle
from ._types import DataType, ReduceOp
from ._typing import StreamSpec
from .algorithm import Algorithm, check_sizes
from .communicator import Communicator
from .executor import ExecutionPlan
from .language.spec import AlgoSpec


class DslAlgorithm(Algorithm):
    """A program of goccl.language, compiled and verified."""

    def __init__(self, plan: ExecutionPlan, collective: str, tags: dict[str, int],
                 constraint: Algorithm.Constraint) -> None:
        r = plan.report
        super().__init__(r["name"], collective, (r["min_message_size"], r["max_message_size"]), tags, constraint,
                         doc="a program of goccl.language")
        self.plan = plan
        self._output = collective == "allgather"

    def is_dsl_algorithm(self) -> bool:
        return True

    def _execute(self, comm: Communicator, input_buffer: int, output_buffer: int, input_size: int, output_size: int,
                 dtype: DataType, op: ReduceOp, stream: StreamSpec, executor: Any, nblocks: int,
                 nthreads_per_block: int, extras: dict[str, int] | None) -> None:
        if executor is None:
            raise errors.InvalidArgument(f"{self.name} is a program: pass executor=goccl.Executor(comm)")
        if extras:
            raise errors.InvalidArgument(f"{self.name}: extras {extras!r}: a program takes none")
        check_sizes(self.collective, self.constraint.world_size, input_size, output_size, dtype.itemsize)
        executor.run(self.plan, input_buffer, output_buffer, output_size if self._output else input_size, dtype,
                     0 if op == 255 else op, stream if stream.__class__ is int else stream_handle(stream))


class DslCompiler:
    """``compile(algo=function, algo_spec=spec, rank=rank)``: runs function(spec, **kwargs), which returns a
    CollectiveProgram, and compiles, verifies and wraps it. Every rank gets the same plan. trust: the plan is not
    verified, see ExecutionPlan."""

    def __call__(self, algo: Callable[..., Any], algo_spec: AlgoSpec, rank: int = 0, *, trust: bool = False,
                 **kwargs: Any) -> DslAlgorithm:
        program = algo(algo_spec, **kwargs)
        if not hasattr(program, "compile"):
            raise errors.InvalidArgument(f"{algo.__name__} returned {type(program).__name__}: it must return its "
                                         "CollectiveProgram")
        return DslAlgorithm(ExecutionPlan(program.compile(allow_unpaired=trust), rank, trust=trust),
                            algo_spec.collective.name, algo_spec.tags,
                            Algorithm.Constraint(program.num_ranks, algo_spec.nranks_per_node))


compile: DslCompiler = DslCompiler()
