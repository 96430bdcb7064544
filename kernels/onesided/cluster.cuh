// The barrier of a launch of one block or of one cluster.
#pragma once

#include <goccl/sync.cuh>

namespace goccl {
namespace onesided {

// meet is a barrier of all threads of the launch: what each has written is visible to all behind it, and so comes
// before a release by any of them.
GOCCL_DEVICE void meet() {
#if GOCCL_CUDA && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (gridDim.x > 1) {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    return;
  }
#endif
  __syncthreads();
}

}  // namespace onesided
}  // namespace goccl
