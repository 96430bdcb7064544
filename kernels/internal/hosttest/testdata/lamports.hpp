// All-reduces by Lamport packets: launches of every shape in a row, with words that look like no packet.
#pragma once

#include "collective.hpp"

#include <collective/lamport.cuh>

#include <random>

namespace ranks {

// LamportWorld is what outlives launches.
struct LamportWorld {
  static constexpr uint32_t slotBytes = 2048;
  const uint32_t n;
  std::vector<std::unique_ptr<Memory>> windows;
  std::vector<std::vector<uint32_t>> launches;

  LamportWorld(uint32_t ranksN, uint32_t first) : n(ranksN) {
    for (uint32_t r = 0; r < n; ++r) {
      windows.push_back(std::make_unique<Memory>(2 * (n - 1) * slotBytes));
      std::memset(windows[r]->data, 0, windows[r]->bytes);
      launches.emplace_back(launchCopies, first);
    }
  }
};

// LamportCase is one launch, the same on all ranks except for the buffers' addresses.
struct LamportCase {
  uint64_t bytes;
  uint32_t blocks;
  bool twoShot, inPlace;
  std::vector<std::vector<uint8_t>> inputs;
};

template <Type T>
float lamportValue(const uint8_t* p, uint64_t i) {
  typename Element<T>::Storage v;
  std::memcpy(&v, p + i * sizeof v, sizeof v);
  return widen<T>(v);
}

// checkLamport compares results, bit for bit, with sums in rank order. Which NaN a processor makes is not said.
template <Type T>
void checkLamport(const LamportCase& c, uint32_t launch, const std::vector<std::vector<uint8_t>>& results) {
  constexpr uint64_t size = sizeof(typename Element<T>::Storage);
  for (uint64_t i = 0; i < c.bytes / size; ++i) {
    float sum = lamportValue<T>(c.inputs[0].data(), i);
    for (uint32_t r = 1; r < c.inputs.size(); ++r) sum = sum + lamportValue<T>(c.inputs[r].data(), i);
    typename Element<T>::Storage rounded = narrow<T>(sum);
    for (uint32_t r = 0; r < results.size(); ++r) {
      const float got = lamportValue<T>(results[r].data(), i);
      const bool right = sum != sum ? got != got : std::memcmp(results[r].data() + i * size, &rounded, size) == 0;
      CHECK(right, "rank %u, launch %u, %s: element %lu of %lu is %g, not %g", r, launch,
            c.twoShot ? "two-shot" : "one-shot", static_cast<unsigned long>(i),
            static_cast<unsigned long>(c.bytes / size), got, sum);
    }
  }
}

template <Type T, int N>
void lamportRuns(uint32_t first, uint32_t launches, uint32_t seed) {
  constexpr uint64_t size = sizeof(typename Element<T>::Storage);
  LamportWorld w(N, first);
  std::mt19937 random(seed);
  std::vector<LamportCase> cases(launches);
  for (LamportCase& c : cases) {
    c.twoShot = random() % 2;
    c.inPlace = random() % 2;
    c.blocks = 1 + random() % 3;
    const uint64_t most = LamportWorld::slotBytes / (c.twoShot ? 2 : 1);
    c.bytes = (random() % 4 == 0 ? 1 + random() % 40 : random() % 3 == 0 ? most : 1 + random() % most) / size * size;
    if (c.bytes == 0) c.bytes = size;
    for (uint32_t r = 0; r < N; ++r) {
      std::vector<uint8_t>& v = c.inputs.emplace_back(c.bytes + 4);
      for (uint64_t i = 0; i < c.bytes / size; ++i) {
        const auto x = narrow<T>(static_cast<float>(value(r, static_cast<uint32_t>(c.bytes), i)) / 8 - 3);
        std::memcpy(v.data() + i * size, &x, size);
      }
      for (uint64_t i = 0; i + 4 <= c.bytes; i += 4) {
        const uint32_t words[] = {0xffffffffu, 0xfffffffeu, 0x80008000u, 0x80000000u, 0u, 0xff80ff80u};
        const uint32_t dice = random() % 16;
        if (dice < std::size(words)) std::memcpy(v.data() + i, &words[dice], 4);
      }
    }
  }
  std::vector<std::vector<std::vector<uint8_t>>> results(launches, std::vector<std::vector<uint8_t>>(N));
  std::vector<Thread> hosts;
  for (uint32_t rank = 0; rank < N; ++rank)
    hosts.emplace_back([&, rank] {
      for (uint32_t l = 0; l < launches; ++l) {
        const LamportCase& c = cases[l];
        const uint64_t shift = (l + rank) % 3 == 0 ? size * (1 + rank) : 0;  // not of all ranks, nor always
        Memory send(c.bytes + 64), recv(c.bytes + 64);
        uint8_t *from = send.data + shift, *to = c.inPlace ? from : recv.data + shift;
        std::memcpy(from, c.inputs[rank].data(), c.bytes);
        std::memset(from + c.bytes, 0xee, 16);
        if (!c.inPlace) std::memset(to, 0xee, c.bytes + 16);
        straggle();
        Args a{};
        for (uint32_t r = 0; r < N; ++r) a.window[r] = w.windows[r]->data;
        a.abort = abortBlock();
        a.epochs = w.launches[rank].data();
        a.rank = rank;
        a.nranks = N;
        a.slotBytes = LamportWorld::slotBytes;
        a.send = from;
        a.recv = to;
        a.bytes = c.bytes;
        if (c.twoShot) a.sendStride = ((c.bytes + N - 1) / N + 15) / 16 * 16;
        Launch(c.blocks, 32, [&] { c.twoShot ? pushTwoShot<T, N>(a) : pushOneShot<T, N>(a); }).join();
        checkStatus("lamport", rank, l);
        for (uint32_t j = 0; j < 16; ++j)
          CHECK(to[c.bytes + j] == 0xee, "rank %u, launch %u: wrote past the end", rank, l);
        results[l][rank].assign(to, to + c.bytes);
      }
    });
  for (auto& h : hosts) h.join();
  for (uint32_t l = 0; l < launches; ++l) checkLamport<T>(cases[l], l, results[l]);
  for (uint32_t r = 0; r < N; ++r) {
    for (uint64_t i = 0; i < w.windows[r]->bytes; ++i)
      CHECK(w.windows[r]->data[i] == 0, "rank %u: a packet is left", r);
    for (uint32_t b = 0; b < launchCopies; ++b)
      CHECK(w.launches[r][b] == first + launches, "rank %u: block %u counts %u launches", r, b, w.launches[r][b]);
  }
}

inline void lamport() {
  lamportRuns<Type::float32, 2>(0, 12, 1);
  lamportRuns<Type::bfloat16, 2>(0xfffffffb, 12, 2);
  lamportRuns<Type::float16, 4>(0, 8, 3);
}

}  // namespace ranks
