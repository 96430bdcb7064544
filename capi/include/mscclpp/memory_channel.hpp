// MSCCL++'s names for goccl/memory_channel.hpp.
#pragma once

#include <goccl/memory_channel.hpp>
#include <mscclpp/memory_channel_device.hpp>
#include <mscclpp/semaphore.hpp>

namespace mscclpp {
using BaseMemoryChannel = goccl::BaseMemoryChannelOf<BaseMemoryChannelDeviceHandle>;
using MemoryChannel = goccl::MemoryChannelOf<MemoryChannelDeviceHandle>;
using SmChannel = MemoryChannel;
}  // namespace mscclpp
