// Port channels, and their older name proxy channels.
#pragma once

#include <mscclpp/fifo_device.hpp>
#include <mscclpp/semaphore_device.hpp>

namespace mscclpp {

using SemaphoreId = uint32_t;
using MemoryId = uint32_t;

using BasePortChannelDeviceHandle = goccl::BasePortChannelHandle;
using PortChannelDeviceHandle = goccl::PortChannelHandle;
using ProxyChannelDeviceHandle = goccl::BasePortChannelHandle;
using SimpleProxyChannelDeviceHandle = goccl::PortChannelHandle;

struct BasePortChannel {
  using DeviceHandle = BasePortChannelDeviceHandle;
};
struct PortChannel {
  using DeviceHandle = PortChannelDeviceHandle;
};
struct ProxyChannel {
  using DeviceHandle = ProxyChannelDeviceHandle;
};
struct SimpleProxyChannel {
  using DeviceHandle = SimpleProxyChannelDeviceHandle;
};

}  // namespace mscclpp
