// Vectors of elements, as reductions through switch channels use them: f32x4, f16x8 and their like.
#pragma once

#include <mscclpp/device.hpp>

#if !defined(__CUDACC_RTC__)
#include <goccl/data_type.hpp>

namespace mscclpp {
using goccl::DataType;
}  // namespace mscclpp
#endif

#if GOCCL_HANDLES

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif
#include <goccl/reduce.cuh>

namespace mscclpp {

#if defined(__CUDA_FP16_TYPES_EXIST__)
using Half = __half;
#else
using Half = goccl::Float16;
#endif
#if defined(__CUDA_BF16_TYPES_EXIST__)
using Bfloat16 = __nv_bfloat16;
#else
using Bfloat16 = goccl::Bfloat16;
#endif

// VectorType is N elements that are loaded and stored at once, where they have up to 16 bytes.
template <class T, int N>
struct alignas(sizeof(T) * N) VectorType {
  using ElementType = T;
  static constexpr int Size = N;
  union {
    T data[N];
    uint32_t words[(sizeof(T) * N + 3) / 4];
  };
  VectorType() = default;
  // A vector of one element is like the element.
  template <int M = N, class = char[M == 1 ? 1 : -1]>
  MSCCLPP_HOST_DEVICE_INLINE VectorType(const T& v) : data{v} {}
  template <int M = N, class = char[M == 1 ? 1 : -1]>
  MSCCLPP_HOST_DEVICE_INLINE operator T() const {
    return data[0];
  }
  MSCCLPP_HOST_DEVICE_INLINE T& operator[](int i) { return data[i]; }
  MSCCLPP_HOST_DEVICE_INLINE const T& operator[](int i) const { return data[i]; }
};

using i32x1 = VectorType<int32_t, 1>;
using i32x2 = VectorType<int32_t, 2>;
using i32x4 = VectorType<int32_t, 4>;
using u32x1 = VectorType<uint32_t, 1>;
using u32x2 = VectorType<uint32_t, 2>;
using u32x4 = VectorType<uint32_t, 4>;
using u8x2 = VectorType<uint8_t, 2>;
using u8x4 = VectorType<uint8_t, 4>;
using f64x1 = VectorType<double, 1>;
using f32x1 = VectorType<float, 1>;
using f32x2 = VectorType<float, 2>;
using f32x4 = VectorType<float, 4>;
using f16x2 = VectorType<Half, 2>;
using f16x4 = VectorType<Half, 4>;
using f16x8 = VectorType<Half, 8>;
using bf16x2 = VectorType<Bfloat16, 2>;
using bf16x4 = VectorType<Bfloat16, 4>;
using bf16x8 = VectorType<Bfloat16, 8>;
using f8_e4m3x4 = VectorType<goccl::Float8E4M3, 4>;
using f8_e4m3x8 = VectorType<goccl::Float8E4M3, 8>;
using f8_e4m3x16 = VectorType<goccl::Float8E4M3, 16>;
using f8_e5m2x4 = VectorType<goccl::Float8E5M2, 4>;
using f8_e5m2x8 = VectorType<goccl::Float8E5M2, 8>;
using f8_e5m2x16 = VectorType<goccl::Float8E5M2, 16>;

namespace detail {

// TypeOf gives goccl's Type of an element, and the number of elements, of a scalar or a vector.
template <class T>
struct TypeOf;
#define MSCCLPP_TYPE(T, type)                                                     \
  template <>                                                                     \
  struct TypeOf<T> {                                                              \
    static constexpr goccl::Type value = goccl::Type::type;                       \
    static constexpr int count = 1;                                               \
  };
MSCCLPP_TYPE(float, float32)
MSCCLPP_TYPE(double, float64)
MSCCLPP_TYPE(int32_t, int32)
MSCCLPP_TYPE(uint32_t, uint32)
MSCCLPP_TYPE(uint8_t, uint8)
MSCCLPP_TYPE(goccl::Float16, float16)
MSCCLPP_TYPE(goccl::Bfloat16, bfloat16)
MSCCLPP_TYPE(goccl::Float8E4M3, float8e4m3)
MSCCLPP_TYPE(goccl::Float8E5M2, float8e5m2)
#if defined(__CUDA_FP16_TYPES_EXIST__)
MSCCLPP_TYPE(__half, float16)
#endif
#if defined(__CUDA_BF16_TYPES_EXIST__)
MSCCLPP_TYPE(__nv_bfloat16, bfloat16)
#endif
#undef MSCCLPP_TYPE
template <class T, int N>
struct TypeOf<VectorType<T, N>> {
  static constexpr goccl::Type value = TypeOf<T>::value;
  static constexpr int count = N;
};

}  // namespace detail
}  // namespace mscclpp

#endif
