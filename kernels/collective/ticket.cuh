// How launches begin and end.
//
// Tickets: how other streams learn that a launch is done, at no cost to the stream that it is on.
//
// A ticket is a word in device memory to which every block of a launch adds 1 when it ends. The host adds up the blocks that it has launched, and
// makes work on another stream wait until the word has got there. Launches of one owner follow each other, so the word at a launch's sum means that
// the launch is done, and all before it. The host's half is struct order in internal/driver/dispatch.c; it puts the ticket into the first 8 bytes
// of the parameters, or 0 where nobody will wait for it: in a graph, whose launches the host cannot count.
#pragma once

#include <collective/entry.cuh>
#include <goccl/sync.cuh>

namespace goccl {
namespace collective {

// finish is the last that a block does, all its threads together, however its work has ended. The release is cumulative: what any thread of the
// block has done is done for whoever sees the word.
GOCCL_DEVICE void finish(uint64_t* ticket) {
  if (ticket == nullptr) return;
  __syncthreads();
  if (threadIdx.x == 0) addRelease<Scope::gpu>(ticket, uint64_t{1});
}

// overlapBlocks is the size of a launch up to which the next one on the stream may take its place on the GPU before this one has ended.
constexpr uint32_t overlapBlocks = 16;

// begin is the first that a block does. A launch with the attribute for it (cuda.LaunchOverlapPrevious) may be here while the launch before it still
// runs: it waits until that has ended, and everything it wrote is visible. Only then may the next launch come, so that no more than one waits: more
// would take the place of kernels that somebody waits for.
GOCCL_DEVICE void begin() {
#if GOCCL_CUDA && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  if (gridDim.x <= overlapBlocks) asm volatile("griddepcontrol.launch_dependents;");
#endif
}

}  // namespace collective
}  // namespace goccl

// GOCCL_KERNEL(name, threads, Arguments) { body } is the kernel GOCCL_ENTRY(name) with a parameter a of type Arguments, whose member ticket comes first. The body may return
// anywhere.
#define GOCCL_KERNEL(name, threads, Arguments)                                                          \
  GOCCL_DEVICE void name##_body(const Arguments& a);                                                    \
  extern "C" __global__ void __launch_bounds__(threads, 1) GOCCL_ENTRY(name)(const __grid_constant__ Arguments a) { \
    goccl::collective::begin();                                                                         \
    name##_body(a);                                                                                     \
    goccl::collective::finish(a.ticket);                                                                \
  }                                                                                                     \
  GOCCL_DEVICE void name##_body(const Arguments& a)
