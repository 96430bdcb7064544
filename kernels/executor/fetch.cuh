// How a launch begins.
#pragma once

#include <goccl/packet.cuh>

#include <executor/bulk_copy.cuh>

namespace goccl {
namespace executor {

// fetchProgram brings the block's program into shared memory, where program then points, unless it does not fit, and
// returns this launch's epoch. The epoch is a word of the program: all threads have read it when they meet, and one
// stores the new one at once. The loads go past L1, since it changes.
GOCCL_DEVICE uint32_t fetchProgram(uint8_t*& program, uint32_t stride, bool fits) {
  Header* home = reinterpret_cast<Header*>(program);
  uint32_t epoch;
  if (fits) {
    uint4* staged = stagedProgram();
    for (uint32_t i = threadIdx.x; i < stride / 16; i += blockDim.x)
      staged[i] = loadPacket(reinterpret_cast<const uint4*>(program) + i);
    program = reinterpret_cast<uint8_t*>(staged);
    __syncthreads();
    epoch = nextEpoch(reinterpret_cast<const Header*>(staged)->epoch);
  } else {
    epoch = nextEpoch(loadRelaxed<Scope::gpu>(&home->epoch));
    __syncthreads();
  }
  if (threadIdx.x == 0) storeRelaxed<Scope::gpu>(&home->epoch, epoch);
  return epoch;
}

}  // namespace executor
}  // namespace goccl
