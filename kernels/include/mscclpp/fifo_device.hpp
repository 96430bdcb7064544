// The proxy's FIFO.
#pragma once

#include <mscclpp/poll_device.hpp>

namespace mscclpp {

using TriggerType = uint64_t;
constexpr TriggerType TriggerData = 1, TriggerFlag = 2, TriggerSync = 4;

// ProxyTrigger has 32 bytes: offsets and sizes of 48 bits, memory ids of 16, semaphore ids of 32. Triggers that a
// program's own proxy understands use fst and snd, all of whose bits arrive.
union alignas(32) ProxyTrigger {
  struct {
    uint64_t fst, snd;
  };
  struct {
    uint64_t size : 48, type : 16;
    uint64_t srcOffset : 48, srcMemoryId : 16;
    uint64_t dstOffset : 48, dstMemoryId : 16;
    uint64_t semaphoreId : 32, reserved : 32;
  } fields;
  uint64_t words[4];

  ProxyTrigger() = default;
  MSCCLPP_HOST_DEVICE_INLINE ProxyTrigger(uint64_t first, uint64_t second) : words{first, second, 0, 0} {}
  MSCCLPP_HOST_DEVICE_INLINE ProxyTrigger(TriggerType type, uint32_t dst, uint64_t dstOffset, uint32_t src,
                                          uint64_t srcOffset, uint64_t bytes, uint32_t semaphoreId)
      : words{bytes | type << 48, srcOffset | static_cast<uint64_t>(src) << 48,
              dstOffset | static_cast<uint64_t>(dst) << 48, semaphoreId} {}
};
static_assert(sizeof(ProxyTrigger) == 32, "a trigger is shared with the host");

struct FifoDeviceHandle : goccl::FifoHandle {
#if GOCCL_HANDLES
  // push returns the position, as MSCCL++'s does; a push that gave up returns the position that it had taken.
  GOCCL_DEVICE uint64_t push(ProxyTrigger trigger, int64_t maxSpinCount = -1) {
    goccl::Trigger t;
    t.sizeAndType = trigger.words[0];
    t.srcOffsetAndId = trigger.words[1];
    t.dstOffsetAndId = trigger.words[2];
    t.semaphoreAndLap = trigger.words[3];
    uint64_t position;
    (void)goccl::FifoHandle::push(t, position, maxSpinCount);
    return position;
  }
#endif
};

#if defined(__CUDACC_RTC__)
struct Fifo {
  using DeviceHandle = FifoDeviceHandle;
};
#endif

}  // namespace mscclpp
