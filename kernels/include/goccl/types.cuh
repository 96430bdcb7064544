// Element types: the twelve of the API, with conversions to and from float that need no header of the CUDA toolkit.
//
// Narrow floating types are structs of raw bits. Rounding is to nearest, ties to even. The 8-bit types saturate: what
// overflows, and infinity, becomes the largest finite value; NaN stays NaN.
#pragma once

#include <goccl/config.cuh>

#if !GOCCL_CUDA
#include <cstring>
#endif

namespace goccl {

// Type is numbered as datatype.Type in Go and ncclDataType_t.
enum class Type : uint32_t {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  uint32 = 3,
  int64 = 4,
  uint64 = 5,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
  float8e4m3 = 10,
  float8e5m2 = 11,
};

struct Float16 {
  uint16_t bits;
};
struct Bfloat16 {
  uint16_t bits;
};
struct Float8E4M3 {
  uint8_t bits;
};
struct Float8E5M2 {
  uint8_t bits;
};

GOCCL_DEVICE uint32_t floatBits(float f) {
#if GOCCL_CUDA
  return __float_as_uint(f);
#else
  uint32_t u;
  std::memcpy(&u, &f, sizeof u);
  return u;
#endif
}
GOCCL_DEVICE float bitsFloat(uint32_t u) {
#if GOCCL_CUDA
  return __uint_as_float(u);
#else
  float f;
  std::memcpy(&f, &u, sizeof f);
  return f;
#endif
}

// narrowFloat rounds f to a format with exponentBits and mantissaBits, in integer arithmetic: the fallback where the
// hardware has no conversion. With saturate, overflow gives maxFinite; otherwise it gives infinity, which is maxFinite
// + 1. nan is the format's NaN without sign.
template <int exponentBits, int mantissaBits>
GOCCL_DEVICE uint32_t narrowFloat(float f, uint32_t maxFinite, uint32_t nan, bool saturate) {
  constexpr int bias = (1 << (exponentBits - 1)) - 1;
  constexpr int drop = 23 - mantissaBits;
  uint32_t u = floatBits(f);
  uint32_t sign = (u >> 31) << (exponentBits + mantissaBits);
  uint32_t mag = u & 0x7fffffffu;
  if (mag > 0x7f800000u) return sign | nan;
  int exponent = static_cast<int>(mag >> 23) - 127 + bias;
  uint32_t out;
  if (exponent >= 1) {
    uint32_t r = (static_cast<uint32_t>(exponent) << 23) | (mag & 0x7fffffu);
    if (exponent >= (1 << exponentBits) + 1) r = 0x7f800000u;  // also infinity; far above maxFinite after the shift
    out = (r + ((1u << (drop - 1)) - 1) + ((r >> drop) & 1)) >> drop;
  } else {
    // Subnormal in the target: shift the significand, keeping the bits shifted out for rounding.
    int shift = drop + 1 - exponent;
    if (shift > 24) return sign;  // below half of the smallest subnormal
    uint32_t s = (mag & 0x7fffffu) | (mag >> 23 ? 0x800000u : 0u);
    uint32_t rest = s & ((1u << shift) - 1), half = 1u << (shift - 1);
    out = s >> shift;
    if (rest > half || (rest == half && (out & 1))) ++out;
  }
  if (out > maxFinite) out = saturate ? maxFinite : maxFinite + 1;
  return sign | out;
}

// widenFloat reads bits of a format with infinities (IEEE) or without (E4M3, whose only NaN is all ones).
template <int exponentBits, int mantissaBits, bool ieee>
GOCCL_DEVICE float widenFloat(uint32_t bits) {
  constexpr int bias = (1 << (exponentBits - 1)) - 1;
  uint32_t sign = (bits >> (exponentBits + mantissaBits)) << 31;
  uint32_t mag = bits & ((1u << (exponentBits + mantissaBits)) - 1);
  uint32_t exponent = mag >> mantissaBits, mantissa = mag & ((1u << mantissaBits) - 1);
  if (ieee ? exponent == (1u << exponentBits) - 1 : mag == (1u << (exponentBits + mantissaBits)) - 1)
    return bitsFloat(sign | 0x7f800000u | (ieee ? mantissa << (23 - mantissaBits) : 0x400000u));
  if (exponent == 0) {  // subnormal: exact as a product
    float f = static_cast<float>(mantissa) * bitsFloat(static_cast<uint32_t>(127 - bias + 1 - mantissaBits) << 23);
    return bitsFloat(sign | floatBits(f));
  }
  return bitsFloat(sign | ((exponent + 127 - bias) << 23) | mantissa << (23 - mantissaBits));
}

GOCCL_DEVICE float toFloat(Float16 v) {
#if GOCCL_CUDA
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v.bits));
  return f;
#else
  return widenFloat<5, 10, true>(v.bits);
#endif
}
GOCCL_DEVICE float toFloat(Bfloat16 v) { return bitsFloat(static_cast<uint32_t>(v.bits) << 16); }

// Two 8-bit values at once: the hardware converts pairs.
GOCCL_DEVICE void toFloat2(Float8E4M3 a, Float8E4M3 b, float& x, float& y) {
#if GOCCL_CUDA && __CUDA_ARCH__ >= 890
  uint32_t h;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(h) : "h"(static_cast<uint16_t>(a.bits | b.bits << 8)));
  x = toFloat(Float16{static_cast<uint16_t>(h)});
  y = toFloat(Float16{static_cast<uint16_t>(h >> 16)});
#else
  x = widenFloat<4, 3, false>(a.bits);
  y = widenFloat<4, 3, false>(b.bits);
#endif
}
// E5M2 is the upper half of a float16.
GOCCL_DEVICE void toFloat2(Float8E5M2 a, Float8E5M2 b, float& x, float& y) {
  x = toFloat(Float16{static_cast<uint16_t>(a.bits << 8)});
  y = toFloat(Float16{static_cast<uint16_t>(b.bits << 8)});
}
GOCCL_DEVICE float toFloat(Float8E4M3 v) {
  float x, y;
  toFloat2(v, v, x, y);
  return x;
}
GOCCL_DEVICE float toFloat(Float8E5M2 v) { return toFloat(Float16{static_cast<uint16_t>(v.bits << 8)}); }

GOCCL_DEVICE void fromFloat(float f, Float16& out) {
#if GOCCL_CUDA
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out.bits) : "f"(f));
#else
  out.bits = static_cast<uint16_t>(narrowFloat<5, 10>(f, 0x7bff, 0x7fff, false));
#endif
}
GOCCL_DEVICE void fromFloat(float f, Bfloat16& out) {
#if GOCCL_CUDA
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out.bits) : "f"(f));
#else
  uint32_t u = floatBits(f);
  out.bits =
      (u & 0x7fffffffu) > 0x7f800000u ? uint16_t{0x7fff} : static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
#endif
}
GOCCL_DEVICE void fromFloat2(float x, float y, Float8E4M3& a, Float8E4M3& b) {
#if GOCCL_CUDA && __CUDA_ARCH__ >= 890
  uint16_t p;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(p) : "f"(y), "f"(x));
  a.bits = static_cast<uint8_t>(p);
  b.bits = static_cast<uint8_t>(p >> 8);
#else
  a.bits = static_cast<uint8_t>(narrowFloat<4, 3>(x, 0x7e, 0x7f, true));
  b.bits = static_cast<uint8_t>(narrowFloat<4, 3>(y, 0x7e, 0x7f, true));
#endif
}
GOCCL_DEVICE void fromFloat2(float x, float y, Float8E5M2& a, Float8E5M2& b) {
#if GOCCL_CUDA && __CUDA_ARCH__ >= 890
  uint16_t p;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(p) : "f"(y), "f"(x));
  a.bits = static_cast<uint8_t>(p);
  b.bits = static_cast<uint8_t>(p >> 8);
#else
  a.bits = static_cast<uint8_t>(narrowFloat<5, 2>(x, 0x7b, 0x7f, true));
  b.bits = static_cast<uint8_t>(narrowFloat<5, 2>(y, 0x7b, 0x7f, true));
#endif
}
GOCCL_DEVICE void fromFloat(float f, Float8E4M3& out) {
  Float8E4M3 other;
  fromFloat2(f, f, out, other);
}
GOCCL_DEVICE void fromFloat(float f, Float8E5M2& out) {
  Float8E5M2 other;
  fromFloat2(f, f, out, other);
}

// Element maps a Type to what lies in memory and to what arithmetic is done in: 8- and 16-bit floating types in float,
// the rest in themselves.
template <Type T>
struct Element;
#define GOCCL_ELEMENT(type, storage, accumulator)     \
  template <>                                         \
  struct Element<Type::type> {                        \
    using Storage = storage;                          \
    using Accumulator = accumulator;                  \
    static constexpr uint32_t size = sizeof(storage); \
    static constexpr uint32_t perVector = 16 / size;  \
  };
GOCCL_ELEMENT(int8, int8_t, int32_t)
GOCCL_ELEMENT(uint8, uint8_t, uint32_t)
GOCCL_ELEMENT(int32, int32_t, int32_t)
GOCCL_ELEMENT(uint32, uint32_t, uint32_t)
GOCCL_ELEMENT(int64, int64_t, int64_t)
GOCCL_ELEMENT(uint64, uint64_t, uint64_t)
GOCCL_ELEMENT(float16, Float16, float)
GOCCL_ELEMENT(float32, float, float)
GOCCL_ELEMENT(float64, double, double)
GOCCL_ELEMENT(bfloat16, Bfloat16, float)
GOCCL_ELEMENT(float8e4m3, Float8E4M3, float)
GOCCL_ELEMENT(float8e5m2, Float8E5M2, float)
#undef GOCCL_ELEMENT

// For instantiating kernels: GOCCL_FOR_EACH_TYPE invokes M(type) for each of the twelve types,
// GOCCL_FOR_EACH_KERNEL_TYPE for the types that kernels are compiled for; unsigned integers use the kernels of signed
// ones (goccl/reduce.cuh). clang-format off
#define GOCCL_FOR_EACH_TYPE(M) GOCCL_FOR_EACH_KERNEL_TYPE(M) M(uint8) M(uint32) M(uint64)
#define GOCCL_FOR_EACH_KERNEL_TYPE(M) \
  M(int8) M(int32) M(int64) M(float16) M(float32) M(float64) M(bfloat16) M(float8e4m3) M(float8e5m2)
// clang-format on

}  // namespace goccl
