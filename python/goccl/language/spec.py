"""AlgoSpec: a program's description before its first operation."""

import dataclasses
import enum

from .collectives import Collective

__all__ = ["AlgoSpec", "ReplicationPolicy"]


class ReplicationPolicy(str, enum.Enum):
    """What an instance works on: interleaved cuts every chunk among the instances, none shares each operation among
    them."""

    interleaved = "interleaved"
    none = "none"


@dataclasses.dataclass
class AlgoSpec:
    """What a program is for. Sizes are in bytes; world_size 0 is the collective's."""

    name: str
    collective: Collective
    nranks_per_node: int = 0
    world_size: int = 0
    in_place: bool = False
    instances: int = 1
    protocol: str = "Simple"
    instr_fusion: bool = True
    auto_sync: bool = True
    replication_policy: ReplicationPolicy = ReplicationPolicy.interleaved
    reuse_resources: bool = False
    num_threads_per_block: int = 1024
    use_double_scratch_buffer: bool = False
    buffer_alignment: int = 16
    min_message_size: int = 0
    max_message_size: int = 2**64 - 1
    tags: dict[str, int] = dataclasses.field(default_factory=dict)
