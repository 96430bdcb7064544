// Sum: rows of bfloat16 that a warp adds in float32, in a given order.
//
// Sums are of single products and additions, never contracted: the host device computes the same bits.
#pragma once

#include <moe/warps.cuh>

namespace goccl {
namespace moe {

// Eight is a vector of bfloat16 in float32.
struct Eight {
  float v[8];
  GOCCL_DEVICE void clear() {
#pragma unroll
    for (uint32_t i = 0; i < 8; ++i) v[i] = 0;
  }
  static GOCCL_DEVICE float low(uint32_t w) { return bitsFloat(w << 16); }
  static GOCCL_DEVICE float high(uint32_t w) { return bitsFloat(w & 0xffff0000u); }
  static GOCCL_DEVICE float sum(float x, float y) {
#if GOCCL_CUDA
    return __fadd_rn(x, y);
#else
    return x + y;
#endif
  }
  static GOCCL_DEVICE float product(float x, float y) {
#if GOCCL_CUDA
    return __fmul_rn(x, y);
#else
    return x * y;
#endif
  }
  GOCCL_DEVICE void add(uint4 x) {
    const uint32_t w[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) v[2 * i] = sum(v[2 * i], low(w[i])), v[2 * i + 1] = sum(v[2 * i + 1], high(w[i]));
  }
  GOCCL_DEVICE void addProduct(float f, uint4 x) {
    const uint32_t w[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      v[2 * i] = sum(v[2 * i], product(f, low(w[i])));
      v[2 * i + 1] = sum(v[2 * i + 1], product(f, high(w[i])));
    }
  }
  GOCCL_DEVICE uint4 narrow() const {
    uint32_t w[4];
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      Bfloat16 a, b;
      fromFloat(v[2 * i], a);
      fromFloat(v[2 * i + 1], b);
      w[i] = a.bits | static_cast<uint32_t>(b.bits) << 16;
    }
    return make_uint4(w[0], w[1], w[2], w[3]);
  }
};

// Terms are the rows of a sum, at most one from each lane, which holds where the row is and its factor. They are added
// in the order of their lanes.
struct Terms {
  const uint8_t* mine = nullptr;
  float factor = 0;
  uint32_t rank = 0;  // where the row comes from
  uint32_t lanes = 0;

  GOCCL_DEVICE uint32_t count() const { return bits(lanes); }

  // add adds what load(rows, own ranks, which, out) brings of up to `Together` terms at once: out[term][part], of
  // terms for which `which` has a bit. It returns false to all lanes when load does.
  template <bool Weighted, uint32_t Together, uint32_t Parts, class Load>
  GOCCL_DEVICE bool add(Eight (&sum)[Parts], Load load) const {
#pragma unroll 1
    for (uint32_t left = lanes; left != 0;) {
      uint4 v[Together][Parts];
      const uint8_t* row[Together];
      float f[Together];
      uint32_t from[Together], which = 0;
#pragma unroll
      for (uint32_t j = 0; j < Together; ++j) {
        const uint32_t lane = left != 0 ? lowest(left) : 0;
        row[j] = shared(mine, lane);
        from[j] = __shfl_sync(allLanes, rank, static_cast<int>(lane));
        if (Weighted) f[j] = bitsFloat(__shfl_sync(allLanes, floatBits(factor), static_cast<int>(lane)));
        which |= (left != 0 ? 1u : 0u) << j;
        left &= left - 1;
      }
      if (!load(row, from, which, v)) return false;
#pragma unroll
      for (uint32_t j = 0; j < Together; ++j)
        if ((which >> j & 1) != 0)
#pragma unroll
          for (uint32_t u = 0; u < Parts; ++u) Weighted ? sum[u].addProduct(f[j], v[j][u]) : sum[u].add(v[j][u]);
    }
    return true;
  }
};

// addRows adds bytes of plain rows: of the vectors from i on, every 32nd. A lane has eight loads on their way.
template <bool Weighted, uint32_t Together, uint32_t Parts>
GOCCL_DEVICE void addRows(const Terms& t, Eight (&sum)[Parts], uint32_t i, uint32_t vectors) {
  t.add<Weighted, Together>(sum, [&](const uint8_t* (&row)[Together], uint32_t (&)[Together], uint32_t which,
                                     uint4 (&v)[Together][Parts]) {
#pragma unroll
    for (uint32_t j = 0; j < Together; ++j)
#pragma unroll
      for (uint32_t u = 0; u < Parts; ++u)
        if ((which >> j & 1) != 0 && i + u * 32 < vectors)
          v[j][u] = loadVec(row[j] + static_cast<uint64_t>(i + u * 32) * 16);
    return true;
  });
}

// pairOf is the 16 bytes of a row of elements from an offset on, a multiple of 8; what lies beyond is 0.
GOCCL_DEVICE uint4 pairOf(const uint8_t* row, uint32_t bytes, uint32_t offset) {
  const uint2 low = offset < bytes ? loadVec2(row + offset) : make_uint2(0, 0);
  const uint2 high = offset + 8 < bytes ? loadVec2(row + offset + 8) : make_uint2(0, 0);
  return make_uint4(low.x, low.y, high.x, high.y);
}

}  // namespace moe
}  // namespace goccl
