// Tutorial 05: an in-place all-reduce of float32 over a SwitchChannel: each rank reduces its slice of all buffers and
// broadcasts the result.
#include <goccl/device_syncer.cuh>
#include <goccl/memory_channel.cuh>
#include <goccl/switch_channel.cuh>

using namespace goccl;

// rankBarrier makes every rank wait for every other; thread p of block 0 talks to rank p. The grid meets before and
// after.
static GOCCL_DEVICE Status rankBarrier(BaseMemoryChannelHandle* channels, uint32_t rank, uint32_t nranks,
                                       DeviceSyncer* syncer, AbortBlock* abort, uint32_t* status) {
  Status s = syncer->sync(gridDim.x, abort);
  if (s != statusOk) return s;
  if (blockIdx.x == 0 && threadIdx.x < nranks && threadIdx.x != rank) {
    channels[threadIdx.x].signal();
    s = channels[threadIdx.x].wait();
    if (s != statusOk) storeRelaxed<Scope::gpu>(status, s);
  }
  s = syncer->sync(gridDim.x, abort);
  return s != statusOk ? s : loadRelaxed<Scope::gpu>(status);
}

// tutorial_switch: count elements in each rank's buffer, a multiple of 4 * nranks; channels[p] leads to rank p; *status
// is 0 at launch.
extern "C" __global__ void __launch_bounds__(512, 1)
    tutorial_switch(SwitchChannelHandle* channel, BaseMemoryChannelHandle* channels, uint64_t count,
                    DeviceSyncer* syncer, uint32_t* status) {
  SwitchChannelHandle ch = *channel;
  Status s = rankBarrier(channels, ch.rank, ch.nranks, syncer, ch.abort, status);
  uint64_t slice = count / ch.nranks * sizeof(float), first = slice * ch.rank;
  if (s == statusOk) {
    for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < slice / 16; i += gridDim.x * blockDim.x) {
      uint64_t offset = first + i * 16;
      ch.broadcastVector(offset, ch.reduceVector<Type::float32>(offset));
    }
    s = rankBarrier(channels, ch.rank, ch.nranks, syncer, ch.abort, status);
  }
  if (s != statusOk && blockIdx.x == 0 && threadIdx.x == 0) *status = s;
}
