// Data movement: plain bytes in vectors of 16, packets in units of 8.
#pragma once

#include <goccl/copy.cuh>
#include <goccl/packet.cuh>
#include <goccl/reduce.cuh>
#include <goccl/word.cuh>

#include <executor/program.cuh>

namespace goccl {
namespace executor {

// batch is how many sources a thread has in flight at once.
constexpr uint32_t batch = 8;

// Fold reduces by an operator that is known at run time: the number of an Op, with unsignedBit where it is of unsigned
// integers. Numbers of other operators add.
template <Type T>
struct Fold {
  using Sum = Accumulator<T, goccl::Op::sum>;
  using A = typename Element<T>::Accumulator;
  Sum sum;

  // all begins with the first n vectors, a batch at most.
  GOCCL_DEVICE void all(const uint4 (&x)[batch], uint32_t n, uint32_t op) {
    sum.load(x[0]);
    const A bias = Sum::biasOf(op);
    switch (op & ~unsignedBit) {
      case 1:
        return rest(x, n, [&](const A* v) { sum.template fold<goccl::Op::prod>(v); });
      case 2:
        return rest(x, n, [&](const A* v) { sum.template foldBiased<goccl::Op::max>(v, bias); });
      case 3:
        return rest(x, n, [&](const A* v) { sum.template foldBiased<goccl::Op::min>(v, bias); });
      default:
        return rest(x, n, [&](const A* v) { sum.template fold<goccl::Op::sum>(v); });
    }
  }
  GOCCL_DEVICE uint4 result() { return sum.result(); }

 private:
  template <class Add>
  GOCCL_DEVICE void rest(const uint4 (&x)[batch], uint32_t n, Add add) {
#pragma unroll
    for (uint32_t i = 1; i < batch; ++i) {
      if (i >= n) continue;
      A v[Sum::count];
      unpack<T>(x[i], v);
      add(v);
    }
  }
};

// load16 and store16 move the vector at offset off of n operands, of which left bytes exist. load16 decides once for
// all operands whether vectors are aligned and whole.
GOCCL_DEVICE void load16(uint4 (&x)[batch], uint8_t* const (&p)[batch], uint32_t n, uint64_t off, uint64_t left) {
  uintptr_t low = left < 16;
#pragma unroll
  for (uint32_t i = 0; i < batch; ++i)
    if (i < n) low |= reinterpret_cast<uintptr_t>(p[i]) & 15;
  if (low == 0) {
#pragma unroll
    for (uint32_t i = 0; i < batch; ++i)
      if (i < n) x[i] = loadVec(p[i] + off);
    return;
  }
#pragma unroll
  for (uint32_t i = 0; i < batch; ++i)
    if (i < n) x[i] = gatherVector(p[i] + off, left);
}
GOCCL_DEVICE void store16(uint8_t* const (&p)[batch], uint32_t n, uint64_t off, uint64_t left, uint4 v) {
#pragma unroll
  for (uint32_t i = 0; i < batch; ++i) {
    if (i >= n) continue;
    if (left >= 16 && (reinterpret_cast<uintptr_t>(p[i]) & 15) == 0)
      storeVec(p[i] + off, v);
    else
      scatterVector(p[i] + off, left, v);
  }
}

}  // namespace executor
}  // namespace goccl
