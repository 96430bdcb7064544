"""What the ABI is asked for: the numbers of the operations, and goccl_request."""

from .._abi import Request
from .._checked import packer

request = packer(Request)

(ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, ALL_TO_ALL_V, BROADCAST, REDUCE, GATHER, SCATTER, SEND, RECV,
 BARRIER, ALL_TO_ALL_V_DEVICE) = range(1, 14)
REDUCING = (ALL_REDUCE, REDUCE_SCATTER, REDUCE)
NAMES = ("", "allreduce", "allgather", "reduce_scatter", "alltoall", "alltoallv", "broadcast", "reduce", "gather",
         "scatter", "send", "recv", "barrier", "alltoallv_device")
