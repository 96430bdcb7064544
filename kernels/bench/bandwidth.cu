// Bandwidth kernels, timed from outside by events.
//
// Bulk variants run with one issuing thread per block (32 threads are enough) and BulkPipe::sharedBytes(chunk, stages)
// of dynamic shared memory; on a device without bulk copies they set *status to statusInvalid. Sizes of bulk variants
// are multiples of 16.
#include <goccl/bulk.cuh>
#include <goccl/memory_channel.cuh>
#include <goccl/port_channel.cuh>

using namespace goccl;

static GOCCL_DEVICE uint64_t gridThread() { return blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x; }
static GOCCL_DEVICE uint64_t gridThreads() { return static_cast<uint64_t>(gridDim.x) * blockDim.x; }

// measure_put pushes bytes to one peer with plain stores.
extern "C" __global__ void __launch_bounds__(512, 1) measure_put(MemoryChannelHandle* channel, uint64_t bytes) {
  MemoryChannelHandle ch = *channel;
  copyBytes(ch.dst, ch.src, bytes, gridThread(), gridThreads());
}

// measure_get pulls bytes from one peer with plain loads.
extern "C" __global__ void __launch_bounds__(512, 1) measure_get(MemoryChannelHandle* channel, uint64_t bytes) {
  MemoryChannelHandle ch = *channel;
  copyBytes(ch.src, ch.dst, bytes, gridThread(), gridThreads());
}

// measure_put_bulk pushes bytes to one peer with bulk copies.
extern "C" __global__ void measure_put_bulk(MemoryChannelHandle* channel, uint64_t bytes, uint32_t chunk,
                                            uint32_t stages, uint32_t* status) {
#if GOCCL_BULK
  extern __shared__ __align__(128) uint8_t shared[];
  if (threadIdx.x != 0) return;
  MemoryChannelHandle ch = *channel;
  BulkPipe pipe;
  pipe.init(shared, chunk, stages, ch.semaphore.abort);
  Status s = pipe.copy(ch.dst, ch.src, bytes, blockIdx.x, gridDim.x);
  pipe.finish();
  if (s != statusOk || blockIdx.x == 0) *status = s;
#else
  *status = statusInvalid;
#endif
}

// pushAll writes src's slice p to slice rank of every peer p: each thread strides over the peers, next rank first, so
// that no receiver is everybody's target.
template <uint32_t N>
static GOCCL_DEVICE void pushAll(MemoryChannelHandle* channels, uint32_t rank, uint32_t nranks, uint64_t bytes) {
  constexpr uint32_t peers = N - 1;
  uint8_t* to[peers];
  const uint8_t* from[peers];
#pragma unroll
  for (uint32_t k = 0; k < peers; ++k) {
    uint32_t p = (rank + 1 + k) % N;
    to[k] = channels[p].dst + bytes * rank;
    from[k] = channels[p].src + bytes * p;
  }
  for (uint64_t i = gridThread(); i < bytes / 16; i += gridThreads()) {
    uint4 v[peers];
#pragma unroll
    for (uint32_t k = 0; k < peers; ++k) v[k] = loadVec(from[k] + i * 16);
#pragma unroll
    for (uint32_t k = 0; k < peers; ++k) storeVec(to[k] + i * 16, v[k]);
  }
}

// measure_all_to_all sends bytes (a multiple of 16) to each peer with plain stores; channels[rank] is not used.
extern "C" __global__ void __launch_bounds__(512, 1)
    measure_all_to_all(MemoryChannelHandle* channels, uint32_t rank, uint32_t nranks, uint64_t bytes) {
  switch (nranks) {
    case 2:
      return pushAll<2>(channels, rank, nranks, bytes);
    case 4:
      return pushAll<4>(channels, rank, nranks, bytes);
    case 8:
      return pushAll<8>(channels, rank, nranks, bytes);
  }
  for (uint64_t i = gridThread(); i < bytes / 16; i += gridThreads())
    for (uint32_t k = 1; k < nranks; ++k) {
      uint32_t p = (rank + k) % nranks;
      storeVec(channels[p].dst + bytes * rank + i * 16, loadVec(channels[p].src + bytes * p + i * 16));
    }
}

constexpr uint32_t flagsPerBlock =
    64;  // words: 32 for the ranks, then the block's base; no two blocks share a cache line

// measure_all_to_all_bulk sends bytes to each peer with bulk copies, as a sequence of permutations in lock-step.
//
//   1. step k: every rank sends to rank + k, so each rank has one sender and one receiver;
//   2. block b of each rank signals block b of every other when its step is over, and begins the next when all have;
//   3. the count goes on from launch to launch in flags[rank][block][32].
//
// flags[r] is rank r's array of flagsPerBlock words per block, zeroed once, mapped here; at most 32 ranks. It is flow
// control only: no data is published.
extern "C" __global__ void measure_all_to_all_bulk(MemoryChannelHandle* channels, uint32_t** flags, uint32_t rank,
                                                   uint32_t nranks, uint64_t bytes, uint32_t chunk, uint32_t stages,
                                                   AbortBlock* abort, uint32_t* status) {
#if GOCCL_BULK
  extern __shared__ __align__(128) uint8_t shared[];
  if (threadIdx.x != 0) return;
  BulkPipe pipe;
  pipe.init(shared, chunk, stages, abort);
  uint32_t* mine = flags[rank] + blockIdx.x * flagsPerBlock;
  uint32_t base = mine[32];
  Status s = statusOk;
  for (uint32_t k = 1; k < nranks && s == statusOk; ++k) {
    uint32_t p = (rank + k) % nranks;
    s = pipe.copy(channels[p].dst + bytes * rank, channels[p].src + bytes * p, bytes, blockIdx.x, gridDim.x);
    pipe.finish();
    for (uint32_t j = 1; j < nranks; ++j)
      storeRelaxed<Scope::sys>(flags[(rank + j) % nranks] + blockIdx.x * flagsPerBlock + rank, base + k);
    for (uint32_t j = 1; j < nranks && s == statusOk; ++j) {
      uint32_t from = (rank + j) % nranks;
      s = waitUntil([&] { return static_cast<int32_t>(loadRelaxed<Scope::sys>(mine + from) - (base + k)) >= 0; }, abort,
                    mine + from, waitBulk, -1, from);
    }
  }
  mine[32] = base + nranks - 1;
  if (s != statusOk || blockIdx.x == 0) *status = s;
#else
  *status = statusInvalid;
#endif
}

// measure_port_put puts bytes iterations times through the proxy and flushes once; one thread.
extern "C" __global__ void measure_port_put(PortChannelHandle* channel, uint64_t bytes, uint32_t iterations,
                                            uint32_t* status) {
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  PortChannelHandle ch = *channel;
  Status s = statusOk;
  for (uint32_t i = 0; i < iterations && s == statusOk; ++i) s = ch.put(0, bytes);
  if (s == statusOk) s = ch.flush();
  *status = s;
}
