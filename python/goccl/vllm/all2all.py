"""vLLM's manager of --all2all-backend deepep_low_latency on goccl.moe, with elastic EP and fault tolerance."""

from collections.abc import Iterable
from typing import Any

import torch
from vllm.config import get_current_vllm_config
from vllm.distributed.device_communicators.all2all import DeepEPLLAll2AllManager

from ..moe import Buffer
from ..nccl import Communicator


class All2AllManager(DeepEPLLAll2AllManager):  # type: ignore[misc]
    """The buffers of a group of expert parallelism. A group of another size, which elastic EP makes beside the running
    one, has another manager, so the buffers of the old one work until vLLM switches. A step in which a rank died fails;
    clean_buffers, which vLLM calls before it retries, leaves that rank out."""

    def _buffers(self) -> list[Buffer]:
        return list(self.handle_cache._cache.values())

    def query_active_mask(self) -> torch.Tensor:
        """1 for each rank that clean_buffers has left out, else 0."""
        gone = set[int]().union(*(b._engine.masked for b in self._buffers()))
        return torch.tensor([int(r in gone) for r in range(self.world_size)], dtype=torch.int32, device=_device())

    def query_fault(self) -> "_Fault":
        """Whether a step has failed, once that step has ended: vLLM asks before that."""
        return _Fault(self._buffers())

    def clean_buffers(self) -> None:
        """Leaves out the ranks that have died, after a step that failed. All ranks that live call it. Tokens go to the
        replicas on these ranks, in each layer by its own map of experts; without a replica an expert's part is missing
        in the sums."""
        gone = set[int]()
        for b in self._buffers():
            gone = dead(b._engine.comm)
            b.set_mask(gone)
        for layer in get_current_vllm_config().compilation_config.static_forward_context.values():
            state = getattr(layer, "eplb_state", None)
            if state is not None and state.logical_to_physical_map is not None:
                reroute(state, layer.moe_config.num_local_experts, gone)


class _Fault:
    """The answer of query_fault, which vLLM treats as a tensor: it copies it and asks when the step has ended."""

    def __init__(self, buffers: list[Buffer]) -> None:
        self._buffers = buffers

    def to(self, *_: Any, **__: Any) -> "_Fault":
        """Itself: there is nothing to copy."""
        return self

    def item(self) -> bool:
        """False, or raises the failure, which names the rank."""
        for b in self._buffers:
            b.check()
        return False


def _device() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")


def dead(comm: Communicator) -> set[int]:
    """The ranks that have died, on which the ranks that live agree. They call it together; without a failure here it
    does not ask the others."""
    if comm.get_async_error() is None:
        return set()
    alive = comm.shrink()
    try:
        ranks = torch.full((alive.nranks,), comm.rank, dtype=torch.int32, device=_device())
        alive.allgather(ranks[:1].clone(), ranks, stream=torch.cuda.current_stream() if ranks.is_cuda else None)
        return set(range(comm.nranks)).difference(ranks.tolist())
    finally:
        alive.destroy()


def reroute(state: Any, local_experts: int, gone: Iterable[int]) -> None:
    """Changes a layer's map of logical experts in place, so graphs remain valid: replicas on ranks that are not gone
    come first, and only they count. An expert without any keeps one place."""
    places, count = state.logical_to_physical_map, state.logical_replica_count
    there = torch.tensor(sorted(gone), dtype=places.dtype, device=places.device)
    alive = (places >= 0) & ~torch.isin(places.div(local_experts, rounding_mode="floor"), there)
    first = 2 * alive + (places >= 0)  # behind them replicas on the ranks that are gone, then empty places
    places.copy_(places.gather(-1, first.argsort(dim=-1, descending=True, stable=True)))
    count.copy_(alive.sum(-1).clamp(min=1))
