// Pipe: how a thread block passes slots of memory between ranks. Of its threads, the workers move data; the first of a
// last warp, the signaler, tells the other ranks, so that the workers need not wait for its fence.
//
//   1. two workers wait: one for a slot that has arrived, one for room at the receiver
//   2. behind a barrier of the workers, all of them move the slot
//   3. behind a barrier of the block, the signaler publishes what was stored and gives back the room of what was read
//
// # Counts
//
// Slots are counted for ever in device memory. A count of 32 bits wraps harmlessly, because such counts compare by
// signed difference; one of 64 bits never wraps. A pair of ranks shares two words:
//
//   flag    in the receiver's memory: slots below that number have arrived
//   limit   in the sender's memory: slots below that number may be sent
//
// Property, checked in every state of a small model (test/models, ring): every slot arrives once, in order and
// unchanged, and no rank waits for ever.
//
// These are absolute counts in plain words, unlike semaphores, which are added to: a word has one writer, so a store is
// enough.
//
// # Memory order
//
// The signaler releases a flag at system scope behind the block barrier that follows the stores; one worker acquires
// it, and the barrier of the workers passes that on. A limit is relaxed: it follows the block barrier behind the loads
// of the slot, which have returned their values by then.
#pragma once

#include <goccl/abort.cuh>

namespace goccl {

constexpr uint32_t pipeSignalers = 32;  // threads of the signaler's warp, of which one signals

// haltedWords are two zeroed words of the block's shared memory. All threads of the block call it.
GOCCL_DEVICE uint32_t* haltedWords() {
  __shared__ uint32_t halted[2];
  if (threadIdx.x < 2) halted[threadIdx.x] = 0;
  __syncthreads();
  return halted;
}

struct Pipe {
  AbortBlock* abort;
  uint32_t* halted;  // shared memory: whether a wait failed, in even and in odd steps
  uint32_t steps = 0;

  GOCCL_DEVICE explicit Pipe(AbortBlock* abortBlock) : abort(abortBlock), halted(haltedWords()) {}

  GOCCL_DEVICE uint32_t workers() const { return blockDim.x - pipeSignalers; }
  GOCCL_DEVICE bool signaler() const { return threadIdx.x == workers(); }

  // step passes one slot; all threads of the block call it. One worker calls arrived, which waits for the slot, and
  // another room, which waits for its place; then all workers call move, and the signaler calls signal. step returns
  // false if a wait failed: nothing was moved then, and the block must end.
  template <class Arrived, class Room, class Move, class Signal>
  GOCCL_DEVICE bool step(Arrived arrived, Room room, Move move, Signal signal) {
    uint32_t* stop = halted + (steps++ & 1);
    if (threadIdx.x < workers()) {
      if (threadIdx.x == 0 && arrived() != statusOk) *stop = 1;
      if (threadIdx.x == 32 % workers() && room() != statusOk) *stop = 1;
      barrierOf(1, workers());
      if (*stop == 0) move();
    }
    barrierOf(2, blockDim.x);
    if (*stop != 0) return false;
    if (signaler()) signal();
    return true;
  }

  // passed says whether slot `number` is below a count. On counts of 64 bits a difference would cost registers.
  static GOCCL_DEVICE bool passed(uint32_t count, uint32_t number) { return static_cast<int32_t>(count - number) > 0; }
  static GOCCL_DEVICE bool passed(uint64_t count, uint64_t number) { return count > number; }

  // awaitFlag waits until slot `number` has arrived, awaitLimit until it may be sent. peer is the rank waited for. seen
  // is what the word last was: where that is enough, nothing is loaded.
  template <class Count>
  GOCCL_DEVICE Status awaitFlag(const Count* word, Count number, Count& seen, uint32_t peer) const {
    if (passed(seen, number)) return statusOk;
    return waitUntil([&] { return passed(seen = loadAcquire<Scope::sys>(word), number); }, abort, word, waitPacket, -1,
                     peer);
  }
  template <class Count>
  GOCCL_DEVICE Status awaitLimit(const Count* word, Count number, Count& seen, uint32_t peer) const {
    if (passed(seen, number)) return statusOk;
    return waitUntil([&] { return passed(seen = loadRelaxed<Scope::sys>(word), number); }, abort, word, waitPacket, -1,
                     peer);
  }
};

}  // namespace goccl
