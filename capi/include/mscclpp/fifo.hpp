// MSCCL++'s names for goccl/fifo.hpp.
#pragma once

#include <goccl/fifo.hpp>
#include <mscclpp/fifo_device.hpp>

namespace mscclpp {

constexpr size_t DEFAULT_FIFO_SIZE = goccl::DefaultFifoSize;

class Fifo : public goccl::Fifo {
 public:
  using DeviceHandle = FifoDeviceHandle;
  using goccl::Fifo::Fifo;
  bool poll(ProxyTrigger& trigger) {
    goccl_trigger t;
    if (!goccl::Fifo::poll(t)) return false;
    trigger = ProxyTrigger(t.type, static_cast<uint32_t>(t.dst), t.dst_offset, static_cast<uint32_t>(t.src),
                           t.src_offset, t.size, static_cast<uint32_t>(t.semaphore));
    return true;
  }
  DeviceHandle deviceHandle() const {
    DeviceHandle h;
    static_cast<goccl::FifoHandle&>(h) = goccl::Fifo::deviceHandle();
    return h;
  }
  void flushTail([[maybe_unused]] bool sync = false) {}
};

}  // namespace mscclpp
