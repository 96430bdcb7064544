"""What DeepEP's calls take and return: configurations, and events that say when their work is done."""

from typing import Any

from ._calls import bytes_for


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
