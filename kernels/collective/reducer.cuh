// A Reducer folds 16-byte vectors of one type in rank order, with the scalings of avg and pre-multiplied sum.
#pragma once

#include <collective/args.cuh>
#include <goccl/reduce.cuh>

namespace goccl {
namespace collective {

// Scaled says that a pre-multiplied sum may be asked for.
template <Type T, Op O, bool Scaled = true>
struct Reducer {
  static constexpr bool folds = true;
  using Sum = Accumulator<T, O>;
  using A = typename Element<T>::Accumulator;
  using S = typename Element<T>::Storage;
  bool pre, avg;
  A factor;
  uint32_t n;

  GOCCL_DEVICE explicit Reducer(const Args& a) : pre(Scaled && a.op == opPreMulSum), avg(a.op == opAvg), factor(), n(a.nranks) {
    if (!Scaled || !pre) return;
    uint64_t bits = a.scalar;
    if (a.scalarPtr != nullptr) {
      const uint8_t* p = static_cast<const uint8_t*>(a.scalarPtr);
      bits = 0;
      for (uint32_t i = 0; i < sizeof(S); ++i) bits |= static_cast<uint64_t>(p[i]) << (8 * i);
    }
    A all[Element<T>::perVector];
    unpack<T>(make_uint4(static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32), 0, 0), all);
    factor = all[0];
  }
  // scale is what a rank does to its own data before anybody sees it: each rank of a pre-multiplied sum has its own factor.
  template <class Data>
  GOCCL_DEVICE void scale(Data& d) const {
    if (!Scaled || !pre) return;
    Sum own;
    own.loadScaled(d.vector(), factor);
    d.set(own.result());
  }
  GOCCL_DEVICE void begin(Sum& sum, const uint4& v) const { sum.load(v); }
  GOCCL_DEVICE void add(Sum& sum, const uint4& v) const { sum.add(v); }
  GOCCL_DEVICE uint4 end(Sum& sum) const {
    if (avg) sum.divide(n);
    return sum.result();
  }
};

// AnyReducer looks at the operator for every vector: slower than a Reducer, and a quarter of the code.
template <Type T>
struct AnyReducer {
  static constexpr bool folds = true;
  using Sum = Accumulator<T, Op::sum>;
  using A = typename Element<T>::Accumulator;
  Reducer<T, Op::sum> sum;
  uint32_t op;

  GOCCL_DEVICE explicit AnyReducer(const Args& a) : sum(a), op(a.op) {}
  template <class Data>
  GOCCL_DEVICE void scale(Data& d) const {
    sum.scale(d);
  }
  GOCCL_DEVICE void begin(Sum& s, const uint4& v) const { sum.begin(s, v); }
  GOCCL_DEVICE void add(Sum& s, const uint4& v) const {
    A x[Sum::count];
    unpack<T>(v, x);
    if (op == opProd)
      fold<Op::prod>(s, x);
    else if (op == opMax)
      fold<Op::max>(s, x);
    else if (op == opMin)
      fold<Op::min>(s, x);
    else
      fold<Op::sum>(s, x);
  }
  GOCCL_DEVICE uint4 end(Sum& s) const { return sum.end(s); }

 private:
  template <Op O>
  GOCCL_DEVICE static void fold(Sum& s, const A* x) {
#pragma unroll
    for (uint32_t i = 0; i < Sum::count; ++i) s.v[i] = apply<O>(s.v[i], x[i]);
  }
};

}  // namespace collective
}  // namespace goccl
