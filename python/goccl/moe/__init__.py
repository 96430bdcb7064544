"""Mixtures of experts under DeepEP's names: a Buffer dispatches tokens to the ranks of their experts and combines what
the experts make of them.

``import goccl.moe as deep_ep`` stands for ``import deep_ep``. Tensors are torch's, or, on the host device, numpy arrays
too; numpy has no bfloat16 and no float8, so arrays of uint16 and uint8 hold their bits.
"""

from typing import Any

from ._calls import Config, EventOverlap
from ._latency import Latency
from ._throughput import Throughput

__all__ = ["Buffer", "Config", "EventOverlap"]


class Buffer(Throughput, Latency):
    """A rank's buffer for dispatches and combines: see Base, of which it has the arguments."""


def __getattr__(name: str) -> Any:
    if name == "topk_idx_t":  # torch's type of topk_idx
        import torch

        return torch.int64
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
