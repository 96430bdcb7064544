"""What torch asks every process group for: its name, its store, its abilities."""

from typing import Any

import torch.distributed as dist
from torch._C import _distributed_c10d as _c10d

# Since PyTorch 2.15 C++ can call every method of a backend that is written in Python. A ProcessGroupGoccl is then a
# backend, and Group in group.py the process group; before, it is the process group itself.
BACKEND = hasattr(getattr(_c10d, "Backend", None), "memory_stats")
_Base: Any = _c10d.Backend if BACKEND else dist.ProcessGroup


class Named(_Base):  # type: ignore[misc]
    """A process group that knows its name and its store."""

    def __init__(self, store: Any, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self._store, self._rank_, self._size_ = store, rank, size
        self._sequence = 0
        self._name = self._desc = ""

    def getBackendName(self) -> str:
        """The name under which the backend is registered."""
        return "goccl"

    name = getBackendName

    def setGroupName(self, name: str) -> None:
        """Called by torch, which finds the group again by this name."""
        self._name = name

    def getGroupName(self) -> str:
        """The group's name."""
        return self._name

    def setGroupDesc(self, desc: str) -> None:
        """Called by torch."""
        self._desc = desc

    def getGroupDesc(self) -> str:
        """What the group is for."""
        return self._desc

    supports_coalescing = supports_splitting = supports_time_estimate = False

    def _get_backend(self, device: Any) -> "Named":
        """What torch asks for a backend's abilities: itself, for every device."""
        return self

    def _set_sequence_number_for_group(self) -> None:
        self._sequence = 0

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def get_group_store(self) -> Any:
        """The store that the group was made with."""
        return self._store
