// How launches begin and end.
//
// A ticket tells other streams that a launch is done, at no cost to the stream that the launch is on. It is a word in
// device memory to which every block of a launch adds 1 when it ends. The host adds up the blocks that it has launched,
// and makes work on another stream wait until the word has reached that sum. Launches of one owner follow each other,
// so the launch and all before it are done then. The host's half is struct order in internal/driver/dispatch.c: it puts
// the ticket into the first 8 bytes of the parameters, or 0 if no other stream can wait for it, as in a graph, whose
// launches the host cannot count.
#pragma once

#include <collective/entry.cuh>
#include <goccl/sync.cuh>

namespace goccl {
namespace collective {

// A launch with the attribute for it (cuda.LaunchOverlapPrevious) may take its place on the GPU before the launch ahead
// of it has ended: as soon as that one calls overlapNext in all blocks. A large launch does so at its end, when no
// thread waits for a peer any more: otherwise the next one would keep out kernels that peers wait for. A small launch
// leaves room for such kernels, and calls it at its beginning, except of up to GOCCL_LATE_BLOCKS blocks: Lamport
// packets of one block take longer then, while packets with flags take 0.1 us less (packet.cu).
#ifndef GOCCL_LATE_BLOCKS
#define GOCCL_LATE_BLOCKS 1
#endif
GOCCL_DEVICE bool overlapsEarly() {
  constexpr uint32_t small = 20480;  // threads: a tenth of what an H100 holds
  return gridDim.x > GOCCL_LATE_BLOCKS && gridDim.x * blockDim.x <= small;
}
GOCCL_DEVICE void overlapNext() {
#if GOCCL_CUDA && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// begin is the first call of a block. It waits until the launch ahead has ended and all its writes are visible. Only
// then may the next launch begin, so at most one launch waits.
GOCCL_DEVICE void begin() {
#if GOCCL_CUDA && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  if (overlapsEarly()) overlapNext();
}

// finish is the last call of a block, by all its threads, however its work has ended. The release is cumulative: what
// any thread of the block has done is visible to whatever acquires the word.
GOCCL_DEVICE void finish(uint64_t* ticket) {
  const bool late = !overlapsEarly();
  if (ticket == nullptr && !late) return;
  __syncthreads();
  if (late) overlapNext();
  if (ticket != nullptr && threadIdx.x == 0) addRelease<Scope::gpu>(ticket, uint64_t{1});
}

}  // namespace collective
}  // namespace goccl

// GOCCL_KERNEL(name, threads, resident, Arguments) { body } is the kernel GOCCL_ENTRY(name) with a parameter a of type
// Arguments, whose member ticket comes first. The body may return anywhere. An SM must be able to hold `resident`
// blocks of `threads` threads at once.
#define GOCCL_KERNEL(name, threads, resident, Arguments)              \
  GOCCL_DEVICE void name##_body(const Arguments& a);                  \
  extern "C" __global__ void __launch_bounds__(threads, resident)     \
  GOCCL_ENTRY(name)(const __grid_constant__ Arguments a) {            \
    goccl::collective::begin();                                       \
    name##_body(a);                                                   \
    goccl::collective::finish(a.ticket);                              \
  }                                                                   \
  GOCCL_DEVICE void name##_body(const Arguments& a)
