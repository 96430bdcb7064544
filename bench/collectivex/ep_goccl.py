"""goccl's adapter for CollectiveX, SemiAnalysis' benchmark of expert parallelism: dispatch and combine of goccl.moe.

It lies beside CollectiveX's own adapters, in bench/ of its folder, and run_ep.py names it (--backend goccl). README.md
says how.
"""

from __future__ import annotations

import types

import torch
import torch.distributed as dist
from ep_backend import EPBackend

from goccl.moe import Buffer, Config

SMS = 16  # of normal mode, as goccl chooses without a Config


class GocclBackend(EPBackend):
    """A Buffer of goccl.moe in CollectiveX's two modes: rows by source rank, whose combine adds without weights, and
    rows by expert, whose combine multiplies with the weights. Types are bfloat16."""

    name = "goccl"
    maturity = "candidate"
    kernel_generation = "goccl-moe"
    SUPPORTED_MODES = ("normal", "low-latency")
    SUPPORTED_PRECISIONS = ("bf16",)

    def __init__(self, args, rank, world_size, local_rank, device):
        super().__init__(args, rank, world_size, local_rank, device)
        self.latency = self.mode == "low-latency"
        self.local = args.experts // world_size
        if self.latency:
            self.receive_layout = "token-expert"
            self.combine_weight_semantics = "weighted-kernel-sum"
            self.kernel_generation = "goccl-moe-ll"

    def buffer_cap(self, args):
        """The tokens of a rank that a dispatch of low latency takes. CollectiveX runs DeepEP with this number."""
        return 256 if self.latency else None

    def create_buffer(self, spec):
        """A buffer for the largest shape of the ladder; normal mode's must take every token of every rank."""
        self.most = spec.max_tokens_per_rank
        size = Buffer.get_low_latency_rdma_size_hint(self.most, self.args.hidden, self.world_size, self.args.experts)
        self.config = Config(SMS)
        self.buffer = Buffer(dist.group.WORLD, 0 if self.latency else size, size if self.latency else 0,
                             low_latency_mode=self.latency, explicitly_destroy=True, max_tokens=self.most)

    def dispatch(self, p):
        """The tokens to the ranks of their experts."""
        if self.latency:
            rows, counts, handle, _, _ = self.buffer.low_latency_dispatch(p.dispatch_x, p.topk_idx, self.most,
                                                                          self.args.experts, use_fp8=False)
            return types.SimpleNamespace(rows=rows, counts=counts, handle=handle)
        per_rank, _, per_expert, inside, _ = self.buffer.get_dispatch_layout(p.topk_idx, self.args.experts)
        rows, index, weights, _, handle, _ = self.buffer.dispatch(
            p.dispatch_x, num_tokens_per_rank=per_rank, num_tokens_per_expert=per_expert, is_token_in_rank=inside,
            topk_idx=p.topk_idx, topk_weights=p.topk_weights, config=self.config)
        return types.SimpleNamespace(rows=rows, index=index, weights=weights, handle=handle)

    def stage(self, p, h):
        """Nothing: combine takes the rows as they came."""
        h.combine_input = h.rows

    def combine(self, p, h):
        """The rows back to their tokens' ranks."""
        if self.latency:
            return self.buffer.low_latency_combine(h.combine_input, p.topk_idx, p.topk_weights, h.handle)[0][:p.T]
        return self.buffer.combine(h.combine_input, h.handle, config=self.config)[0]

    def recv_tokens(self, h):
        """The rows that this rank got."""
        return int(h.counts.sum()) if self.latency else int(h.rows.shape[0])

    def inspect_dispatch(self, p, h):
        """The rows as CollectiveX's oracle takes them: with the global numbers of their experts."""
        first = self.rank * self.local
        if self.latency:
            there = torch.arange(h.rows.shape[1], device=h.rows.device)[None, :] < h.counts[:, None]
            h.at = there.nonzero(as_tuple=True)
            return types.SimpleNamespace(payload=h.rows[h.at], expert_ids=first + h.at[0],
                                         local_expert_counts=h.counts.long())
        index = h.index.long()
        return types.SimpleNamespace(
            payload=h.rows, expert_ids=torch.where(index < 0, index, index + first), weights=h.weights.float(),
            local_expert_counts=torch.bincount(index[index >= 0], minlength=self.local))

    def combine_transformed(self, p, h, transformed):
        """combine of the oracle's rows."""
        if self.latency:
            h.combine_input = torch.zeros_like(h.rows)
            h.combine_input[h.at] = transformed.to(h.rows.dtype)
        else:
            h.combine_input = transformed.to(torch.bfloat16)
        return self.combine(p, h)

    def finalize(self, rc):
        """Frees the buffer and leaves the process group."""
        dist.barrier()
        self.buffer.destroy()
        return super().finalize(rc)
