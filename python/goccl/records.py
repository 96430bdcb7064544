"""The flight recorder: the last operations of this process's communicators, and why one waits."""

import json
from typing import Any

from ._lib import lib

__all__ = ["dump", "records", "verdicts"]


def dump(format: str = "json") -> bytes:
    """The records as json, text, trace (for Perfetto), torch or torch-json (PyTorch's flight recorder), or stack."""
    return lib.records(format.encode())


def records() -> dict[str, Any]:
    """The records: the last operations of each communicator, with times, and the peers that it waits for."""
    found: dict[str, Any] = json.loads(dump("json"))
    return found


def verdicts() -> list[dict[str, Any]]:
    """Why operations wait, or have waited last: the rank to blame, the reason and what to do, of each communicator."""
    return [c["verdict"] for c in records()["communicators"] if c.get("verdict")]
