"""Programs for jobs of several hosts, under MSCCL++'s names: ``goccl.compile(algo=allgather_multi_nodes,
algo_spec=spec)``.

Ranks are numbered host by host, spec.nranks_per_node to a host. Between hosts a rank talks to those of its own local
number only, by port channels. All data travels in packets. spec.collective has a chunk factor of 1; instances must be
1.
"""

from .allgather import allgather_multi_nodes
from .allreduce import allreduce_multi_nodes
from .reducescatter import reducescatter_multi_nodes

__all__ = ["allgather_multi_nodes", "allreduce_multi_nodes", "reducescatter_multi_nodes"]
