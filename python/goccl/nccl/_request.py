"""What the ABI is asked for: the numbers of the operations, and goccl_request."""

import struct

# request packs a goccl_request of goccl.h: communicator, operation, type, operator, root, 6 words, 4 arrays, 2 lengths,
# the configuration of the call or 0. call_config packs a goccl_call_config that only sets its size and all_counts.
request = struct.Struct("<QIIIi6Q4Q3Q").pack
call_config = struct.Struct("<I28xQ")

(ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, ALL_TO_ALL_V, BROADCAST, REDUCE, GATHER, SCATTER, SEND, RECV,
 BARRIER, ALL_TO_ALL_V_DEVICE) = range(1, 14)
REDUCING = (ALL_REDUCE, REDUCE_SCATTER, REDUCE)
NAMES = ("", "allreduce", "allgather", "reduce_scatter", "alltoall", "alltoallv", "broadcast", "reduce", "gather",
         "scatter", "send", "recv", "barrier", "alltoallv_device")
