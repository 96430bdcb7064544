// Pump: lanes of a warp stream parts of memory from global to global through a ring of shared memory, by bulk copies.
// In step i every lane moves one part, of a stream of its own; the lanes stay together.
//
//   1. up to stages-2 steps are loaded ahead of the one that is stored
//   2. when the parts of a step have landed, each lane starts a store, in a bulk group by itself
//   3. a stage is loaded again when its stores have read it: at most two steps still read
//
// A flow says which parts there are, and gates them:
//
//   Cursor first()           the first step; next(c) goes to the next one, done(c) says that there is none
//   Part at(c)               where this lane's part comes from and goes to
//   bool ready(c)            the source may be read; await(c) waits for that
//   bool room(c)             the target may be written; awaitRoom(c) waits for that
//   void landed(c)           the source has been read
//   void performed(c)        the target has been written. Called only if Flow::publishes
//
// A wait for room never holds back what was written before: performed is called for all of it first.
//
// # Memory order
//
// When a wait for a bulk group returns, the writes are visible to the thread, and to others behind a release at system
// scope by it or by a thread that it has told. A relaxed flag is not enough: on H100 some were seen before the data. That
// release takes microseconds while stores of the SM are on their way, so a Signaler does it beside the pumps, once for
// all that has been performed meanwhile. A reader acquires the flag, and calls fenceProxyAsync() before its bulk copies.
#pragma once

#include <goccl/bulk.cuh>

namespace goccl {

#if GOCCL_BULK

// Part is some bytes on their way. Addresses are multiples of 16; what is beyond a multiple of 16 bytes is copied by
// plain loads and stores.
struct Part {
  const uint8_t* from;
  uint8_t* to;
  uint32_t bytes;
  uint8_t* mirror = nullptr;  // a second target, or null
  GOCCL_DEVICE uint32_t whole() const { return bytes & ~15u; }
};

template <uint32_t Stages, int Lag>
struct Pump {
  uint8_t* buffer;        // Stages * stageBytes, a multiple of 128
  BulkBarrier* barriers;  // Stages
  AbortBlock* abort;
  uint32_t mask, partBytes, stageBytes;
  uint32_t steps = 0;  // of earlier runs

  // The first `lanes` lanes of a warp make the pump and use it together.
  GOCCL_DEVICE Pump(uint8_t* shared, uint32_t stage, BulkBarrier* bars, uint32_t lanes, AbortBlock* abortBlock)
      : buffer(shared), barriers(bars), abort(abortBlock), mask((1u << lanes) - 1), partBytes(stage / lanes & ~127u),
        stageBytes(stage) {
    if (lane() == 0) {
      for (uint32_t s = 0; s < Stages; ++s) barriers[s].init(lanes);
      fenceBarrierInit();
    }
    __syncwarp(mask);
  }
  static GOCCL_DEVICE uint32_t lane() { return threadIdx.x % 32; }

  // run moves all parts of a flow. When it returns statusOk, every part is performed.
  template <class Flow>
  GOCCL_DEVICE Status run(Flow& f) {
    auto head = f.first(), tail = head, told = head;
    uint32_t loaded = 0, stored = 0, published = 0;
    auto publish = [&](uint32_t below) {
      for (; published < below; ++published, f.next(told)) f.performed(told);
    };
    while (!f.done(tail)) {
      for (; !f.done(head) && loaded - stored < Stages - 2; ++loaded, f.next(head)) {
        if (!__all_sync(mask, f.ready(head))) {
          if (loaded != stored) break;
          if (failed(f.await(head))) return statusAborted;
        }
        load(f.at(head), steps + loaded);
      }
      const uint32_t i = steps + stored, stage = i % Stages;
      if (failed(barriers[stage].wait(i / Stages & 1, abort))) return statusAborted;
      const bool room = f.room(tail);
      if (!__all_sync(mask, room)) {
        bulkWait<0>();
        if (Flow::publishes) publish(stored);
        if (failed(room ? statusOk : f.awaitRoom(tail))) return statusAborted;
      }
      store(f.at(tail), i);
      f.landed(tail);
      ++stored, f.next(tail);
      if (Flow::publishes && stored > Lag) {
        bulkWait<Lag>();
        publish(stored - Lag);
      }
    }
    bulkWait<0>();
    if (Flow::publishes) publish(stored);
    steps += stored;
    return statusOk;
  }

 private:
  GOCCL_DEVICE bool failed(Status s) const { return __any_sync(mask, s != statusOk) != 0; }
  GOCCL_DEVICE uint8_t* at(uint32_t i) const { return buffer + i % Stages * stageBytes + lane() * partBytes; }
  GOCCL_DEVICE void load(const Part& part, uint32_t i) {
    if (i >= Stages) {
      bulkWaitSource<1>();
      __syncwarp(mask);
    }
    BulkBarrier* barrier = &barriers[i % Stages];
    barrier->arriveAndExpect(part.whole());
    if (part.whole() != 0) bulkLoad(at(i), part.from, part.whole(), barrier);
  }
  GOCCL_DEVICE void store(const Part& part, uint32_t i) {
    if (part.whole() != 0) {
      bulkStore(part.to, at(i), part.whole());
      if (part.mirror != nullptr) bulkStore(part.mirror, at(i), part.whole());
    }
    bulkCommit();
    for (uint32_t b = part.whole(); b < part.bytes; ++b) {
      part.to[b] = part.from[b];
      if (part.mirror != nullptr) part.mirror[b] = part.from[b];
    }
  }
};

// Counts is where threads of a block say how far they have got, for its Signaler: a count for each lane of a warp, in
// shared memory.
template <class Count>
struct Counts {
  Count at[32];

  // say comes behind what the count publishes, by the thread that has done it or has waited for it.
  GOCCL_DEVICE void say(uint32_t lane, Count count) {
    if constexpr (sizeof(Count) == 8)
      asm volatile("st.release.cta.shared.u64 [%0], %1;" ::"r"(sharedAddress(&at[lane])), "l"(count) : "memory");
    else
      asm volatile("st.release.cta.shared.u32 [%0], %1;" ::"r"(sharedAddress(&at[lane])), "r"(count) : "memory");
  }
  GOCCL_DEVICE Count said(uint32_t lane) const {
    Count count;
    if constexpr (sizeof(Count) == 8)
      asm volatile("ld.acquire.cta.shared.u64 %0, [%1];" : "=l"(count) : "r"(sharedAddress(&at[lane])) : "memory");
    else
      asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(count) : "r"(sharedAddress(&at[lane])) : "memory");
    return count;
  }
};

// signalCounts is a signaler: all lanes of a warp call it, each with the flag that it publishes its count to, or null,
// and the counts before and at the end. The counts in shared memory begin with `told`.
template <class Count>
GOCCL_DEVICE Status signalCounts(const Counts<Count>& counts, Count* flag, Count told, Count end, AbortBlock* abort) {
  constexpr uint32_t all = 0xffffffff;
  const uint32_t lane = threadIdx.x % 32;
  while (__any_sync(all, flag != nullptr && told != end)) {
    Count now = told;
    uint64_t start = 0;
    auto news = [&] {
      if (flag != nullptr) now = counts.said(lane);
      const bool any = __any_sync(all, now != told) != 0;
      if (!any) sleepNs(100);
      return any;
    };
    const Status s = spin(news, [&] {
      const Status mine = lane == 0 ? checkAbort(abort, start, counts.at, waitBulk, unknownPeer) : statusOk;
      return __shfl_sync(all, mine, 0);
    });
    if (s != statusOk) return s;
    fence<Scope::sys>();
    if (now != told) storeRelaxed<Scope::sys>(flag, now);
    told = now;
  }
  return statusOk;
}

#endif  // GOCCL_BULK

}  // namespace goccl
