// Large messages by few blocks: ranks load from each other's send buffers and store to each other's receive buffers,
// where every rank has mapped both. Bulk copies bring whole chunks to shared memory, and no chunk waits for another
// rank.
//
//   all-reduce       a rank loads its slice from all ranks, adds, and stores the sum to all   (n−1)/n·N in and out
//   reduce-scatter   a rank loads its slice from all ranks and adds                           (n−1)/n·N in
//   reduce           as all-reduce, and the sum goes to the root only                         (n−1)/n·N in and out
//   moves            a rank stores its slices to the ranks that they are for                  (n−1)/n·N out
//
// Moves are all-gather, all-to-all, gather, scatter, and broadcast from a root that stores to all.
//
//   1. meet   each block tells the same block of every peer where this rank's buffers are for that peer, and waits for
//             theirs. If one rank has no such buffers, all ranks see that
//   2. work   in the buffers, or else in pieces: a block copies its chunks to its own window, meets its peers, works
//             in the windows, meets its peers again, and copies the results from its own window
//   3. meet   from then on the buffers may be overwritten
//
// Sums are in the order of the ranks, wherever the buffers are.
//
// A block has the same chunks of every slice in every phase, so it meets the same block of every peer only.
//
// # Lines
//
// For each block and peer there is a line in a window, which that peer writes: two addresses, how often it has met, and
// its factor of a pre-multiplied sum. A rank meets for the next time when all peers have met this time. So a peer may
// be one meeting ahead, and writes addresses again in its next launch only, after a meeting that follows the reading.
//
// Property, checked in every state of three ranks and launches (test/models, direct): all ranks of a launch take one
// way, a rank uses buffers only of peers that are in the same launch, and no rank waits for ever. Loads and stores need
// no peer's help, so only meetings can be given up.
//
// # Arguments
//
// As in args.cuh, with windows at the stream region and epochs for the counts of meetings. flagsOffset leads to the
// lines. slotBytes is what a piece has of a slice: 2·n·slotBytes bytes of a window are for inputs and results.
#pragma once

#include <collective/ring.cuh>
#include <goccl/bulk.cuh>

namespace goccl {
namespace collective {

constexpr uint32_t directLine = 128;          // bytes
constexpr uint32_t directShared = 192 << 10;  // bytes of dynamic shared memory
constexpr uint32_t directWords = 6 * maxRanks;
constexpr uint32_t directHelpers = 2 * pipeSignalers;  // threads of two warps: one thread loads, one stores
constexpr uint32_t directStages = 8;      // at most
constexpr uint32_t directSums = 4;        // chunks of sums on their way to the ranks
constexpr uint32_t pullBytes = 32 << 10;  // that come from all ranks at once
constexpr uint32_t pushChunk = 32 << 10;  // bytes

struct DirectArgs : Args {
  uint8_t* in[maxRanks];   // by rank: this rank's send buffer as that rank has mapped it, or null everywhere
  uint8_t* out[maxRanks];  // the same of the receive buffer
};
static_assert(sizeof(DirectArgs) == sizeof(Args) + 16 * maxRanks, "DirectArgs is filled by the host");

#if GOCCL_BULK
extern __shared__ __align__(128) uint8_t directMemory[];
#endif

struct CopyRange {
  const uint8_t* from;
  uint8_t* to;
  uint64_t bytes;
};

// copyRanges copies the block's chunks of ranges of up to `most` bytes. It is out of line because every kernel has it
// twice, and because it is for buffers that are not mapped.
GOCCL_COLD void copyRanges(const CopyRange* ranges, uint32_t count, uint64_t most, uint32_t size, uint32_t workers) {
  constexpr uint32_t flight = 4;
  for (uint64_t c = blockIdx.x; c * size < most; c += gridDim.x)
    for (uint32_t i = threadIdx.x * 16; i < size; i += workers * 16)
      for (uint32_t first = 0; first < count; first += flight) {
        const uint64_t at = c * size + i;
        auto left = [&](uint32_t k) {
          return k < count && at < ranges[k].bytes ? static_cast<uint32_t>(ranges[k].bytes - at) : 0;
        };
        uint4 v[flight];
#pragma unroll
        for (uint32_t k = 0; k < flight; ++k)
          if (const uint32_t n = left(first + k)) v[k] = loadAny(ranges[first + k].from + at, n, false);
#pragma unroll
        for (uint32_t k = 0; k < flight; ++k)
          if (const uint32_t n = left(first + k)) storeAny(ranges[first + k].to + at, n, v[k]);
      }
}

struct Direct {
  const DirectArgs& a;
  // Shared memory: of each rank, where its send and its receive buffer are here, and its factor; then CopyRanges.
  uint64_t* const told;
  uint64_t meetings;        // of this block, in all launches
  const uint32_t workers;

  static GOCCL_DEVICE uint64_t* words() {
    __shared__ uint64_t all[directWords];
    return all;
  }
  GOCCL_DEVICE explicit Direct(const DirectArgs& args)
      : a(args), told(words()), meetings(*counter()), workers(blockDim.x - directHelpers) {}

  GOCCL_DEVICE uint64_t* counter() const {
    return reinterpret_cast<uint64_t*>(a.epochs + blockIdx.x * epochStride) + 3;
  }
  GOCCL_DEVICE uint8_t* in(uint32_t r) const { return reinterpret_cast<uint8_t*>(told[3 * r]); }
  GOCCL_DEVICE uint8_t* out(uint32_t r) const { return reinterpret_cast<uint8_t*>(told[3 * r + 1]); }
  GOCCL_DEVICE uint8_t* inputs(uint32_t r) const { return a.window[r]; }
  GOCCL_DEVICE uint8_t* results(uint32_t r) const {
    return a.window[r] + static_cast<uint64_t>(a.nranks) * a.slotBytes;
  }
  // pullChunk is what comes from each rank at once: a power of two.
  GOCCL_DEVICE uint32_t pullChunk() const {
    uint32_t ranks = 2;
    while (ranks < a.nranks) ranks *= 2;
    return pullBytes / ranks;
  }
  // peer is the k-th rank after this one, 1 <= k <= n; the last is this one.
  GOCCL_DEVICE uint32_t peer(uint32_t k) const { return k == a.nranks ? a.rank : peerAt(a, k); }

  // line is the one that rank `by` writes at rank `at`.
  GOCCL_DEVICE uint64_t* line(uint32_t at, uint32_t by) const {
    return reinterpret_cast<uint64_t*>(a.window[at] + a.flagsOffset + (blockIdx.x * a.nranks + by) * directLine);
  }

  // meet publishes what the block has written to the same block of every peer, and the other way round. It is false
  // where a wait was given up. If it tells, the peers get the addresses, and the factor of a pre-multiplied sum.
  GOCCL_DEVICE bool meet(bool tells = false, uint64_t factor = 0) {
    const uint32_t r = threadIdx.x;
    const uint64_t number = ++meetings;
    Status s = statusOk;
    __syncthreads();
    if (r < a.nranks && r != a.rank) {
      uint64_t* there = line(r, a.rank);
      if (tells) {
        storeRelaxed<Scope::sys>(there, reinterpret_cast<uint64_t>(a.in[r]));
        storeRelaxed<Scope::sys>(there + 1, reinterpret_cast<uint64_t>(a.out[r]));
        storeRelaxed<Scope::sys>(there + 3, factor);
      }
      storeRelease<Scope::sys>(there + 2, number);
      const uint64_t* here = line(a.rank, r);
      s = waitUntil([&] { return loadAcquire<Scope::sys>(here + 2) >= number; }, a.abort, here + 2, waitPacket, -1, r);
      if (tells) {
        told[3 * r] = loadRelaxed<Scope::sys>(here);
        told[3 * r + 1] = loadRelaxed<Scope::sys>(here + 1);
        told[3 * r + 2] = loadRelaxed<Scope::sys>(here + 3);
      }
    }
    if (r == a.rank && tells) {
      told[3 * r] = reinterpret_cast<uint64_t>(a.in[r]);
      told[3 * r + 1] = reinterpret_cast<uint64_t>(a.out[r]);
      told[3 * r + 2] = factor;
    }
    return !__syncthreads_or(s != statusOk);
  }

  // mapped says whether every rank has mapped all buffers: the same on all ranks.
  GOCCL_DEVICE bool mapped() const {
    const uint32_t r = threadIdx.x;
    return !__syncthreads_or(r < a.nranks && (told[3 * r] == 0 || told[3 * r + 1] == 0));
  }
  // copy is what the block copies of `slices` ranges of bytes(i), at most slotBytes, from source(i) to target(i), of
  // any alignment.
  template <class Bytes, class Source, class Target>
  GOCCL_DEVICE void copy(uint32_t slices, Bytes bytes, Source source, Target target) const {
    const uint32_t r = threadIdx.x;
    CopyRange* const ranges = reinterpret_cast<CopyRange*>(told + 3 * maxRanks);
    __syncthreads();
    if (r < slices) ranges[r] = CopyRange{source(r), target(r), bytes(r)};
    __syncthreads();
    if (r < workers) copyRanges(ranges, slices, a.slotBytes, pullChunk(), workers);
  }
  // part is what a piece at an offset has of a slice of bytes.
  GOCCL_DEVICE uint64_t part(uint64_t bytes, uint64_t at) const {
    return at >= bytes ? 0 : bytes - at < a.slotBytes ? bytes - at : a.slotBytes;
  }

  // keep stores the count for the next launch. After a wait that was given up there is none.
  GOCCL_DEVICE void keep() const {
    if (threadIdx.x == 0) *counter() = meetings;
  }
};

}  // namespace collective
}  // namespace goccl
