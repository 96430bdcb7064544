// Latency between two ranks, measured inside one kernel: `iterations` round trips by one thread (or one block), the
// elapsed nanoseconds of the device's global timer in *ns. One way is ns / (2 * iterations). first is 1 on the rank
// that begins and 0 on the other. *status is 0 or why it ended early.
#include <goccl/memory_channel.cuh>
#include <goccl/port_channel.cuh>

using namespace goccl;

// measure_signal: relaxed signals when relaxed is not 0, release and acquire otherwise; one thread.
extern "C" __global__ void measure_signal(BaseMemoryChannelHandle* channel, uint32_t first, uint32_t iterations,
                                          uint32_t relaxed, uint64_t* ns, uint32_t* status) {
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  BaseMemoryChannelHandle ch = *channel;
  Status s = statusOk;
  uint64_t start = globalTimer();
  if (relaxed != 0) {
    for (uint32_t i = 0; i < iterations && s == statusOk; ++i) {
      if (first != 0) ch.relaxedSignal();
      s = ch.relaxedWait();
      if (first == 0 && s == statusOk) ch.relaxedSignal();
    }
  } else {
    for (uint32_t i = 0; i < iterations && s == statusOk; ++i) {
      if (first != 0) ch.signal();
      s = ch.wait();
      if (first == 0 && s == statusOk) ch.signal();
    }
  }
  *ns = globalTimer() - start;
  *status = s;
}

// measure_packet: LL16 packets of bytes (at most 8 per thread) both ways; one block. *epoch is the last flag used, in
// device memory; it advances. *status is 0 at launch.
extern "C" __global__ void __launch_bounds__(512, 1)
    measure_packet(MemoryChannelHandle* channel, uint32_t first, uint32_t bytes, uint32_t iterations, uint32_t* epoch,
                   uint64_t* ns, uint32_t* status) {
  MemoryChannelHandle ch = *channel;
  uint32_t flag = *epoch;
  Status s = statusOk;
  uint64_t start = globalTimer();
  for (uint32_t i = 0; i < iterations; ++i) {
    ++flag;
    // Alternate buffers: the peer may still read the packets of the round before.
    uint64_t buffer = (flag & 1) * packetCount<LL16Packet>(bytes) * sizeof(LL16Packet);
    if (first != 0) ch.putPackets(buffer, 0, bytes, threadIdx.x, blockDim.x, flag);
    s = ch.unpackPackets(buffer, 0, bytes, threadIdx.x, blockDim.x, flag);
    if (s != statusOk) *status = s;
    if (__syncthreads_or(s != statusOk)) break;
    if (first == 0) ch.putPackets(buffer, 0, bytes, threadIdx.x, blockDim.x, flag);
  }
  if (threadIdx.x == 0) {
    *epoch = flag;
    *ns = globalTimer() - start;
  }
}

// measure_port: putWithSignal of bytes through the proxy and back; one thread.
extern "C" __global__ void measure_port(PortChannelHandle* channel, uint32_t first, uint64_t bytes, uint32_t iterations,
                                        uint64_t* ns, uint32_t* status) {
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  PortChannelHandle ch = *channel;
  Status s = statusOk;
  uint64_t start = globalTimer();
  for (uint32_t i = 0; i < iterations && s == statusOk; ++i) {
    if (first != 0) s = ch.putWithSignal(0, bytes);
    if (s == statusOk) s = ch.wait();
    if (first == 0 && s == statusOk) s = ch.putWithSignal(0, bytes);
  }
  if (s == statusOk) s = ch.flush();
  *ns = globalTimer() - start;
  *status = s;
}
