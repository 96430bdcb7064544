"""All-gather -> GEMM and GEMM -> reduce-scatter, overlapped inside of kernels of plain CUDA C++ (gemm_overlap.cu).

    torchrun --nproc_per_node=2 python/examples/gemm_overlap_cuda.py --json overlap.json

overlap/ describes both. The kernels are compiled at run time, without nvcc, with goccl's device headers. Needs GPUs
and torch. Without a GPU it says so and ends with status 77.
"""

import os
import sys
from ctypes import c_uint64

import goccl
import overlap
from goccl.utils import pack

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gemm_overlap.cu")
THREADS, SHARED = 256, 3 * (128 + 128) * 32 * 2  # as in the file


class Kernels:
    """The kernels as overlap/ calls them."""

    TILE = HOST_TILE = (128, 128)

    def __init__(self) -> None:
        self.module = None

    def _launch(self, job, name: str, blocks: int, shared: int, *params) -> None:
        if self.module is None:
            self.module = goccl.compile_native(name="gemm_overlap", file=FILE, device=job.comm.device)
        self.module.kernel(name, job.comm.device).launch_kernel(pack(*params), blocks, THREADS, shared, job.stream())

    @staticmethod
    def _tiles(shape) -> int:
        """Of one rank's rows."""
        return shape.rows // shape.tile[0] * (shape.columns // shape.tile[1])

    @staticmethod
    def _at(*arrays):
        return [c_uint64(overlap.address(x)) for x in arrays]

    def gathered(self, job, shape, shard, gathered, b, c, flags, number) -> None:
        self._launch(job, "gathered", job.n * self._tiles(shape), SHARED, c_uint64(shard), c_uint64(gathered),
                     *self._at(b, c, flags, job.failed), number, job.rank, job.n, shape.chunks, shape.rows,
                     shape.inner, shape.columns)

    def scattered(self, job, shape, x, w, slots, flags, number) -> None:
        self._launch(job, "scattered", job.n * self._tiles(shape), SHARED, *self._at(x, w, slots, flags), number,
                     job.rank, job.n, shape.rows, shape.inner, shape.columns)

    def reduced(self, job, shape, slots, out, flags, number) -> None:
        self._launch(job, "reduced", self._tiles(shape), 0, c_uint64(slots), *self._at(out, flags, job.failed), number,
                     job.n, shape.rows, shape.columns)


def main() -> int:
    if not goccl.device_count():
        print("no GPU here")
        return 77
    return overlap.main(Kernels(), __doc__)


if __name__ == "__main__":
    sys.exit(main())
