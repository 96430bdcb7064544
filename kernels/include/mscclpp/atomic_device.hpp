// Atomics with a scope and an order, over goccl/sync.cuh.
#pragma once

#include <mscclpp/device.hpp>

#if GOCCL_HANDLES

namespace mscclpp {

enum memory_order { memoryOrderRelaxed, memoryOrderAcquire, memoryOrderRelease, memoryOrderAcqRel, memoryOrderSeqCst };
constexpr goccl::Scope scopeSystem = goccl::Scope::sys;
constexpr goccl::Scope scopeDevice = goccl::Scope::gpu;

template <class T>
struct AtomicWord;
template <>
struct AtomicWord<uint32_t> {
  using type = uint32_t;
};
template <>
struct AtomicWord<int32_t> {
  using type = uint32_t;
};
template <>
struct AtomicWord<uint64_t> {
  using type = uint64_t;
};
template <>
struct AtomicWord<int64_t> {
  using type = uint64_t;
};
template <>
struct AtomicWord<unsigned long long> {
  using type = uint64_t;
};

// Orders stronger than a load or a store can have are taken as acquire or release.
template <class T, goccl::Scope S = scopeSystem>
GOCCL_DEVICE T atomicLoad(const T* p, memory_order order) {
  using W = typename AtomicWord<T>::type;
  const W* w = reinterpret_cast<const W*>(p);
  return static_cast<T>(order == memoryOrderRelaxed ? goccl::loadRelaxed<S>(w) : goccl::loadAcquire<S>(w));
}
template <class T, goccl::Scope S = scopeSystem>
GOCCL_DEVICE void atomicStore(T* p, const T& v, memory_order order) {
  using W = typename AtomicWord<T>::type;
  W* w = reinterpret_cast<W*>(p);
  if (order == memoryOrderRelaxed)
    goccl::storeRelaxed<S>(w, static_cast<W>(v));
  else
    goccl::storeRelease<S>(w, static_cast<W>(v));
}
template <class T, goccl::Scope S = scopeSystem>
GOCCL_DEVICE T atomicFetchAdd(T* p, const T& v, memory_order order) {
  using W = typename AtomicWord<T>::type;
  W* w = reinterpret_cast<W*>(p);
  return static_cast<T>(order == memoryOrderRelaxed ? goccl::fetchAddRelaxed<S>(w, static_cast<W>(v))
                                                    : goccl::fetchAddAcqRel<S>(w, static_cast<W>(v)));
}

}  // namespace mscclpp

#endif
