"""What DeepEP's calls take as configuration."""

from __future__ import annotations


class Config:
    """num_sms bounds the thread blocks of a kernel. The other numbers describe DeepEP's own buffers and are not
    needed."""

    def __init__(self, num_sms: int = 16, num_max_nvl_chunked_send_tokens: int = 0,
                 num_max_nvl_chunked_recv_tokens: int = 0, num_max_rdma_chunked_send_tokens: int = 0,
                 num_max_rdma_chunked_recv_tokens: int = 0) -> None:
        self.num_sms = num_sms

    def get_nvl_buffer_size_hint(self, hidden_bytes: int, num_ranks: int) -> int:
        """The bytes of a buffer for 4096 tokens."""
        from ._calls import bytes_for

        return bytes_for(num_ranks, 4096, hidden_bytes // 2, 8, 0)

    def get_rdma_buffer_size_hint(self, hidden_bytes: int, num_ranks: int) -> int:
        """0: all ranks are on one host."""
        return 0
