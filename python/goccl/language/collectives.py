"""What a program must achieve: chunk counts of every rank's buffers, and what each output chunk holds in the end."""

from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["Collective", "AllGather", "AllReduce", "ReduceScatter", "AllToAll", "Broadcast", "Reduce", "SendRecv",
           "Custom", "TestCollective"]


class Collective:
    """A collective of num_ranks ranks. chunk_factor chunks are the smallest part that the collective tells apart;
    in_place aliases input and output."""

    name = ""

    def __init__(self, num_ranks: int, chunk_factor: int = 1, inplace: bool = False) -> None:
        self.num_ranks, self.chunk_factor, self.inplace = num_ranks, chunk_factor, inplace

    def chunks(self) -> tuple[int, int]:
        """Chunks of input and of output."""
        n = self.num_ranks * self.chunk_factor
        return n, n

    def document(self) -> dict[str, Any]:
        """The collective's part of a program document."""
        return {"collective": self.name, "ranks": self.num_ranks, "chunk_factor": self.chunk_factor}


class AllReduce(Collective):
    """Every rank's output chunk is the reduction of all ranks' input chunks; num_ranks·chunk_factor chunks each."""

    name = "allreduce"


class AllGather(Collective):
    """Inputs of chunk_factor chunks, concatenated in rank order."""

    name = "allgather"

    def chunks(self) -> tuple[int, int]:
        return self.chunk_factor, self.num_ranks * self.chunk_factor


class ReduceScatter(Collective):
    """Rank r's output is the reduction of all ranks' r-th chunk_factor input chunks."""

    name = "reducescatter"

    def chunks(self) -> tuple[int, int]:
        return self.num_ranks * self.chunk_factor, self.chunk_factor


class AllToAll(Collective):
    """Output part s of rank r is input part r of rank s."""

    name = "alltoall"


class _Single(Collective):
    def chunks(self) -> tuple[int, int]:
        return self.chunk_factor, self.chunk_factor


class SendRecv(_Single):
    """Every rank's chunk_factor chunks go to the next rank."""

    name = "sendrecv"


class _Rooted(_Single):
    def __init__(self, num_ranks: int, chunk_factor: int = 1, inplace: bool = False, root: int = 0) -> None:
        super().__init__(num_ranks, chunk_factor, inplace)
        self.root = root

    def document(self) -> dict[str, Any]:
        return super().document() | {"root": self.root}


class Broadcast(_Rooted):
    """root's chunk_factor input chunks, on every rank."""

    name = "broadcast"


class Reduce(_Rooted):
    """root's output is the reduction of all inputs; other outputs are unspecified."""

    name = "reduce"


class Custom(Collective):
    """A collective of one's own: post(rank, chunk) lists the (rank, chunk) pairs of input whose reduction output chunk
    of rank holds; an empty list leaves it unspecified."""

    def __init__(self, name: str, num_ranks: int, input_chunks: int, output_chunks: int, inplace: bool = False,
                 post: Callable[[int, int], Iterable[tuple[int, int]]] | None = None) -> None:
        super().__init__(num_ranks, 1, inplace)
        self.name, self.input_chunks, self.output_chunks, self.post = name, input_chunks, output_chunks, post

    def chunks(self) -> tuple[int, int]:
        return self.input_chunks, self.output_chunks

    def document(self) -> dict[str, Any]:
        post = self.post or (lambda r, c: ())
        entries = [{"rank": r, "chunk": c, "of": of} for r in range(self.num_ranks) for c in range(self.output_chunks)
                   if (of := [list(x) for x in post(r, c)])]
        return {"collective": self.name, "ranks": self.num_ranks, "input_chunks": self.input_chunks,
                "output_chunks": self.output_chunks, "postcondition": entries}


class TestCollective(Custom):
    """A collective without a post-condition, for trying operations out."""

    __test__ = False  # not a test, whatever pytest thinks of the name

    def __init__(self, num_ranks: int, input_size: int, output_size: int) -> None:
        super().__init__("test", num_ranks, input_size, output_size)
