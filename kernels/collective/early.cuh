// How a launch of few packets begins soon: what it does before it waits for the launch before it, and how it issues its
// first loads.
#pragma once

#include <collective/ticket.cuh>

namespace goccl {
namespace collective {

// prefetch brings a line into the GPU's cache and its translation into the TLB. It reads nothing.
GOCCL_DEVICE void prefetch([[maybe_unused]] const void* p) {
#if GOCCL_CUDA
  asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
#endif
}

// behind returns v when data has been loaded. Where both come by loads, compilers else use v before they issue the load
// of data, and the thread waits for one load after the other. It adds data shifted right by the size of a slot, which
// compilers do not know: at least 32, so nothing is left of it.
GOCCL_DEVICE uint32_t behind(uint32_t v, [[maybe_unused]] uint32_t data, [[maybe_unused]] uint32_t slotBytes) {
#if GOCCL_CUDA
  uint32_t zero;
  asm volatile("shr.u32 %0, %1, %2;" : "=r"(zero) : "r"(data), "r"(slotBytes));
  v += zero;
#endif
  return v;
}

}  // namespace collective
}  // namespace goccl

// GOCCL_EARLY_KERNEL is GOCCL_KERNEL with a call early(a) ahead of begin, while the launch before this one may still
// write to everything; only for launches of so few blocks that they come early.
#define GOCCL_EARLY_KERNEL(name, threads, resident, Arguments)                    \
  GOCCL_DEVICE void name##_body(const Arguments& a);                              \
  extern "C" __global__ void __launch_bounds__(threads, resident)                 \
  GOCCL_ENTRY(name)(const __grid_constant__ Arguments a) {                        \
    if (gridDim.x <= goccl::collective::overlapBlocks) early(a);                  \
    goccl::collective::begin();                                                   \
    name##_body(a);                                                               \
    goccl::collective::finish(a.ticket);                                          \
  }                                                                               \
  GOCCL_DEVICE void name##_body(const Arguments& a)
