// Tutorials 01 and 02: two GPUs answer each other through BaseMemoryChannels.
//
//   pong (one GPU)     wait, spin for a while, signal
//   ping (the other)   signal, wait
//
// Relaxed forms are enough, because no data is published. Each kernel runs as one thread and returns early when a wait
// gives up.
#include <goccl/memory_channel.cuh>

using namespace goccl;

// Spin for so many SM clock cycles.
static GOCCL_DEVICE void spinCycles(uint64_t cycles) {
  uint64_t start = clockCycles();
  while (clockCycles() - start < cycles) {
  }
}

// tutorial_ping signals first and waits for each answer; *status is 0 or the status that ended it early.
extern "C" __global__ void tutorial_ping(BaseMemoryChannelHandle* channel, int32_t iterations, uint32_t* status) {
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  Status s = statusOk;
  for (int32_t i = 0; i < iterations && s == statusOk; ++i) {
    channel->relaxedSignal();
    s = channel->relaxedWait();
  }
  *status = s;
}

// tutorial_pong waits, spins for cycles SM clocks and answers.
extern "C" __global__ void tutorial_pong(BaseMemoryChannelHandle* channel, int32_t iterations, uint64_t cycles,
                                         uint32_t* status) {
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  Status s = statusOk;
  for (int32_t i = 0; i < iterations; ++i) {
    s = channel->relaxedWait();
    if (s != statusOk) break;
    spinCycles(cycles);
    channel->relaxedSignal();
  }
  *status = s;
}
