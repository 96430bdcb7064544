"""CollectiveProgram: commands of all ranks, recorded."""

import json
import os
import sys
import threading
import warnings
from types import FrameType
from typing import Any

from .. import errors
from .._lib import lib
from .collectives import Collective
from .spec import AlgoSpec, ReplicationPolicy

__all__ = ["CollectiveProgram", "MSCCLPPProgram", "current"]

_here = os.path.dirname(os.path.abspath(__file__)) + os.sep
_state = threading.local()
_UNPAIRED = "signals and waits do not pair"  # of the compiler's error


def current() -> "CollectiveProgram":
    """The program of the innermost ``with CollectiveProgram(…)`` of this thread."""
    stack: list[CollectiveProgram] | None = getattr(_state, "stack", None)
    if not stack:
        raise errors.InvalidUsage("channels and ranks belong to a program: use them inside `with CollectiveProgram(…)`")
    return stack[-1]


class CollectiveProgram:
    """A collective in the making; a context manager inside which ranks and channels record operations.

    min_message_size and max_message_size are in bytes, both ends included.
    """

    def __init__(self, name: str, collective: Collective, num_ranks: int, instances: int = 1, protocol: str = "Simple",
                 instr_fusion: bool = True, auto_sync: bool = True,
                 replication_policy: ReplicationPolicy = ReplicationPolicy.interleaved, reuse_resources: bool = False,
                 num_threads_per_block: int = 1024, use_double_scratch_buffer: bool = False, buffer_alignment: int = 16,
                 min_message_size: int = 0, max_message_size: int = 2**64 - 1, *, nranks_per_node: int = 0,
                 portable: bool = False, tags: dict[str, int] | None = None) -> None:
        if collective.num_ranks != num_ranks:
            raise errors.InvalidArgument(f"program {name} has {num_ranks} ranks, its collective {collective.num_ranks}")
        self.name, self.collective, self.num_ranks = name, collective, num_ranks
        self.in_place: bool = collective.inplace
        self._document = {
            "name": name, **collective.document(), "in_place": collective.inplace, "instances": instances,
            "protocol": protocol, "instr_fusion": instr_fusion, "auto_sync": auto_sync,
            "replication_policy": ReplicationPolicy(replication_policy).value, "reuse_resources": reuse_resources,
            "num_threads_per_block": num_threads_per_block, "use_double_scratch_buffer": use_double_scratch_buffer,
            "buffer_alignment": buffer_alignment, "min_message_size": min_message_size,
            "max_message_size": max_message_size, "portable": portable,
        }
        if nranks_per_node:
            self._document["ranks_per_node"] = nranks_per_node
        if tags:
            self._document["tags"] = dict(tags)
        self._commands: list[dict[str, Any]] = []
        self._numbers: dict[str, int] = {}

    @classmethod
    def from_spec(cls, spec: AlgoSpec) -> "CollectiveProgram":
        """An empty program as spec describes it."""
        return cls(spec.name, spec.collective, spec.world_size or spec.collective.num_ranks, spec.instances,
                   spec.protocol, spec.instr_fusion, spec.auto_sync, spec.replication_policy, spec.reuse_resources,
                   spec.num_threads_per_block, spec.use_double_scratch_buffer, spec.buffer_alignment,
                   spec.min_message_size, spec.max_message_size, nranks_per_node=spec.nranks_per_node, tags=spec.tags)

    def __enter__(self) -> "CollectiveProgram":
        if not hasattr(_state, "stack"):
            _state.stack = []
        _state.stack.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _state.stack.remove(self)

    def record(self, op: str, **fields: Any) -> None:
        """Adds a command (see the Go type dsl.Command) at the line of the author."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith(_here):
            frame = frame.f_back
        command = {"op": op, **{k: v for k, v in fields.items() if v is not None}}
        if frame is not None:
            command["file"], command["line"] = frame.f_code.co_filename, frame.f_lineno
        self._commands.append(command)

    def number(self, kind: str) -> int:
        """Numbers the objects of a kind in the order of their creation."""
        n = self._numbers.get(kind, 0)
        self._numbers[kind] = n + 1
        return n

    def document(self) -> dict[str, Any]:
        """The program as a document of the Go package dsl."""
        return self._document | {"commands": self._commands}

    def compile(self, *, allow_unpaired: bool = False) -> bytes:
        """The execution plan, as a plan file. The program stays as it is. Signals without a wait, and waits without a
        signal, are an error, unless allow_unpaired."""
        d = json.dumps(self.document() | {"allow_unpaired": allow_unpaired}).encode()
        return lib.plan_compile(d, len(d))

    def to_json(self, indent: int | None = 2) -> str:
        """The execution plan as JSON text; indent None is as the compiler writes it. Signals and waits that do not pair
        are a RuntimeWarning: such a plan can be written, but no executor accepts it unless it is trusted."""
        try:
            plan = self.compile().decode()
        except errors.InvalidArgument as e:
            if _UNPAIRED not in str(e):
                raise
            plan = self.compile(allow_unpaired=True).decode()
            warnings.warn(str(e), RuntimeWarning, stacklevel=2)
        return plan if indent is None else json.dumps(json.loads(plan), indent=indent)

    def check(self) -> dict[str, Any]:
        """Compiles and verifies; says what the plan is. Raises InvalidArgument with a counterexample when it is
        wrong."""
        plan = self.compile()
        report: dict[str, Any] = json.loads(lib.plan_check(plan, len(plan)))
        return report


MSCCLPPProgram = CollectiveProgram  # an older name
