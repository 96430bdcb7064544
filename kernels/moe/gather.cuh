// Gather: how a block adds plain rows by bulk copies (TMA).
//
// A block has two pipelines: a warp gathers the rows of tokens in shared memory, the others add their elements. (A warp
// gathers a token in 0.8 µs, which is too slow for a block.) One more warp adds the lists.
//
// The rows of a token, or parts of them that fit, take a slot of the pipeline's ring together. A slot is full once its
// loads have come, and empty once all warps that add have left it.
//
// # Memory order
//
// The loads follow what flags have published: acquire by the lane of the token, the warp's barrier, fence.proxy.async,
// loads by other lanes. Loads into a slot follow the reads of it by the arrivals of the readers at its barrier.
#pragma once

#include <moe/combine.cuh>
#include <moe/stage.cuh>

namespace goccl {
namespace moe {

#if GOCCL_BULK

struct Gather {
  // Slot is what the gathering warp says of a slot.
  struct Slot {
    uint32_t token, at, count, bytes;  // the first byte of the parts, their number and size; no part: the end
  };
  static constexpr uint32_t maxSlots = 4, pipelines = 2, end = 0xffffffffu;
  struct Shared {
    BulkBarrier full[maxSlots], empty[maxSlots];
    Slot slot[maxSlots];
  };

  const CombineArgs& a;
  const Source& own;
  const uint32_t n, warps, pipeline, warp;  // warps of a pipeline; this one's pipeline, and its number there
  Part part;                                // tokens
  uint32_t slots, room;                     // of the ring, and bytes of a slot
  uint32_t at = 0, phase = 0;               // the next slot, and the parity of its use
  Shared* shared;
  uint8_t* memory;

  GOCCL_DEVICE Gather(const CombineArgs& args, const Source& mine, uint32_t number, uint32_t block, uint32_t blocks)
      : a(args), own(mine), n(number), warps((blockDim.x / 32 - 1) / pipelines), pipeline(threadIdx.x / 32 / warps),
        warp(threadIdx.x / 32 % warps), part{block, blocks} {
    const uint32_t all = a.row.stages * (a.row.stage + 16) / pipelines - static_cast<uint32_t>(sizeof(Shared));
    slots = minOf(maxSlots, all / (a.nranks * a.row.data));
    if (slots < 2) slots = 2;
    room = all / slots / 128 * 128;
    if (pipeline < pipelines) part = {block + pipeline * blocks, pipelines * blocks};
    memory = stageMemory + pipeline * slots * room;
    shared = reinterpret_cast<Shared*>(stageMemory + pipelines * slots * room) + pipeline;
  }

  GOCCL_DEVICE uint32_t adders() const { return warps - 1; }

  // run is the work of the block; all its threads call it.
  GOCCL_DEVICE bool run() {
    if (pipeline < pipelines && warp == 0 && laneOf() == 0) {
      for (uint32_t s = 0; s < slots; ++s) shared->full[s].init(), shared->empty[s].init(adders());
      fenceBarrierInit();
      fenceProxyAsync();
    }
    __syncthreads();
    bool ok = true;
    if (pipeline >= pipelines)
      ok = warp != 0 || lists();
    else
      ok = warp == 0 ? gather() : add();
    return !__syncthreads_or(!ok);
  }

 private:
  GOCCL_DEVICE void next() {
    if (++at == slots) at = 0, phase ^= 1;
  }

  // Batch are tokens of the warp: lane i has the i-th.
  struct Batch {
    uint32_t token;
    Route route{0, 0, 0};
    int32_t place = -1;  // of the own row
  };
  GOCCL_DEVICE Batch batch(uint32_t base) const {
    Batch b;
    b.token = base + laneOf() * part.of;
    if (b.token < a.tokens) b.route = a.routes[b.token], b.place = placesOf(a, a.rank, b.token)[0];
    return b;
  }

  // eachBatch calls take(batch, lanes), on all lanes, with tokens whose rows are there, until it fails.
  template <class Take>
  GOCCL_DEVICE bool eachBatch(Take take) const {
    Batch following = batch(part.at);
    for (uint32_t base = part.at; base < a.tokens; base += 32 * part.of) {
      const Batch b = following;
      following = batch(base + 32 * part.of);
      uint32_t absent = a.zeroCopy != 0 ? 0 : b.route.mask & ~(1u << a.rank);  // ranks whose piece has not come
      uint32_t left = __ballot_sync(allLanes, b.token < a.tokens);
      while (left != 0) {
        uint32_t ready = 0, polled = 0;
        uint64_t start = 0;
        const Status s = spin(
            [&] {
              for (uint32_t m = absent; m != 0; m &= m - 1) {
                polled = lowest(m);
                const uint32_t* word = flagAt(a, a.row, a.rank, polled, b.token / pieceTokens);
                if (loadAcquire<Scope::sys>(word) != n) break;
                absent &= ~(1u << polled);
              }
              ready = __ballot_sync(allLanes, absent == 0) & left;
              return ready != 0;
            },
            [&] {
              const uint32_t peer = __shfl_sync(allLanes, polled, static_cast<int>(lowest(left)));
              const Status found = checkAbort(a.abort, start, a.arena[a.rank], waitPacket, peer);
              return __reduce_max_sync(allLanes, found);
            });
        if (s != statusOk) return false;
        if (!take(b, ready)) return false;
        left &= ~ready;
      }
    }
    return true;
  }

  // gather brings the rows of tokens.
  GOCCL_DEVICE bool gather() {
    const bool ok = eachBatch([&](const Batch& b, uint32_t ready) {
      Stage::acquired();
      for (; ready != 0; ready &= ready - 1)
        if (!bring(b, static_cast<int>(lowest(ready)))) return false;
      return true;
    });
    if (!ok || !empty()) return drain();
    if (laneOf() == 0) shared->slot[at] = {end, 0, 0, 0}, shared->full[at].arrive();
    return true;
  }
  // bring gathers the rows of the token of a lane.
  GOCCL_DEVICE bool bring(const Batch& b, int lane) {
    const uint32_t token = __shfl_sync(allLanes, b.token, lane), place = __shfl_sync(allLanes, b.place, lane);
    const uint32_t high = __shfl_sync(allLanes, static_cast<uint32_t>(b.route.order >> 32), lane);
    const uint32_t low = __shfl_sync(allLanes, static_cast<uint32_t>(b.route.order), lane);
    const uint64_t order = static_cast<uint64_t>(high) << 32 | low;
    const uint32_t count = bits(__shfl_sync(allLanes, b.route.mask, lane));
    const uint8_t* mine = nullptr;
    if (laneOf() < count) {
      const uint32_t p = static_cast<uint32_t>(order >> (4 * laneOf())) & 15;
      if (p == a.rank)
        mine = own.rowOf(static_cast<int32_t>(place));
      else
        mine = a.zeroCopy != 0 ? sentRow(a, a.row, p, token) : rowAt(a, a.row, a.rank, p, token);
    }
    uint32_t most = a.row.data;
    if (most * (count == 0 ? 1 : count) > room) most = room / (count == 0 ? 1 : count) / 16 * 16;
    for (uint32_t from = 0; from < a.row.data; from += most) {
      const uint32_t bytes = minOf(most, a.row.data - from);
      if (!empty()) return false;
      uint8_t* slot = memory + at * room;
      if (laneOf() == 0) {
        shared->slot[at] = {token, from, count, bytes};
        shared->full[at].arriveAndExpect(count * bytes);
      }
      __syncwarp();
      if (laneOf() < count) bulkLoad(slot + laneOf() * bytes, mine + from, bytes, &shared->full[at]);
      next();
    }
    return true;
  }
  // passes waits for a phase of a barrier. The lanes leave it together: else each would go on by itself.
  GOCCL_DEVICE bool passes(BulkBarrier& barrier, uint32_t parity) const {
    return !__any_sync(allLanes, barrier.wait(parity, a.abort) != statusOk);
  }
  // empty waits until the next slot may be filled.
  GOCCL_DEVICE bool empty() const { return passes(shared->empty[at], phase ^ 1); }
  // drain waits for the loads after a failure, as Stage's does.
  GOCCL_DEVICE bool drain() {
    for (uint32_t s = 0; s < slots; ++s, next())
      for (uint32_t i = 0; i < 4096 && !shared->full[at].poll(phase ^ 1); ++i) {
      }
    return false;
  }

  // lists adds the lists of tokens.
  GOCCL_DEVICE bool lists() const {
    if (a.outWeights == nullptr) return true;
    return eachBatch([&](const Batch& b, uint32_t ready) {
      if ((ready >> laneOf() & 1) == 0) return true;
      for (uint32_t k = 0; k < a.topK; ++k) {
        float sum = 0;
        for (uint32_t i = 0; i < bits(b.route.mask); ++i) {
          const uint32_t p = static_cast<uint32_t>(b.route.order >> (4 * i)) & 15;
          const float* list = own.listOf(b.place);
          if (p != a.rank) list = reinterpret_cast<const float*>(rowAt(a, a.row, a.rank, p, b.token) + a.row.data);
          sum = Eight::sum(sum, list[k]);
        }
        a.outWeights[static_cast<uint64_t>(b.token) * a.topK + k] = sum;
      }
      return true;
    });
  }

  // add adds what the slots hold.
  GOCCL_DEVICE bool add() {
    for (;; next()) {
      if (!passes(shared->full[at], phase)) return false;
      const Slot s = shared->slot[at];
      if (s.token == end) return true;
      const uint8_t* parts = memory + at * room;
      if (a.bias[0] != nullptr || a.bias[1] != nullptr || s.count == 0)
        sum<0>(s, parts);
      else if (s.count == 1)
        sum<1>(s, parts);
      else if (s.count == 2)
        sum<2>(s, parts);
      else
        s.count == 3 ? sum<3>(s, parts) : sum<4>(s, parts);
      __syncwarp();
      if (laneOf() == 0) shared->empty[at].arrive();
    }
  }
  // sum adds the parts: Count of them at once; biases and the parts beyond Count one by one.
  template <uint32_t Count>
  GOCCL_DEVICE void sum(const Slot& s, const uint8_t* parts) const {
    const uint32_t step = adders() * 32 * 16;
    uint32_t i = ((warp - 1) * 32 + laneOf()) * 16;
    for (; i + step < s.bytes; i += 2 * step) vectors<Count, 2>(s, parts, i, step);
    if (i < s.bytes) vectors<Count, 1>(s, parts, i, step);
  }
  template <uint32_t Count, uint32_t Flight>
  GOCCL_DEVICE void vectors(const Slot& s, const uint8_t* parts, uint32_t at, uint32_t step) const {
    const uint64_t from = static_cast<uint64_t>(s.token) * a.row.data + s.at + at;
    Eight sum[Flight];
    uint4 v[Flight][Count == 0 ? 1 : Count];
#pragma unroll
    for (uint32_t f = 0; f < Flight; ++f)
#pragma unroll
      for (uint32_t j = 0; j != Count; ++j)
        v[f][j] = *reinterpret_cast<const uint4*>(parts + j * s.bytes + at + f * step);
#pragma unroll
    for (uint32_t f = 0; f < Flight; ++f) {
      sum[f].clear();
      if constexpr (Count == 0)
        for (uint32_t b = 0; b < 2; ++b)
          if (a.bias[b] != nullptr) sum[f].add(loadVec(a.bias[b] + from + f * step));
#pragma unroll
      for (uint32_t j = 0; j != Count; ++j) sum[f].add(v[f][j]);
      if constexpr (Count == 0 || Count == 4)
        for (uint32_t j = Count; j < s.count; ++j)
          sum[f].add(*reinterpret_cast<const uint4*>(parts + j * s.bytes + at + f * step));
      storeVec(a.out + from + f * step, sum[f].narrow());
    }
  }
};

#endif  // GOCCL_BULK

}  // namespace moe
}  // namespace goccl
