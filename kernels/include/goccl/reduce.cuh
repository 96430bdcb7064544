// Reductions on vectors of 16 bytes, for every type and operator.
//
// An Accumulator holds the widened elements of one vector. Accumulate in a fixed rank order on all ranks, round once at
// the end: the result is then the same bit for bit on every rank and in every run. 8- and 16-bit floating types
// accumulate in float; integers wrap.
#pragma once

#include <goccl/sync.cuh>
#include <goccl/types.cuh>

namespace goccl {

// Op is numbered as datatype.Op in Go and ncclRedOp_t. Avg and PreMulSum are sums with a scaling after or before.
enum class Op : uint32_t { sum = 0, prod = 1, max = 2, min = 3 };

// apply reduces two accumulator values. Of a number and a NaN, min and max take the number.
template <Op O, class A>
GOCCL_DEVICE A apply(A a, A b) {
  if constexpr (O == Op::sum) return a + b;
  if constexpr (O == Op::prod) return a * b;
  if constexpr (O == Op::max) return b > a || a != a ? b : a;
  if constexpr (O == Op::min) return b < a || a != a ? b : a;
}
// Signed overflow is undefined in C++ and wraps here.
template <Op O>
GOCCL_DEVICE int32_t apply(int32_t a, int32_t b) {
  if constexpr (O == Op::sum) return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
  if constexpr (O == Op::prod) return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
  if constexpr (O == Op::max) return a > b ? a : b;
  if constexpr (O == Op::min) return a < b ? a : b;
}
template <Op O>
GOCCL_DEVICE int64_t apply(int64_t a, int64_t b) {
  if constexpr (O == Op::sum) return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  if constexpr (O == Op::prod) return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  if constexpr (O == Op::max) return a > b ? a : b;
  if constexpr (O == Op::min) return a < b ? a : b;
}

// Signed and unsigned integers of one size share the kernels of the signed type. Sums and products are the same bits;
// where max, min and avg differ, a kernel that knows its operator at run time finds this bit in it.
constexpr uint32_t unsignedBit = 8;

template <Type T>
constexpr bool isSigned = T == Type::int8 || T == Type::int32 || T == Type::int64;

GOCCL_DEVICE uint32_t asUnsigned(int32_t v) { return static_cast<uint32_t>(v); }
GOCCL_DEVICE uint64_t asUnsigned(int64_t v) { return static_cast<uint64_t>(v); }

template <class A>
constexpr GOCCL_HOST_DEVICE bool isFloat() {
  return A(1) / A(2) != A(0);
}

// An average of finite elements is finite, and their sum may not be. So the terms are multiplied by 2^-k before anybody
// adds them, where 2^k is at least the number of ranks, and the sum is multiplied by 2^k over that number. Results are
// the same bits, unless a sum is below 2^k times the smallest normal number.
//
// scaledTerms is a bit of the number of ranks and says so. sumOverflows: sums overflow even before they are rounded.
constexpr uint32_t scaledTerms = 1u << 31;

template <Type T>
constexpr bool sumOverflows = T == Type::bfloat16 || T == Type::float32 || T == Type::float64;

// averageShift is that k.
GOCCL_DEVICE uint32_t averageShift(uint32_t n) {
#if GOCCL_CUDA
  return n <= 1 ? 0 : 32 - static_cast<uint32_t>(__clz(static_cast<int>(n - 1)));
#else
  return n <= 1 ? 0 : 32 - static_cast<uint32_t>(__builtin_clz(n - 1));
#endif
}

// powerOfTwo is 2^k for small k.
template <class A>
GOCCL_DEVICE A powerOfTwo(int32_t k) {
  if constexpr (sizeof(A) == 4) {
    return bitsFloat(static_cast<uint32_t>(127 + k) << 23);
  } else {
    const uint64_t bits = static_cast<uint64_t>(1023 + k) << 52;
#if GOCCL_CUDA
    return __longlong_as_double(static_cast<long long>(bits));
#else
    A v;
    std::memcpy(&v, &bits, 8);
    return v;
#endif
  }
}

// largest is the largest finite number of a floating type of at least 16 bits.
template <Type T, class A>
constexpr GOCCL_HOST_DEVICE A largest() {
  if constexpr (T == Type::float16) return A(65504);
  if constexpr (T == Type::bfloat16) return A(3.3895313892515355e38);
  if constexpr (T == Type::float32) return A(3.4028234663852886e38);
  return sizeof(A) == 8 ? A(1.7976931348623157e308) : A(57344);
}

// widen and narrow convert one element between memory and accumulator.
template <Type T>
GOCCL_DEVICE typename Element<T>::Accumulator widen(typename Element<T>::Storage v) {
  using S = typename Element<T>::Storage;
  if constexpr (sizeof(S) <= 2 && T != Type::int8 && T != Type::uint8)
    return toFloat(v);
  else
    return static_cast<typename Element<T>::Accumulator>(v);
}
template <Type T>
GOCCL_DEVICE typename Element<T>::Storage narrow(typename Element<T>::Accumulator a) {
  using S = typename Element<T>::Storage;
  if constexpr (sizeof(S) <= 2 && T != Type::int8 && T != Type::uint8) {
    S v;
    fromFloat(a, v);
    return v;
  } else {
    return static_cast<S>(a);
  }
}

// word returns 32-bit word i of a vector; with a constant i it costs nothing.
GOCCL_DEVICE uint32_t word(const uint4& v, uint32_t i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

// unpack widens the 16/size elements of a vector, pack rounds them back. Index arithmetic is on constants, so
// everything stays in registers.
template <Type T>
GOCCL_DEVICE void unpack(const uint4& v, typename Element<T>::Accumulator* out) {
  using S = typename Element<T>::Storage;
  if constexpr (sizeof(S) == 8) {
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      uint64_t bits = static_cast<uint64_t>(word(v, 2 * i + 1)) << 32 | word(v, 2 * i);
      if constexpr (T == Type::float64) {
#if GOCCL_CUDA
        out[i] = __longlong_as_double(static_cast<long long>(bits));
#else
        std::memcpy(&out[i], &bits, 8);
#endif
      } else {
        out[i] = static_cast<S>(bits);
      }
    }
  } else if constexpr (sizeof(S) == 4) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      if constexpr (T == Type::float32)
        out[i] = bitsFloat(word(v, i));
      else
        out[i] = static_cast<S>(word(v, i));
    }
  } else if constexpr (sizeof(S) == 2) {
#pragma unroll
    for (uint32_t i = 0; i < 8; ++i) out[i] = toFloat(S{static_cast<uint16_t>(word(v, i / 2) >> (16 * (i & 1)))});
  } else if constexpr (T == Type::int8 || T == Type::uint8) {
#pragma unroll
    for (uint32_t i = 0; i < 16; ++i) out[i] = static_cast<S>(word(v, i / 4) >> (8 * (i & 3)));
  } else {
#pragma unroll
    for (uint32_t i = 0; i < 16; i += 2) {
      uint32_t pair = word(v, i / 4) >> (8 * (i & 3));
      toFloat2(S{static_cast<uint8_t>(pair)}, S{static_cast<uint8_t>(pair >> 8)}, out[i], out[i + 1]);
    }
  }
}

template <Type T>
GOCCL_DEVICE uint4 pack(const typename Element<T>::Accumulator* a) {
  using S = typename Element<T>::Storage;
  uint32_t w[4];
  if constexpr (sizeof(S) == 8) {
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      uint64_t bits;
      if constexpr (T == Type::float64) {
#if GOCCL_CUDA
        bits = static_cast<uint64_t>(__double_as_longlong(a[i]));
#else
        std::memcpy(&bits, &a[i], 8);
#endif
      } else {
        bits = static_cast<uint64_t>(a[i]);
      }
      w[2 * i] = static_cast<uint32_t>(bits);
      w[2 * i + 1] = static_cast<uint32_t>(bits >> 32);
    }
  } else if constexpr (sizeof(S) == 4) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      if constexpr (T == Type::float32)
        w[i] = floatBits(a[i]);
      else
        w[i] = static_cast<uint32_t>(a[i]);
    }
  } else if constexpr (sizeof(S) == 2) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      S lo, hi;
      fromFloat(a[2 * i], lo);
      fromFloat(a[2 * i + 1], hi);
      w[i] = lo.bits | static_cast<uint32_t>(hi.bits) << 16;
    }
  } else if constexpr (T == Type::int8 || T == Type::uint8) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i)
      w[i] = (static_cast<uint32_t>(a[4 * i]) & 0xff) | (static_cast<uint32_t>(a[4 * i + 1]) & 0xff) << 8 |
             (static_cast<uint32_t>(a[4 * i + 2]) & 0xff) << 16 | static_cast<uint32_t>(a[4 * i + 3]) << 24;
  } else {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      S e[4];
      fromFloat2(a[4 * i], a[4 * i + 1], e[0], e[1]);
      fromFloat2(a[4 * i + 2], a[4 * i + 3], e[2], e[3]);
      w[i] = e[0].bits | static_cast<uint32_t>(e[1].bits) << 8 | static_cast<uint32_t>(e[2].bits) << 16 |
             static_cast<uint32_t>(e[3].bits) << 24;
    }
  }
  return make_uint4(w[0], w[1], w[2], w[3]);
}

// Accumulator reduces vectors of one type by one operator: load the first rank's vector, add the others in rank order,
// take the result.
template <Type T, Op O>
struct Accumulator {
  using A = typename Element<T>::Accumulator;
  static constexpr uint32_t count = Element<T>::perVector;
  A v[count];

  GOCCL_DEVICE void load(const uint4& x) { unpack<T>(x, v); }

  GOCCL_DEVICE void add(const uint4& x) {
    A y[count];
    unpack<T>(x, y);
#pragma unroll
    for (uint32_t i = 0; i < count; ++i) v[i] = apply<O>(v[i], y[i]);
  }

  // fold adds widened elements by operator P, for callers that know it at run time.
  template <Op P>
  GOCCL_DEVICE void fold(const A* x) {
#pragma unroll
    for (uint32_t i = 0; i < count; ++i) v[i] = apply<P>(v[i], x[i]);
  }
  // foldBiased is fold for max and min. For unsigned elements in a signed type, bias is the sign bit of an A: flipping
  // it makes signed comparison order the elements as unsigned numbers. Otherwise bias is 0.
  template <Op P>
  GOCCL_DEVICE void foldBiased(const A* x, A bias) {
    if constexpr (isSigned<T>) {
#pragma unroll
      for (uint32_t i = 0; i < count; ++i) v[i] = apply<P>(v[i] ^ bias, x[i] ^ bias) ^ bias;
    } else {
      fold<P>(x);
    }
  }
  static GOCCL_DEVICE A biasOf(uint32_t op) {
    if constexpr (isSigned<T>) return (op & unsignedBit) != 0 ? static_cast<A>(A(1) << (8 * sizeof(A) - 1)) : A(0);
    return A(0);
  }

  // loadScaled and addScaled multiply the elements by a scalar first: PreMulSum.
  GOCCL_DEVICE void loadScaled(const uint4& x, A scalar) {
    unpack<T>(x, v);
    scale(scalar);
  }
  GOCCL_DEVICE void addScaled(const uint4& x, A scalar) {
    A y[count];
    unpack<T>(x, y);
#pragma unroll
    for (uint32_t i = 0; i < count; ++i) v[i] = apply<O>(v[i], apply<Op::prod>(y[i], scalar));
  }

  GOCCL_DEVICE void scale(A scalar) {
#pragma unroll
    for (uint32_t i = 0; i < count; ++i) v[i] = apply<Op::prod>(v[i], scalar);
  }

  // averageTerm is a term of an average over n ranks: scaled, where the sum overflows.
  static GOCCL_DEVICE uint4 averageTerm(const uint4& x, uint32_t n) {
    if constexpr (!sumOverflows<T>) return x;
    Accumulator own;
    own.loadScaled(x, powerOfTwo<A>(-static_cast<int32_t>(averageShift(n))));
    return own.result();
  }
  // divideScaled ends a sum of scaled terms. Rounding may take it beyond the largest number, which is the average then.
  GOCCL_DEVICE void divideScaled(uint32_t n) {
    constexpr A most = largest<T, A>();
    n &= ~scaledTerms;
    const A after = A(1) / static_cast<A>(n) * powerOfTwo<A>(static_cast<int32_t>(averageShift(n)));
#pragma unroll
    for (uint32_t i = 0; i < count; ++i) {
      const A average = v[i] * after, size = average < A(0) ? -average : average;
      const bool finite = v[i] - v[i] == A(0);
      v[i] = size > most && finite ? (average < A(0) ? -most : most) : average;
    }
  }

  // divide turns a sum over n ranks into the average: floats by multiplication with 1/n, integers rounding toward zero.
  // A sum of integers wraps in its own type first, also where the accumulator is wider: NCCL and the host device do so,
  // too. asUnsignedElements: elements of a signed type stand for unsigned ones.
  GOCCL_DEVICE void divide(uint32_t n, bool asUnsignedElements = false) {
    if constexpr (isFloat<A>()) {
      if ((n & scaledTerms) != 0)
        divideScaled(n);
      else
        scale(A(1) / static_cast<A>(n));
    } else {
#pragma unroll
      for (uint32_t i = 0; i < count; ++i) {
        const A a = widen<T>(narrow<T>(v[i]));
        if constexpr (isSigned<T>) {
          const bool negative = !asUnsignedElements && a < 0;
          auto u = asUnsigned(a);
          if (sizeof(typename Element<T>::Storage) == 1 && asUnsignedElements) u &= 0xff;
          u = (negative ? 0 - u : u) / n;
          v[i] = static_cast<A>(negative ? 0 - u : u);
        } else {
          v[i] = a / n;
        }
      }
    }
  }

  GOCCL_DEVICE uint4 result() const { return pack<T>(v); }
};

}  // namespace goccl
