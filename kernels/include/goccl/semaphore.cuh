// Semaphore: a counter in each of two peers' memory that the other one adds to. Half of every channel.
#pragma once

#include <goccl/abort.cuh>

namespace goccl {

// SemaphoreHandle is used by one waiting thread at a time; any number of threads may signal. Counters are monotone and
// never reset, so a handle may be used in captured graphs for ever.
//
// Kernels add to the counter's first word. The peer's host has the second word for its signals by copy stream, which
// can store a total but not add. Each word is monotone, and a wait acquires both, so a signal is never lost and a sum
// that is read too early is only too small.
struct SemaphoreHandle {
  uint64_t* inbound;        // my counter, of two words
  uint64_t* remoteInbound;  // the peer's counter as mapped here; null if only a proxy signals
  uint64_t* expected;       // my private count of consumed signals, in device memory
  AbortBlock* abort;        // may be null

  // signal publishes what this thread wrote before (and its block, after a __syncthreads) and adds one to the peer's
  // counter.
  GOCCL_DEVICE void signal() { addRelease<Scope::sys>(remoteInbound, uint64_t{1}); }

  // relaxedSignal adds one and publishes nothing: for control flow, or for data that carries its own flags.
  GOCCL_DEVICE void relaxedSignal() { addRelaxed<Scope::sys>(remoteInbound, uint64_t{1}); }

  // poll consumes one signal if there is one, with acquire order, and says whether it did.
  GOCCL_DEVICE bool poll() {
    uint64_t next = *expected + 1;
    if (!reached(loadSumAcquire(inbound), next)) return false;
    *expected = next;
    return true;
  }

  // wait consumes one signal with acquire order. On a status other than statusOk none was consumed and the handle can
  // be used again.
  GOCCL_DEVICE Status wait(int64_t maxSpin = -1) {
    uint64_t next = *expected + 1;
    uint64_t* counter = inbound;
    Status s = waitUntil([&] { return reached(loadSumAcquire(counter), next); }, abort, counter, waitSemaphore,
                         maxSpin);
    if (s == statusOk) *expected = next;
    return s;
  }

  // relaxedWait consumes one signal and orders nothing.
  GOCCL_DEVICE Status relaxedWait(int64_t maxSpin = -1) {
    uint64_t next = *expected + 1;
    uint64_t* counter = inbound;
    Status s = waitUntil([&] { return reached(loadSumRelaxed(counter), next); }, abort, counter, waitSemaphore,
                         maxSpin);
    if (s == statusOk) *expected = next;
    return s;
  }

  // reached compares by signed difference, so that counters may wrap.
  static GOCCL_DEVICE bool reached(uint64_t counter, uint64_t target) {
    return static_cast<int64_t>(counter - target) >= 0;
  }
};

}  // namespace goccl
