// How a launch begins, and what a block moves of an op.
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

// slice is which bytes of its operands an op moves: those of chunks of that size, in units of 1 << shift.
GOCCL_DEVICE void slice(const Op& o, uint64_t chunk, uint32_t shift, uint64_t& lo, uint64_t& hi) {
  lo = 0, hi = o.count * chunk;
  if (o.slices <= 1) return;
  const uint64_t units = hi >> shift, t = o.slice;
  uint64_t each, more;
  if (units >> 32 == 0) {  // a division of 64 bits takes a tenth of a microsecond
    each = static_cast<uint32_t>(units) / o.slices, more = static_cast<uint32_t>(units) % o.slices;
  } else {
    each = units / o.slices, more = units % o.slices;
  }
  lo = (t * each + (t < more ? t : more)) << shift;
  hi = ((t + 1) * each + (t + 1 < more ? t + 1 : more)) << shift;
}

}  // namespace executor
}  // namespace goccl
