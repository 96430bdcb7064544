// CUDA's built-ins for code that runs on the host: each thread of the program is a block of one thread. With them the
// functions of the device headers are plain C++, and a std::thread can put, signal and wait on the host device as a
// kernel does on a GPU.
#pragma once

#include <cstdint>

#ifndef GOCCL_HOST_BLOCK
#define GOCCL_HOST_BLOCK 1

struct GocclThreadIndex {
  uint32_t x, y, z;
};
inline constexpr GocclThreadIndex threadIdx{0, 0, 0};
inline void __syncthreads() {}
inline void __syncwarp() {}
inline int __syncthreads_or(int v) { return v; }
inline int __any_sync(unsigned, int v) { return v; }
inline int __all_sync(unsigned, int v) { return v; }
inline unsigned __reduce_max_sync(unsigned, unsigned v) { return v; }

#endif
