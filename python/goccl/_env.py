"""The environment variables that goccl reads, as values."""

from __future__ import annotations

import os

__all__ = ["Env", "env"]


class Env:
    """A snapshot of goccl's environment; docs/environment.md says what each variable does."""

    debug: str
    debug_file: str
    device: str
    timeout: str
    op_timeout: str
    socket_ifname: str
    socket_family: str
    comm_id: str
    hostid: str
    cache_dir: str

    def __init__(self) -> None:
        get = os.environ.get
        self.debug = get("GOCCL_DEBUG") or get("NCCL_DEBUG") or ""
        self.debug_file = get("NCCL_DEBUG_FILE", "")
        self.device = get("GOCCL_DEVICE", "")
        self.timeout = get("GOCCL_TIMEOUT", "30")
        self.op_timeout = get("GOCCL_OP_TIMEOUT", "")
        self.socket_ifname = get("GOCCL_SOCKET_IFNAME") or get("NCCL_SOCKET_IFNAME") or ""
        self.socket_family = get("GOCCL_SOCKET_FAMILY") or get("NCCL_SOCKET_FAMILY") or ""
        self.comm_id = get("NCCL_COMM_ID", "")
        self.hostid = get("GOCCL_HOSTID", "")
        self.cache_dir = get("GOCCL_CACHE_DIR", "")

    def __repr__(self) -> str:
        return "Env(" + ", ".join(f"{k}={v!r}" for k, v in vars(self).items()) + ")"


def env() -> Env:
    """The environment as it is now."""
    return Env()
