// The names of MSCCL++'s device API over goccl's headers, so that kernels written for it compile unchanged.
//
// Differences that a kernel may notice: waits return a status and end by deadline or abort instead of trapping; a handle's layout is goccl's, so its
// size must be taken from the handle that the host gives, never assumed.
#pragma once

#include <goccl/handle.cuh>

#define MSCCLPP_DEVICE_COMPILE 1
#define MSCCLPP_DEVICE_CUDA 1
#define MSCCLPP_DEVICE_INLINE __forceinline__ __device__
#define MSCCLPP_HOST_DEVICE_INLINE __forceinline__ __host__ __device__
#define MSCCLPP_INLINE __forceinline__

namespace mscclpp {

// A kernel that is polled by maxSpinCount negative waits for the abort word or the deadline.
using goccl::AbortBlock;
using goccl::Status;

}  // namespace mscclpp
