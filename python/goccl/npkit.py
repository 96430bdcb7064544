"""MSCCL++'s NPKit under its name: goccl records no NPKit events, and says so."""

import warnings

__all__ = ["init", "dump", "shutdown"]


def init(rank: int) -> None:
    """Only warns: no events are recorded."""
    warnings.warn("goccl has no NPKit events: npkit records nothing, and dump writes no file", RuntimeWarning,
                  stacklevel=2)


def dump(dump_dir: str) -> None:
    """Nothing: there are no events."""


def shutdown() -> None:
    """Nothing."""
