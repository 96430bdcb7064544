// Barriers and semaphores among the blocks of a grid.
#pragma once

#include <mscclpp/atomic_device.hpp>
#include <mscclpp/poll_device.hpp>

#if GOCCL_HANDLES

namespace mscclpp {

// DeviceSyncer lies in device memory, zeroed, as a __device__ variable does.
struct DeviceSyncer : goccl::DeviceSyncer {
  GOCCL_DEVICE goccl::Status sync(int blockNum, int64_t maxSpinCount = -1) {
    return goccl::DeviceSyncer::sync(static_cast<uint32_t>(blockNum), nullptr, maxSpinCount);
  }
};

struct DeviceSemaphore : goccl::DeviceSemaphore {
  GOCCL_DEVICE goccl::Status acquire(int64_t maxSpinCount = -1) {
    return goccl::DeviceSemaphore::acquire(nullptr, maxSpinCount);
  }
};

}  // namespace mscclpp

#endif
