"""The environment of the process. Only this module reads it (tests/test_structure.py). libgoccl.so reads goccl's
variables itself, as they were when it was loaded: here are those that say how it is found, what the package does before
or beside it, and the snapshot that env() gives. env() asks nobody, because it must not load the library."""

import dataclasses
import os


def read(*names: str, default: str = "") -> str:
    """The first of the variables that is set and not empty."""
    return next(filter(None, map(os.environ.get, names)), default)


def local_rank() -> int:
    """This rank's number on its host, by its launcher; 0 without one."""
    return int(read("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", default="0"))


def place(*first: tuple[str, str]) -> tuple[str, str] | None:
    """This rank and the number of ranks, by the first pair of variables that is set: those given, or a launcher's."""
    for rank, size in (*first, ("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
                       ("PMI_RANK", "PMI_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS")):
        if read(rank) and read(size):
            return read(rank), read(size)
    return None


def _of(*names: str, default: str = "") -> str:
    found: str = dataclasses.field(default_factory=lambda: read(*names, default=default))
    return found


@dataclasses.dataclass(frozen=True)
class Env:
    """A snapshot of goccl's environment, which cannot be changed; docs/environment.md says what each variable does.
    Fields of MSCCL++'s that goccl has no variable for hold what is true here."""

    debug: str = _of("GOCCL_DEBUG", "NCCL_DEBUG")
    debug_file: str = _of("NCCL_DEBUG_FILE")
    device: str = _of("GOCCL_DEVICE")
    timeout: str = _of("GOCCL_TIMEOUT", default="30")
    op_timeout: str = _of("GOCCL_OP_TIMEOUT")
    socket_ifname: str = _of("GOCCL_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
    socket_family: str = _of("GOCCL_SOCKET_FAMILY", "NCCL_SOCKET_FAMILY")
    comm_id: str = _of("NCCL_COMM_ID")
    hostid: str = _of("GOCCL_HOSTID", "NCCL_HOSTID")
    cache_dir: str = _of("GOCCL_CACHE_DIR")
    debug_subsys: str = ""
    hca_devices: str = ""
    ibv_mode: str = "host"
    ib_gid_index: int = -1
    npkit_dump_dir: str = ""
    cuda_ipc_use_default_stream: bool = False


def env() -> Env:
    """The environment as it is now."""
    return Env()
