// Moves of large messages by few blocks: see direct.cuh.
//
// Sizes and addresses are any. A move between slices of one buffer (all-to-all in place) must not be mapped, or data
// would be overwritten that has yet to be sent.
//
// What all ranks get is loaded once. Otherwise chunks go to the ranks by turns, the next one first, so that several
// links are busy and ranks do not collide. Moves with a root, in args.cuh's terms: to the root if recvStride is not 0,
// else from it.
#pragma once

#include <collective/direct.cuh>

namespace goccl {
namespace collective {

// Chunks of `size` bytes of a range that one block has.
struct Chunks {
  const uint64_t bytes;
  const uint32_t size;
  GOCCL_DEVICE uint64_t end() const { return (bytes + size - 1) / size; }
  GOCCL_DEVICE uint32_t length(uint64_t c) const {
    return static_cast<uint32_t>(bytes - c * size < size ? bytes - c * size : size);
  }
};

struct DirectMove : Direct {
  using Direct::Direct;

  // goes says whether a move takes something from one rank to another.
  GOCCL_DEVICE bool goes(uint32_t from, uint32_t to) const {
    return a.root == everyone || a.root == (a.recvStride != 0 ? to : from);
  }

  // push stores this rank's slices to their ranks' receive buffers: vectors by bulk copies where all addresses are
  // multiples of 16, and the rest by plain stores.
  GOCCL_DEVICE void push() const {
    const uint64_t place = a.rank * a.recvStride;
    auto from = [&](uint32_t r) { return a.send + r * a.sendStride; };
    uint64_t all = reinterpret_cast<uint64_t>(a.send) | a.sendStride | place;
    for (uint32_t k = 1; k < a.nranks; ++k)
      if (goes(a.rank, peer(k))) all |= reinterpret_cast<uint64_t>(out(peer(k)));
    const uint64_t bulk = hasBulk && all % 16 == 0 ? a.bytes & ~uint64_t{15} : 0;
    if (threadIdx.x < workers) {
      const uint64_t thread = blockIdx.x * workers + threadIdx.x, threads = gridDim.x * workers;
      if (goes(a.rank, a.rank) && a.recv + place != from(a.rank))
        copyBytes(a.recv + place, from(a.rank), a.bytes, thread, threads);
      for (uint32_t k = 1; k < a.nranks && bulk < a.bytes; ++k)
        if (goes(a.rank, peer(k)))
          copyBytes(out(peer(k)) + place + bulk, from(peer(k)) + bulk, a.bytes - bulk, thread, threads);
    }
#if GOCCL_BULK
    const Chunks chunks{bulk, pushChunk};
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
    const uint32_t end = same ? 2 : a.nranks;
    auto follow = [&](Turn& t) {
      if (++t.k == end) t = Turn{1, t.chunk + gridDim.x};
    };
    Turn next{1, blockIdx.x};
    uint64_t loaded = 0, stored = 0;
    auto load = [&] {
      const uint32_t s = static_cast<uint32_t>(loaded++ % stages), length = chunks.length(next.chunk);
      full[s].arriveAndExpect(length);
      bulkLoad(directMemory + s * pushChunk, from(peer(next.k)) + next.chunk * pushChunk, length, &full[s]);
      follow(next);
    };
    while (loaded < stages - 2 && next.chunk < chunks.end()) load();
    for (Turn t{1, blockIdx.x}; t.chunk < chunks.end(); follow(t), ++stored) {
      const uint32_t s = static_cast<uint32_t>(stored % stages);
      spin([&] { return full[s].poll(stored / stages & 1); }, [] { return statusOk; });
      for (uint32_t k = t.k; k < (same ? a.nranks : t.k + 1); ++k)
        if (goes(a.rank, peer(k)))
          bulkStore(out(peer(k)) + place + t.chunk * pushChunk, directMemory + s * pushChunk, chunks.length(t.chunk));
      bulkCommit();
      if (next.chunk >= chunks.end()) continue;
      bulkWaitSource<1>();
      load();
    }
    bulkWait<0>();
#endif
  }

  GOCCL_DEVICE void run() {
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
};

}  // namespace collective
}  // namespace goccl
