"""What the programs for several hosts share: hosts, channels and thread-block groups."""

import dataclasses

from .. import errors
from ..language.channel import MemoryChannel, PortChannel
from ..language.program import CollectiveProgram
from ..language.spec import AlgoSpec
from ..language.thread_block_group import ThreadBlockGroup


def program(spec: AlgoSpec, collective: str) -> CollectiveProgram:
    """An empty program in packets, for a spec of the collective."""
    if spec.collective.name != collective or spec.collective.chunk_factor != 1 or spec.instances != 1:
        raise errors.InvalidArgument(f"{spec.name}: want {collective} with chunk_factor 1 and instances 1")
    return CollectiveProgram.from_spec(dataclasses.replace(spec, protocol="LL", auto_sync=True,
                                                           use_double_scratch_buffer=True))


class Hosts:
    """The ranks of spec by host, and channels between them. Make it inside of a program."""

    def __init__(self, spec: AlgoSpec, group_size: int = 1) -> None:
        self.n = spec.world_size or spec.collective.num_ranks
        self.per_host = spec.nranks_per_node or self.n
        if self.n % self.per_host or group_size < 1:
            raise errors.InvalidArgument(f"{spec.name}: {self.n} ranks, {self.per_host} to a host, thread-block groups "
                                         f"of {group_size}: "
                                         "hosts have equally many ranks, and groups a block at least")
        self.hosts = self.n // self.per_host
        self._size = group_size
        ranks = range(self.n)
        self.memory = {(a, b): MemoryChannel(b, a) for a in ranks for b in self.neighbours(a)}
        self.port = {(a, b): PortChannel(b, a) for a in ranks for b in self.counterparts(a)}

    def neighbours(self, rank: int) -> list[int]:
        """The other ranks of the same host."""
        first = rank - rank % self.per_host
        return [r for r in range(first, first + self.per_host) if r != rank]

    def counterparts(self, rank: int) -> list[int]:
        """The ranks of the same local number on other hosts."""
        return [r for r in range(rank % self.per_host, self.n, self.per_host) if r != rank]

    def group(self, i: int) -> ThreadBlockGroup:
        """Group number i of thread blocks."""
        return ThreadBlockGroup(list(range(i * self._size, (i + 1) * self._size)))
