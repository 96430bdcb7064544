"""What gemm_overlap_triton.py and gemm_overlap_cuda.py share: ranks, memory, copies, checks, times.

The rows of A, and of the result of X W, are divided among the ranks; n ranks have n blocks of rows.

    all-gather -> GEMM      C = A B. A copy engine writes a rank's rows to all peers, chunk by chunk, and after each
                            chunk a flag. A tile of the GEMM waits for the flag of its chunk. No processor of the GPU
                            copies anything.
    GEMM -> reduce-scatter  This rank's rows of the sum of all ranks' X W. The GEMM stores a tile to its owner, and then
                            a flag. The owner waits for the tiles of all ranks, and adds them in rank order.

A flag holds the number of the latest operation that set it. Numbers only grow, so nobody clears a flag. What peers
write to has two halves, for odd and even operations. That is enough: a rank that begins operation e+2 has got what each
peer sent in e+1, and a peer sends in e+1 only after it has ended e.

Every wait of a kernel ends after a number of polls; it then stores the rank that it waited for, plus 1, in `failed`.
"""

from .job import Job, Symmetric, address
from .operations import AllGatherGEMM, GEMMReduceScatter
from .program import main
from .shape import Shape

__all__ = ["AllGatherGEMM", "GEMMReduceScatter", "Job", "Shape", "Symmetric", "address", "main"]
