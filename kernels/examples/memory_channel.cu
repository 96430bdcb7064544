// Tutorial 03: data through a MemoryChannel, in three ways. The grid moves bytes; block 0 talks to the peer; a
// DeviceSyncer joins the two. *status is 0 or why a wait gave up. Both ranks run the same kernel.
#include <goccl/device_syncer.cuh>
#include <goccl/memory_channel.cuh>

using namespace goccl;

static GOCCL_DEVICE uint32_t gridThread() { return blockIdx.x * blockDim.x + threadIdx.x; }
static GOCCL_DEVICE uint32_t gridThreads() { return gridDim.x * blockDim.x; }
static GOCCL_DEVICE bool leader() { return blockIdx.x == 0 && threadIdx.x == 0; }

// tutorial_put copies src to the peer's dst.
//
//   1. every thread stores its share;
//   2. the grid meets: the leader's signal then publishes what all threads wrote;
//   3. the leader waits for the peer's signal: the peer's data has arrived here.
extern "C" __global__ void __launch_bounds__(512, 1)
    tutorial_put(MemoryChannelHandle* channel, uint64_t bytes, DeviceSyncer* syncer, uint32_t* status) {
  MemoryChannelHandle ch = *channel;
  ch.put(0, bytes, gridThread(), gridThreads());
  Status s = syncer->sync(gridDim.x, ch.semaphore.abort);
  if (leader()) {
    if (s == statusOk) {
      ch.signal();
      s = ch.wait();
    }
    *status = s;
  }
}

// tutorial_get copies the peer's dst to src. The peer's memory may change once the peer has come to the next launch.
//
//   1. the leaders tell each other that their memory is ready. Its contents were written before this kernel began, so
//      the signal publishes nothing;
//   2. the grid meets, and every thread loads its share.
extern "C" __global__ void __launch_bounds__(512, 1)
    tutorial_get(MemoryChannelHandle* channel, uint64_t bytes, DeviceSyncer* syncer, uint32_t* status) {
  MemoryChannelHandle ch = *channel;
  if (leader()) {
    ch.relaxedSignal();
    *status = ch.wait();
  }
  if (syncer->sync(gridDim.x, ch.semaphore.abort) == statusOk) ch.get(0, bytes, gridThread(), gridThreads());
}

// tutorial_packets sends src as packets of epoch flag to the peer's packet buffer and receives the peer's into dst. No
// signal is needed: each packet says when it is there. Successive epochs alternate between two halves of the buffer.
extern "C" __global__ void __launch_bounds__(512, 1)
    tutorial_packets(MemoryChannelHandle* channel, uint8_t* out, uint64_t bytes, uint32_t flag, uint32_t* status) {
  MemoryChannelHandle ch = *channel;
  uint64_t half = (flag & 1) * packetCount<LL16Packet>(bytes) * sizeof(LL16Packet);
  ch.putPackets(half, 0, bytes, gridThread(), gridThreads(), flag);
  Status s = copyFromPackets(out, ch.packetBuffer + half, bytes, gridThread(), gridThreads(), flag, ch.semaphore.abort);
  if (s != statusOk || leader()) *status = s;
}
