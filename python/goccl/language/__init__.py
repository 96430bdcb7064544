"""Collectives as programs over all ranks, written in Python: MSCCL++'s DSL.

A program records commands; goccl's Go compiler (package dsl) pairs, schedules, fuses and verifies them and writes the
execution plan. Mistakes raise InvalidArgument at the line of the author. What is said of the operations here holds for
the Go language of the same names.
"""

from . import general, utils  # noqa: F401
from .channel import MemoryChannel, PortChannel, SwitchChannel
from .collectives import (AllGather, AllReduce, AllToAll, Broadcast, Collective, Custom, Reduce, ReduceScatter,
                          SendRecv, TestCollective)
from .loop import LoopIterationContext
from .program import CollectiveProgram
from .rank import BaseBuffer, Buffer, Chunk, InputHook, OutputHook, Rank, Semaphore
from .spec import AlgoSpec, ReplicationPolicy
from .thread_block_group import ThreadBlockGroup
from .types import BufferType, ChannelType, ReduceOperationType, SyncType

__all__ = ["MemoryChannel", "PortChannel", "SwitchChannel", "AllGather", "AllReduce", "AllToAll", "Broadcast",
           "Collective", "Custom", "Reduce", "ReduceScatter", "SendRecv", "TestCollective", "LoopIterationContext",
           "CollectiveProgram", "BaseBuffer", "Buffer", "Chunk", "InputHook", "OutputHook", "Rank", "Semaphore",
           "AlgoSpec", "ReplicationPolicy", "ThreadBlockGroup", "BufferType", "ChannelType",
           "ReduceOperationType", "SyncType"]
