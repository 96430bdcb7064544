"""Channels between ranks. data_sync says where the block's threads meet around a signal or wait; None leaves it to the
compiler."""

from typing import Any

from .. import errors
from .program import current
from .rank import Chunk
from .thread_block_group import ThreadBlockGroup, blocks, limit
from .types import BufferType, ChannelType, ReduceOperationType, SyncType

__all__ = ["MemoryChannel", "PortChannel", "SwitchChannel", "BufferType", "ChannelType", "SyncType",
           "ReduceOperationType", "ThreadBlockGroup"]


class _Channel:
    _kind = ChannelType.memory

    def __init__(self, dst_rank: int, src_rank: int) -> None:
        if dst_rank == src_rank:
            raise errors.InvalidArgument(f"a channel from rank {src_rank} to itself: it needs two ranks")
        self.dst_rank: int = dst_rank
        self.src_rank: int = src_rank
        self._program = current()
        self.channel_id: int = self._program.number(self._kind.value)
        self._program.record(self._kind.value + "_channel", dst=dst_rank, src=src_rank)

    def _record(self, op: str, **fields: Any) -> None:
        self._program.record(op, channel_type=self._kind.value, channel=self.channel_id, **fields)

    def _move(self, op: str, dst: Chunk, src: Chunk, tb: int | None, tb_group: ThreadBlockGroup | None = None,
              count: tuple[int, int, int] | None = None) -> None:
        self._record(op, to=dst.ref(), **{"from": src.ref()}, **blocks(tb, tb_group), **limit(count))

    def signal(self, tb: int | None = None, data_sync: SyncType | None = None, relaxed: bool = False) -> None:
        """Tells the peer's paired channel that what the block did before is done."""
        self._record("signal", sync=data_sync.value if data_sync else None, relaxed=relaxed or None, **blocks(tb, None))

    def wait(self, tb: int | None = None, data_sync: SyncType | None = None, relaxed: bool = False) -> None:
        """Waits until the peer's paired channel has signalled once more."""
        self._record("wait", sync=data_sync.value if data_sync else None, relaxed=relaxed or None, **blocks(tb, None))

    def read_put_packets(self, dst_chunk: Chunk, src_chunk: Chunk, tb: int | None = None,
                         tb_group: ThreadBlockGroup | None = None) -> None:
        """Waits for packets in the own scratch and forwards them to the peer's."""
        self._move("read_put_packets", dst_chunk, src_chunk, tb, tb_group)


class MemoryChannel(_Channel):
    """src_rank's way to load and store dst_rank's memory, and to signal it."""

    def get(self, dst_chunk: Chunk, src_chunk: Chunk, tb: int | None = None,
            tb_group: ThreadBlockGroup | None = None) -> None:
        """Copies src_chunk of the peer to dst_chunk of the own rank."""
        self._move("get", dst_chunk, src_chunk, tb, tb_group)

    def put(self, dst_chunk: Chunk, src_chunk: Chunk, tb: int | None = None,
            tb_group: ThreadBlockGroup | None = None, count: tuple[int, int, int] | None = None) -> None:
        """Copies src_chunk of the own rank to dst_chunk of the peer. count limits it, in an all-to-all whose counts are
        known when it runs: (sender, receiver, first chunk of what the one sends to the other)."""
        self._move("put", dst_chunk, src_chunk, tb, tb_group, count)

    def put_packets(self, dst_chunk: Chunk, src_chunk: Chunk, tb: int | None = None,
                    tb_group: ThreadBlockGroup | None = None) -> None:
        """Encodes src_chunk as packets into the peer's scratch."""
        self._move("put_packets", dst_chunk, src_chunk, tb, tb_group)

    put_packet, read_put_packet = put_packets, _Channel.read_put_packets  # older names

    def reduce(self, local_src_chunk: Chunk, remote_src_chunks: "list[Chunk]", tb: int | None = None,
               tb_group: ThreadBlockGroup | None = None, local_dst_chunk: Chunk | None = None,
               reduce_op: ReduceOperationType | None = None) -> None:
        """Adds chunks of the peer to local_src_chunk, in this order; the result goes to local_dst_chunk (default:
        local_src_chunk)."""
        self._record("reduce", acc=local_src_chunk.ref(), others=[c.ref() for c in remote_src_chunks],
                     into=local_dst_chunk.ref() if local_dst_chunk else None,
                     reduce_op=reduce_op.value if reduce_op else None, **blocks(tb, tb_group))


class PortChannel(_Channel):
    """src_rank's way to have its proxy move data to dst_rank."""

    _kind = ChannelType.port

    def flush(self, tb: int | None = None, data_sync: SyncType | None = None) -> None:
        """Waits until the transfers pushed before have left their source."""
        self._record("flush", sync=data_sync.value if data_sync else None, **blocks(tb, None))

    def put(self, dst_chunk: Chunk, src_chunk: Chunk, tb: int | None = None,
            count: tuple[int, int, int] | None = None) -> None:
        """Pushes a transfer. count is as in MemoryChannel.put."""
        self._move("put", dst_chunk, src_chunk, tb, None, count)

    def put_packets(self, dst_chunk: Chunk, src_chunk: Chunk, tb: int | None = None) -> None:
        """Pushes packets that src_chunk, which is scratch, already holds."""
        self._move("put_packets", dst_chunk, src_chunk, tb)

    def put_with_signal(self, dst_chunk: Chunk, src_chunk: Chunk, tb: int | None = None,
                        count: tuple[int, int, int] | None = None) -> None:
        """Pushes a transfer and a signal behind it. count is as in MemoryChannel.put."""
        self._move("put_with_signal", dst_chunk, src_chunk, tb, None, count)

    def put_with_signal_and_flush(self, dst_chunk: Chunk, src_chunk: Chunk, tb: int | None = None) -> None:
        """put_with_signal, and waits until the source may be written again."""
        self._move("put_with_signal_and_flush", dst_chunk, src_chunk, tb)


class SwitchChannel:
    """One buffer of a group of ranks, seen as one. Without multicast the executor loads from and stores to every
    member."""

    def __init__(self, rank_list: "list[int]", buffer_type: BufferType) -> None:
        self._program = current()
        self.rank_list: list[int] = list(rank_list)
        self.buffer_type: BufferType = BufferType(buffer_type)
        self.channel_id: int = self._program.number("switch")
        self._program.record("switch_channel", ranks=self.rank_list, buffer=self.buffer_type.value)

    def at_rank(self, rank: int) -> "SwitchChannelRankView":
        """The member's side."""
        return SwitchChannelRankView(self, rank)


class SwitchChannelRankView:
    """A switch channel as one of its members uses it."""

    def __init__(self, channel: SwitchChannel, rank: int) -> None:
        self._channel, self.rank = channel, rank

    def _record(self, op: str, **fields: Any) -> None:
        self._channel._program.record(op, channel=self._channel.channel_id, rank=self.rank, **fields)

    def reduce(self, buffer_offset: int, size: int, dst_chunk: Chunk, tb: int | None = None,
               tb_group: ThreadBlockGroup | None = None, reduce_op: ReduceOperationType | None = None) -> None:
        """Loads size chunks at buffer_offset from every member, reduces them in rank order and stores the result in
        dst_chunk."""
        self._record("switch_reduce", offset=buffer_offset, size=size, to=dst_chunk.ref(),
                     reduce_op=reduce_op.value if reduce_op else None, **blocks(tb, tb_group))

    def broadcast(self, src_chunk: Chunk, buffer_offset: int, size: int, tb: int | None = None,
                  tb_group: ThreadBlockGroup | None = None) -> None:
        """Stores src_chunk at buffer_offset of every member."""
        self._record("switch_broadcast", **{"from": src_chunk.ref()}, offset=buffer_offset, size=size,
                     **blocks(tb, tb_group))

    def broadcast_packets(self, src_chunk: Chunk, buffer_offset: int, size: int, tb: int | None = None,
                          tb_group: ThreadBlockGroup | None = None) -> None:
        """Waits for the packets of src_chunk and stores them at buffer_offset of every member's scratch."""
        self._record("switch_broadcast_packets", **{"from": src_chunk.ref()}, offset=buffer_offset, size=size,
                     **blocks(tb, tb_group))
