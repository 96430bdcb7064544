"""Pipelines."""

from .program import current

__all__ = ["LoopIterationContext"]


class LoopIterationContext:
    """``with LoopIterationContext(unit, num_chunks): …`` runs the operations inside over slices of unit bytes of their
    chunks."""

    def __init__(self, unit: int, num_chunks: int) -> None:
        self._program = current()
        self.unit, self.num_chunks = unit, num_chunks

    def __enter__(self) -> "LoopIterationContext":
        self._program.record("begin_loop", unit=self.unit, chunks=self.num_chunks)
        return self

    def __exit__(self, *_: object) -> None:
        self._program.record("end_loop")
