// GpuBuffer: zeroed memory of the current device that peers can map.
#pragma once

#include <goccl/transport.hpp>

namespace goccl {
namespace detail {

inline void* gpuCalloc(size_t bytes) {
  void* p = nullptr;
  check(goccl_alloc(currentDevice(), bytes, &p), "allocate");
  return p;
}
inline void gpuFree(void* p) { (void)goccl_free(p); }

template <class T>
std::shared_ptr<T> gpuCallocShared(size_t nelems = 1) {
  return std::shared_ptr<T>(static_cast<T*>(gpuCalloc(nelems * sizeof(T))), [](T* p) { gpuFree(p); });
}

template <class T = void>
struct GpuDeleter {
  void operator()(T* p) const { gpuFree(p); }
};
template <class T>
using UniqueGpuPtr = std::unique_ptr<T, GpuDeleter<T>>;
template <class T>
UniqueGpuPtr<T> gpuCallocUnique(size_t nelems = 1) {
  return UniqueGpuPtr<T>(static_cast<T*>(gpuCalloc(nelems * sizeof(T))));
}

}  // namespace detail

// A granularity of multicast objects, which goccl does not use: both are the same.
enum class GpuBufferGranularity { MultiCastMinimum, MultiCastRecommended };

template <class T = char>
class GpuBuffer {
 public:
  explicit GpuBuffer(size_t nelems,
                     [[maybe_unused]] GpuBufferGranularity granularity = GpuBufferGranularity::MultiCastMinimum)
      : nelems_(nelems) {
    if (nelems == 0) return;
    int32_t kind = 0, index = 0;
    detail::check(goccl_device_id(detail::currentDevice(), &kind, &index), "current device");
    deviceId_ = index;
    memory_ = detail::gpuCallocShared<T>(nelems);
  }
  size_t nelems() const { return nelems_; }
  size_t bytes() const { return nelems_ * sizeof(T); }
  std::shared_ptr<T> memory() { return memory_; }
  T* data() { return memory_.get(); }
  int deviceId() const { return deviceId_; }

 private:
  size_t nelems_;
  int deviceId_ = -1;
  std::shared_ptr<T> memory_;
};

}  // namespace goccl
