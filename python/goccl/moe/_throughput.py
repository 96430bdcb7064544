"""dispatch and combine: a row for each token, for training and prefill."""

from typing import Any, NamedTuple

from .. import errors
from . import _calls
from ._arrays import Arrays
from ._base import Base
from ._calls import Config, EventOverlap


class DispatchHandle(NamedTuple):
    """What a later dispatch or combine needs. The order of the first items is DeepEP's."""

    rank_prefix_matrix: Any  # [ranks][ranks] int32: rows that ranks 0…i send to rank j
    recv_src_idx: Any  # tokens of the received rows at their ranks
    is_token_in_rank: Any
    memory: Any
    shape: tuple[int, int, int]  # hidden, top-k, experts
    tokens: int
    rows: int
    received: Any = None  # with zero_copy the parts of the buffer for received rows and for results
    results: Any = None

    def _raw(self, a: Arrays) -> tuple[int, ...]:
        layout = _calls.ROWS if self.received is None else _calls.ZERO_COPY
        return (layout, *self.shape, a.address(self.memory, "", self.memory.shape, "uint8"), self.tokens)


def _split(x: Any) -> tuple[Any, Any]:
    """The elements and the scales of rows."""
    return x if isinstance(x, tuple) else (x, None)


class Throughput(Base):
    """The calls of training and prefill."""

    def dispatch(self, x: Any, handle: DispatchHandle | None = None, num_tokens_per_rank: Any = None,
                 num_tokens_per_rdma_rank: Any = None, is_token_in_rank: Any = None, num_tokens_per_expert: Any = None,
                 topk_idx: Any = None, topk_weights: Any = None, expert_alignment: int = 1, num_worst_tokens: int = 0,
                 config: Config | None = None, previous_event: EventOverlap | None = None, async_finish: bool = False,
                 allocate_on_comm_stream: bool = False, *, zero_copy: bool = False) -> tuple[Any, ...]:
        """Sends the tokens to the ranks of their experts. x is bfloat16, or a pair of float8 and scales for each 128
        elements. Returns the received x, topk_idx and topk_weights, the rows of each local expert as a list, the handle
        and the event.

        With a handle the rows go as before, and the other results are None. With num_worst_tokens the processor does
        not wait for the number of rows: the results have that many, the lists of those behind the last are -1, and the
        list is empty. Otherwise it waits, and the results have the rows that come.

        With zero_copy the received x is a part of the buffer, which the other ranks write themselves: it stays until
        the next dispatch of the buffer. combine then takes a tensor of get_combine_buffer, without topk_weights.
        """
        data, scales = _split(x)
        a = Arrays(data)
        keep = (data, scales, topk_idx, topk_weights, is_token_in_rank, num_tokens_per_expert, handle)

        def work(stream: int) -> tuple[Any, ...]:
            even = None if scales is None else a.contiguous(scales)
            if handle is not None:
                given = self._given(a, data, even, handle.tokens, handle.shape[0], None, None, config)
                return self._rows(a, handle, handle._raw(a), given, stream)
            return self._first(a, data, even, is_token_in_rank, num_tokens_per_expert, topk_idx, topk_weights,
                               expert_alignment, num_worst_tokens, config, stream, zero_copy)

        out, event = self._on_stream(a, previous_event, async_finish, keep, work)
        if handle is not None:
            return out[0], None, None, None, None, event
        recv_x, recv_idx, recv_weights, made, per_expert = out
        return recv_x, recv_idx, recv_weights, per_expert, made, event

    def _first(self, a: Arrays, data: Any, scales: Any, in_rank: Any, per_expert: Any, topk_idx: Any,
               topk_weights: Any, alignment: int, worst: int, config: Config | None, stream: int,
               zero_copy: bool) -> tuple[Any, ...]:
        tokens, hidden = data.shape
        ranks = self.group_size
        k = 0 if topk_idx is None else topk_idx.shape[1]
        if per_expert is None and topk_idx is not None:
            raise errors.InvalidArgument("dispatch needs num_tokens_per_expert: get_dispatch_layout counts them")
        experts = 0 if per_expert is None else per_expert.shape[0]
        given = self._given(a, data, scales, tokens, hidden, topk_idx, topk_weights, config)
        memory, raw, offsets = self._notify(
            a, (_calls.ZERO_COPY if zero_copy else _calls.ROWS, hidden, k, experts), tokens, stream, given[6],
            0 if k else a.address(in_rank, "is_token_in_rank", (tokens, ranks), "bool", "uint8"),
            0 if k else a.address(per_expert, "num_tokens_per_expert", (experts,), "int32"))
        prefix, rows, each = a.view(memory, offsets.prefix, "int32", ranks, ranks), worst, []
        if not worst:  # one copy, which waits, of the rows of all experts and, behind other numbers, of each
            behind = (offsets.totals - offsets.total) // 4
            counts = a.view(memory, offsets.total, "int32", behind + experts // ranks).tolist()
            rows, each = counts[0], [-(-c // alignment) * alignment for c in counts[behind:]]
        parts = [self._part(a, at, max(16, rows * hidden * 2)) for at in (offsets.received, offsets.results) if at]
        made = DispatchHandle(prefix, a.empty((rows,), "int32"), in_rank, memory, (hidden, k, experts), tokens, rows,
                              *parts)
        return *self._rows(a, made, raw, given, stream, topk_weights is not None), made, each

    def _given(self, a: Arrays, data: Any, scales: Any, tokens: int, hidden: int, topk_idx: Any, topk_weights: Any,
               config: Config | None) -> tuple[int, ...]:
        """The arguments of the library's dispatch from x to weights."""
        eight, k = scales is not None, 0 if topk_idx is None else topk_idx.shape[1]
        return (a.address(data, "x", (tokens, hidden), "float8" if eight else "bfloat16"),
                a.address(scales, "the scales", (tokens, (hidden + 127) // 128), "float32"),
                _calls.FLOAT8 if eight else _calls.BFLOAT16, _calls.LISTS if k else 0, config.num_sms if config else 0,
                0, a.address(topk_idx, "topk_idx", (tokens, k), "int64"),
                a.address(topk_weights, "topk_weights", (tokens, k), "float32"))

    def _rows(self, a: Arrays, handle: DispatchHandle, raw: tuple[int, ...], given: tuple[int, ...], stream: int,
              weights: bool = False) -> tuple[Any, ...]:
        rows, (hidden, k, _), eight = handle.rows, handle.shape, given[2] == _calls.FLOAT8
        k = k if given[3] else 0
        kind = "float8" if eight else "bfloat16"
        recv_x = (a.empty((rows, hidden), kind) if handle.received is None
                  else a.view(handle.received, 0, kind, rows, hidden))
        recv_scales = a.empty((rows, (hidden + 127) // 128), "float32") if eight else None
        recv_idx = a.empty((rows, k), "int64") if k else None
        recv_weights = a.empty((rows, k), "float32") if k and weights else None
        self._engine.run("moe_dispatch", _calls.dispatch(
            *raw, *given, a.pointer(recv_x), a.pointer(recv_scales), rows, a.pointer(recv_idx),
            a.pointer(recv_weights), a.address(handle.recv_src_idx, "recv_src_idx", (rows,), "int32"), stream))
        return (recv_x, recv_scales) if eight else recv_x, recv_idx, recv_weights

    def _part(self, a: Arrays, address: int, nbytes: int) -> Any:
        kept = self._parts.get(address)
        if kept is None or kept[0] < nbytes:
            kept = self._parts[address] = nbytes, a.at(address, nbytes, self._engine)
        return kept[1]

    def get_combine_buffer(self, handle: DispatchHandle) -> Any:
        """The tensor for the x of a combine after a dispatch with zero_copy: a part of the buffer, [rows][hidden] of
        bfloat16. A combine without zero_copy overwrites it."""
        if handle.results is None:
            raise errors.InvalidArgument("get_combine_buffer: the handle is of a dispatch without zero_copy")
        return Arrays(handle.results).view(handle.results, 0, "bfloat16", handle.rows, handle.shape[0])

    def combine(self, x: Any, handle: DispatchHandle, topk_weights: Any = None, bias: Any = None,
                config: Config | None = None, previous_event: EventOverlap | None = None, async_finish: bool = False,
                allocate_on_comm_stream: bool = False) -> tuple[Any, Any, EventOverlap]:
        """Sends the rows of x, the sums over this rank's experts, to the ranks of their tokens, and adds the rows of
        each token, in float32, in the order of its experts, behind the bias (a tensor, or two). Returns the sums, the
        sums of topk_weights, and the event."""
        a = Arrays(x)
        tokens, (hidden, k, _) = handle.tokens, handle.shape
        first, second = bias if isinstance(bias, tuple) else (bias, None)

        def work(stream: int) -> tuple[Any, Any]:
            out = a.empty((tokens, hidden), "bfloat16")
            out_weights = a.empty((tokens, k), "float32") if topk_weights is not None else None
            self._engine.run("moe_combine", _calls.combine(
                *handle._raw(a), a.address(x, "x", (handle.rows, hidden), "bfloat16"), handle.rows,
                a.address(topk_weights, "topk_weights", (handle.rows, k), "float32"), 0,
                *(a.address(b, "bias", (tokens, hidden), "bfloat16") for b in (first, second)), a.pointer(out),
                a.pointer(out_weights), config.num_sms if config else 0, 0, stream))
            return out, out_weights

        (out, weights), event = self._on_stream(a, previous_event, async_finish, (x, topk_weights, bias, handle), work)
        return out, weights, event
