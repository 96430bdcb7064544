"""Group: the process group of PyTorch 2.15 and later on a ProcessGroupGoccl.

C++ dispatches its calls, so that hooks, the flight recorder, NaN checks and the profiler see them, and the backend
serves them. C++ passes on of a Work only wait and get_future, and of windows nothing: callers of Python get both here.
"""

from typing import Any

import torch
import torch.distributed as dist

from .abilities import Abilities
from .window import Window
from .work import Work, latest

_CUSTOM = dist.ProcessGroup.BackendType.CUSTOM


class Group(dist.ProcessGroup):
    """backend for CPU and CUDA tensors, in place of the group that torch has begun, whose other backends it keeps."""

    supports_window = supports_abort_hooks = True

    def __init__(self, backend: Abilities, begun: dist.ProcessGroup) -> None:
        super().__init__(begun.get_group_store(), backend._rank_, backend._size_)
        self._goccl = backend
        before = {d.type for d in begun._device_types}
        # Where PyTorch has no GPU it must not be told of any: it would take memory there for a barrier.
        for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
            one = begun._get_backend(torch.device(device)) if device in before else backend
            kind = _CUSTOM if isinstance(one, Abilities) else dist.ProcessGroup.BackendType.GLOO
            self._register_backend(torch.device(device), kind, one)
        self._set_default_backend(_CUSTOM)
        if begun.bound_device_id is not None:
            self.bound_device_id = begun.bound_device_id

    def getBackendName(self) -> str:
        """The name under which the backend is registered."""
        return "goccl"

    def getRank(self) -> int:
        """The rank, which reconfigure may change."""
        return self._goccl._rank_

    def getSize(self) -> int:
        """The number of ranks."""
        return self._goccl._size_

    def split_group(self, new_ranks: list[int], *args: Any, **kwargs: Any) -> "Group | None":
        """A group of some of the ranks; None on the others, for which C++ would call the backend all the same."""
        if self._goccl._rank_ not in new_ranks:
            return None
        made = super().split_group(new_ranks, *args, **kwargs)
        return Group(next(b for b in map(made._get_backend, made._device_types) if isinstance(b, Abilities)), made)

    def new_window(self, tensor: torch.Tensor | None = None) -> Window:
        """A window of all ranks, which all make it."""
        return Window(self._goccl, tensor)

    def gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work:
        """At the root output is everybody's input. C++ has no way from here to a backend of Python."""
        return self._goccl.gather_single(output, input, opts)

    gather_into_tensor = gather_single

    def reconfigure(self, opts: Any) -> Work:
        """The backend's, whose Work it returns as it is."""
        return self._goccl.reconfigure(opts)


def _kept(name: str) -> Any:
    """A method of ProcessGroup that returns goccl's Work where C++ has wrapped it."""
    call = getattr(dist.ProcessGroup, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        outer = call(self, *args, **kwargs)
        made = latest.work()
        latest.work = latest.none
        return outer if made is None else made

    # A virtual function of C++ calls what Python has overridden, unless the caller has its name and its object.
    method.__code__ = method.__code__.replace(co_name=name)
    return method


for _name in ("broadcast", "allreduce", "allreduce_coalesced", "reduce", "allgather", "allgather_coalesced",
              "all_gather_single", "all_gather_single_coalesced", "gather", "scatter", "reduce_scatter",
              "reduce_scatter_single", "reduce_scatter_single_coalesced", "all_to_all_single", "alltoall", "send",
              "recv", "barrier"):
    setattr(Group, _name, _kept(_name))
