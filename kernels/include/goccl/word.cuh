// Words and vectors of any alignment. The fast path is inline: aligned, and all bytes exist. The rest is out of line,
// because copies of it would multiply the size of every kernel.
#pragma once

#include <goccl/sync.cuh>

namespace goccl {

// gatherWord returns n <= 8 bytes at p; missing bytes are zero.
GOCCL_COLD uint2 gatherWord(const uint8_t* p, uint32_t n) {
  uint64_t v = 0;
#pragma unroll 1
  for (uint32_t i = 0; i < n; ++i) v |= static_cast<uint64_t>(p[i]) << (8 * i);
  return make_uint2(static_cast<uint32_t>(v), static_cast<uint32_t>(v >> 32));
}

// scatterWord writes the first n <= 8 bytes of v.
GOCCL_COLD void scatterWord(uint8_t* p, uint2 v, uint32_t n) {
  uint64_t bits = static_cast<uint64_t>(v.y) << 32 | v.x;
#pragma unroll 1
  for (uint32_t i = 0; i < n; ++i) p[i] = static_cast<uint8_t>(bits >> (8 * i));
}

// loadWord reads 8 bytes at p, of which n exist; the others are zero.
GOCCL_DEVICE uint2 loadWord(const uint8_t* p, uint64_t n) {
  if (n >= 8 && (reinterpret_cast<uintptr_t>(p) & 7) == 0) return loadVec2(p);
  return gatherWord(p, n < 8 ? static_cast<uint32_t>(n) : 8);
}
GOCCL_DEVICE void storeWord(uint8_t* p, uint64_t n, uint2 v) {
  if (n >= 8 && (reinterpret_cast<uintptr_t>(p) & 7) == 0)
    storeVec2(p, v);
  else
    scatterWord(p, v, n < 8 ? static_cast<uint32_t>(n) : 8);
}

// loadVector is the same for 16 bytes, of which n > 0 exist.
GOCCL_DEVICE uint4 loadVector(const uint8_t* p, uint64_t n) {
  if (n >= 16 && (reinterpret_cast<uintptr_t>(p) & 15) == 0) return loadVec(p);
  const uint2 lo = loadWord(p, n), hi = n > 8 ? loadWord(p + 8, n - 8) : make_uint2(0, 0);
  return make_uint4(lo.x, lo.y, hi.x, hi.y);
}
GOCCL_DEVICE void storeVector(uint8_t* p, uint64_t n, uint4 v) {
  if (n >= 16 && (reinterpret_cast<uintptr_t>(p) & 15) == 0) {
    storeVec(p, v);
    return;
  }
  storeWord(p, n, make_uint2(v.x, v.y));
  if (n > 8) storeWord(p + 8, n - 8, make_uint2(v.z, v.w));
}

// gatherVector and scatterVector are loadVector and storeVector out of line, for the slow path of a caller that has a
// fast path.
GOCCL_COLD uint4 gatherVector(const uint8_t* p, uint64_t n) { return loadVector(p, n); }
GOCCL_COLD void scatterVector(uint8_t* p, uint64_t n, uint4 v) { storeVector(p, n, v); }

}  // namespace goccl
