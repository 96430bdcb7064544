// Cooperative copies in 16-byte accesses, whatever the alignment of either side.
#pragma once

#include <goccl/sync.cuh>

namespace goccl {

// shiftBytes returns bytes [shift, shift + 16) of the 32 bytes a, b; 0 <= shift < 16.
GOCCL_DEVICE uint4 shiftBytes(uint4 a, uint4 b, uint32_t shift) {
  uint32_t w0 = a.x, w1 = a.y, w2 = a.z, w3 = a.w, w4 = b.x, w5 = b.y, w6 = b.z, w7 = b.w;
  if (shift & 8) {
    w0 = w2, w1 = w3, w2 = w4, w3 = w5, w4 = w6, w5 = w7;
  }
  if (shift & 4) {
    w0 = w1, w1 = w2, w2 = w3, w3 = w4, w4 = w5;
  }
#if GOCCL_CUDA
  uint32_t bits = 8 * (shift & 3);
  return make_uint4(__funnelshift_r(w0, w1, bits), __funnelshift_r(w1, w2, bits), __funnelshift_r(w2, w3, bits),
                    __funnelshift_r(w3, w4, bits));
#else
  uint32_t bits = 8 * (shift & 3);
  auto funnel = [bits](uint32_t lo, uint32_t hi) {
    return static_cast<uint32_t>((static_cast<uint64_t>(hi) << 32 | lo) >> bits);
  };
  return make_uint4(funnel(w0, w1), funnel(w1, w2), funnel(w2, w3), funnel(w3, w4));
#endif
}

// copyVectors copies count 16-byte vectors between aligned addresses with Unroll loads in flight per thread.
template <int Unroll = 8>
GOCCL_DEVICE void copyVectors(void* dst, const void* src, uint64_t count, uint64_t tid, uint64_t nthreads) {
  uint8_t* d = static_cast<uint8_t*>(dst);
  const uint8_t* s = static_cast<const uint8_t*>(src);
  uint64_t i = tid;
  for (; i + (Unroll - 1) * nthreads < count; i += Unroll * nthreads) {
    uint4 v[Unroll];
#pragma unroll
    for (int j = 0; j < Unroll; ++j) v[j] = loadVec(s + (i + j * nthreads) * 16);
#pragma unroll
    for (int j = 0; j < Unroll; ++j) storeVec(d + (i + j * nthreads) * 16, v[j]);
  }
  for (; i < count; i += nthreads) storeVec(d + i * 16, loadVec(s + i * 16));
}

// copyShifted copies count vectors to an aligned address from one that is shift bytes (1..15) past alignment. It reads
// whole aligned vectors, so up to 15 bytes around the source that lie in the same 16-byte words as its ends: never
// another page.
GOCCL_DEVICE void copyShifted(uint8_t* dst, const uint8_t* src, uint64_t count, uint64_t tid, uint64_t nthreads) {
  uint32_t shift = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(src) & 15);
  const uint8_t* base = src - shift;
  for (uint64_t i = tid; i < count; i += nthreads) {
    uint4 a = loadVec(base + i * 16), b = loadVec(base + i * 16 + 16);
    storeVec(dst + i * 16, shiftBytes(a, b, shift));
  }
}

// copyBytes copies bytes from src to dst, which must not overlap, by threads tid of nthreads (of one block or of many).
// Head and tail bytes go singly, the rest in 16-byte stores aligned at dst.
template <int Unroll = 8>
GOCCL_DEVICE void copyBytes(void* dst, const void* src, uint64_t bytes, uint64_t tid, uint64_t nthreads) {
  uint8_t* d = static_cast<uint8_t*>(dst);
  const uint8_t* s = static_cast<const uint8_t*>(src);
  uint64_t head = (16 - (reinterpret_cast<uintptr_t>(d) & 15)) & 15;
  if (head > bytes) head = bytes;
  if (tid < head) d[tid] = s[tid];
  for (uint64_t i = tid + nthreads; i < head; i += nthreads) d[i] = s[i];
  d += head;
  s += head;
  bytes -= head;

  uint64_t count = bytes / 16;
  if ((reinterpret_cast<uintptr_t>(s) & 15) == 0)
    copyVectors<Unroll>(d, s, count, tid, nthreads);
  else
    copyShifted(d, s, count, tid, nthreads);

  for (uint64_t i = count * 16 + tid; i < bytes; i += nthreads) d[i] = s[i];
}

}  // namespace goccl
