"""Buffer: the calls of both modes."""

from __future__ import annotations

from ._latency import Latency
from ._throughput import Throughput


class Buffer(Throughput, Latency):
    """A rank's buffer for dispatches and combines: see Base, of which it has the arguments."""
