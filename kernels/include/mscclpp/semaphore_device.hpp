// Semaphores. One handle serves what MSCCL++ has two of: a port channel's has no remote counter, because its signals go
// through the proxy.
#pragma once

#include <mscclpp/poll_device.hpp>

namespace mscclpp {

using MemoryDevice2DeviceSemaphoreDeviceHandle = goccl::SemaphoreHandle;
using SmDevice2DeviceSemaphoreDeviceHandle = goccl::SemaphoreHandle;
using Host2DeviceSemaphoreDeviceHandle = goccl::SemaphoreHandle;

#if defined(__CUDACC_RTC__)
// Host-side class names, for DeviceHandle<T>.
struct MemoryDevice2DeviceSemaphore {
  using DeviceHandle = goccl::SemaphoreHandle;
};
struct Host2DeviceSemaphore {
  using DeviceHandle = goccl::SemaphoreHandle;
};
#endif

}  // namespace mscclpp
