// Barriers and semaphores among the blocks of one grid.
#pragma once

#include <goccl/abort.cuh>

namespace goccl {

// DeviceSyncer is a barrier of a grid's blocks, all of which must be resident. It lies in device memory, zeroed once;
// it may be used by any number of launches in stream order and with a different number of blocks each time. After a
// failed sync it must be zeroed again.
struct alignas(16) DeviceSyncer {
  uint32_t arrived;  // blocks that have arrived, and in the highest bit the parity of the syncs that are complete
  uint32_t failed;   // status of a block that gave up
  uint32_t pad[2];

  // sync returns when blocks blocks have called it. Every thread of each block calls; the status is uniform over the
  // block. Writes before it are visible at device scope to every thread after it.
  //
  //   1. the block's threads meet; one of them goes on;
  //   2. it arrives. The first of the grid also adds what the count lacks to carry into the highest bit: the arrival
  //      of the last block, or that addition if it comes later, inverts the bit and leaves a count of 0;
  //   3. it waits for the bit to change, unless its own arrival has changed it;
  //   4. the block's threads meet again.
  //
  // All changes of the word are additions, so an acquire that reads any of them sees what every earlier arrival has
  // released.
  GOCCL_DEVICE Status sync(uint32_t blocks, AbortBlock* abort, int64_t maxSpin = -1) {
    constexpr uint32_t parity = 1u << 31;
    __syncthreads();
    Status s = statusOk;
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
      const uint32_t old = fetchAddAcqRel<Scope::gpu>(&arrived, uint32_t{1});
      if ((old & ~parity) == 0) addRelaxed<Scope::gpu>(&arrived, parity - blocks);
      const auto complete = [&](uint32_t now) { return ((now ^ old) & parity) != 0; };
      if (!complete(old + 1))
        s = waitUntil([&] { return complete(loadAcquire<Scope::gpu>(&arrived)); }, abort, this, waitSyncer, maxSpin);
      if (s != statusOk) storeRelaxed<Scope::gpu>(&failed, static_cast<uint32_t>(s));
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
