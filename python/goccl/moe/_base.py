"""What the two modes of a Buffer share: its making, sizes, streams and the layout of a dispatch."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from .. import errors
from .._abi import MoeOffsets
from .._lib import lib
from . import _calls
from ._arrays import Arrays
from ._calls import Config, EventOverlap
from ._engine import Engine

_PACKET_TOKENS = 256  # of a rank that sends packets, at most
_LOW_LATENCY_TOKENS = 1024


class Base:
    """A rank's buffer. group is a torch ProcessGroup or a goccl.nccl.Communicator, whose ranks are all on one host.
    num_nvl_bytes and num_rdma_bytes are the memory for tokens: the larger of the two is taken, because there is one
    memory for both modes. enable_shrink is accepted: every buffer has set_mask. Making it is collective."""

    num_sms: int = 0  # 0: chosen by the number of tokens

    def __init__(self, group: Any, num_nvl_bytes: int = 0, num_rdma_bytes: int = 0, low_latency_mode: bool = False,
                 num_qps_per_rank: int = 24, allow_nvlink_for_low_latency_mode: bool = True,
                 allow_mnnvl: bool = False, use_fabric: bool = False, explicitly_destroy: bool = False,
                 enable_shrink: bool = False, comm: Any = None, *, max_tokens: int = 0) -> None:
        packets = _LOW_LATENCY_TOKENS if low_latency_mode else _PACKET_TOKENS
        tokens = max(max_tokens or 16384, packets)
        self._engine = Engine(group if comm is None else comm, max(num_nvl_bytes, num_rdma_bytes, 1 << 20), tokens,
                              packets, self.num_sms)
        self.group, self.rank, self.group_size = group, self._engine.rank, self._engine.size
        self.num_nvl_bytes, self.num_rdma_bytes = num_nvl_bytes, num_rdma_bytes
        self.low_latency_mode, self.explicitly_destroy = low_latency_mode, explicitly_destroy
        self._side: Any = None
        self._parts: dict[int, tuple[int, Any]] = {}  # tensors of parts of the buffer, by address

    def destroy(self) -> None:
        """Frees the memory, also of the tensors of zero_copy. The work that uses it has ended, or the communicator was
        aborted."""
        self._engine.close()

    def set_mask(self, gone: Collection[int], replicas: Sequence[int] | None = None) -> None:
        """Leaves out ranks: dispatches and combines neither write to them nor wait for them. replicas has, for each
        expert, the one that serves its tokens if its rank is left out, or -1: then its part is missing in the sums. All
        ranks that remain call it together between two steps, with the same arguments. Graphs remain valid; handles of
        earlier dispatches do not. An empty gone takes all ranks back, if they live."""
        self._engine.set_mask(gone, replicas)

    def check(self) -> None:
        """Raises the failure that has ended the operations, if there is one: of a GPU, once the stream has ended."""
        lib.moe_error(self._engine.handle)

    @classmethod
    def set_num_sms(cls, new_num_sms: int) -> None:
        """The thread blocks of the kernels of later buffers and of calls without a Config."""
        if new_num_sms % 2:
            raise errors.InvalidArgument(f"num_sms is {new_num_sms}: DeepEP takes even numbers only")
        Base.num_sms = new_num_sms

    @staticmethod
    def get_dispatch_config(num_ranks: int) -> Config:
        """The configuration that dispatch takes without one."""
        return Config(Base.num_sms or 16)

    get_combine_config = get_dispatch_config

    @staticmethod
    def get_low_latency_rdma_size_hint(num_max_dispatch_tokens_per_rank: int, hidden: int, num_ranks: int,
                                       num_experts: int) -> int:
        """The bytes of a buffer for the calls of low latency."""
        return _calls.bytes_for(num_ranks, num_max_dispatch_tokens_per_rank, hidden, 16, num_experts)

    @staticmethod
    def is_sm90_compiled() -> bool:
        """True: the library has kernels for compute capability 9.0."""
        return True

    @staticmethod
    def capture() -> EventOverlap:
        """What the current stream has to do until now."""
        import torch

        return EventOverlap(torch.cuda.current_stream().record_event() if torch.cuda.is_available() else None)

    def get_comm_stream(self) -> Any:
        """The stream of calls with async_finish."""
        if self._side is None:
            import torch

            self._side = torch.cuda.Stream()
        return self._side

    def get_local_buffer_tensor(self, *_: Any, **__: Any) -> Any:
        """Not there: the memory between ranks is no tensor."""
        raise errors.Unsupported("the memory between ranks is not given out")

    def _on_stream(self, arrays: Arrays, previous: EventOverlap | None, side: bool, keep: tuple[Any, ...],
                   work: Callable[[int], tuple[Any, ...]]) -> tuple[tuple[Any, ...], EventOverlap]:
        """Runs work(stream) on the current stream, or beside it, behind previous or else the current stream. The event
        is the end of what it enqueues."""
        if not side or not arrays.cuda:
            if previous is not None:
                previous.current_stream_wait()
            return work(arrays.stream()), EventOverlap()
        torch, stream = arrays.torch, self.get_comm_stream()
        assert torch is not None
        if previous is not None and previous.event is not None:
            stream.wait_event(previous.event)
        else:
            stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            out = work(stream.cuda_stream)
        for t in (*keep, *out):
            if isinstance(t, torch.Tensor):
                t.record_stream(stream)
        return out, EventOverlap(stream.record_event(), keep)

    def get_dispatch_layout(self, topk_idx: Any, num_experts: int, previous_event: EventOverlap | None = None,
                            async_finish: bool = False, allocate_on_comm_stream: bool = False) -> tuple[Any, ...]:
        """num_tokens_per_rank, None (there is one host), num_tokens_per_expert, is_token_in_rank and the event."""
        a = Arrays(topk_idx)
        tokens, k = topk_idx.shape
        self._engine.local(num_experts)

        def work(stream: int) -> tuple[Any, ...]:
            ranks, experts = a.empty((self.group_size,), "int32"), a.empty((num_experts,), "int32")
            inside = a.empty((tokens, self.group_size), "bool")
            self._engine.run("moe_count", _calls.count(
                _calls.ROWS, 8, k, num_experts, 0, tokens, a.address(topk_idx, "topk_idx", (tokens, k), "int64"),
                a.pointer(ranks), a.pointer(experts), a.pointer(inside), stream))
            return ranks, experts, inside

        (ranks, experts, inside), event = self._on_stream(a, previous_event, async_finish, (topk_idx,), work)
        return ranks, None, experts, inside, event

    def _notify(self, a: Arrays, shape: tuple[int, ...], tokens: int, stream: int, topk_idx: int, in_rank: int = 0,
                counts: int = 0) -> tuple[Any, tuple[int, ...], MoeOffsets]:
        """The memory of a new handle, the handle and its layout."""
        offsets = self._engine.offsets(*shape)
        memory = a.memory(offsets.bytes)
        handle = (*shape, a.pointer(memory), tokens)
        self._engine.run("moe_notify", _calls.notify(*handle, topk_idx, in_rank, counts, stream))
        return memory, handle, offsets
