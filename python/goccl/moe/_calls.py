"""The arguments of the functions in goccl_moe.h, its constants, and what DeepEP's calls take and return:
configurations, and events that say when their work is done."""

import ctypes
from typing import Any

from .._abi import MoeCombineArgs, MoeCountArgs, MoeDispatchArgs, MoeNotifyArgs, MoeShape
from .._checked import packer
from .._lib import lib

# Bytes of the arguments. The first six are the handle: layout, hidden, top-k, experts, memory and tokens.
combine, count = packer(MoeCombineArgs), packer(MoeCountArgs)
dispatch, notify = packer(MoeDispatchArgs), packer(MoeNotifyArgs)

QUANTIZE, POWER_OF_TWO, LISTS = 1, 2, 4
ROWS, EXPERTS, ZERO_COPY = 0, 1, 2
BFLOAT16, FLOAT8 = 9, 10


def bytes_for(ranks: int, tokens: int, hidden: int, top_k: int, experts: int) -> int:
    """The bytes of a buffer for tokens of a shape."""
    return int(lib.moe_bytes(ranks, tokens, ctypes.byref(MoeShape(ROWS, hidden, top_k, experts))))


class Config:
    """num_sms bounds the thread blocks of a kernel. The other numbers describe DeepEP's own buffers and are not
    needed."""

    def __init__(self, num_sms: int = 16, num_max_nvl_chunked_send_tokens: int = 0,
                 num_max_nvl_chunked_recv_tokens: int = 0, num_max_rdma_chunked_send_tokens: int = 0,
                 num_max_rdma_chunked_recv_tokens: int = 0) -> None:
        self.num_sms = num_sms

    def get_nvl_buffer_size_hint(self, hidden_bytes: int, num_ranks: int) -> int:
        """The bytes of a buffer for 4096 tokens."""
        return bytes_for(num_ranks, 4096, hidden_bytes // 2, 8, 0)

    def get_rdma_buffer_size_hint(self, hidden_bytes: int, num_ranks: int) -> int:
        """0: all ranks are on one host."""
        return 0


class EventOverlap:
    """The end of a call on a stream, and the tensors that it needs until then. Without an event the call is in order
    on the current stream, or done."""

    def __init__(self, event: Any = None, extra_tensors: tuple[Any, ...] | None = None) -> None:
        self.event = event
        self.extra_tensors = extra_tensors

    def current_stream_wait(self) -> None:
        """Makes later work on the current stream follow the call."""
        if self.event is not None:
            import torch

            torch.cuda.current_stream().wait_event(self.event)

    def __enter__(self) -> "EventOverlap":
        return self

    def __exit__(self, *_: object) -> None:
        self.current_stream_wait()
