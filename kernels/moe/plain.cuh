// Plain: how a warp moves rows by loads and stores. Stage (stage.cuh) does the same by bulk copies.
//
// The rows of a warp come from an object with
//
//   next(item, wait)   the next row that the warp moves. With wait it waits until the row is there
//   from(item)         where its elements are
//   tail(item, put)    calls put(offset, 8 bytes) with what follows them: of the row that next returned last
//   rest(item, at)     8 bytes of it, where it is not behind the elements
//   places(item)       the number of places to which it goes, up to 16, and place(item, k) each of them, or null
//   split()            whether what follows the elements goes elsewhere: to end(item, k)
//   done(item)         what follows when the row, and all before it, are in their places
//
// All lanes of the warp call them. place and end are a lane's own: each may ask for another k.
#pragma once

#include <moe/warps.cuh>

namespace goccl {
namespace moe {

constexpr uint32_t ringDepth = 2;  // stages of a warp that has any: with 3, and fewer warps, 16 blocks take 5 % longer

struct Plain {
  static constexpr bool gathers = false;

  static GOCCL_DEVICE uint32_t warps(const Row&) { return blockDim.x / 32; }
  static GOCCL_DEVICE void acquired() { __syncwarp(); }
  GOCCL_DEVICE Plain(const Row&, AbortBlock*) {}

  // send moves rows to peers: elements and what follows them.
  template <class Rows>
  GOCCL_DEVICE bool send(const Row& r, Rows& rows) {
    const uint32_t vectors = r.data / 16;
    constexpr uint32_t flight = 4;
    for (Item item;;) {
      const Next next = rows.next(item, true);
      if (next != Next::row) return next == Next::end;
      const uint32_t count = rows.places(item);
      const uint8_t* x = rows.from(item);
      uint8_t* const mine = laneOf() < count ? rows.place(item, laneOf()) : nullptr;
      for (uint32_t i = laneOf(); i - laneOf() < vectors; i += flight * 32) {
        uint4 v[flight];
#pragma unroll
        for (uint32_t j = 0; j < flight; ++j)
          if (i + j * 32 < vectors) v[j] = loadVec(x + static_cast<uint64_t>(i + j * 32) * 16);
#pragma unroll 1
        for (uint32_t k = 0; k < count; ++k) {
          uint8_t* to = shared(mine, k);
          if (to == nullptr) continue;
#pragma unroll
          for (uint32_t j = 0; j < flight; ++j)
            if (i + j * 32 < vectors) storeVec(to + static_cast<uint64_t>(i + j * 32) * 16, v[j]);
        }
      }
      rows.tail(item, [&](uint32_t at, uint2 v) {
#pragma unroll 1
        for (uint32_t k = 0; k < count; ++k)
          if (uint8_t* to = rows.place(item, k)) storeVec2((rows.split() ? rows.end(item, k) - r.data : to) + at, v);
      });
      __syncwarp();
      rows.done(item);
    }
  }

  // receive moves the elements of rows, and lets keep(item, word) have the rest: word(offset) is 8 bytes of it.
  template <class Rows>
  GOCCL_DEVICE bool receive(const Row& r, Rows& rows) {
    for (Item item;;) {
      const Next next = rows.next(item, true);
      if (next != Next::row) return next == Next::end;
      const uint8_t* from = rows.from(item);
      uint8_t* const mine = laneOf() < rows.places(item) ? rows.place(item, laneOf()) : nullptr;
#pragma unroll 1
      for (uint32_t k = 0; k < rows.places(item); ++k)
        if (uint8_t* to = shared(mine, k)) copyVectors<4>(to, from, r.data / 16, laneOf(), 32);
      rows.keep(item, [&](uint32_t offset) {
        return rows.apart(item) ? rows.rest(item, offset) : loadVec2(from + offset);
      });
    }
  }
};

// byWarps calls work(mover, part) on each warp of a block that moves rows, and returns to all threads of the block
// whether all works returned true.
template <class Mover, class Work>
GOCCL_DEVICE bool byWarps(const Row& r, AbortBlock* abort, uint32_t block, uint32_t blocks, Work work) {
  bool ok = true;
  const uint32_t warps = Mover::warps(r);
  if (threadIdx.x / 32 < warps) {
    Mover mover(r, abort);
    ok = work(mover, partOf(warps, block, blocks));
  }
  return !__syncthreads_or(!ok);
}

}  // namespace moe
}  // namespace goccl
