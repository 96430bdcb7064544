// Switch channels, in goccl's unicast form: element types are goccl::Type, and no in-switch instruction is used.
#pragma once

#include <mscclpp/semaphore_device.hpp>

namespace mscclpp {

// ElementType gives goccl's Type for a C++ type.
template <class T>
struct ElementType;
template <>
struct ElementType<float> {
  static constexpr goccl::Type value = goccl::Type::float32;
};
template <>
struct ElementType<double> {
  static constexpr goccl::Type value = goccl::Type::float64;
};
template <>
struct ElementType<int32_t> {
  static constexpr goccl::Type value = goccl::Type::int32;
};
template <>
struct ElementType<uint32_t> {
  static constexpr goccl::Type value = goccl::Type::uint32;
};
template <>
struct ElementType<goccl::Float16> {
  static constexpr goccl::Type value = goccl::Type::float16;
};
template <>
struct ElementType<goccl::Bfloat16> {
  static constexpr goccl::Type value = goccl::Type::bfloat16;
};

struct SwitchChannelDeviceHandle : goccl::SwitchChannelHandle {
  // reduce returns the sum over the ranks of element index; broadcast writes it at every rank.
  template <class T>
  GOCCL_DEVICE T reduce(uint64_t index) {
    return reduceElement<ElementType<T>::value>(index);
  }
  template <class T>
  GOCCL_DEVICE void broadcast(uint64_t index, const T& v) {
    broadcastElement<ElementType<T>::value>(index, v);
  }
};

struct SwitchChannel {
  using DeviceHandle = SwitchChannelDeviceHandle;
};

}  // namespace mscclpp
