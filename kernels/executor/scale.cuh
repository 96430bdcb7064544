// What averages and pre-multiplied sums need around a plan.
#pragma once

#include <goccl/reduce.cuh>
#include <goccl/word.cuh>

namespace goccl {
namespace executor {

// scale multiplies by a factor, or divides by n: what pre-multiplied sums need before a plan runs and averages after
// it.
template <Type T>
GOCCL_DEVICE void scale(uint8_t* dst, const uint8_t* src, uint64_t bytes, uint64_t factorBits, const uint8_t* factorPtr,
                        uint32_t n) {
  using Sum = Accumulator<T, goccl::Op::sum>;
  using A = typename Element<T>::Accumulator;
  A factor{};
  if (n == 0) {
    if (factorPtr != nullptr) {
      uint2 w = gatherWord(factorPtr, Element<T>::size);
      factorBits = static_cast<uint64_t>(w.y) << 32 | w.x;
    }
    A all[Element<T>::perVector];
    unpack<T>(make_uint4(static_cast<uint32_t>(factorBits), static_cast<uint32_t>(factorBits >> 32), 0, 0), all);
    factor = all[0];
  }
  for (uint64_t v = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; v * 16 < bytes;
       v += static_cast<uint64_t>(gridDim.x) * blockDim.x) {
    Sum s;
    s.load(loadVector(src + v * 16, bytes - v * 16));
    if (n == 0)
      s.scale(factor);
    else
      s.divide(n);
    storeVector(dst + v * 16, bytes - v * 16, s.result());
  }
}

}  // namespace executor
}  // namespace goccl
