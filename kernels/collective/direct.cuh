// Large messages by few blocks: ranks load from each other's send buffers and store to each other's receive buffers,
// where every rank has mapped both. Bulk copies bring whole chunks to shared memory, and no chunk waits for another
// rank.
//
//   all-reduce       a rank loads its slice from all ranks, adds, and stores the sum to all   (n−1)/n·N in and out
//   reduce-scatter   a rank loads its slice from all ranks and adds                           (n−1)/n·N in
//   all-gather       a rank stores its data to all ranks                                      (n−1)/n·N out
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
// For each block and peer there is a line in a window, which that peer writes: two addresses, and how often it has met.
// A rank meets for the next time when all peers have met this time. So a peer may be one meeting ahead, and writes
// addresses again in its next launch only, after a meeting that follows the reading.
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

#include <collective/reducer.cuh>
#include <collective/ring.cuh>
#include <goccl/bulk.cuh>

namespace goccl {
namespace collective {

constexpr uint32_t directLine = 128;          // bytes
constexpr uint32_t directShared = 192 << 10;  // bytes of dynamic shared memory
constexpr uint32_t directWords = 2 * maxRanks;
constexpr uint32_t directStages = 8;      // at most
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

// Chunks of `size` bytes of a range that one block has.
struct Chunks {
  const uint64_t bytes;
  const uint32_t size;
  GOCCL_DEVICE uint64_t end() const { return (bytes + size - 1) / size; }
  GOCCL_DEVICE uint32_t length(uint64_t c) const {
    return static_cast<uint32_t>(bytes - c * size < size ? bytes - c * size : size);
  }
};

struct Direct {
  const DirectArgs& a;
  uint64_t* const buffers;  // shared memory: of each rank, where its send and its receive buffer are here
  uint64_t meetings;        // of this block, in all launches
  const uint32_t workers;

  static GOCCL_DEVICE uint64_t* addresses() {
    __shared__ uint64_t words[directWords];
    return words;
  }
  GOCCL_DEVICE explicit Direct(const DirectArgs& args)
      : a(args), buffers(addresses()), meetings(*counter()), workers(blockDim.x - pipeSignalers) {}

  GOCCL_DEVICE uint64_t* counter() const {
    return reinterpret_cast<uint64_t*>(a.epochs + blockIdx.x * epochStride) + 3;
  }
  GOCCL_DEVICE uint8_t* in(uint32_t r) const { return reinterpret_cast<uint8_t*>(buffers[2 * r]); }
  GOCCL_DEVICE uint8_t* out(uint32_t r) const { return reinterpret_cast<uint8_t*>(buffers[2 * r + 1]); }
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
  // where a wait was given up.
  GOCCL_DEVICE bool meet(bool tells = false) {
    const uint32_t r = threadIdx.x;
    const uint64_t number = ++meetings;
    Status s = statusOk;
    __syncthreads();
    if (r < a.nranks && r != a.rank) {
      uint64_t* there = line(r, a.rank);
      if (tells) {
        storeRelaxed<Scope::sys>(there, reinterpret_cast<uint64_t>(a.in[r]));
        storeRelaxed<Scope::sys>(there + 1, reinterpret_cast<uint64_t>(a.out[r]));
      }
      storeRelease<Scope::sys>(there + 2, number);
      const uint64_t* here = line(a.rank, r);
      s = waitUntil([&] { return loadAcquire<Scope::sys>(here + 2) >= number; }, a.abort, here + 2, waitPacket, -1, r);
      if (tells) {
        buffers[2 * r] = loadRelaxed<Scope::sys>(here);
        buffers[2 * r + 1] = loadRelaxed<Scope::sys>(here + 1);
      }
    }
    if (r == a.rank && tells) {
      buffers[2 * r] = reinterpret_cast<uint64_t>(a.in[r]);
      buffers[2 * r + 1] = reinterpret_cast<uint64_t>(a.out[r]);
    }
    return !__syncthreads_or(s != statusOk);
  }

  // mapped says whether every rank has mapped all buffers: the same on all ranks.
  GOCCL_DEVICE bool mapped() const {
    const uint32_t r = threadIdx.x;
    return !__syncthreads_or(r < a.nranks && (buffers[2 * r] == 0 || buffers[2 * r + 1] == 0));
  }

  // sum adds the vectors at(r) of all ranks: Ranks of them, or any number if that is 0.
  template <uint32_t Ranks, class R, class At>
  GOCCL_DEVICE uint4 sum(const R& reducer, At at) const {
    typename R::Sum s;
    if constexpr (Ranks == 0) {
      reducer.begin(s, reducer.scaled(at(0)));
      for (uint32_t q = 1; q < a.nranks; ++q) reducer.add(s, reducer.scaled(at(q)));
    } else {
      uint4 v[Ranks];
#pragma unroll
      for (uint32_t q = 0; q < Ranks; ++q) v[q] = at(q);
      reducer.begin(s, reducer.scaled(v[0]));
#pragma unroll
      for (uint32_t q = 1; q < Ranks; ++q) reducer.add(s, reducer.scaled(v[q]));
    }
    return reducer.end(s);
  }

  // pull adds bytes of the slices from(r) of all ranks, and stores the sums to `to`, or, where All says so, to into(r)
  // of all ranks.
  template <class R, bool All, class From, class Into>
  GOCCL_DEVICE void pull(uint64_t bytes, From from, Into into, uint8_t* to) const {
    if (a.nranks == 2)
      pull<R, All, 2>(bytes, from, into, to);
    else if (a.nranks == 4)
      pull<R, All, 4>(bytes, from, into, to);
    else
      pull<R, All, 0>(bytes, from, into, to);
  }
  template <class R, bool All, uint32_t Ranks, class From, class Into>
  GOCCL_DEVICE void pull(uint64_t bytes, From from, Into into, uint8_t* to) const {
    const R reducer(a);
    const Chunks chunks{bytes, pullChunk()};
    const uint32_t size = chunks.size;
#if GOCCL_BULK
    __shared__ BulkBarrier full[directStages], empty[directStages];
    uint32_t stages = (directShared - (All ? 2 * size : 0)) / (a.nranks * size);
    stages = stages < directStages ? stages : directStages;
    uint8_t* const sums = directMemory + stages * a.nranks * size;
    auto wait = [](BulkBarrier& b, uint64_t lap) {
      spin([&] { return b.poll(lap & 1); }, [] { return statusOk; });  // a load ends by itself
    };
    __syncthreads();
    if (threadIdx.x == 0) {
      for (uint32_t i = 0; i < stages; ++i) full[i].init(), empty[i].init(workers / warpSize);
      fenceBarrierInit();
    }
    __syncthreads();
    uint64_t k = 0;
    if (threadIdx.x == workers) {
      fenceProxyAsync();
      for (uint64_t c = blockIdx.x; c < chunks.end(); c += gridDim.x, ++k) {
        const uint32_t s = static_cast<uint32_t>(k % stages);
        if (k >= stages) wait(empty[s], k / stages - 1);
        full[s].arriveAndExpect(a.nranks * chunks.length(c));
        for (uint32_t i = 1; i <= a.nranks; ++i) {
          const uint32_t q = peer(i);
          bulkLoad(directMemory + (s * a.nranks + q) * size, from(q) + c * size, chunks.length(c), &full[s]);
        }
      }
    }
    if (threadIdx.x < workers) {
      for (uint64_t c = blockIdx.x; c < chunks.end(); c += gridDim.x, ++k) {
        const uint32_t s = static_cast<uint32_t>(k % stages), length = chunks.length(c);
        uint8_t* const here = sums + (k & 1) * size;
        wait(full[s], k / stages);
        if (All && k >= 2) {
          if (threadIdx.x == 0) bulkWaitSource<1>();
          barrierOf(1, workers);
        }
        for (uint32_t i = threadIdx.x * 16; i < length; i += workers * 16) {
          const uint4 v = sum<Ranks>(reducer, [&](uint32_t q) {
            return *reinterpret_cast<const uint4*>(directMemory + (s * a.nranks + q) * size + i);
          });
          if (All)
            *reinterpret_cast<uint4*>(here + i) = v;
          else
            storeAny(to + c * size + i, length - i, v);
        }
        __syncwarp();
        if (threadIdx.x % warpSize == 0) empty[s].arrive();
        if (!All) continue;
        fenceProxyAsyncShared();
        barrierOf(1, workers);
        if (threadIdx.x != 0) continue;
        for (uint32_t i = 1; i <= a.nranks; ++i) bulkStore(into(peer(i)) + c * size, here, length);
        bulkCommit();
      }
      if (All && threadIdx.x == 0) bulkWait<0>();
    }
    __syncthreads();
    if (threadIdx.x == 0)
      for (uint32_t i = 0; i < stages; ++i) full[i].invalidate(), empty[i].invalidate();
#else
    if (threadIdx.x >= workers) return;
    for (uint64_t c = blockIdx.x; c < chunks.end(); c += gridDim.x)
      for (uint32_t i = threadIdx.x * 16; i < chunks.length(c); i += workers * 16) {
        const uint64_t at = c * size + i;
        const uint4 v = sum<Ranks>(reducer, [&](uint32_t q) { return loadVec(from(q) + at); });
        if (!All) storeAny(to + at, chunks.length(c) - i, v);
        for (uint32_t k = 1; All && k <= a.nranks; ++k) storeVec(into(peer(k)) + at, v);
      }
#endif
  }

  // push stores the send buffer to this rank's place in all receive buffers.
  GOCCL_DEVICE void push() const {
    const uint64_t place = a.rank * a.recvStride;
    const Chunks chunks{a.bytes, pushChunk};
    if (threadIdx.x < workers && a.recv + place != a.send)
      copyVectors(a.recv + place, a.send, a.bytes / 16, blockIdx.x * workers + threadIdx.x, gridDim.x * workers);
#if GOCCL_BULK
    if (threadIdx.x != workers) return;
    fenceProxyAsync();
    constexpr uint32_t stages = directShared / pushChunk;
    __shared__ BulkBarrier full[stages];
    for (BulkBarrier& b : full) b.init();
    fenceBarrierInit();
    uint64_t next = blockIdx.x, loaded = 0, k = 0;
    auto load = [&] {
      const uint32_t s = static_cast<uint32_t>(loaded++ % stages);
      full[s].arriveAndExpect(chunks.length(next));
      bulkLoad(directMemory + s * pushChunk, a.send + next * pushChunk, chunks.length(next), &full[s]);
      next += gridDim.x;
    };
    while (loaded < stages - 2 && next < chunks.end()) load();
    for (uint64_t c = blockIdx.x; c < chunks.end(); c += gridDim.x, ++k) {
      const uint32_t s = static_cast<uint32_t>(k % stages);
      spin([&] { return full[s].poll(k / stages & 1); }, [] { return statusOk; });
      for (uint32_t i = 1; i < a.nranks; ++i)
        bulkStore(out(peer(i)) + place + c * pushChunk, directMemory + s * pushChunk, chunks.length(c));
      bulkCommit();
      if (next >= chunks.end()) continue;
      bulkWaitSource<1>();
      load();
    }
    bulkWait<0>();
#else
    if (threadIdx.x >= workers) return;
    for (uint64_t c = blockIdx.x; c < chunks.end(); c += gridDim.x)
      for (uint32_t i = threadIdx.x * 16; i < chunks.length(c); i += workers * 16)
        for (uint32_t k = 1; k < a.nranks; ++k)
          storeVec(out(peer(k)) + place + c * pushChunk + i, loadVec(a.send + c * pushChunk + i));
#endif
  }

  // copy is what the block copies of `slices` ranges of bytes(i), from source(i) to target(i), of any alignment.
  template <class Bytes, class Source, class Target>
  GOCCL_DEVICE void copy(uint32_t slices, Bytes bytes, Source source, Target target) const {
    constexpr uint32_t flight = 4;
    if (threadIdx.x >= workers) return;
    const uint32_t size = pullChunk();
    for (uint64_t c = blockIdx.x; c * size < a.slotBytes; c += gridDim.x)
      for (uint32_t i = threadIdx.x * 16; i < size; i += workers * 16)
        for (uint32_t first = 0; first < slices; first += flight) {
          const uint64_t at = c * size + i;
          uint4 v[flight];
#pragma unroll
          for (uint32_t k = 0; k < flight; ++k)
            if (first + k < slices && at < bytes(first + k)) v[k] = loadAny(source(first + k) + at, 16, false);
#pragma unroll
          for (uint32_t k = 0; k < flight; ++k)
            if (first + k < slices && at < bytes(first + k)) storeAny(target(first + k) + at, 16, v[k]);
        }
  }

  // pieces calls work(offset) for each piece of slices of bytes, until it is false.
  template <class Work>
  GOCCL_DEVICE void pieces(uint64_t bytes, Work work) const {
    for (uint64_t at = 0; at < bytes; at += a.slotBytes)
      if (!work(at)) return;
  }
  // part is what a piece at an offset has of a slice of bytes.
  GOCCL_DEVICE uint64_t part(uint64_t bytes, uint64_t at) const {
    return at >= bytes ? 0 : bytes - at < a.slotBytes ? bytes - at : a.slotBytes;
  }

  // reduce sums slices that lie sendStride bytes apart, all of them to all ranks, or each to its owner.
  template <class R, bool All>
  GOCCL_DEVICE void reduce() {
    // slice is how long rank r's slice is.
    auto slice = [&](uint32_t r) {
      const uint64_t first = r * a.sendStride, left = a.bytes > first ? a.bytes - first : 0;
      return !All ? a.bytes : left < a.sendStride ? left : a.sendStride;
    };
    const uint64_t mine = a.rank * a.sendStride;
    if (!meet(true)) return;
    if (mapped()) {
      pull<R, All>(slice(a.rank), [&](uint32_t r) { return in(r) + mine; }, [&](uint32_t r) { return out(r) + mine; },
                   a.recv);
      meet();
    } else {
      const uint64_t own = static_cast<uint64_t>(a.rank) * a.slotBytes;
      pieces(slice(0), [&](uint64_t at) {
        auto bytes = [&](uint32_t r) { return part(slice(r), at); };
        copy(a.nranks, bytes, [&](uint32_t r) { return a.send + r * a.sendStride + at; },
             [&](uint32_t r) { return inputs(a.rank) + static_cast<uint64_t>(r) * a.slotBytes; });
        if (!meet()) return false;
        pull<R, All>(bytes(a.rank), [&](uint32_t r) { return inputs(r) + own; },
                     [&](uint32_t r) { return results(r) + own; }, a.recv + at);
        if (!meet()) return false;
        if (All)
          copy(a.nranks, bytes, [&](uint32_t r) { return results(a.rank) + static_cast<uint64_t>(r) * a.slotBytes; },
               [&](uint32_t r) { return a.recv + r * a.sendStride + at; });
        return true;
      });
    }
    keep();
  }

  GOCCL_DEVICE void gather() {
    if (!meet(true)) return;
    if (mapped()) {
      push();
      meet();
    } else {
      pieces(a.bytes, [&](uint64_t at) {
        auto bytes = [&](uint32_t) { return part(a.bytes, at); };
        copy(1, bytes, [&](uint32_t) { return a.send + at; }, [&](uint32_t) { return inputs(a.rank); });
        if (!meet()) return false;
        copy(a.nranks, bytes, [&](uint32_t r) { return inputs(r); },
             [&](uint32_t r) { return a.recv + r * a.recvStride + at; });
        return meet();
      });
    }
    keep();
  }

  // keep stores the count for the next launch. After a wait that was given up there is none.
  GOCCL_DEVICE void keep() const {
    if (threadIdx.x == 0) *counter() = meetings;
  }
};

}  // namespace collective
}  // namespace goccl
