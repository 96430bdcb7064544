// FIFO: work for the proxy, pushed by any thread of the GPU and taken by one host thread, in order.
#pragma once

#include <goccl/abort.cuh>

namespace goccl {

// TriggerType bits say what a trigger asks for; the proxy does them in the order data, flag, sync.
enum TriggerType : uint32_t {
  triggerData = 1,  // copy size bytes from srcMem + srcOffset to dstMem + dstOffset
  triggerFlag = 2,  // signal the peer's semaphore
  triggerSync = 4,  // complete everything before it, then publish its position as flushed
};

// Trigger is one slot of the FIFO. The first three words are written in any order and the fourth last, with release, so
// the host sees a whole trigger or none. Offsets and sizes have 48 bits, memory ids 16.
struct alignas(32) Trigger {
  uint64_t sizeAndType;      // size 0..47, type 48..63
  uint64_t srcOffsetAndId;   // offset 0..47, memory id 48..63
  uint64_t dstOffsetAndId;   // offset 0..47, memory id 48..63
  uint64_t semaphoreAndLap;  // semaphore id 0..31, lap 32..63: position / size + 1, so that 0 is an empty slot
};
static_assert(sizeof(Trigger) == 32, "Trigger is shared with the host");

constexpr uint64_t triggerMaxSize = (uint64_t{1} << 48) - 1;

GOCCL_DEVICE Trigger makeTrigger(uint32_t type, uint32_t dst, uint64_t dstOffset, uint32_t src, uint64_t srcOffset,
                                 uint64_t size, uint32_t semaphore) {
  Trigger t;
  t.sizeAndType = (size & triggerMaxSize) | static_cast<uint64_t>(type) << 48;
  t.srcOffsetAndId = (srcOffset & triggerMaxSize) | static_cast<uint64_t>(src) << 48;
  t.dstOffsetAndId = (dstOffset & triggerMaxSize) | static_cast<uint64_t>(dst) << 48;
  t.semaphoreAndLap = semaphore;
  return t;
}

struct FifoHandle {
  Trigger* ring;        // mapped host memory, size slots
  uint64_t* head;       // device memory: next position
  uint64_t* tail;       // mapped host memory: positions that the host has taken
  uint64_t* tailCache;  // device memory: a value that tail has had
  uint32_t size;        // slots, a power of two
  uint32_t pad;
  AbortBlock* abort;

  // push appends t and returns its position.
  //
  //   1. take a position;
  //   2. wait for its slot: the host has taken position - size. The cached tail answers without a read over PCIe;
  //   3. write three words, then the fourth with release.
  //
  // The release also publishes, at system scope, what this thread (and its block, after a __syncthreads) wrote before.
  // A slot that could not be had leaves a hole that the host never passes: after a status other than statusOk the FIFO
  // is dead and its service must be restarted.
  GOCCL_DEVICE Status push(Trigger t, uint64_t& position, int64_t maxSpin = -1) {
    uint64_t pos = fetchAddRelaxed<Scope::gpu>(head, uint64_t{1});
    position = pos;
    if (pos - loadAcquire<Scope::gpu>(tailCache) >= size) {
      uint64_t* hostTail = tail;
      uint64_t seen = 0;
      uint32_t slots = size;
      Status s = waitUntil([&] { return pos - (seen = loadAcquire<Scope::sys>(hostTail)) < slots; }, abort, hostTail,
                           waitFifoSlot, maxSpin);
      if (s != statusOk) return s;
      // Racing threads may store an older value over a newer one: every value is a true lower bound.
      storeRelease<Scope::gpu>(tailCache, seen);
    }
    Trigger* slot = ring + (pos & (size - 1));
    uint64_t lap = pos / size + 1;
    slot->sizeAndType = t.sizeAndType;
    slot->srcOffsetAndId = t.srcOffsetAndId;
    slot->dstOffsetAndId = t.dstOffsetAndId;
    storeRelease<Scope::sys>(&slot->semaphoreAndLap, (t.semaphoreAndLap & 0xffffffffu) | lap << 32);
    return statusOk;
  }

  // poll says whether the host has taken position.
  GOCCL_DEVICE bool poll(uint64_t position) {
    return static_cast<int64_t>(loadAcquire<Scope::sys>(tail) - position) > 0;
  }

  // sync waits until the host has taken position.
  GOCCL_DEVICE Status sync(uint64_t position, int64_t maxSpin = -1) {
    return waitUntil([&] { return poll(position); }, abort, tail, waitFifoSlot, maxSpin);
  }
};

}  // namespace goccl
