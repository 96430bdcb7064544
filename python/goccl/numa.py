"""NUMA nodes of devices and of this thread, under MSCCL++'s names."""

import os

from . import errors
from ._types import DeviceType
from .device import Device

__all__ = ["get_device_numa_node", "numa_bind"]


def get_device_numa_node(cuda_dev: int) -> int:
    """The NUMA node that a GPU is on, or -1 when it is not known."""
    return Device(DeviceType.GPU, cuda_dev).numa_node


def numa_bind(node: int) -> None:
    """Keeps the calling thread, and threads that it starts later, on the processors of a NUMA node. Memory that they
    touch first is the node's then, while it has any. A node that is not known, -1, changes nothing."""
    if node < 0:
        return
    try:
        with open(f"/sys/devices/system/node/node{node}/cpulist", encoding="ascii") as f:
            ranges = [r.split("-") for r in f.read().strip().split(",") if r]
    except OSError as e:
        raise errors.InvalidArgument(f"numa_bind: this host has no NUMA node {node}: {e}") from None
    cpus = {cpu for r in ranges for cpu in range(int(r[0]), int(r[-1]) + 1)}
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as e:
        raise errors.SysError(f"numa_bind: this process may not use the processors of NUMA node {node}: {e}") from e
