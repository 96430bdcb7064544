// Switch channels, in goccl's unicast form: no in-switch instruction is used.
#pragma once

#include <mscclpp/gpu_data_types.hpp>
#include <mscclpp/semaphore_device.hpp>

namespace mscclpp {

#if GOCCL_HANDLES

struct SwitchChannelDeviceHandle {
  // devicePtr is this rank's memory, as a pointer of any type.
  struct Local {
    uint8_t** peers;
    uint32_t nranks, rank;
    template <class T>
    MSCCLPP_HOST_DEVICE_INLINE operator T*() const {
      return reinterpret_cast<T*>(peers[rank]);
    }
  };
  union {
    goccl::SwitchChannelHandle handle;
    Local devicePtr;  // reads the handle's first fields
  };

  // reduce returns the sum over the ranks of element or vector index, in rank order; broadcast writes it at every rank.
  template <class T>
  GOCCL_DEVICE T reduce(uint64_t index) {
    constexpr goccl::Type type = detail::TypeOf<T>::value;
    constexpr int count = detail::TypeOf<T>::count;
    using Storage = typename goccl::Element<type>::Storage;
    typename goccl::Element<type>::Accumulator sum[count];
    T v = reinterpret_cast<const T*>(handle.peers[0])[index];
    Storage* s = reinterpret_cast<Storage*>(&v);
    for (int i = 0; i < count; ++i) sum[i] = goccl::widen<type>(s[i]);
    for (uint32_t r = 1; r < handle.nranks; ++r) {
      v = reinterpret_cast<const T*>(handle.peers[r])[index];
      for (int i = 0; i < count; ++i) sum[i] = goccl::apply<goccl::Op::sum>(sum[i], goccl::widen<type>(s[i]));
    }
    for (int i = 0; i < count; ++i) s[i] = goccl::narrow<type>(sum[i]);
    return v;
  }
  template <class T>
  GOCCL_DEVICE void broadcast(uint64_t index, const T& v) {
    for (uint32_t k = 1; k <= handle.nranks; ++k)
      reinterpret_cast<T*>(handle.peers[(handle.rank + k) % handle.nranks])[index] = v;
  }
};
static_assert(sizeof(SwitchChannelDeviceHandle) == sizeof(goccl::SwitchChannelHandle),
              "an alias has its original's layout");

#else
using SwitchChannelDeviceHandle = goccl::SwitchChannelHandle;
#endif

#if defined(__CUDACC_RTC__)
struct SwitchChannel {
  using DeviceHandle = SwitchChannelDeviceHandle;
};
#endif

}  // namespace mscclpp
