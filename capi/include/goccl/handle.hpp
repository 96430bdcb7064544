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

template <size_t n>
struct HandleBytes {
  alignas(8) unsigned char raw[n];
};
struct SemaphoreHandle : HandleBytes<32> {};
struct BaseMemoryChannelHandle : HandleBytes<32> {};
struct MemoryChannelHandle : HandleBytes<56> {};
struct FifoHandle : HandleBytes<48> {};
struct BasePortChannelHandle : HandleBytes<104> {};
struct PortChannelHandle : HandleBytes<112> {};
struct SwitchChannelHandle : HandleBytes<32> {};

}  // namespace goccl
#endif
