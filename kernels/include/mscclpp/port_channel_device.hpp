// Port channels, and their older name proxy channels.
#pragma once

#include <mscclpp/fifo_device.hpp>
#include <mscclpp/semaphore_device.hpp>

namespace mscclpp {

using SemaphoreId = uint32_t;
using MemoryId = uint32_t;

// BasePortChannelDeviceHandle adds the forms of one offset.
struct BasePortChannelDeviceHandle : goccl::BasePortChannelHandle {
#if GOCCL_HANDLES
  using Base = goccl::BasePortChannelHandle;
  using Base::put;
  using Base::putWithSignal;
  using Base::putWithSignalAndFlush;
  GOCCL_DEVICE Status put(MemoryId dst, MemoryId src, uint64_t offset, uint64_t size) {
    return Base::put(dst, offset, src, offset, size);
  }
  GOCCL_DEVICE Status putWithSignal(MemoryId dst, MemoryId src, uint64_t offset, uint64_t size) {
    return Base::putWithSignal(dst, offset, src, offset, size);
  }
  GOCCL_DEVICE Status putWithSignalAndFlush(MemoryId dst, MemoryId src, uint64_t offset, uint64_t size) {
    return Base::putWithSignalAndFlush(dst, offset, src, offset, size);
  }
#endif
};
using PortChannelDeviceHandle = goccl::PortChannelHandle;
using ProxyChannelDeviceHandle = BasePortChannelDeviceHandle;
using SimpleProxyChannelDeviceHandle = PortChannelDeviceHandle;

#if defined(__CUDACC_RTC__)
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
#endif

}  // namespace mscclpp
