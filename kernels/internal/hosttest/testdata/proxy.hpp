// A proxy for port channels: takes triggers in order, copies, signals, flushes. The host's half of the FIFO protocol.
#pragma once

#include "ranks.hpp"

namespace ranks {

struct Proxy {
  static constexpr uint32_t slots = 4;  // few, so that the ring is full most of the time
  std::vector<Trigger> ring = std::vector<Trigger>(slots);
  uint64_t* head = newWord();
  uint64_t* tail = newWord();
  uint64_t* tailCache = newWord();
  uint64_t* flushDone = newWord();
  std::vector<uint8_t*> memories;     // by id
  std::vector<uint64_t*> semaphores;  // by id: the peer's counter; the proxy stores its total in the second word
  std::vector<uint64_t> totals = std::vector<uint64_t>(8);
  uint32_t naps = 0;  // longest pause before a request, in ns
  std::atomic<bool> stop{false};
  std::thread thread;

  FifoHandle handle() { return FifoHandle{ring.data(), head, tail, tailCache, slots, 0, abortBlock()}; }

  void start() {
    thread = std::thread([this] { run(); });
  }
  void join() {
    stop = true;
    thread.join();
  }

  void run() {
    for (uint64_t pos = 0;;) {
      Trigger* slot = &ring[pos % slots];
      uint64_t last = loadAcquire<Scope::sys>(&slot->semaphoreAndLap);
      if (last >> 32 != pos / slots + 1) {
        if (stop) return;
        std::this_thread::yield();
        continue;
      }
      Trigger t = *slot;
      storeRelease<Scope::sys>(tail, pos + 1);
      if (naps != 0) sleepNs(static_cast<uint32_t>(pos * 2654435761u) % naps);
      uint32_t type = static_cast<uint32_t>(t.sizeAndType >> 48) & 0xff;
      if (type & triggerData)
        std::memcpy(memories[t.dstOffsetAndId >> 48] + (t.dstOffsetAndId & triggerMaxSize),
                    memories[t.srcOffsetAndId >> 48] + (t.srcOffsetAndId & triggerMaxSize),
                    t.sizeAndType & triggerMaxSize);
      uint32_t id = static_cast<uint32_t>(last);
      if (type & triggerFlag) storeRelease<Scope::sys>(semaphores[id] + 1, ++totals[id]);
      ++pos;
      if (type & triggerSync) storeRelease<Scope::sys>(flushDone, pos);
    }
  }
};

}  // namespace ranks
