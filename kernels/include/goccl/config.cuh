// Compilation modes and the fixed-width types of every goccl device header.
//
// One source, three compilers: NVRTC (our own kernels, and users' kernels at run time), nvcc or clang (users' builds),
// and a plain C++20 compiler, which makes the same protocols run on CPU threads, for tests under ThreadSanitizer.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__) || defined(__CUDA__)
#define GOCCL_CUDA 1
#define GOCCL_DEVICE __device__ __forceinline__
#define GOCCL_HOST_DEVICE __host__ __device__ __forceinline__
#define GOCCL_COLD inline __device__ __noinline__  // rare code, kept out of line
#else
#define GOCCL_CUDA 0
#define GOCCL_DEVICE inline
#define GOCCL_HOST_DEVICE inline
#define GOCCL_COLD inline
#endif

#if defined(__CUDACC_RTC__)
// NVRTC has no C library; these agree with glibc's on every 64-bit Linux, so a second definition elsewhere does no
// harm.
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef long intptr_t;
typedef unsigned long uintptr_t;
#else
#include <cstddef>
#include <cstdint>
#endif

#if !GOCCL_CUDA
// CUDA's vector types, as far as the headers use them.
struct alignas(8) uint2 {
  unsigned int x, y;
};
struct alignas(16) uint4 {
  unsigned int x, y, z, w;
};
inline uint2 make_uint2(unsigned int x, unsigned int y) { return uint2{x, y}; }
inline uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z, unsigned int w) { return uint4{x, y, z, w}; }
#endif
