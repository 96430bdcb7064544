// The kernels of onesided/onesided.cuh: two streams of one rank put to another and signal it by the same counter; the
// receiver answers each stream. One stream stores every other signal, as after a copy engine.
// onesided [MUTATION...]; a mutation is a line that onesided_test.go has made breakable.
#include "ranks.hpp"

#include <onesided/onesided.cuh>

using namespace ranks;
using namespace goccl::onesided;

constexpr uint32_t streams = 2, rounds = 40, threads = 4;
constexpr size_t bytes = 100;

// Counter is one counter: the words at the receiver, what the receiver has used up, and the sender's side.
struct Counter {
  uint64_t words[2]{};
  uint64_t *word = words, *used = newWord(), stored = 0;
  Sent sent{};
};

// storeSignal is what the host enqueues after a copy.
void storeSignal(Counter& c, uint8_t* dst, const uint8_t* src, size_t n) {
  std::memcpy(dst, src, n);
  storeRelease<Scope::sys>(c.word + 1, ++c.stored);
}

void putSignal(Counter& c, bool atomics, uint8_t* dst, const uint8_t* src, size_t n) {
  const PutArgs a{nullptr, dst, src, n, c.word, atomics ? nullptr : &c.sent};
  Launch(1, threads, [&a] { put(a); }).join();
}

void waitSignals(std::initializer_list<std::pair<Counter*, uint32_t>> counters) {
  WaitArgs a{nullptr, abortBlock(), counters.size(), 1, {}};
  uint32_t i = 0;
  for (auto& [c, count] : counters) a.awaited[i++] = Awaited{c->word, c->used, count, 1};
  Launch(1, threads, [&a] { await(a); }).join();
}

void run(bool atomics) {
  Counter data, answers[streams];
  Memory window(streams * 128);
  std::vector<Thread> work;
  for (uint32_t s = 0; s < streams; ++s)
    work.emplace_back([&, s] {
      Memory src(bytes);
      for (uint32_t round = 0; round < rounds; ++round) {
        for (size_t i = 0; i < bytes; ++i) src.data[i] = pattern(s, round, i);
        if (s == 1 && round % 2 != 0)
          storeSignal(data, window.data + s * 128, src.data, bytes);
        else
          putSignal(data, atomics, window.data + s * 128, src.data, bytes);
        waitSignals({{&answers[s], 1}});
      }
    });
  work.emplace_back([&] {
    for (uint32_t round = 0; round < rounds; ++round) {
      waitSignals({{&data, streams}});
      for (uint32_t s = 0; s < streams; ++s)
        for (size_t i = 0; i < bytes; ++i)
          CHECK(window.data[s * 128 + i] == pattern(s, round, i), "round %u: byte %zu of stream %u", round, i, s);
      for (Counter& c : answers) putSignal(c, atomics, nullptr, nullptr, 0);
    }
  });
  for (auto& t : work) t.join();
  CHECK(loadRelaxed<Scope::sys>(&abortBlock()->reported) == 0, "a wait gave up");
  CHECK(data.words[0] + data.words[1] == rounds * streams && *data.used == rounds * streams,
        "%lu + %lu signals, %lu used", data.words[0], data.words[1], *data.used);
}

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    hostWeakAcquire |= std::strcmp(argv[i], "acquire") == 0;
    hostWeakRelease |= std::strcmp(argv[i], "release") == 0;
    mutation = argv[i];
    bug = true;
  }
  run(true);
  run(false);
}
