"""Ranks, their buffers and their local operations; semaphores between thread blocks; hooks."""

import dataclasses
from typing import Any

from .. import errors
from .program import current
from .thread_block_group import ThreadBlockGroup, blocks, limit
from .types import BufferType, ReduceOperationType, SyncType

__all__ = ["Rank", "BaseBuffer", "Buffer", "Chunk", "Semaphore", "InputHook", "OutputHook"]


@dataclasses.dataclass(frozen=True)
class Chunk:
    """size chunks of one buffer of a rank from index on."""

    rank: int
    buffer: BufferType
    index: int
    size: int
    view: int | None = None

    def ref(self) -> dict[str, Any]:
        """The chunk in a command."""
        d = {"rank": self.rank, "buffer": self.buffer.value, "index": self.index, "size": self.size}
        return d if self.view is None else d | {"view": self.view}


class BaseBuffer:
    """A view of a rank's buffer: slices, and single indices, of it are chunks."""

    def __init__(self, rank: int, buffer: BufferType, size: int, view: int | None = None) -> None:
        self.rank, self.buffer_type, self.size, self._view = rank, buffer, size, view

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, key: int | slice) -> Chunk:
        if isinstance(key, slice):
            if key.step not in (None, 1):
                raise errors.InvalidArgument("chunks are contiguous: a step must be 1")
            start = 0 if key.start is None else key.start
            stop = self.size if key.stop is None else key.stop
        else:
            start, stop = key, key + 1
        if not 0 <= start < stop <= self.size:
            raise errors.InvalidArgument(f"chunks [{start}:{stop}] of a {self.buffer_type.name} buffer of {self.size} "
                                         f"chunks of rank {self.rank}")
        return Chunk(self.rank, self.buffer_type, start, stop - start, self._view)


class Buffer(BaseBuffer):
    """size chunks of a rank's scratch."""

    def __init__(self, rank: int, size: int) -> None:
        program = current()
        super().__init__(rank, BufferType.scratch, size, program.number("scratch"))
        program.record("scratch", rank=rank, size=size)


class Rank:
    """A participant: its buffers and its local operations. tb is a thread block, tb_group several that share the
    operation; with neither the compiler chooses."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self._program = current()
        if not 0 <= rank < self._program.num_ranks:
            raise errors.InvalidArgument(f"rank {rank} of a program of {self._program.num_ranks} ranks")

    def get_input_buffer(self) -> BaseBuffer:
        """What the rank sends."""
        return BaseBuffer(self.rank, BufferType.input, self._program.collective.chunks()[0])

    def get_output_buffer(self) -> BaseBuffer:
        """What the rank receives; in place it is a view of the same memory."""
        return BaseBuffer(self.rank, BufferType.output, self._program.collective.chunks()[1])

    def _local(self, op: str, dst: Chunk, src: Chunk, tb: int | None, tb_group: ThreadBlockGroup | None,
               count: tuple[int, int, int] | None = None) -> None:
        self._program.record(op, to=dst.ref(), **{"from": src.ref()}, **blocks(tb, tb_group), **limit(count))

    def copy(self, dst_chunk: Chunk, src_chunk: Chunk, tb: int | None = None,
             tb_group: ThreadBlockGroup | None = None, count: tuple[int, int, int] | None = None) -> None:
        """Copies src_chunk to dst_chunk. count is as in MemoryChannel.put."""
        self._local("copy", dst_chunk, src_chunk, tb, tb_group, count)

    def copy_packets(self, dst_chunk: Chunk, src_chunk: Chunk, tb: int | None = None,
                     tb_group: ThreadBlockGroup | None = None) -> None:
        """Encodes src_chunk as packets into dst_chunk, which is scratch."""
        self._local("copy_packets", dst_chunk, src_chunk, tb, tb_group)

    def unpack_packets(self, dst_chunk: Chunk, src_chunk: Chunk, tb: int | None = None,
                       tb_group: ThreadBlockGroup | None = None) -> None:
        """Waits for the packets of src_chunk, which is scratch, and decodes them into dst_chunk."""
        self._local("unpack_packets", dst_chunk, src_chunk, tb, tb_group)

    copy_packet, unpack_packet = copy_packets, unpack_packets  # older names

    def reduce(self, src_chunk: Chunk, other_chunks: "list[Chunk]", tb: int | None = None,
               tb_group: ThreadBlockGroup | None = None, dst_chunk: Chunk | None = None,
               reduce_op: ReduceOperationType | None = None, packet: bool = False) -> None:
        """Reduces src_chunk and other_chunks, in this order, into dst_chunk (default: src_chunk). With packet the
        others are packets in scratch."""
        self._program.record("reduce", acc=src_chunk.ref(), others=[c.ref() for c in other_chunks],
                             into=dst_chunk.ref() if dst_chunk else None, packet=packet or None,
                             reduce_op=reduce_op.value if reduce_op else None, **blocks(tb, tb_group))

    def barrier(self, tb_list: "list[int]") -> None:
        """The listed blocks of the rank wait for each other."""
        self._program.record("barrier", rank=self.rank, blocks=list(tb_list))


class Semaphore:
    """Orders thread blocks of one rank. Its value outlives a launch: leave it as it was."""

    def __init__(self, rank: int, initial_value: int) -> None:
        self._program = current()
        self.id: int = self._program.number("semaphore")
        self._program.record("semaphore", rank=rank, initial=initial_value)

    def acquire(self, tb: int, data_sync: SyncType | None = None) -> None:
        """Waits for a positive value and takes one."""
        self._program.record("acquire", semaphore=self.id, tb=tb, sync=data_sync.value if data_sync else None)

    def release(self, tb: int, data_sync: SyncType | None = None) -> None:
        """Adds one."""
        self._program.record("release", semaphore=self.id, tb=tb, sync=data_sync.value if data_sync else None)


class InputHook:
    """A point where the program meets a kernel of the caller that fills a part of the input. The caller raises it when
    chunk is there; for that it waits for nothing of the launch but the output hooks in after, of the same rank."""

    def __init__(self, chunk: Chunk, after: "tuple[OutputHook, ...]" = ()) -> None:
        self._program = current()
        self.id: int = self._program.number("hook")
        self._program.record("input_hook", to=chunk.ref(), after=[h.id for h in after] or None)

    def wait(self, tb: int, data_sync: SyncType | None = None) -> None:
        """Waits until the caller has written the chunk; once in a program, before anything touches it."""
        self._program.record("wait_hook", hook=self.id, tb=tb, sync=data_sync.value if data_sync else None)


class OutputHook:
    """A point where the program meets a kernel of the caller that reads a part of the output."""

    def __init__(self, chunk: Chunk) -> None:
        self._program = current()
        self.id: int = self._program.number("hook")
        self._program.record("output_hook", to=chunk.ref())

    def signal(self, tb: int, data_sync: SyncType | None = None) -> None:
        """Says that the chunk is final: from then on the caller reads it. Once in a program."""
        self._program.record("signal_hook", hook=self.id, tb=tb, sync=data_sync.value if data_sync else None)
