"""The environment variables that goccl reads, as values."""

from __future__ import annotations

import dataclasses
import os

__all__ = ["Env", "env"]


def _first(*names: str, default: str = "") -> str:
    return next(filter(None, map(os.environ.get, names)), default)


@dataclasses.dataclass(frozen=True)
class Env:
    """A snapshot of goccl's environment, which cannot be changed; docs/environment.md says what each variable does.
    Fields of MSCCL++'s that goccl has no variable for hold what is true here."""

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
    debug_subsys: str = ""
    hca_devices: str = ""
    ibv_mode: str = "host"
    ib_gid_index: int = -1
    npkit_dump_dir: str = ""
    cuda_ipc_use_default_stream: bool = False


def env() -> Env:
    """The environment as it is now."""
    return Env(
        debug=_first("GOCCL_DEBUG", "NCCL_DEBUG"), debug_file=_first("NCCL_DEBUG_FILE"), device=_first("GOCCL_DEVICE"),
        timeout=_first("GOCCL_TIMEOUT", default="30"), op_timeout=_first("GOCCL_OP_TIMEOUT"),
        socket_ifname=_first("GOCCL_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"),
        socket_family=_first("GOCCL_SOCKET_FAMILY", "NCCL_SOCKET_FAMILY"), comm_id=_first("NCCL_COMM_ID"),
        hostid=_first("GOCCL_HOSTID"), cache_dir=_first("GOCCL_CACHE_DIR"),
    )
