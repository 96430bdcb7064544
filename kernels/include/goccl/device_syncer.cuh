// Barriers and semaphores among the blocks of one grid.
#pragma once

#include <goccl/abort.cuh>

namespace goccl {

// DeviceSyncer is a barrier of a grid's blocks, all of which must be resident. It lies in device memory, zeroed once;
// it may be used by any number of launches in stream order and with a different number of blocks each time. After a
// failed sync it must be zeroed again.
struct alignas(16) DeviceSyncer {
  uint32_t arrived;
  uint32_t generation;
  uint32_t failed;  // status of a block that gave up
  uint32_t pad;

  // sync returns when blocks blocks have called it. Every thread of each block calls; the status is uniform over the
  // block. Writes before it are visible at device scope to every thread after it.
  //
  //   1. the block's threads meet; one of them goes on;
  //   2. it reads the generation, then arrives: the last of the grid resets the count and raises the generation;
  //   3. the others wait for the generation to change;
  //   4. the block's threads meet again.
  GOCCL_DEVICE Status sync(uint32_t blocks, AbortBlock* abort, int64_t maxSpin = -1) {
    __syncthreads();
    Status s = statusOk;
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
      // The arrival's release keeps this load before it, so the generation cannot have moved on yet.
      uint32_t old = loadRelaxed<Scope::gpu>(&generation);
      if (fetchAddAcqRel<Scope::gpu>(&arrived, uint32_t{1}) + 1 == blocks) {
        storeRelaxed<Scope::gpu>(&arrived, uint32_t{0});
        storeRelease<Scope::gpu>(&generation, old + 1);
      } else {
        s = waitUntil([&] { return loadAcquire<Scope::gpu>(&generation) != old; }, abort, this, waitSyncer, maxSpin);
        if (s != statusOk) storeRelaxed<Scope::gpu>(&failed, static_cast<uint32_t>(s));
      }
    }
    return __syncthreads_or(s != statusOk) ? loadRelaxed<Scope::gpu>(&failed) : statusOk;
  }
};
static_assert(sizeof(DeviceSyncer) == 16, "DeviceSyncer is allocated by the host");

// DeviceSemaphore counts permits among the blocks of a device: release adds one, acquire waits for one and takes it.
struct alignas(8) DeviceSemaphore {
  uint32_t released;
  uint32_t taken;

  GOCCL_DEVICE void set(uint32_t permits) {
    storeRelaxed<Scope::gpu>(&taken, uint32_t{0});
    storeRelease<Scope::gpu>(&released, permits);
  }
  GOCCL_DEVICE void release() { addRelease<Scope::gpu>(&released, uint32_t{1}); }

  // acquire serves callers in the order of their tickets.
  GOCCL_DEVICE Status acquire(AbortBlock* abort, int64_t maxSpin = -1) {
    uint32_t ticket = fetchAddRelaxed<Scope::gpu>(&taken, uint32_t{1});
    return waitUntil([&] { return static_cast<int32_t>(loadAcquire<Scope::gpu>(&released) - ticket) > 0; }, abort, this,
                     waitSyncer, maxSpin);
  }
};

}  // namespace goccl
