// MSCCL++'s names for goccl/semaphore.hpp.
#pragma once

#include <goccl/semaphore.hpp>
#include <mscclpp/core.hpp>
#include <mscclpp/gpu_utils.hpp>
#include <mscclpp/semaphore_device.hpp>

namespace mscclpp {
using goccl::Host2DeviceSemaphore;
using goccl::Host2HostSemaphore;
using goccl::MemoryDevice2DeviceSemaphore;
using SmDevice2DeviceSemaphore = MemoryDevice2DeviceSemaphore;
}  // namespace mscclpp
