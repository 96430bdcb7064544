// Stage: rows in shared memory on their way from one place of global memory to others by bulk copies (TMA). A thread
// that copies by loads and stores has 64 bytes in flight; a warp has the rows of its slots, so that fewer SMs fill the
// links.
//
// The warp's rows pass through a ring of slots:
//
//   1. the next row is loaded into a slot whose stores have left it, while the rows before it are on their way;
//      what the row has from elsewhere is put behind its elements meanwhile
//   2. the oldest row that has come is stored, to one place or to several
//   3. the row two before it is done: its stores are performed, and the flag of its piece follows
//
// # Memory order
//
// Bulk copies belong to the asynchronous proxy. Its loads follow what a flag has published: acquire by some lane, the
// warp's barrier, fence.proxy.async and load by lane 0. What lanes put into a slot is ordered before the stores by
// their fence and the warp's barrier. A load into a slot follows the lanes' reads of it by the warp's barrier, and its
// stores by the wait for their source. Stores are performed when lane 0 has waited for them. The warp's barrier and the
// release of the flag follow, for what lanes have stored, too.
#pragma once

#include <goccl/bulk.cuh>
#include <moe/plain.cuh>

namespace goccl {
namespace moe {

#if GOCCL_BULK

extern __shared__ __align__(128) uint8_t stageMemory[];

struct Stage {
  const Row& row;
  AbortBlock* abort;
  const uint32_t lane;
  uint8_t* memory;
  uint32_t loaded = 0, stored = 0;  // slots of the next load and store
  uint32_t open = 0, phases = 0;    // rows that are loaded; bit s: parity of the next load of slot s
  Item mine{};                      // lane s: of slot s
  BulkBarrier* barriers;

  static constexpr bool gathers = true;
  static constexpr uint32_t lag = 2;

  static GOCCL_DEVICE uint32_t warps(const Row& r) { return minOf(blockDim.x / 32, r.stages / ringDepth); }

  // All lanes of a warp that has a ring make theirs.
  GOCCL_DEVICE Stage(const Row& r, AbortBlock* abortBlock) : row(r), abort(abortBlock), lane(laneOf()) {
    const uint32_t warp = threadIdx.x / 32;
    memory = stageMemory + warp * ringDepth * r.stage;
    barriers = reinterpret_cast<BulkBarrier*>(stageMemory + r.stages * r.stage) + warp * ringDepth;
    if (lane == 0) {
      for (uint32_t s = 0; s < ringDepth; ++s) barriers[s].init();
      fenceBarrierInit();
      fenceProxyAsync();
    }
    __syncwarp();
  }

  // send and receive have the contracts of Plain's (plain.cuh).
  template <class Rows>
  GOCCL_DEVICE bool send(const Row& r, Rows& rows) {
    const uint32_t whole = (r.bytes + 15) & ~15u;  // a row's slot in the arena has room for it
    return pass<true>(
        rows,
        [&](const Item& item, uint8_t* slot) {
          load(slot, rows.from(item), r.data);
          rows.tail(item, [&](uint32_t at, uint2 v) { *reinterpret_cast<uint2*>(slot + at) = v; });
          fenceProxyAsyncShared();
        },
        [&](const Item& item, const uint8_t* slot) {
          __syncwarp();  // what lanes have put behind the row is there
          const bool apart = rows.split();
          uint8_t* const mine = placeOfLane(rows, item);
          store(slot, apart ? r.data : whole, mine, rows.places(item));
          if (lane == 0) bulkCommit();
          if (apart) storeEnds(slot + r.data, (r.bytes - r.data + 15) / 16,
                               mine == nullptr ? nullptr : rows.end(item, lane), rows.places(item));
        });
  }
  template <class Rows>
  GOCCL_DEVICE bool receive(const Row& r, Rows& rows) {
    return pass<false>(
        rows,
        [&](const Item& item, uint8_t* slot) {
          const bool apart = rows.apart(item);
          load(slot, rows.from(item), apart ? r.data : (r.bytes + 15) & ~15u);
          if (!apart) return;
          for (uint32_t at = r.data + lane * 8; at < r.bytes; at += 32 * 8)
            *reinterpret_cast<uint2*>(slot + at) = rows.rest(item, at);
        },
        [&](const Item& item, const uint8_t* slot) {
          store(slot, r.data, placeOfLane(rows, item), rows.places(item));
          if (lane == 0) bulkCommit();
          __syncwarp();  // the lanes' stores into the slot come before their loads
          rows.keep(item, [&](uint32_t offset) { return *reinterpret_cast<const uint2*>(slot + offset); });
        });
  }

  // acquired comes between an acquire and the loads of the data that were published.
  static GOCCL_DEVICE void acquired() {
    __syncwarp();
    fenceProxyAsync();
  }

 private:
  // pass is the ring. Rows that come later are waited for only while no row is loaded.
  template <bool Tells, class Rows, class Load, class Store>
  GOCCL_DEVICE bool pass(Rows& rows, Load load, Store store) {
    Item late[lag];
    uint32_t sent = 0;
    for (Next next = Next::row; open != 0 || next != Next::end;) {
      for (next = next == Next::later ? Next::row : next; next == Next::row && open < ringDepth;) {
        Item item;
        next = rows.next(item, open == 0);
        if (next == Next::failed) return drain();
        if (next != Next::row) break;
        if (lane == 0) bulkWaitSource<0>();
        load(item, memory + loaded * row.stage);
        if (lane == loaded) mine = item;
        loaded = loaded + 1 == ringDepth ? 0 : loaded + 1;
        ++open;
      }
      if (open == 0) continue;
      if (!arrived()) return drain();
      const Item item = mine.of(stored);
      store(item, memory + stored * row.stage);
      stored = stored + 1 == ringDepth ? 0 : stored + 1;
      --open;
      if constexpr (Tells) {
        if (++sent > lag) {
          if (lane == 0) bulkWait<lag>();
          rows.done(late[0]);
        }
#pragma unroll
        for (uint32_t i = 1; i < lag; ++i) late[i - 1] = late[i];
        late[lag - 1] = item;
      }
    }
    if (lane == 0) bulkWait<0>();
    if constexpr (Tells) {
#pragma unroll
      for (uint32_t i = 0; i < lag; ++i)
        if (sent + i >= lag) rows.done(late[i]);
    }
    return true;
  }

  GOCCL_DEVICE void load(uint8_t* slot, const uint8_t* from, uint32_t size) {
    __syncwarp();
    if (lane != 0) return;
    barriers[loaded].arriveAndExpect(size);
    bulkLoad(slot, from, size, barriers + loaded);
  }
  // arrived waits for the row of the oldest load.
  GOCCL_DEVICE bool arrived() {
    const Status s = barriers[stored].wait(phases >> stored & 1, abort);
    phases ^= 1u << stored;
    return !__any_sync(allLanes, s != statusOk);
  }
  // drain waits for the loads after a failure: a block must not end under a load into its shared memory. It is bounded,
  // for the case that the memory itself is gone.
  GOCCL_DEVICE bool drain() {
    for (; open != 0; --open, stored = stored + 1 == ringDepth ? 0 : stored + 1)
      for (uint32_t i = 0; i < 4096 && !barriers[stored].poll(phases >> stored & 1); ++i) {
      }
    if (lane == 0) bulkWait<0>();
    return false;
  }

  template <class Rows>
  GOCCL_DEVICE uint8_t* placeOfLane(Rows& rows, const Item& item) const {
    return lane < rows.places(item) ? rows.place(item, lane) : nullptr;
  }
  // storeEnds stores the vectors behind a row by the lanes: a bulk copy takes as long for them as for a part of a row.
  GOCCL_DEVICE void storeEnds(const uint8_t* end, uint32_t vectors, uint8_t* mine, uint32_t places) {
    for (uint32_t i = lane; i - lane < vectors; i += 32) {
      const uint4 v = i < vectors ? *reinterpret_cast<const uint4*>(end + 16 * i) : uint4{};
#pragma unroll 1
      for (uint32_t k = 0; k < places; ++k) {
        uint8_t* to = shared(mine, k);
        if (to != nullptr && i < vectors) storeVec(to + 16 * i, v);
      }
    }
  }
  // store stores a slot to the places of the lanes, in their order.
  GOCCL_DEVICE void store(const uint8_t* slot, uint32_t size, uint8_t* mine, uint32_t places) {
#pragma unroll 1
    for (uint32_t k = 0; k < places; ++k) {
      uint8_t* to = shared(mine, k);
      if (lane == 0 && to != nullptr) bulkStore(to, slot, size);
    }
  }
};

#endif  // GOCCL_BULK

}  // namespace moe
}  // namespace goccl
