// Shared memory of a block: its copy of the program, and behind it the pipe of bulk copies.
#pragma once

#include <goccl/bulk.cuh>
#include <goccl/copy.cuh>

#include <executor/program.cuh>

namespace goccl {
namespace executor {

// A copy of at least bulkBytes goes by bulk copies where there are any: below, filling the pipe costs more than it
// gains.
constexpr uint64_t bulkBytes = 32 << 10;
constexpr uint32_t bulkChunk = 16 << 10;
constexpr uint32_t bulkStages = 8;

#if GOCCL_CUDA
extern __shared__ __align__(128) uint4 sharedWords[];
GOCCL_DEVICE uint4* stagedProgram() { return sharedWords; }
#else
inline uint4* stagedProgram() { return reinterpret_cast<uint4*>(currentBlock->shared); }
#endif

// bulkCopy copies bytes, a multiple of 16 as the addresses are, through a pipe at offset at of the block's shared
// memory, which is a multiple of 128. One thread calls it; when it returns the copy is done, and the pipe is gone.
#if GOCCL_CUDA
__device__ __noinline__ Status bulkCopy(uint32_t at, uint8_t* dst, const uint8_t* src, uint64_t bytes,
                                        AbortBlock* abort) {
#if GOCCL_BULK
  BulkPipe pipe;
  pipe.init(reinterpret_cast<uint8_t*>(sharedWords) + at, bulkChunk, bulkStages, abort);
  fenceProxyAsync();
  Status s = pipe.copy(dst, src, bytes, 0, 1);
  pipe.finish();
  for (uint32_t i = 0; i < bulkStages; ++i) pipe.barriers[i].invalidate();
  return s;
#else
  return statusInvalid;
#endif
}
#else
// The host copies plainly: its tests check the barriers around a bulk copy.
inline Status bulkCopy(uint32_t, uint8_t* dst, const uint8_t* src, uint64_t bytes, AbortBlock*) {
  copyBytes(dst, src, bytes, 0, 1);
  return statusOk;
}
#endif

}  // namespace executor
}  // namespace goccl
