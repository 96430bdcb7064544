// The kernels of gemm_overlap_cuda.py: all-gather -> GEMM and GEMM -> reduce-scatter of bfloat16, overlapped tile by
// tile. overlap/ describes the protocol. Sizes are whole tiles; all matrices are row-major and 16-aligned.
#include <goccl/abort.cuh>
#include <goccl/reduce.cuh>

using namespace goccl;

namespace {

constexpr uint32_t tileM = 128, tileN = 128, tileK = 32, stages = 3, threads = 256;
constexpr uint32_t stageBytes = (tileM + tileN) * tileK * 2;
constexpr int64_t polls = 1 << 22;  // some seconds

// awaitFlag is called by all threads of a block. It returns when the word has reached number, or after that many
// polls: then it stores the rank that it waited for, plus 1. Thread 0 acquires for the block.
__device__ void awaitFlag(const uint32_t* word, uint32_t number, uint32_t source, uint32_t* failed) {
  if (threadIdx.x == 0) {
    const Status s = waitUntil([&] { return static_cast<int32_t>(loadAcquire<Scope::sys>(word) - number) >= 0; },
                               nullptr, word, waitSemaphore, polls, source);
    if (s != statusOk) storeRelaxed<Scope::sys>(failed, source + 1);
  }
  __syncthreads();
}

__device__ void copyAsync(uint32_t shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}

// A stage holds 128 rows of A of four 16-byte chunks, and 32 rows of B of sixteen. The exclusive or spreads what one
// instruction reads over all banks.
__device__ uint32_t chunkA(uint32_t row, uint32_t chunk) { return row * 64 + ((chunk ^ (row >> 1 & 3)) << 4); }
__device__ uint32_t chunkB(uint32_t row, uint32_t chunk) {
  return tileM * tileK * 2 + row * 256 + ((chunk ^ (row & 7)) << 4);
}

__device__ void fetch(uint32_t stage, const uint16_t* a, const uint16_t* b, uint32_t k, uint32_t K, uint32_t N) {
#pragma unroll
  for (uint32_t i = threadIdx.x; i < tileM * tileK / 8; i += threads)
    copyAsync(stage + chunkA(i >> 2, i & 3), a + static_cast<uint64_t>(i >> 2) * K + k + (i & 3) * 8);
#pragma unroll
  for (uint32_t i = threadIdx.x; i < tileK * tileN / 8; i += threads)
    copyAsync(stage + chunkB(i >> 4, i & 15), b + static_cast<uint64_t>(k + (i >> 4)) * N + (i & 15) * 8);
}

__device__ void loadMatrices(uint32_t (&r)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
__device__ void loadTransposed(uint32_t (&r)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
__device__ void multiplyAdd(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
               "{%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// multiply computes a tile of A B, the rows of A from a on and the columns of B from b on, and stores it to out, whose
// rows have N elements. Eight warps have 64 x 32 elements each.
__device__ void multiply(const uint16_t* a, const uint16_t* b, uint16_t* out, uint32_t K, uint32_t N) {
  extern __shared__ __align__(128) uint8_t memory[];
  const uint32_t shared = static_cast<uint32_t>(__cvta_generic_to_shared(memory));
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, m = warp / 4 * 64, n = warp % 4 * 32;
  float sum[4][4][4] = {};
  for (uint32_t s = 0; s < stages - 1; ++s) {
    if (s * tileK < K) fetch(shared + s * stageBytes, a, b, s * tileK, K, N);
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  uint32_t now = 0, next = stages - 1;  // stages
  for (uint32_t k = 0; k < K; k += tileK) {
    asm volatile("cp.async.wait_group %0;" ::"n"(stages - 2) : "memory");
    __syncthreads();  // everybody's part of this stage is there, and the one before is read
    if (k + (stages - 1) * tileK < K) fetch(shared + next * stageBytes, a, b, k + (stages - 1) * tileK, K, N);
    asm volatile("cp.async.commit_group;" ::: "memory");
    const uint32_t stage = shared + now * stageBytes;
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      uint32_t x[4][4], y[2][4];
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i)
        loadMatrices(x[i], stage + chunkA(m + i * 16 + lane % 16, half * 2 + lane / 16));
#pragma unroll
      for (uint32_t j = 0; j < 2; ++j)
        loadTransposed(y[j], stage + chunkB(half * 16 + lane % 16, n / 8 + j * 2 + lane / 16));
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i)
#pragma unroll
        for (uint32_t j = 0; j < 4; ++j) multiplyAdd(sum[i][j], x[i], y[j / 2][j % 2 * 2], y[j / 2][j % 2 * 2 + 1]);
    }
    now = now + 1 == stages ? 0 : now + 1;
    next = next + 1 == stages ? 0 : next + 1;
  }
  __syncthreads();
  // Through shared memory, so that a warp stores two whole rows of 256 bytes at once: NVLink is slow with small stores.
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i)
#pragma unroll
    for (uint32_t j = 0; j < 4; ++j)
#pragma unroll
      for (uint32_t h = 0; h < 2; ++h) {
        const uint32_t row = m + i * 16 + h * 8 + lane / 4, column = n + j * 8 + lane % 4 * 2;
        uint32_t pair;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(sum[i][j][h * 2 + 1]), "f"(sum[i][j][h * 2]));
        *reinterpret_cast<uint32_t*>(memory + row * 256 + ((column / 8 ^ (row & 7)) << 4) + column % 8 * 2) = pair;
      }
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < tileM * tileN / 8; i += threads) {
    const uint32_t row = i >> 4, chunk = i & 15;
    storeVec(out + static_cast<uint64_t>(row) * N + chunk * 8,
             *reinterpret_cast<const uint4*>(memory + row * 256 + ((chunk ^ (row & 7)) << 4)));
  }
}

}  // namespace

// The rows of rank `rank` are at shard, the other ranks' rows at gathered. The own rows come first, then chunks as they
// arrive: rank r sends its k-th chunk to r+1 first. Within a chunk the rows of tiles change fastest, so that columns of
// B stay in the cache.
extern "C" __global__ void __launch_bounds__(threads, 2)
    gathered(const uint16_t* shard, const uint16_t* gathered, const uint16_t* b, uint16_t* c, const uint32_t* flags,
             uint32_t* failed, uint32_t number, uint32_t rank, uint32_t ranks, uint32_t chunks, uint32_t rows,
             uint32_t K, uint32_t N) {
  const uint32_t tiles = rows / chunks / tileM, size = tiles * (N / tileN);
  const uint32_t chunk = blockIdx.x / size, inside = blockIdx.x % size;
  uint32_t source = rank, k = chunk;
  if (chunk >= chunks) {
    source = (rank + ranks - 1 - (chunk - chunks) % (ranks - 1)) % ranks, k = (chunk - chunks) / (ranks - 1);
    awaitFlag(flags + source * chunks + k, number, source, failed);
  }
  const uint64_t row = (k * tiles + inside % tiles) * tileM, at = static_cast<uint64_t>(source) * rows + row;
  const uint32_t column = inside / tiles * tileN;
  multiply(source == rank ? shard + row * K : gathered + at * K, b + column, c + at * N + column, K, N);
}

// The tiles of the next rank come first, the own ones last. A tile goes to slot `rank` at slots[owner]; thread 0
// releases what the block has stored, behind the barrier.
extern "C" __global__ void __launch_bounds__(threads, 2)
    scattered(const uint16_t* x, const uint16_t* w, uint16_t* const* slots, uint32_t* const* flags, uint32_t number,
              uint32_t rank, uint32_t ranks, uint32_t rows, uint32_t K, uint32_t N) {
  const uint32_t tiles = rows / tileM, size = tiles * (N / tileN), inside = blockIdx.x % size;
  const uint32_t owner = (rank + 1 + blockIdx.x / size) % ranks;
  const uint64_t row = inside % tiles * tileM;
  const uint32_t column = inside / tiles * tileN;
  multiply(x + (static_cast<uint64_t>(owner) * rows + row) * K, w + column,
           slots[owner] + (static_cast<uint64_t>(rank) * rows + row) * N + column, K, N);
  __syncthreads();
  if (threadIdx.x == 0) storeRelease<Scope::sys>(flags[owner] + rank * size + inside, number);
}

// A block adds one tile of all ranks, in rank order, in 32 bits.
extern "C" __global__ void __launch_bounds__(threads)
    reduced(const uint16_t* slots, uint16_t* out, const uint32_t* flags, uint32_t* failed, uint32_t number,
            uint32_t ranks, uint32_t rows, uint32_t N) {
  const uint32_t tiles = rows / tileM, size = tiles * (N / tileN), inside = blockIdx.x;
  for (uint32_t r = 0; r < ranks; ++r) awaitFlag(flags + r * size + inside, number, r, failed);
  for (uint32_t i = threadIdx.x; i < tileM * tileN / 8; i += threads) {
    const uint64_t at = (inside % tiles * tileM + (i >> 4)) * static_cast<uint64_t>(N) + inside / tiles * tileN +
                        (i & 15) * 8;
    Accumulator<Type::bfloat16, Op::sum> sum;
    sum.load(loadVec(slots + at));
    for (uint32_t r = 1; r < ranks; ++r) sum.add(loadVec(slots + static_cast<uint64_t>(r) * rows * N + at));
    storeVec(out + at, sum.result());
  }
}
