// Memory channels.
#pragma once

#include <mscclpp/copy_device.hpp>
#include <mscclpp/packet_device.hpp>
#include <mscclpp/semaphore_device.hpp>

namespace mscclpp {

using BaseMemoryChannelDeviceHandle = goccl::BaseMemoryChannelHandle;

// MemoryChannelDeviceHandle adds the template forms and the older names.
struct MemoryChannelDeviceHandle : goccl::MemoryChannelHandle {
#if GOCCL_HANDLES
  template <int Alignment = 16, bool CopyRemainder = true>
  GOCCL_DEVICE void put(uint64_t targetOffset, uint64_t originOffset, uint64_t bytes, uint32_t threadId,
                        uint32_t numThreads) {
    goccl::MemoryChannelHandle::put(targetOffset, originOffset, bytes, threadId, numThreads);
  }
  template <int Alignment = 16, bool CopyRemainder = true>
  GOCCL_DEVICE void put(uint64_t offset, uint64_t bytes, uint32_t threadId, uint32_t numThreads) {
    goccl::MemoryChannelHandle::put(offset, bytes, threadId, numThreads);
  }
  // Here the target of a get is this rank's memory; in goccl's own get it is the peer's, as in put.
  template <int Alignment = 16, bool CopyRemainder = true>
  GOCCL_DEVICE void get(uint64_t targetOffset, uint64_t originOffset, uint64_t bytes, uint32_t threadId,
                        uint32_t numThreads) {
    goccl::MemoryChannelHandle::get(originOffset, targetOffset, bytes, threadId, numThreads);
  }
  template <int Alignment = 16, bool CopyRemainder = true>
  GOCCL_DEVICE void get(uint64_t offset, uint64_t bytes, uint32_t threadId, uint32_t numThreads) {
    goccl::MemoryChannelHandle::get(offset, bytes, threadId, numThreads);
  }
  template <class PacketType = LL16Packet>
  GOCCL_DEVICE void putPackets(uint64_t targetOffset, uint64_t originOffset, uint64_t bytes, uint32_t threadId,
                               uint32_t numThreads, uint32_t flag) {
    goccl::copyToPackets<PacketType>(dst + targetOffset, src + originOffset, bytes, threadId, numThreads, flag);
  }
  template <class PacketType = LL16Packet>
  GOCCL_DEVICE goccl::Status unpackPackets(uint64_t targetOffset, uint64_t originOffset, uint64_t bytes,
                                           uint32_t threadId, uint32_t numThreads, uint32_t flag,
                                           int64_t maxSpinCount = -1) {
    if constexpr (sizeof(PacketType) == 16)
      return goccl::MemoryChannelHandle::unpackPackets<goccl::LL16Packet>(targetOffset, originOffset, bytes, threadId,
                                                                          numThreads, flag, maxSpinCount);
    else
      return goccl::MemoryChannelHandle::unpackPackets<goccl::LL8Packet>(targetOffset, originOffset, bytes, threadId,
                                                                         numThreads, flag, maxSpinCount);
  }
  // unpackPacket returns the payload; 0 when the wait gave up.
  template <class PacketType = LL16Packet>
  GOCCL_DEVICE typename PacketType::Payload unpackPacket(uint64_t index, uint32_t flag, int64_t maxSpinCount = -1) {
    typename PacketType::Payload data{};
    if constexpr (sizeof(PacketType) == 16)
      (void)goccl::MemoryChannelHandle::unpackPacket<goccl::LL16Packet>(index, flag, data, maxSpinCount);
    else
      (void)goccl::MemoryChannelHandle::unpackPacket<goccl::LL8Packet>(index, flag, data, maxSpinCount);
    return data;
  }
  template <class PacketType = LL16Packet>
  GOCCL_DEVICE goccl::Status getPackets(uint64_t targetOffset, uint64_t originOffset, uint64_t bytes, uint32_t threadId,
                                        uint32_t numThreads, uint32_t flag, int64_t maxSpinCount = -1) {
    return unpackPackets<PacketType>(targetOffset, originOffset, bytes, threadId, numThreads, flag, maxSpinCount);
  }
  // The forms of one offset.
  template <class PacketType = LL16Packet>
  GOCCL_DEVICE void putPackets(uint64_t offset, uint64_t bytes, uint32_t threadId, uint32_t numThreads, uint32_t flag) {
    putPackets<PacketType>(offset, offset, bytes, threadId, numThreads, flag);
  }
#endif
};
static_assert(sizeof(MemoryChannelDeviceHandle) == sizeof(goccl::MemoryChannelHandle),
              "an alias has its original's layout");

using SmChannelDeviceHandle = MemoryChannelDeviceHandle;

#if defined(__CUDACC_RTC__)
struct BaseMemoryChannel {
  using DeviceHandle = BaseMemoryChannelDeviceHandle;
};
struct MemoryChannel {
  using DeviceHandle = MemoryChannelDeviceHandle;
};
struct SmChannel {
  using DeviceHandle = MemoryChannelDeviceHandle;
};
#endif

}  // namespace mscclpp
