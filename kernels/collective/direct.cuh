// Large messages by few blocks: ranks load from each other's send buffers and store to each other's receive buffers,
// where every rank has mapped both. Bulk copies bring whole chunks to shared memory, and no chunk waits for another
// rank.
//
//   all-reduce       a rank loads its slice from all ranks, adds, and stores the sum to all   (n−1)/n·N in and out
//   reduce-scatter   a rank loads its slice from all ranks and adds                           (n−1)/n·N in
//   moves            a rank stores its slices to the ranks that they are for                  (n−1)/n·N out
//
// Moves are all-gather, all-to-all, gather, scatter, and broadcast from a root that stores to all. What all ranks get is
// loaded once. Otherwise a rank stores to one rank after another, the next one first, so that ranks do not collide.
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
//
// Sizes are any. Buffers count as mapped only where their addresses and strides are multiples of 16, and a move between
// slices of one buffer (all-to-all in place) goes through the windows. Of a slice that does not end with a vector, the
// last bytes go by plain stores; loads read the whole vector.
//
// Moves with a root, as args.cuh has them: slices go to the root if recvStride is not 0, else from it.
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
  // vectors is the length in whole vectors, the last one included.
  GOCCL_DEVICE uint32_t vectors(uint64_t c) const { return (length(c) + 15) & ~15u; }
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
  // locate makes in(r) and out(r) lead to this rank's slice, in the buffers or in the windows.
  GOCCL_DEVICE void locate(bool inPlace, uint64_t slice) const {
    const uint32_t r = threadIdx.x;
    if (r < a.nranks) {
      const uint64_t own = static_cast<uint64_t>(a.rank) * a.slotBytes;
      buffers[2 * r] = inPlace ? buffers[2 * r] + slice : reinterpret_cast<uint64_t>(inputs(r) + own);
      buffers[2 * r + 1] = inPlace ? buffers[2 * r + 1] + slice : reinterpret_cast<uint64_t>(results(r) + own);
    }
    __syncthreads();
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

  // pull adds bytes of the slices in(r) of all ranks, and stores the sums to `to`, or, where All says so, to out(r) of
  // all ranks.
  template <class R, bool All>
  GOCCL_DEVICE void pull(uint64_t bytes, uint8_t* to) const {
    if (a.nranks == 2)
      pull<R, All, 2>(bytes, to);
    else if (a.nranks == 4)
      pull<R, All, 4>(bytes, to);
    else
      pull<R, All, 0>(bytes, to);
  }
  template <class R, bool All, uint32_t Ranks>
  GOCCL_DEVICE void pull(uint64_t bytes, uint8_t* to) const {
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
        full[s].arriveAndExpect(a.nranks * chunks.vectors(c));
        for (uint32_t i = 1; i <= a.nranks; ++i) {
          const uint32_t q = peer(i);
          bulkLoad(directMemory + (s * a.nranks + q) * size, in(q) + c * size, chunks.vectors(c), &full[s]);
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
          if (!All)
            storeAny(to + c * size + i, length - i, v);
          else if (length - i >= 16)
            *reinterpret_cast<uint4*>(here + i) = v;
          else
            storeEdge(c * size + i, length - i, v);
        }
        __syncwarp();
        if (threadIdx.x % warpSize == 0) empty[s].arrive();
        if (!All) continue;
        fenceProxyAsyncShared();
        barrierOf(1, workers);
        if (threadIdx.x != 0 || length < 16) continue;
        for (uint32_t i = 1; i <= a.nranks; ++i) bulkStore(out(peer(i)) + c * size, here, length & ~15u);
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
        const uint4 v = sum<Ranks>(reducer, [&](uint32_t q) { return loadVec(in(q) + at); });
        if (All)
          storeEdge(at, chunks.length(c) - i, v);
        else
          storeAny(to + at, chunks.length(c) - i, v);
      }
#endif
  }
  // storeEdge stores the first bytes of a vector to out(r) of all ranks.
  GOCCL_DEVICE void storeEdge(uint64_t at, uint32_t bytes, const uint4& v) const {
    for (uint32_t k = 1; k <= a.nranks; ++k) storeAny(out(peer(k)) + at, bytes, v);
  }

  // goes says whether a move takes something from one rank to another.
  GOCCL_DEVICE bool goes(uint32_t from, uint32_t to) const {
    return a.root == everyone || a.root == (a.recvStride != 0 ? to : from);
  }

  // push stores this rank's slices to their ranks' receive buffers.
  GOCCL_DEVICE void push() const {
    const uint64_t place = a.rank * a.recvStride;
    auto from = [&](uint32_t r) { return a.send + r * a.sendStride; };
    constexpr uint64_t left = hasBulk ? 15 : ~uint64_t{0};  // the part of a size that bulk copies leave
    if (threadIdx.x < workers) {
      const uint64_t thread = blockIdx.x * workers + threadIdx.x, threads = gridDim.x * workers;
      if (goes(a.rank, a.rank) && a.recv + place != from(a.rank))
        copyBytes(a.recv + place, from(a.rank), a.bytes, thread, threads);
      for (uint64_t i = (a.bytes & ~left) + thread * 16; i < a.bytes; i += threads * 16) {
        const uint32_t n = a.bytes - i < 16 ? static_cast<uint32_t>(a.bytes - i) : 16;
        for (uint32_t k = 1; k < a.nranks; ++k)
          if (goes(a.rank, peer(k))) storeAny(out(peer(k)) + place + i, n, loadAny(from(peer(k)) + i, n, false));
      }
    }
#if GOCCL_BULK
    const Chunks chunks{a.bytes & ~left, pushChunk};
    const bool same = a.sendStride == 0;
    const bool sends = a.root == everyone || (a.root == a.rank) == (a.recvStride == 0);
    if (threadIdx.x != workers || !sends || blockIdx.x >= chunks.end()) return;
    fenceProxyAsync();
    constexpr uint32_t stages = directShared / pushChunk;
    __shared__ BulkBarrier full[stages];
    for (BulkBarrier& b : full) b.init();
    fenceBarrierInit();
    // A turn is a chunk for the k-th rank after this one, or for all.
    struct Turn {
      uint32_t k;
      uint64_t chunk;
    };
    auto follow = [&](Turn& t) {
      if ((t.chunk += gridDim.x) >= chunks.end()) t = Turn{t.k + 1, blockIdx.x};
    };
    const uint32_t end = same ? 2 : a.nranks;
    Turn next{1, blockIdx.x};
    uint64_t loaded = 0, stored = 0;
    auto load = [&] {
      const uint32_t s = static_cast<uint32_t>(loaded++ % stages), length = chunks.length(next.chunk);
      full[s].arriveAndExpect(length);
      bulkLoad(directMemory + s * pushChunk, from(peer(next.k)) + next.chunk * pushChunk, length, &full[s]);
      follow(next);
    };
    while (loaded < stages - 2 && next.k < end) load();
    for (Turn t{1, blockIdx.x}; t.k < end; follow(t), ++stored) {
      const uint32_t s = static_cast<uint32_t>(stored % stages);
      spin([&] { return full[s].poll(stored / stages & 1); }, [] { return statusOk; });
      for (uint32_t k = t.k; k < (same ? a.nranks : t.k + 1); ++k)
        if (goes(a.rank, peer(k)))
          bulkStore(out(peer(k)) + place + t.chunk * pushChunk, directMemory + s * pushChunk, chunks.length(t.chunk));
      bulkCommit();
      if (next.k >= end) continue;
      bulkWaitSource<1>();
      load();
    }
    bulkWait<0>();
#endif
  }

  // copy is what the block copies of `slices` ranges of bytes(i), at most slotBytes, from source(i) to target(i), of any
  // alignment.
  template <class Bytes, class Source, class Target>
  GOCCL_DEVICE void copy(uint32_t slices, Bytes bytes, Source source, Target target) const {
    constexpr uint32_t flight = 4;
    if (threadIdx.x >= workers) return;
    const uint32_t size = pullChunk();
    for (uint64_t c = blockIdx.x; c * size < a.slotBytes; c += gridDim.x)
      for (uint32_t i = threadIdx.x * 16; i < size; i += workers * 16)
        for (uint32_t first = 0; first < slices; first += flight) {
          const uint64_t at = c * size + i;
          auto left = [&](uint32_t k) { return k < slices && at < bytes(k) ? static_cast<uint32_t>(bytes(k) - at) : 0; };
          uint4 v[flight];
#pragma unroll
          for (uint32_t k = 0; k < flight; ++k)
            if (const uint32_t n = left(first + k)) v[k] = loadAny(source(first + k) + at, n, false);
#pragma unroll
          for (uint32_t k = 0; k < flight; ++k)
            if (const uint32_t n = left(first + k)) storeAny(target(first + k) + at, n, v[k]);
        }
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
    if (!meet(true)) return;
    const bool inPlace = mapped();
    locate(inPlace, a.rank * a.sendStride);
    for (uint64_t at = 0; at < slice(0); at += inPlace ? slice(0) : a.slotBytes) {
      auto bytes = [&](uint32_t r) { return part(slice(r), at); };
      auto slot = [&](uint8_t* first, uint32_t r) { return first + static_cast<uint64_t>(r) * a.slotBytes; };
      if (!inPlace) {
        copy(a.nranks, bytes, [&](uint32_t r) { return a.send + r * a.sendStride + at; },
             [&](uint32_t r) { return slot(inputs(a.rank), r); });
        if (!meet()) return;
      }
      pull<R, All>(inPlace ? slice(a.rank) : bytes(a.rank), a.recv + at);
      if (!meet()) return;
      if (All && !inPlace)
        copy(a.nranks, bytes, [&](uint32_t r) { return slot(results(a.rank), r); },
             [&](uint32_t r) { return a.recv + r * a.sendStride + at; });
    }
    keep();
  }

  GOCCL_DEVICE void move() {
    if (!meet(true)) return;
    if (mapped()) {
      push();
      if (!meet()) return;
      return keep();
    }
    // A window has one slot for all ranks, or one for each.
    const bool same = a.sendStride == 0;
    for (uint64_t at = 0; at < a.bytes; at += a.slotBytes) {
      auto bytes = [&](uint32_t from, uint32_t to) { return goes(from, to) ? part(a.bytes, at) : 0; };
      copy(same ? 1 : a.nranks, [&](uint32_t r) { return bytes(a.rank, same && a.recvStride != 0 ? a.root : r); },
           [&](uint32_t r) { return a.send + r * a.sendStride + at; },
           [&](uint32_t r) { return inputs(a.rank) + static_cast<uint64_t>(r) * a.slotBytes; });
      if (!meet()) return;
      const uint64_t own = same ? 0 : static_cast<uint64_t>(a.rank) * a.slotBytes;
      copy(a.nranks, [&](uint32_t r) { return bytes(r, a.rank); }, [&](uint32_t r) { return inputs(r) + own; },
           [&](uint32_t r) { return a.recv + r * a.recvStride + at; });
      if (!meet()) return;
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
