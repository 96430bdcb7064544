"""Names under their place in MSCCL++."""

from .loop import LoopIterationContext
from .spec import AlgoSpec, ReplicationPolicy
from .thread_block_group import ThreadBlockGroup

__all__ = ["AlgoSpec", "ReplicationPolicy", "ThreadBlockGroup", "LoopIterationContext"]
