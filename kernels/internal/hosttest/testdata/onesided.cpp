// The kernels of onesided/onesided.cuh: two streams of one rank put to another and signal it by the same counter; the
// receiver answers each stream. The copy engine copies a part of one stream's data beside the kernel.
// onesided [MUTATION...]; a mutation is a line that onesided_test.go has made breakable.
#include "ranks.hpp"

#include <onesided/onesided.cuh>

using namespace ranks;
using namespace goccl::onesided;

constexpr uint32_t streams = 2, rounds = 40, threads = 4;
constexpr size_t bytes = 100, part = 60;

// Counter is one counter: the word at the receiver, what the receiver has used up, and the sender's side.
struct Counter {
  uint64_t *word = newWord(), *used = newWord();
  Sent sent{};
};

// Mark is where a copy engine stores how many copies have ended.
struct Mark {
  uint64_t *word = newWord(), copies = 0;
};

void putSignal(Counter& c, bool atomics, uint8_t* dst, const uint8_t* src, size_t n, Mark* mark = nullptr) {
  PutArgs a{nullptr, dst, src, n, c.word, atomics ? nullptr : &c.sent, abortBlock(), nullptr, 0, 1};
  std::vector<Thread> engine;
  if (mark != nullptr) {
    a.bytes = part, a.mark = mark->word, a.copies = ++mark->copies;
    engine.emplace_back([=] {
      std::memcpy(dst + part, src + part, n - part);
      storeRelease<Scope::sys>(mark->word, mark->copies);
    });
  }
  Launch(1, threads, [&a] { put(a); }).join();
  for (auto& t : engine) t.join();
}

void waitSignals(std::initializer_list<std::pair<Counter*, uint32_t>> counters) {
  WaitArgs a{nullptr, abortBlock(), counters.size(), {}};
  uint32_t i = 0;
  for (auto& [c, count] : counters) a.awaited[i++] = Awaited{c->word, c->used, count, 1};
  Launch(1, threads, [&a] { await(a); }).join();
}

void run(bool atomics) {
  Counter data, answers[streams];
  Mark mark;
  Memory window(streams * 128);
  std::vector<Thread> work;
  for (uint32_t s = 0; s < streams; ++s)
    work.emplace_back([&, s] {
      Memory src(bytes);
      for (uint32_t round = 0; round < rounds; ++round) {
        for (size_t i = 0; i < bytes; ++i) src.data[i] = pattern(s, round, i);
        putSignal(data, atomics, window.data + s * 128, src.data, bytes, s == 1 && round % 2 != 0 ? &mark : nullptr);
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
  CHECK(*data.word == rounds * streams && *data.used == rounds * streams, "%lu signals, %lu used", *data.word,
        *data.used);
}

// A put whose copy does not end, and a part of a put in a graph, do not signal.
void unsignalled() {
  Counter c;
  AbortBlock block{};
  block.abort = statusAborted;
  const uint64_t mark = 5;
  uint8_t src[8] = {1, 2, 3, 4, 5, 6, 7, 8}, dst[8] = {};
  const PutArgs without{nullptr, dst, src, 8, nullptr, nullptr, &block, nullptr, 0, 3},
      late{nullptr, dst, src, 8, c.word, nullptr, &block, &mark, 6, 3},
      wrapped{nullptr, dst, src, 8, c.word, nullptr, &block, &mark, ~uint64_t{0}, 3};
  Launch(1, threads, [&] { put(without); }).join();
  CHECK(block.reported == statusOk && std::memcmp(dst, src, 8) == 0, "a copy alone");
  Launch(1, threads, [&] { put(late); }).join();
  CHECK(*c.word == 0 && block.reported == statusAborted && block.op == waitCopy && block.peer == 3,
        "%lu signals, report %u of wait %u for rank %u", *c.word, block.reported, block.op, block.peer);
  Launch(1, threads, [&] { put(wrapped); }).join();
  CHECK(*c.word == 1, "marks do not wrap");
}

int main(int argc, char** argv) {
  breakBy(argc, argv);
  unsignalled();
  run(true);
  run(false);
}
