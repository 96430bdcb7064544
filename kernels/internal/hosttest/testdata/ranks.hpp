// Ranks in one process: semaphores, channels and an abort block between them, as the host side makes them.
#pragma once

#include <goccl/handle.cuh>

#include <cstring>
#include <deque>

namespace ranks {

using namespace goccl;

// bug breaks the program's own logic.
inline bool bug = false;

// breakBy takes the names that a program is called with, from argument `first` on: it is broken there.
inline void breakBy(int argc, char** argv, int first = 1) {
  for (int i = first; i < argc; ++i) {
    hostWeakAcquire |= std::strcmp(argv[i], "acquire") == 0;
    hostWeakRelease |= std::strcmp(argv[i], "release") == 0;
    mutation = argv[i];
    bug = true;
  }
}

// abortBlock ends every wait of a broken protocol. On a busy machine some take half a second where nothing is broken,
// and beside a program of thousands of threads one took 20 s.
inline AbortBlock* abortBlock() {
  static AbortBlock block = [] {
    AbortBlock b{};
    b.spinLimitNs = bug ? 1000000000 : hostWeakAcquire || hostWeakRelease ? 5000000000 : 120000000000;
    return b;
  }();
  return &block;
}

// Word is a counter in a cache line of its own, with the second word of a semaphore's.
struct alignas(128) Word {
  uint64_t value = 0, stored = 0;
};
inline uint64_t* newWord() {
  static std::deque<Word> words;
  words.emplace_back();
  return &words.back().value;
}

// connect makes the two sides of a semaphore.
inline void connect(SemaphoreHandle& a, SemaphoreHandle& b) {
  a = SemaphoreHandle{newWord(), nullptr, newWord(), abortBlock()};
  b = SemaphoreHandle{newWord(), a.inbound, newWord(), abortBlock()};
  a.remoteInbound = b.inbound;
}

// Memory is a rank's buffer, aligned as device memory is.
struct Memory {
  explicit Memory(size_t n) : bytes(n), data(static_cast<uint8_t*>(std::aligned_alloc(256, (n + 255) / 256 * 256))) {
    std::memset(data, 0, n);
  }
  ~Memory() { std::free(data); }
  Memory(const Memory&) = delete;
  size_t bytes;
  uint8_t* data;
};

inline uint8_t pattern(uint32_t rank, uint32_t round, size_t i) {
  return static_cast<uint8_t>(rank * 31 + round * 7 + i * 13 + (i >> 8));
}

}  // namespace ranks
