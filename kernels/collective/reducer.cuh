// A Reducer folds 16-byte vectors of one type in rank order, with the scalings of avg and pre-multiplied sum.
#pragma once

#include <collective/args.cuh>
#include <goccl/reduce.cuh>

namespace goccl {
namespace collective {

// Scaled says that a pre-multiplied sum may be asked for. The terms of an average are scaled, too, where their sum may
// overflow.
template <Type T, Op O, bool Scaled = true>
struct Reducer {
  static constexpr bool folds = true;
  using Sum = Accumulator<T, O>;
  using A = typename Element<T>::Accumulator;
  using S = typename Element<T>::Storage;
  bool pre, avg;
  A factor;
  uint32_t n;

  // operatorOf is the Operator; what unsigned integers do otherwise is AnyReducer's.
  static GOCCL_DEVICE uint32_t operatorOf(const Args& a) { return isSigned<T> ? a.op & ~unsignedBit : a.op; }

  GOCCL_DEVICE explicit Reducer(const Args& a)
      : pre(Scaled && operatorOf(a) == opPreMulSum), avg(operatorOf(a) == opAvg), factor(), n(a.nranks) {
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
  // scaled is what a rank does to its own data before another rank sees it: each rank of a pre-multiplied sum has its
  // own factor.
  GOCCL_DEVICE uint4 scaled(const uint4& v) const {
    if (sumOverflows<T> && avg && (n & scaledTerms) == 0) return Sum::averageTerm(v, n);
    if (!Scaled || !pre) return v;
    Sum own;
    own.loadScaled(v, factor);
    return own.result();
  }
  // scale does that to a unit of packets.
  template <class Data>
  GOCCL_DEVICE void scale(Data& d) const {
    if ((Scaled && pre) || (sumOverflows<T> && avg)) d.set(scaled(d.vector()));
  }
  GOCCL_DEVICE void begin(Sum& sum, const uint4& v) const { sum.load(v); }
  GOCCL_DEVICE void add(Sum& sum, const uint4& v) const { sum.add(v); }
  GOCCL_DEVICE void divide(Sum& sum, bool asUnsignedElements = false) const {
    if constexpr (sumOverflows<T>)
      sum.divideScaled(n);
    else
      sum.divide(n, asUnsignedElements);
  }
  GOCCL_DEVICE uint4 end(Sum& sum) const {
    if (avg) divide(sum);
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
  A bias;

  GOCCL_DEVICE explicit AnyReducer(const Args& a) : sum(a), op(sum.operatorOf(a)), bias(Sum::biasOf(a.op)) {}
  GOCCL_DEVICE uint4 scaled(const uint4& v) const { return sum.scaled(v); }
  template <class Data>
  GOCCL_DEVICE void scale(Data& d) const {
    sum.scale(d);
  }
  GOCCL_DEVICE void begin(Sum& s, const uint4& v) const { sum.begin(s, v); }
  GOCCL_DEVICE void add(Sum& s, const uint4& v) const {
    A x[Sum::count];
    unpack<T>(v, x);
    if (op == opProd)
      s.template fold<Op::prod>(x);
    else if (op == opMax)
      s.template foldBiased<Op::max>(x, bias);
    else if (op == opMin)
      s.template foldBiased<Op::min>(x, bias);
    else
      s.template fold<Op::sum>(x);
  }
  GOCCL_DEVICE uint4 end(Sum& s) const {
    if (sum.avg) sum.divide(s, bias != A(0));
    return s.result();
  }
};

}  // namespace collective
}  // namespace goccl
