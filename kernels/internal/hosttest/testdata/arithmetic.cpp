// Copies, conversions and reductions against naive twins. No threads.
#include "ranks.hpp"

#include <cmath>
#include <limits>

using namespace ranks;

template <int exponentBits, int mantissaBits, bool ieee>
double decode(uint32_t bits) {
  int bias = (1 << (exponentBits - 1)) - 1;
  int e = static_cast<int>(bits >> mantissaBits) & ((1 << exponentBits) - 1);
  int m = static_cast<int>(bits) & ((1 << mantissaBits) - 1);
  double sign = bits >> (exponentBits + mantissaBits) & 1 ? -1 : 1;
  if (ieee && e == (1 << exponentBits) - 1) return m != 0 ? NAN : sign * INFINITY;
  if (!ieee && (bits & ((1 << (exponentBits + mantissaBits)) - 1)) == (1u << (exponentBits + mantissaBits)) - 1)
    return NAN;
  if (e == 0) return sign * std::ldexp(m, 1 - bias - mantissaBits);
  return sign * std::ldexp((1 << mantissaBits) + m, e - bias - mantissaBits);
}

bool same(double a, double b) { return a == b ? std::signbit(a) == std::signbit(b) : std::isnan(a) && std::isnan(b); }

// nearest rounds by trying every value of the format: ties to even, saturating or to infinity.
template <class T, int exponentBits, int mantissaBits, bool ieee, bool saturate>
void checkFormat(const char* name) {
  constexpr uint32_t count = 1u << (1 + exponentBits + mantissaBits);
  std::vector<double> values(count);
  double largest = 0;
  for (uint32_t b = 0; b < count; ++b) {
    T v;
    v.bits = static_cast<decltype(v.bits)>(b);
    values[b] = decode<exponentBits, mantissaBits, ieee>(b);
    CHECK(same(toFloat(v), values[b]), "%s: bits %x widen to %g, not %g", name, b, toFloat(v), values[b]);
    if (std::isfinite(values[b])) largest = std::max(largest, values[b]);
  }
  auto check = [&](float f) {
    T got;
    fromFloat(f, got);
    double g = values[got.bits];
    if (std::isnan(f)) {
      CHECK(std::isnan(g), "%s: NaN narrows to %g", name, g);
      return;
    }
    CHECK(std::signbit(g) == std::signbit(f), "%s: %g narrows to %g", name, f, g);
    double magnitude = std::fabs(static_cast<double>(f)), step = std::ldexp(1.0, std::ilogb(largest) - mantissaBits);
    if (magnitude >= largest + step / 2) {
      CHECK(saturate ? std::fabs(g) == largest : std::isinf(g), "%s: %g narrows to %g", name, f, g);
      return;
    }
    // The distance to the neighbours of the result in bits decides.
    uint32_t mag = got.bits & (count / 2 - 1);
    double below = mag > 0 ? std::fabs(values[mag - 1]) : -1, above = std::fabs(values[mag + 1]), here = std::fabs(g),
           distance = std::fabs(here - magnitude);
    CHECK(std::isfinite(here), "%s: %g narrows to %g", name, f, g);
    if (below >= 0) {
      double d = std::fabs(below - magnitude);
      CHECK(distance < d || (distance == d && (mag & 1) == 0), "%s: %g narrows to %g, not %g", name, f, g, below);
    }
    if (std::isfinite(above)) {
      double d = std::fabs(above - magnitude);
      CHECK(distance < d || (distance == d && (mag & 1) == 0), "%s: %g narrows to %g, not %g", name, f, g, above);
    }
  };
  for (uint32_t b = 0; b < count; ++b) {
    if (!std::isfinite(values[b])) continue;
    float f = static_cast<float>(values[b]);
    check(f);
    check(std::nextafter(f, INFINITY));
    check(std::nextafter(f, -INFINITY));
    if (b + 1 < count && std::isfinite(values[b + 1])) {
      float middle = static_cast<float>((values[b] + values[b + 1]) / 2);
      check(middle);
      check(std::nextafter(middle, INFINITY));
      check(std::nextafter(middle, -INFINITY));
    }
  }
  for (uint32_t u = 1; u != 0 && u < 0xfffe0000u; u += 0x1f1f3) check(bitsFloat(u));
  for (float f : {0.0f, -0.0f, 1e30f, -1e30f, 1e-40f, INFINITY, -INFINITY, NAN}) check(f);
}

template <Type T>
typename Element<T>::Storage element(uint32_t i) {
  using S = typename Element<T>::Storage;
  uint64_t bits = i * 0x9e3779b97f4a7c15ull;
  if constexpr (T == Type::float32 || T == Type::float64) {
    return static_cast<S>(static_cast<int>(i * 37 % 201) - 100) / 8;
  } else if constexpr (sizeof(typename Element<T>::Accumulator) == 4 && !std::is_integral_v<S>) {
    S s;
    fromFloat((static_cast<float>(i * 37 % 31) - 15) / 4, s);
    return s;
  } else {
    return static_cast<S>(bits >> 13);
  }
}

template <Type T>
bool equal(typename Element<T>::Storage a, typename Element<T>::Storage b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

// naive does one element in the accumulator's type, by the definition of the operator.
template <Type T, Op O>
typename Element<T>::Storage naive(const std::vector<typename Element<T>::Storage>& in) {
  auto acc = widen<T>(in[0]);
  using A = decltype(acc);
  for (size_t r = 1; r < in.size(); ++r) {
    A x = widen<T>(in[r]);
    if constexpr (std::is_integral_v<A>) {
      using U = std::make_unsigned_t<A>;
      if constexpr (O == Op::sum) acc = static_cast<A>(static_cast<U>(acc) + static_cast<U>(x));
      if constexpr (O == Op::prod) acc = static_cast<A>(static_cast<U>(acc) * static_cast<U>(x));
    } else {
      if constexpr (O == Op::sum) acc += x;
      if constexpr (O == Op::prod) acc *= x;
    }
    if constexpr (O == Op::max) acc = std::max(acc, x);
    if constexpr (O == Op::min) acc = std::min(acc, x);
  }
  return narrow<T>(acc);
}

template <Type T, Op O>
void checkReduce() {
  using S = typename Element<T>::Storage;
  constexpr uint32_t n = Element<T>::perVector, ranksN = 5;
  alignas(16) S in[ranksN][n];
  alignas(16) S out[n];
  for (uint32_t trial = 0; trial < 20; ++trial) {
    Accumulator<T, O> acc;
    for (uint32_t r = 0; r < ranksN; ++r) {
      for (uint32_t i = 0; i < n; ++i) in[r][i] = element<T>(trial * 1000 + r * 50 + i);
      if (r == 0)
        acc.load(loadVec(in[r]));
      else
        acc.add(loadVec(in[r]));
    }
    storeVec(out, acc.result());
    for (uint32_t i = 0; i < n; ++i) {
      std::vector<S> column;
      for (uint32_t r = 0; r < ranksN; ++r) column.push_back(in[r][i]);
      CHECK((equal<T>(out[i], naive<T, O>(column))), "type %u op %u element %u", static_cast<uint32_t>(T),
            static_cast<uint32_t>(O), i);
    }
  }
}

template <Type T>
void checkType() {
  checkReduce<T, Op::sum>();
  checkReduce<T, Op::prod>();
  checkReduce<T, Op::max>();
  checkReduce<T, Op::min>();
  // Average and pre-multiplication, on values where both are exact.
  using S = typename Element<T>::Storage;
  using A = typename Element<T>::Accumulator;
  constexpr uint32_t n = Element<T>::perVector;
  alignas(16) S in[n];
  alignas(16) S out[n];
  for (uint32_t i = 0; i < n; ++i) in[i] = narrow<T>(static_cast<A>(i % 8));
  Accumulator<T, Op::sum> acc;
  acc.loadScaled(loadVec(in), A(3));
  acc.addScaled(loadVec(in), A(1));
  acc.divide(2);
  storeVec(out, acc.result());
  for (uint32_t i = 0; i < n; ++i)
    CHECK(equal<T>(out[i], narrow<T>(static_cast<A>(i % 8 * 2))), "average of type %u", static_cast<uint32_t>(T));
}

// The average of the largest number over any number of ranks is that number.
template <Type T>
void checkLargest() {
  using S = typename Element<T>::Storage;
  using A = typename Element<T>::Accumulator;
  constexpr uint32_t n = Element<T>::perVector;
  const A most = largest<T, A>();
  alignas(16) S in[n], out[n];
  for (uint32_t i = 0; i < n; ++i) in[i] = narrow<T>(i % 2 ? -most : most);
  for (uint32_t ranksN = 1; ranksN < 200; ++ranksN) {
    const A before = powerOfTwo<A>(-static_cast<int32_t>(averageShift(ranksN)));
    Accumulator<T, Op::sum> acc;
    acc.loadScaled(loadVec(in), before);
    for (uint32_t r = 1; r < ranksN; ++r) acc.addScaled(loadVec(in), before);
    acc.divide(ranksN | scaledTerms);
    storeVec(out, acc.result());
    for (uint32_t i = 0; i < n; ++i) {
      const A a = widen<T>(out[i]), b = widen<T>(in[i]);
      CHECK(a / b > A(0.99999) && a / b <= A(1), "type %u, %u ranks: %g of %g", static_cast<uint32_t>(T), ranksN,
            static_cast<double>(a), static_cast<double>(b));
    }
  }
}

// What the kernels of signed type T do for unsigned type U of its size, beside what U's own accumulator does.
template <Type T, Type U>
void checkUnsigned() {
  using S = typename Element<U>::Storage;
  using A = typename Element<T>::Accumulator;
  constexpr uint32_t n = Element<U>::perVector, ranksN = 5;
  alignas(16) S in[ranksN][n];
  for (uint32_t trial = 0; trial < 20; ++trial) {
    for (uint32_t op = 0; op < 5; ++op) {  // as numbered, and 4 for the average
      Accumulator<T, Op::sum> shared;
      Accumulator<U, Op::sum> own;
      const A bias = decltype(shared)::biasOf(op | unsignedBit);
      for (uint32_t r = 0; r < ranksN; ++r) {
        for (uint32_t i = 0; i < n; ++i) {
          uint64_t bits = (trial * 1000 + r * 50 + i * 7 + 1) * 0x9e3779b97f4a7c15u;
          in[r][i] = static_cast<S>(bits >> (64 - 8 * sizeof(S)));
        }
        A x[n];
        typename Element<U>::Accumulator y[n];
        unpack<T>(loadVec(in[r]), x);
        unpack<U>(loadVec(in[r]), y);
        if (r == 0) {
          shared.load(loadVec(in[r]));
          own.load(loadVec(in[r]));
        } else if (op == 1) {
          shared.template fold<Op::prod>(x), own.template fold<Op::prod>(y);
        } else if (op == 2) {
          shared.template foldBiased<Op::max>(x, bias), own.template fold<Op::max>(y);
        } else if (op == 3) {
          shared.template foldBiased<Op::min>(x, bias), own.template fold<Op::min>(y);
        } else {
          shared.template fold<Op::sum>(x), own.template fold<Op::sum>(y);
        }
      }
      if (op == 4) shared.divide(ranksN, bias != A(0)), own.divide(ranksN);
      const uint4 a = shared.result(), b = own.result();
      CHECK(std::memcmp(&a, &b, 16) == 0, "type %u as %u, operator %u", static_cast<uint32_t>(U),
            static_cast<uint32_t>(T), op);
    }
  }
}

void checkCopy() {
  constexpr uint64_t room = 512;
  Memory a(room + 64), b(room + 64);
  for (uint64_t i = 0; i < room + 64; ++i) a.data[i] = static_cast<uint8_t>(i * 7 + (i >> 5));
  for (uint32_t src = 0; src < 17; ++src)
    for (uint32_t dst = 0; dst < 17; ++dst)
      for (uint64_t bytes = 0; bytes < 300; bytes = bytes < 70 ? bytes + 1 : bytes + 37)
        for (uint32_t nthreads : {1u, 3u, 20u}) {
          std::memset(b.data, 0xee, room + 64);
          for (uint32_t t = 0; t < nthreads; ++t)
            copyBytes<2>(b.data + 16 + dst, a.data + 16 + src, bytes, t, nthreads);
          CHECK(std::memcmp(b.data + 16 + dst, a.data + 16 + src, bytes) == 0, "copy +%u to +%u, %lu bytes, %u threads",
                src, dst, static_cast<unsigned long>(bytes), nthreads);
          for (uint64_t i = 0; i < 16 + dst; ++i) CHECK(b.data[i] == 0xee, "wrote before the target");
          for (uint64_t i = 16 + dst + bytes; i < room; ++i) CHECK(b.data[i] == 0xee, "wrote after the target");
        }
}

int main() {
  checkLargest<Type::float16>(), checkLargest<Type::bfloat16>();
  checkLargest<Type::float32>(), checkLargest<Type::float64>();
  checkCopy();
  checkFormat<Float16, 5, 10, true, false>("float16");
  checkFormat<Bfloat16, 8, 7, true, false>("bfloat16");
  checkFormat<Float8E4M3, 4, 3, false, true>("float8e4m3");
  checkFormat<Float8E5M2, 5, 2, true, true>("float8e5m2");
#define CHECK_TYPE(t) checkType<Type::t>();
  GOCCL_FOR_EACH_TYPE(CHECK_TYPE)
  checkUnsigned<Type::int8, Type::uint8>();
  checkUnsigned<Type::int32, Type::uint32>();
  checkUnsigned<Type::int64, Type::uint64>();
  float nan = NAN;
  CHECK(apply<Op::max>(nan, 1.0f) == 1 && apply<Op::max>(1.0f, nan) == 1 && apply<Op::min>(nan, 1.0f) == 1 &&
            apply<Op::min>(1.0f, nan) == 1,
        "NaN against a number");
  return 0;
}
