// Data movement: plain bytes in vectors of 16, packets in units of 8.
#pragma once

#include <goccl/copy.cuh>
#include <goccl/packet.cuh>
#include <goccl/reduce.cuh>

#include <executor/program.cuh>

namespace goccl {
namespace executor {

#if GOCCL_CUDA
#define EXECUTOR_COLD __device__ __noinline__
#else
#define EXECUTOR_COLD inline
#endif

// The rare ways to read and write a word, kept out of line.
EXECUTOR_COLD uint2 gatherWord(const uint8_t* p, uint32_t n) {
  uint64_t v = 0;
#pragma unroll 1
  for (uint32_t i = 0; i < n; ++i) v |= static_cast<uint64_t>(p[i]) << (8 * i);
  return make_uint2(static_cast<uint32_t>(v), static_cast<uint32_t>(v >> 32));
}
EXECUTOR_COLD void scatterWord(uint8_t* p, uint2 v, uint32_t n) {
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
  uint2 lo = loadWord(p, n), hi = n > 8 ? loadWord(p + 8, n - 8) : make_uint2(0, 0);
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

EXECUTOR_COLD uint4 slowLoad(const uint8_t* p, uint64_t n) { return loadVector(p, n); }
EXECUTOR_COLD void slowStore(uint8_t* p, uint64_t n, uint4 v) { storeVector(p, n, v); }

// batch is how many sources a thread has in flight at once.
constexpr uint32_t batch = 8;

// Fold reduces by an operator that is known at run time.
template <Type T>
struct Fold {
  using Sum = Accumulator<T, goccl::Op::sum>;
  using A = typename Element<T>::Accumulator;
  Sum sum;

  // all begins with the first n vectors, a batch at most.
  GOCCL_DEVICE void all(const uint4 (&x)[batch], uint32_t n, uint32_t op) {
    sum.load(x[0]);
    switch (op) {
      case 1: rest<goccl::Op::prod>(x, n); break;
      case 2: rest<goccl::Op::max>(x, n); break;
      case 3: rest<goccl::Op::min>(x, n); break;
      default: rest<goccl::Op::sum>(x, n); break;
    }
  }
  GOCCL_DEVICE uint4 result() { return sum.result(); }

 private:
  template <goccl::Op O>
  GOCCL_DEVICE void one(uint4 v) {
    A x[Sum::count];
    unpack<T>(v, x);
#pragma unroll
    for (uint32_t i = 0; i < Sum::count; ++i) sum.v[i] = apply<O>(sum.v[i], x[i]);
  }
  template <goccl::Op O>
  GOCCL_DEVICE void rest(const uint4 (&x)[batch], uint32_t n) {
#pragma unroll
    for (uint32_t i = 1; i < batch; ++i)
      if (i < n) one<O>(x[i]);
  }
};

// Span is the part of a movement that is contiguous in every operand: n bytes from byte x of the j-th chunk on, of which real exist in all of them.
struct Span {
  uint64_t at, n, real;
  uint32_t j;
  uint64_t x;
};

}  // namespace executor
}  // namespace goccl
