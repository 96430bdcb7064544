// The proxy's FIFO.
#pragma once

#include <mscclpp/poll_device.hpp>

namespace mscclpp {

using TriggerType = uint32_t;
constexpr TriggerType TriggerData = goccl::triggerData;
constexpr TriggerType TriggerFlag = goccl::triggerFlag;
constexpr TriggerType TriggerSync = goccl::triggerSync;

// A trigger has 32 bytes here: wider offsets, and a lap in the last word.
using ProxyTrigger = goccl::Trigger;

struct FifoDeviceHandle : goccl::FifoHandle {
  // push returns the position, as MSCCL++'s does; a push that gave up returns the position that it had taken.
  GOCCL_DEVICE uint64_t push(ProxyTrigger trigger, int64_t maxSpinCount = -1) {
    uint64_t position;
    (void)goccl::FifoHandle::push(trigger, position, maxSpinCount);
    return position;
  }
};

struct Fifo {
  using DeviceHandle = FifoDeviceHandle;
};

}  // namespace mscclpp
