// Plain: how a warp moves rows by loads and stores. Stage (stage.cuh) does the same by bulk copies.
#pragma once

#include <moe/warps.cuh>

namespace goccl {
namespace moe {

struct Plain {
  const uint8_t* row = nullptr;  // that receive has moved

  static constexpr bool gathers = false;

  static GOCCL_DEVICE uint32_t warps(const Row&) { return blockDim.x / 32; }
  GOCCL_DEVICE Plain(const Row&, AbortBlock*) {}

  // send stores a row to place(0) to place(count - 1), of which some may be null: its elements from x, and what
  // rest(offset) returns behind them, 8 bytes each. It calls begun once, where stores of earlier rows may be published.
  // All lanes call it; it returns false to all of them after an abort.
  template <class Rest, class Begun, class Place>
  GOCCL_DEVICE bool send(const uint8_t* x, const Row& r, Rest rest, Begun begun, uint32_t count, Place place) {
    begun();
    const uint32_t vectors = r.data / 16;
    constexpr uint32_t flight = 4;
    for (uint32_t i = laneOf(); i < vectors; i += flight * 32) {
      uint4 v[flight];
#pragma unroll
      for (uint32_t j = 0; j < flight; ++j)
        if (i + j * 32 < vectors) v[j] = loadVec(x + static_cast<uint64_t>(i + j * 32) * 16);
#pragma unroll 1
      for (uint32_t k = 0; k < count; ++k) {
        uint8_t* to = place(k);
        if (to == nullptr) continue;
#pragma unroll
        for (uint32_t j = 0; j < flight; ++j)
          if (i + j * 32 < vectors) storeVec(to + static_cast<uint64_t>(i + j * 32) * 16, v[j]);
      }
    }
    for (uint32_t at = r.data + laneOf() * 8; at < r.bytes; at += 32 * 8) {
      const uint2 v = rest(at);
#pragma unroll 1
      for (uint32_t k = 0; k < count; ++k)
        if (uint8_t* to = place(k)) storeVec2(to + at, v);
    }
    return true;
  }

  // receive stores the elements of a row of `bytes` bytes. word(offset) is then 8 bytes of it, until the next row.
  template <class Place>
  GOCCL_DEVICE bool receive(const uint8_t* from, const Row& r, uint32_t, uint32_t count, Place place) {
    row = from;
#pragma unroll 1
    for (uint32_t k = 0; k < count; ++k)
      if (uint8_t* to = place(k)) copyVectors<4>(to, from, r.data / 16, laneOf(), 32);
    return true;
  }
  GOCCL_DEVICE uint2 word(uint32_t offset) const { return loadVec2(row + offset); }

  // Call acquired() after an acquire and before reading the data, settle() before lane 0 releases what the warp wrote.
  // All lanes call them.
  GOCCL_DEVICE void acquired() const { __syncwarp(); }
  GOCCL_DEVICE void settle() { __syncwarp(); }
};

// byWarps calls work(mover, part) on each warp of a block that moves rows, and returns to all threads of the block
// whether all works returned true.
template <class Mover, class Work>
GOCCL_DEVICE bool byWarps(const Row& r, AbortBlock* abort, uint32_t block, uint32_t blocks, Work work) {
  bool ok = true;
  if (threadIdx.x / 32 < Mover::warps(r)) {
    Mover mover(r, abort);
    ok = work(mover, partOf(Mover::warps(r), block, blocks));
    mover.settle();
  }
  return !__syncthreads_or(!ok);
}

}  // namespace moe
}  // namespace goccl
