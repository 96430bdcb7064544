"""low_latency_dispatch and low_latency_combine: rows by expert, for decode."""

from collections.abc import Callable
from typing import Any, NamedTuple

from .. import errors
from . import _calls
from ._arrays import Arrays
from ._base import Base
from ._calls import EventOverlap


class LatencyHandle(NamedTuple):
    """What low_latency_combine needs. The order of the first items is DeepEP's."""

    src_info: Any  # [local experts][rows] int32: tokens of the rows at their ranks
    layout_range: Any  # [local experts][ranks] int64: begin << 32 | count
    num_max_dispatch_tokens_per_rank: int
    hidden: int
    num_experts: int
    memory: Any
    top_k: int
    tokens: int


def _done() -> None:
    """The hook of a call whose work is enqueued as a whole."""


class Latency(Base):
    """The calls of decode. Nothing waits for the processor, so CUDA graphs can hold them."""

    def low_latency_dispatch(self, x: Any, topk_idx: Any, num_max_dispatch_tokens_per_rank: int, num_experts: int,
                             cumulative_local_expert_recv_stats: Any = None, dispatch_wait_recv_cost_stats: Any = None,
                             use_fp8: bool = True, round_scale: bool = False, use_ue8m0: bool = False,
                             async_finish: bool = False, return_recv_hook: bool = False
                             ) -> tuple[Any, Any, LatencyHandle, EventOverlap, Callable[[], None]]:
        """Sends each token, of bfloat16, to the ranks of its experts. Returns the rows, [local experts][ranks · max]
        [hidden], with use_fp8 as a pair of float8 and scales; the number of each expert's rows, the handle, the event
        and the hook, after which the results are there. use_ue8m0: the exponents of the scales, four in an int32."""
        if dispatch_wait_recv_cost_stats is not None:
            raise errors.Unsupported("low_latency_dispatch: dispatch_wait_recv_cost_stats")
        if use_ue8m0 and not (use_fp8 and round_scale and x.shape[1] % 512 == 0):
            raise errors.InvalidArgument("use_ue8m0 goes with use_fp8 and round_scale, and tokens of a multiple of 512")
        a = Arrays(x)
        (tokens, hidden), k = x.shape, topk_idx.shape[1]
        if tokens > num_max_dispatch_tokens_per_rank:
            raise errors.InvalidArgument(f"{tokens} tokens, num_max_dispatch_tokens_per_rank is "
                                         f"{num_max_dispatch_tokens_per_rank}")
        local, rows = self._engine.local(num_experts), self.group_size * num_max_dispatch_tokens_per_rank

        def work(stream: int) -> tuple[Any, ...]:
            data = a.address(x, "x", (tokens, hidden), "bfloat16")
            memory, handle, offsets = self._notify(a, (_calls.EXPERTS, hidden, k, num_experts), tokens, stream,
                                                   a.address(topk_idx, "topk_idx", (tokens, k), "int64"))
            recv_x = a.empty((local, rows, hidden), "float8" if use_fp8 else "bfloat16")
            scales = a.empty((local, rows, hidden // 128), "float32") if use_fp8 else None
            source = a.empty((local, rows), "int32")
            flags = (_calls.QUANTIZE if use_fp8 else 0) | (_calls.POWER_OF_TWO if round_scale else 0)
            self._engine.run("moe_dispatch", _calls.dispatch(
                *handle, data, 0, _calls.BFLOAT16, flags, 0, 0, 0, 0, a.pointer(recv_x), a.pointer(scales), rows, 0, 0,
                a.pointer(source), stream))
            made = LatencyHandle(source, a.view(memory, offsets.ranges, "int64", local, self.group_size),
                                 num_max_dispatch_tokens_per_rank, hidden, num_experts, memory, k, tokens)
            count = a.view(memory, offsets.totals, "int32", local)
            if cumulative_local_expert_recv_stats is not None:
                stats = cumulative_local_expert_recv_stats
                stats += count
            return recv_x, a.exponents(scales) if use_ue8m0 else scales, count, made

        (recv_x, scales, count, made), event = self._on_stream(
            a, None, async_finish, (x, topk_idx, cumulative_local_expert_recv_stats), work)
        return (recv_x, scales) if use_fp8 else recv_x, count, made, event, _done

    def low_latency_combine(self, x: Any, topk_idx: Any, topk_weights: Any, handle: LatencyHandle,
                            use_logfmt: bool = False, zero_copy: bool = False, async_finish: bool = False,
                            return_recv_hook: bool = False, out: Any = None, combine_wait_recv_cost_stats: Any = None
                            ) -> tuple[Any, EventOverlap, Callable[[], None]]:
        """Multiplies the rows of x, [local experts][ranks · max][hidden], with the weights and adds them: on each rank
        in float32, in the order of topk_idx, rounded once to bfloat16; then over the ranks in the same way. Returns the
        sums, the event and the hook."""
        if use_logfmt or combine_wait_recv_cost_stats is not None:
            raise errors.Unsupported("low_latency_combine: neither use_logfmt nor combine_wait_recv_cost_stats")
        a = Arrays(x)
        tokens, hidden, k = handle.tokens, handle.hidden, handle.top_k
        rows = self.group_size * handle.num_max_dispatch_tokens_per_rank

        def work(stream: int) -> tuple[Any]:
            result = a.empty((tokens, hidden), "bfloat16") if out is None else out
            local = self._engine.local(handle.num_experts)
            self._engine.run("moe_combine", _calls.combine(
                _calls.EXPERTS, hidden, k, handle.num_experts,
                a.address(handle.memory, "", handle.memory.shape, "uint8"), tokens,
                a.address(x, "x", (local, rows, hidden), "bfloat16"), rows,
                a.address(topk_weights, "topk_weights", (tokens, k), "float32"),
                a.address(topk_idx, "topk_idx", (tokens, k), "int64"), 0, 0,
                a.address(result, "out", (tokens, hidden), "bfloat16"), 0, 0, 0, stream))
            return (result,)

        (result,), event = self._on_stream(a, None, async_finish, (x, topk_idx, topk_weights, handle), work)
        return result, event, _done

    def get_next_low_latency_combine_buffer(self, handle: LatencyHandle) -> Any:
        """A tensor for the x of low_latency_combine."""
        local = self._engine.local(handle.num_experts)
        return Arrays(handle.src_info).empty(
            (local, self.group_size * handle.num_max_dispatch_tokens_per_rank, handle.hidden), "bfloat16")

    def clean_low_latency_buffer(self, num_max_dispatch_tokens_per_rank: int, hidden: int, num_experts: int) -> None:
        """Nothing to do: both modes may follow each other."""
