"""All-gather -> GEMM and GEMM -> reduce-scatter, overlapped inside of Triton kernels.

    torchrun --nproc_per_node=2 python/examples/gemm_overlap_triton.py --json overlap.json
    TRITON_INTERPRET=1 GOCCL_DEVICE=host python -m goccl run -n 2 -- python python/examples/gemm_overlap_triton.py

overlap/ describes both. Needs Triton, and on GPUs torch. Without a GPU Triton's interpreter runs the same kernels on
the host device.
"""

import os
import sys

import triton
import triton.language as tl

import overlap

TILE, HOST_TILE = (128, 256), (16, 16)
POLLS = 1 << 22  # some seconds


@triton.jit
def pointer(address, dtype: tl.constexpr):
    """Memory at an address, which is a multiple of 16."""
    return tl.multiple_of(address.to(tl.pointer_type(dtype)), 16)


@triton.jit
def wait(word, number, source, failed, POLLS: tl.constexpr):
    """Polls until word has reached number, at most POLLS times. What was written before the word is then visible."""
    polls = 0
    while (tl.atomic_add(word, 0, sem="acquire", scope="sys") < number) & (polls < POLLS):
        polls += 1
    if polls >= POLLS:
        tl.store(failed, source + 1)


@triton.jit
def multiply(a, b, N, column, K: tl.constexpr, M_TILE: tl.constexpr, N_TILE: tl.constexpr, K_TILE: tl.constexpr):
    """A tile of A B: the rows that begin at a, the columns from column on."""
    rows, k = tl.arange(0, M_TILE), tl.arange(0, K_TILE)
    a_tile = a + rows[:, None] * K + k[None, :]
    b_tile = b + k[:, None] * N + (column + tl.arange(0, N_TILE))[None, :]
    sum = tl.zeros((M_TILE, N_TILE), tl.float32)
    for _ in range(0, K, K_TILE):
        sum = tl.dot(tl.load(a_tile), tl.load(b_tile), sum)
        a_tile += K_TILE
        b_tile += K_TILE * N
    return sum


@triton.jit(do_not_specialize=["number"])
def gathered_kernel(shard, gathered, b, c, flags, failed, number, rank, rows, N, ranks: tl.constexpr, K: tl.constexpr,
                    CHUNKS: tl.constexpr, DTYPE: tl.constexpr, M_TILE: tl.constexpr, N_TILE: tl.constexpr,
                    K_TILE: tl.constexpr, POLLS: tl.constexpr):
    # 1. Which tile: the own rows first, then chunks as they come: rank r sends its k-th chunk to r+1 first. Within a
    #    chunk the rows of tiles change fastest, so that the columns of B stay in the cache.
    tiles = rows // CHUNKS // M_TILE  # of a chunk, one above the other
    size = tiles * (N // N_TILE)
    index = tl.program_id(0)
    chunk, inside = index // size, index % size
    own = chunk < CHUNKS
    later = chunk - CHUNKS
    source = tl.where(own, rank, (rank + ranks - 1 - later % (ranks - 1)) % ranks)
    k = tl.where(own, chunk, later // (ranks - 1))
    row = (k * tiles + inside % tiles) * M_TILE
    column = inside // tiles * N_TILE
    # 2. Wait for its chunk.
    if source != rank:
        wait(pointer(flags, tl.int32) + source * CHUNKS + k, number, source, pointer(failed, tl.int32), POLLS)
    # 3. Multiply.
    first = (source * rows + row).to(tl.int64)
    a = tl.where(source == rank, shard + row.to(tl.int64) * K * 2, gathered + first * K * 2)
    sum = multiply(pointer(a, DTYPE), pointer(b, DTYPE), N, column, K, M_TILE, N_TILE, K_TILE)
    at = pointer(c, DTYPE) + first * N + column
    at += tl.arange(0, M_TILE)[:, None] * N + tl.arange(0, N_TILE)[None, :]
    tl.store(at, sum.to(DTYPE))


@triton.jit(do_not_specialize=["number"])
def scattered_kernel(x, w, slots, flags, number, rank, rows, N, ranks: tl.constexpr, K: tl.constexpr,
                     DTYPE: tl.constexpr, M_TILE: tl.constexpr, N_TILE: tl.constexpr, K_TILE: tl.constexpr):
    # 1. Which tile: the next rank's tiles come first, the own ones last. Ranks begin with different owners.
    tiles = rows // M_TILE
    size = tiles * (N // N_TILE)
    index = tl.program_id(0)
    owner = (rank + 1 + index // size) % ranks
    inside = index % size
    row, column = inside % tiles * M_TILE, inside // tiles * N_TILE
    # 2. Multiply.
    a = pointer(x, DTYPE) + (owner * rows + row).to(tl.int64) * K
    sum = multiply(a, pointer(w, DTYPE), N, column, K, M_TILE, N_TILE, K_TILE)
    # 3. Store to the owner, then signal: the release follows the stores of all threads, which the barrier gathers.
    slot = tl.load(pointer(slots, tl.int64) + owner) + (rank * rows + row).to(tl.int64) * N * 2
    at = pointer(slot, DTYPE) + column + tl.arange(0, M_TILE)[:, None] * N + tl.arange(0, N_TILE)[None, :]
    tl.store(at, sum.to(DTYPE))
    tl.debug_barrier()
    word = pointer(tl.load(pointer(flags, tl.int64) + owner), tl.int32) + rank * size + inside
    tl.atomic_xchg(word, number, sem="release", scope="sys")


@triton.jit(do_not_specialize=["number"])
def reduced_kernel(slots, out, flags, failed, number, rows, N, ranks: tl.constexpr, DTYPE: tl.constexpr,
                   M_TILE: tl.constexpr, N_TILE: tl.constexpr, POLLS: tl.constexpr):
    tiles = rows // M_TILE
    size = tiles * (N // N_TILE)
    inside = tl.program_id(0)
    row, column = inside % tiles * M_TILE, inside // tiles * N_TILE
    at = column + (row + tl.arange(0, M_TILE))[:, None] * N + tl.arange(0, N_TILE)[None, :]
    sum = tl.zeros((M_TILE, N_TILE), tl.float32)
    slot = pointer(slots, DTYPE)
    for r in range(0, ranks):
        wait(pointer(flags, tl.int32) + r * size + inside, number, r, pointer(failed, tl.int32), POLLS)
        sum += tl.load(slot + at).to(tl.float32)
        slot += rows.to(tl.int64) * N
    tl.store(pointer(out, DTYPE) + at, sum.to(DTYPE))


class Kernels:
    """The kernels as overlap/ calls them."""

    TILE, HOST_TILE = TILE, HOST_TILE

    @staticmethod
    def _constants(job, shape) -> dict:
        return {"ranks": job.n, "DTYPE": getattr(tl, job.dtype), "M_TILE": shape.tile[0], "N_TILE": shape.tile[1],
                "num_warps": 8}

    def _gemm(self, job, shape) -> dict:
        return {"K": shape.inner, "K_TILE": min(64, shape.inner), "num_stages": 3, **self._constants(job, shape)}

    @staticmethod
    def _tiles(shape) -> int:
        """Of one rank's rows."""
        return shape.rows // shape.tile[0] * (shape.columns // shape.tile[1])

    def gathered(self, job, shape, shard, gathered, b, c, flags, number) -> None:
        gathered_kernel[(job.n * self._tiles(shape),)](
            shard, gathered, *map(overlap.address, (b, c, flags, job.failed)), number, job.rank, shape.rows,
            shape.columns, CHUNKS=shape.chunks, POLLS=POLLS, **self._gemm(job, shape))

    def scattered(self, job, shape, x, w, slots, flags, number) -> None:
        scattered_kernel[(job.n * self._tiles(shape),)](
            *map(overlap.address, (x, w, slots, flags)), number, job.rank, shape.rows, shape.columns,
            **self._gemm(job, shape))

    def reduced(self, job, shape, slots, out, flags, number) -> None:
        reduced_kernel[(self._tiles(shape),)](
            slots, *map(overlap.address, (out, flags, job.failed)), number, shape.rows, shape.columns, POLLS=POLLS,
            **self._constants(job, shape))


def main() -> int:
    import goccl

    if not goccl.device_count() and os.environ.get("TRITON_INTERPRET") != "1":
        print("no GPU here: set TRITON_INTERPRET=1")
        return 77
    return overlap.main(Kernels(), __doc__)


if __name__ == "__main__":
    sys.exit(main())
