// Cooperative copies.
#pragma once

#include <mscclpp/packet_device.hpp>

#if GOCCL_HANDLES

namespace mscclpp {

// copy handles every alignment itself; the template parameters of MSCCL++ are accepted and change nothing.
template <int Alignment = 16, bool CopyRemainder = true>
GOCCL_DEVICE void copy(void* dst, void* src, uint64_t bytes, uint32_t threadId, uint32_t numThreads) {
  goccl::copyBytes(dst, src, bytes, threadId, numThreads);
}

template <class T>
GOCCL_DEVICE T read(const void* ptr, uint64_t index = 0) {
  return static_cast<const T*>(ptr)[index];
}
template <class T>
GOCCL_DEVICE void write(void* ptr, const T& v) {
  *static_cast<T*>(ptr) = v;
}

}  // namespace mscclpp

#endif
