// Memory channels: kernels load from and store to the peer's memory themselves. Handle is a struct of the device
// headers.
#pragma once

#include <goccl/semaphore.hpp>

namespace goccl {

// BaseMemoryChannelOf signals and moves no data.
template <class Handle>
class BaseMemoryChannelOf {
 public:
  using DeviceHandle = Handle;
  BaseMemoryChannelOf() = default;
  BaseMemoryChannelOf(const Semaphore& semaphore)
      : object_(detail::make("create a base memory channel", {semaphore.object()}, goccl_base_memory_channel_create,
                             semaphore.handle())) {}
  BaseMemoryChannelOf(const std::shared_ptr<MemoryDevice2DeviceSemaphore>& semaphore)
      : BaseMemoryChannelOf(semaphore->semaphore()) {}

  DeviceHandle deviceHandle() const { return detail::readHandle<Handle>(object_, "base memory channel"); }

 private:
  detail::ObjectPtr object_;
};

// MemoryChannelOf goes from src, local memory, to dst, the peer's. packetBuffer is local memory that the peer puts
// packets into; it must be registered, and its owner keeps it.
template <class Handle>
class MemoryChannelOf {
 public:
  using DeviceHandle = Handle;
  MemoryChannelOf() = default;
  MemoryChannelOf(const Semaphore& semaphore, const RegisteredMemory& dst, const RegisteredMemory& src,
                  void* packetBuffer = nullptr)
      : packetBuffer_(packetBuffer) {
    const auto& c = detail::contextOf(semaphore.connection());
    const auto to = dst.in(c), from = src.in(c);
    object_ = detail::make("create a memory channel", {semaphore.object(), to, from}, goccl_memory_channel_create,
                           semaphore.handle(), to->handle, from->handle, goccl_object{0});
  }
  // src is local memory as long as dst.
  MemoryChannelOf(const Semaphore& semaphore, const RegisteredMemory& dst, void* src, void* packetBuffer = nullptr)
      : MemoryChannelOf(semaphore, dst,
                        semaphore.connection().context()->registerMemory(src, dst.size(), Transport::CudaIpc),
                        packetBuffer) {}
  template <class... Rest>
  MemoryChannelOf(const std::shared_ptr<MemoryDevice2DeviceSemaphore>& semaphore, Rest&&... rest)
      : MemoryChannelOf(semaphore->semaphore(), std::forward<Rest>(rest)...) {}

  DeviceHandle deviceHandle() const {
    auto h = detail::readHandle<DeviceHandle>(object_, "memory channel");
#if GOCCL_HANDLES
    h.packetBuffer = static_cast<uint8_t*>(packetBuffer_);
#else
    std::memcpy(h.raw + sizeof h - sizeof packetBuffer_, &packetBuffer_,
                sizeof packetBuffer_);  // the last field
#endif
    return h;
  }

 private:
  detail::ObjectPtr object_;
  void* packetBuffer_ = nullptr;
};

using BaseMemoryChannel = BaseMemoryChannelOf<BaseMemoryChannelHandle>;
using MemoryChannel = MemoryChannelOf<MemoryChannelHandle>;

}  // namespace goccl
