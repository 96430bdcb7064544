"""Events: when the work of a call is done."""

from __future__ import annotations

from typing import Any


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

    def __enter__(self) -> EventOverlap:
        return self

    def __exit__(self, *_: object) -> None:
        self.current_stream_wait()
