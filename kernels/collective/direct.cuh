// Large messages in place: ranks load from the peers' send buffers, or store to their receive buffers, where every rank
// has mapped both. Few blocks fill the links: bulk copies bring whole chunks to shared memory, and no chunk waits for
// another rank.
//
//   all-reduce       a rank loads its slice from all ranks, adds, and stores the sum to all   (n−1)/n·N in and out
//   reduce-scatter   a rank loads its slice from all ranks and adds                           (n−1)/n·N in
//   all-gather       a rank stores its data to all ranks                                      (n−1)/n·N out
//
//   1. meet   each block tells the same block of every peer where this rank's buffers are for that peer, and waits for
//             theirs. If one rank has no such buffers, all ranks see that, and the ring does the work (ring.cuh)
//   2. work
//   3. part   each block waits until the same block of every peer has done its work: from then on buffers may be
//             overwritten
//
// Sums have the order of the ring's, so the bits do not depend on where buffers are: around the ring from the owner's
// successor on (ring.cuh), or backwards from the owner on (ring_fold.cuh).
//
// # Lines
//
// For each block and peer there is a line in a window, which that peer writes: two addresses and the number of the
// launch when it meets, and that number again when it parts. A block ends when every peer's block has read its line:
// they have parted, or have sent what the ring brings from every rank. So its next launch may write the line again.
//
// Property, checked in every state of three ranks and launches (test/models, direct): all ranks of a launch take one
// way, a rank uses buffers only of peers that are in the same launch, and no rank waits for ever. Loads and stores need
// no peer's help, so only meeting and parting can be given up.
#pragma once

#include <collective/reducer.cuh>
#include <goccl/bulk.cuh>
#include <goccl/copy.cuh>
#include <goccl/pipe.cuh>

namespace goccl {
namespace collective {

constexpr uint32_t directLine = 128;          // bytes: addresses and number at 0, the number again at 64
constexpr uint32_t directShared = 192 << 10;  // bytes of dynamic shared memory
constexpr uint32_t directWords = 2 * maxRanks;
constexpr uint32_t directStages = 8;      // at most
constexpr uint32_t pullBytes = 8 << 10;   // of a slice that come from each of few ranks at once
constexpr uint32_t pushChunk = 32 << 10;  // bytes

// pullChunk is how much of a slice comes from each rank at once.
GOCCL_DEVICE uint32_t pullChunk(uint32_t ranks) { return ranks <= 4 ? pullBytes : pullBytes / 2; }

struct DirectArgs : Args {
  uint8_t* in[maxRanks];   // by rank: this rank's send buffer as that rank has mapped it, or null everywhere
  uint8_t* out[maxRanks];  // the same of the receive buffer
  uint64_t meetOffset;     // where the lines begin in a window; 0: no rank has such buffers
};
static_assert(sizeof(DirectArgs) == sizeof(Args) + 16 * maxRanks + 8, "DirectArgs is filled by the host");

#if GOCCL_BULK
extern __shared__ __align__(128) uint8_t directMemory[];
#endif

struct Direct {
  enum Outcome { inPlace, elsewhere, ended };

  const DirectArgs& a;
  uint64_t* const buffers;  // shared memory: of each rank, where its send and its receive buffer are here
  const uint64_t number;    // of this launch of the block

  static GOCCL_DEVICE uint64_t* addresses() {
    __shared__ uint64_t words[directWords];
    return words;
  }
  GOCCL_DEVICE explicit Direct(const DirectArgs& args) : a(args), buffers(addresses()), number(*counter() + 1) {}

  GOCCL_DEVICE uint64_t* counter() const {
    return reinterpret_cast<uint64_t*>(a.epochs + blockIdx.x * epochStride) + 3;
  }
  GOCCL_DEVICE uint8_t* in(uint32_t r) const { return reinterpret_cast<uint8_t*>(buffers[2 * r]); }
  GOCCL_DEVICE uint8_t* out(uint32_t r) const { return reinterpret_cast<uint8_t*>(buffers[2 * r + 1]); }
  GOCCL_DEVICE uint32_t workers() const { return blockDim.x - pipeSignalers; }

  // line is the one that rank `by` writes at rank `at`.
  GOCCL_DEVICE uint64_t* line(uint32_t at, uint32_t by) const {
    return reinterpret_cast<uint64_t*>(a.window[at] + a.meetOffset + (blockIdx.x * a.nranks + by) * directLine);
  }
  GOCCL_DEVICE Status await(const uint64_t* word, uint32_t peer) const {
    return waitUntil([&] { return loadAcquire<Scope::sys>(word) == number; }, a.abort, word, waitPacket, -1, peer);
  }

  // meet returns the same on all ranks, unless a wait was given up.
  GOCCL_DEVICE Outcome meet() {
    const uint32_t r = threadIdx.x;
    Status s = statusOk;
    bool unknown = false;
    if (r < a.nranks) {
      uint64_t in = reinterpret_cast<uint64_t>(a.in[r]), out = reinterpret_cast<uint64_t>(a.out[r]);
      if (r != a.rank) {
        uint64_t* there = line(r, a.rank);
        storeRelaxed<Scope::sys>(there, in);
        storeRelaxed<Scope::sys>(there + 1, out);
        storeRelease<Scope::sys>(there + 2, number);
        const uint64_t* here = line(a.rank, r);
        s = await(here + 2, r);
        in = loadRelaxed<Scope::sys>(here);
        out = loadRelaxed<Scope::sys>(here + 1);
      }
      buffers[2 * r] = in;
      buffers[2 * r + 1] = out;
      unknown = in == 0 || out == 0;
    }
    if (__syncthreads_or(s != statusOk)) return ended;
    if (threadIdx.x == 0) *counter() = number;
    return __syncthreads_or(unknown) ? elsewhere : inPlace;
  }

  GOCCL_DEVICE void part() const {
    const uint32_t r = threadIdx.x;
    __syncthreads();
    if (r >= a.nranks || r == a.rank) return;
    storeRelease<Scope::sys>(line(r, a.rank) + 8, number);
    await(line(a.rank, r) + 8, r);
  }

  // sum adds the vectors at(r) of all ranks.
  template <class R, bool Backwards, class At>
  GOCCL_DEVICE uint4 sum(const R& reducer, At at) const {
    typename R::Sum s;
    uint32_t q = a.rank;
    if (!Backwards) q = q + 1 == a.nranks ? 0 : q + 1;
    for (uint32_t j = 0; j < a.nranks; ++j) {
      const uint4 v = reducer.scaled(at(q));
      if (j == 0)
        reducer.begin(s, v);
      else
        reducer.add(s, v);
      if (Backwards)
        q = q == 0 ? a.nranks - 1 : q - 1;
      else
        q = q + 1 == a.nranks ? 0 : q + 1;
    }
    return reducer.end(s);
  }

  // pull adds this rank's slice, of `mine` bytes from `first` on in the send buffers, and stores the sums to `to`, or,
  // where All says so, to the same place in all receive buffers.
  template <class R, bool Backwards, bool All>
  GOCCL_DEVICE void pull(uint64_t first, uint64_t mine, uint8_t* to) const {
    const R reducer(a);
    const uint32_t size = pullChunk(a.nranks), threads = workers();
    const uint64_t chunks = (mine + size - 1) / size;
    auto length = [&](uint64_t c) { return static_cast<uint32_t>(mine - c * size < size ? mine - c * size : size); };
#if GOCCL_BULK
    __shared__ BulkBarrier full[directStages], empty[directStages];
    uint32_t stages = (directShared - (All ? 2 * size : 0)) / (a.nranks * size);
    stages = stages < directStages ? stages : directStages;
    uint8_t* const sums = directMemory + stages * a.nranks * size;
    auto wait = [](BulkBarrier& b, uint64_t lap) {
      spin([&] { return b.poll(lap & 1); }, [] { return statusOk; });  // a load ends by itself
    };
    if (threadIdx.x == 0) {
      for (uint32_t i = 0; i < stages; ++i) full[i].init(), empty[i].init(threads / warpSize);
      fenceBarrierInit();
    }
    __syncthreads();
    if (threadIdx.x == threads) {
      fenceProxyAsync();
      uint64_t k = 0;
      for (uint64_t c = blockIdx.x; c < chunks; c += gridDim.x, ++k) {
        const uint32_t s = static_cast<uint32_t>(k % stages);
        if (k >= stages) wait(empty[s], k / stages - 1);
        full[s].arriveAndExpect(a.nranks * length(c));
        for (uint32_t i = 1; i <= a.nranks; ++i) {
          const uint32_t q = i == a.nranks ? a.rank : peerAt(a, i);
          bulkLoad(directMemory + (s * a.nranks + q) * size, in(q) + first + c * size, length(c), &full[s]);
        }
      }
    }
    if (threadIdx.x >= threads) return;
    uint64_t k = 0;
    for (uint64_t c = blockIdx.x; c < chunks; c += gridDim.x, ++k) {
      const uint32_t s = static_cast<uint32_t>(k % stages), bytes = length(c);
      uint8_t* const here = sums + (k & 1) * size;
      wait(full[s], k / stages);
      if (All && k >= 2) {
        if (threadIdx.x == 0) bulkWaitSource<1>();
        barrierOf(1, threads);
      }
      for (uint32_t i = threadIdx.x * 16; i < bytes; i += threads * 16) {
        const uint4 v = sum<R, Backwards>(reducer, [&](uint32_t q) {
          return *reinterpret_cast<const uint4*>(directMemory + (s * a.nranks + q) * size + i);
        });
        if (All)
          *reinterpret_cast<uint4*>(here + i) = v;
        else
          storeVec(to + c * size + i, v);
      }
      __syncwarp();
      if (threadIdx.x % warpSize == 0) empty[s].arrive();
      if (!All) continue;
      fenceProxyAsync();
      barrierOf(1, threads);
      if (threadIdx.x != 0) continue;
      for (uint32_t i = 1; i <= a.nranks; ++i)
        bulkStore(out(i == a.nranks ? a.rank : peerAt(a, i)) + first + c * size, here, bytes);
      bulkCommit();
    }
    if (All && threadIdx.x == 0) bulkWait<0>();
#else
    if (threadIdx.x >= threads) return;
    for (uint64_t c = blockIdx.x; c < chunks; c += gridDim.x)
      for (uint32_t i = threadIdx.x * 16; i < length(c); i += threads * 16) {
        const uint64_t at = c * size + i;
        const uint4 v = sum<R, Backwards>(reducer, [&](uint32_t q) { return loadVec(in(q) + first + at); });
        if (!All) storeVec(to + at, v);
        for (uint32_t k = 1; All && k <= a.nranks; ++k)
          storeVec(out(k == a.nranks ? a.rank : peerAt(a, k)) + first + at, v);
      }
#endif
  }

  // push stores the send buffer to this rank's place in all receive buffers.
  GOCCL_DEVICE void push() const {
    const uint64_t place = a.rank * a.recvStride, chunks = (a.bytes + pushChunk - 1) / pushChunk;
    const uint32_t threads = workers();
    auto length = [&](uint64_t c) {
      return static_cast<uint32_t>(a.bytes - c * pushChunk < pushChunk ? a.bytes - c * pushChunk : pushChunk);
    };
    if (threadIdx.x < threads && a.recv + place != a.send)
      copyVectors(a.recv + place, a.send, a.bytes / 16, blockIdx.x * threads + threadIdx.x, gridDim.x * threads);
#if GOCCL_BULK
    if (threadIdx.x != threads) return;
    fenceProxyAsync();
    constexpr uint32_t stages = directShared / pushChunk;
    __shared__ BulkBarrier full[stages];
    for (BulkBarrier& b : full) b.init();
    fenceBarrierInit();
    uint64_t next = blockIdx.x, loaded = 0, k = 0;
    auto load = [&] {
      const uint32_t s = static_cast<uint32_t>(loaded++ % stages);
      full[s].arriveAndExpect(length(next));
      bulkLoad(directMemory + s * pushChunk, a.send + next * pushChunk, length(next), &full[s]);
      next += gridDim.x;
    };
    while (loaded < stages - 2 && next < chunks) load();
    for (uint64_t c = blockIdx.x; c < chunks; c += gridDim.x, ++k) {
      const uint32_t s = static_cast<uint32_t>(k % stages);
      spin([&] { return full[s].poll(k / stages & 1); }, [] { return statusOk; });
      for (uint32_t i = 1; i < a.nranks; ++i)
        bulkStore(out(peerAt(a, i)) + place + c * pushChunk, directMemory + s * pushChunk, length(c));
      bulkCommit();
      if (next >= chunks) continue;
      bulkWaitSource<1>();
      load();
    }
    bulkWait<0>();
#else
    if (threadIdx.x >= threads) return;
    for (uint64_t c = blockIdx.x; c < chunks; c += gridDim.x)
      for (uint32_t i = threadIdx.x * 16; i < length(c); i += threads * 16)
        for (uint32_t k = 1; k < a.nranks; ++k)
          storeVec(out(peerAt(a, k)) + place + c * pushChunk + i, loadVec(a.send + c * pushChunk + i));
#endif
  }
};

// direct does `work` in place. It returns true if the ring must do it instead.
template <class Work>
GOCCL_DEVICE bool direct(const DirectArgs& a, Work work) {
  if (a.meetOffset == 0) return true;
  Direct d(a);
  const Direct::Outcome outcome = d.meet();
  if (outcome == Direct::inPlace) {
    work(d);
    d.part();
  }
  return outcome == Direct::elsewhere;
}

// elsewhere is direct for a launch whose buffers cannot be used in place.
GOCCL_DEVICE bool elsewhere(const DirectArgs& a) {
  return direct(a, [](const Direct&) {});
}

template <class R, bool Backwards>
GOCCL_DEVICE bool directAllReduce(const DirectArgs& a) {
  return direct(a, [&](const Direct& d) {
    const uint64_t first = a.rank * a.sendStride, left = a.bytes > first ? a.bytes - first : 0;
    d.template pull<R, Backwards, true>(first, left < a.sendStride ? left : a.sendStride, nullptr);
  });
}

template <class R, bool Backwards>
GOCCL_DEVICE bool directReduceScatter(const DirectArgs& a) {
  return direct(a, [&](const Direct& d) {
    d.template pull<R, Backwards, false>(a.rank * a.sendStride, a.bytes, a.recv);
  });
}

GOCCL_DEVICE bool directAllGather(const DirectArgs& a) {
  return direct(a, [](const Direct& d) { d.push(); });
}

}  // namespace collective
}  // namespace goccl
