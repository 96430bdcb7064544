// The names of MSCCL++'s device API over goccl's headers, so that kernels written for it compile unchanged.
//
// Differences that a kernel may notice: waits return a status and end by deadline or abort instead of trapping; a
// handle's layout is goccl's, so its size must be taken from the handle that the host gives, never assumed.
//
// Host programs get the handles as well. A compiler that is neither CUDA's nor of C++20 sees them as bytes:
// MSCCLPP_DEVICE_COMPILE is then not defined, and they have no functions.
#pragma once

#if defined(__CUDACC_RTC__)
#include <goccl/handle.cuh>
#define GOCCL_HANDLES 1
#else
#include <goccl/handle.hpp>
#endif

#if GOCCL_HANDLES
#define MSCCLPP_DEVICE_COMPILE 1
#if GOCCL_CUDA
#define MSCCLPP_DEVICE_CUDA 1
#define MSCCLPP_DEVICE_INLINE __forceinline__ __device__
#define MSCCLPP_HOST_DEVICE_INLINE __forceinline__ __host__ __device__
#define MSCCLPP_INLINE __forceinline__
#else
#define MSCCLPP_DEVICE_INLINE inline
#define MSCCLPP_HOST_DEVICE_INLINE inline
#define MSCCLPP_INLINE inline
#endif
#else
#define MSCCLPP_HOST_COMPILE 1
#define MSCCLPP_HOST_DEVICE_INLINE inline
#define MSCCLPP_INLINE inline
#endif

namespace mscclpp {

// DeviceHandle<T> is what a kernel gets of host class T.
template <class T>
using DeviceHandle = typename T::DeviceHandle;

#if GOCCL_HANDLES
// A kernel that is polled by maxSpinCount negative waits for the abort word or the deadline.
using goccl::AbortBlock;
using goccl::Status;
#endif

}  // namespace mscclpp
