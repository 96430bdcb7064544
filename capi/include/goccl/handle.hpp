// The kernels' handles in a host program: goccl/handle.cuh where the compiler takes it, which is a CUDA compiler or
// C++20; else plain bytes of the same sizes, to be copied to a device.
#pragma once

#if defined(__CUDACC__) || defined(__CUDA__) || __cplusplus >= 202002L
#define GOCCL_HANDLES 1
#if !defined(__CUDACC__) && !defined(__CUDA__)
#pragma GCC system_header  // the device headers have pragmas that only CUDA's compilers know
#include <goccl/host_block.hpp>
#endif
#include <goccl/handle.cuh>
#else
#define GOCCL_HANDLES 0
#include <cstddef>
#include <cstdint>

namespace goccl {

// The functions exist so that the compiler's message says that they need C++20.
#define GOCCL_NEEDS_CXX20(name)                                                                     \
  template <class... A>                                                                             \
  int name(A&&...) {                                                                                \
    static_assert(sizeof...(A) == ~size_t{0}, "a handle's functions in a host program need C++20: " \
                                              "compile with -std=c++20, or call them in a kernel"); \
    return 0;                                                                                       \
  }

template <size_t n>
struct HandleBytes {
  alignas(8) unsigned char raw[n];

  GOCCL_NEEDS_CXX20(signal)
  GOCCL_NEEDS_CXX20(wait)
  GOCCL_NEEDS_CXX20(poll)
  GOCCL_NEEDS_CXX20(read)
  GOCCL_NEEDS_CXX20(write)
  GOCCL_NEEDS_CXX20(put)
  GOCCL_NEEDS_CXX20(get)
  GOCCL_NEEDS_CXX20(putWithSignal)
  GOCCL_NEEDS_CXX20(putPackets)
  GOCCL_NEEDS_CXX20(unpackPackets)
  GOCCL_NEEDS_CXX20(flush)
  GOCCL_NEEDS_CXX20(push)
  GOCCL_NEEDS_CXX20(reduce)
  GOCCL_NEEDS_CXX20(broadcast)
};
#undef GOCCL_NEEDS_CXX20
struct SemaphoreHandle : HandleBytes<32> {};
struct BaseMemoryChannelHandle : HandleBytes<32> {};
struct MemoryChannelHandle : HandleBytes<56> {};
struct FifoHandle : HandleBytes<48> {};
struct BasePortChannelHandle : HandleBytes<104> {};
struct PortChannelHandle : HandleBytes<112> {};
struct SwitchChannelHandle : HandleBytes<32> {};

}  // namespace goccl
#endif
