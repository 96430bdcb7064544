// Packets that carry their own readiness flag.
#pragma once

#include <mscclpp/device.hpp>

#if GOCCL_HANDLES

namespace mscclpp {

// LL16Packet and LL8Packet add MSCCL++'s reading calls, which return the data and know no abort block: they end with
// the flag, after maxSpinCount polls or after goccl's default deadline; the caller cannot tell which, so new kernels
// use goccl's own.
struct LL16Packet : goccl::LL16Packet {
  GOCCL_DEVICE LL16Packet() {}
  GOCCL_DEVICE LL16Packet(uint2 v, uint32_t flag) { write(v, flag); }
  // readOnce returns true while the packet is not there.
  GOCCL_DEVICE bool readOnce(uint32_t flag, uint2& data) const { return !tryRead(flag, data); }
  GOCCL_DEVICE uint2 read(uint32_t flag, int64_t maxSpinCount = -1) const {
    uint2 data = make_uint2(0, 0);
    (void)goccl::LL16Packet::read(flag, data, nullptr, maxSpinCount);
    return data;
  }
};

struct LL8Packet : goccl::LL8Packet {
  GOCCL_DEVICE LL8Packet() {}
  GOCCL_DEVICE LL8Packet(uint32_t v, uint32_t epoch) { write(v, epoch); }
  GOCCL_DEVICE bool readOnce(uint32_t epoch, uint32_t& out) const { return !tryRead(epoch, out); }
  GOCCL_DEVICE uint32_t read(uint32_t epoch, int64_t maxSpinCount = -1) const {
    uint32_t out = 0;
    (void)goccl::LL8Packet::read(epoch, out, nullptr, maxSpinCount);
    return out;
  }
};

using LLPacket = LL16Packet;

template <class PacketType = LL16Packet>
GOCCL_DEVICE void copyToPackets(void* targetPtr, const void* originPtr, uint64_t originBytes, uint32_t threadId,
                                uint32_t numThreads, uint32_t flag) {
  goccl::copyToPackets<PacketType>(targetPtr, originPtr, originBytes, threadId, numThreads, flag);
}

// copyFromPackets returns goccl's status, which MSCCL++ does not have.
template <class PacketType = LL16Packet>
GOCCL_DEVICE goccl::Status copyFromPackets(void* originPtr, const void* targetPtr, uint64_t originBytes,
                                           uint32_t threadId, uint32_t numThreads, uint32_t flag,
                                           int64_t maxSpinCount = -1) {
  if constexpr (sizeof(PacketType) == 16)
    return goccl::copyFromPackets<goccl::LL16Packet>(originPtr, targetPtr, originBytes, threadId, numThreads, flag,
                                                     nullptr, maxSpinCount);
  else
    return goccl::copyFromPackets<goccl::LL8Packet>(originPtr, targetPtr, originBytes, threadId, numThreads, flag,
                                                    nullptr, maxSpinCount);
}

}  // namespace mscclpp

#endif
