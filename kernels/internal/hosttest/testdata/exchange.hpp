// Messages between all pairs of ranks, by packets or streams.
#pragma once

#include "collective.hpp"

#include <type_traits>

namespace ranks {

// Messages between all ranks in one launch, several to a pair, and again: the rings wrap many times.
struct Exchange {
  static constexpr uint32_t piece = p2pPieceBytes<LineBytes>;  // messages of LL have twice as many

  uint32_t n, threads, channels;
  std::vector<std::unique_ptr<Memory>> windows;
  std::vector<uint8_t*> window;  // where the region begins in each: its own, unless it is shared
  std::vector<std::vector<uint32_t>> counters;
  // launch runs a kernel of one rank to its end.
  std::function<void(uint32_t rank, uint32_t blocks, const std::function<void()>& kernel)> launch =
      [this](uint32_t, uint32_t blocks, const std::function<void()>& kernel) {
        Launch(blocks, threads, kernel).join();
      };
  uint64_t stages = 0;  // of bulk copies

  Exchange(const Exchange&) = delete;
  Exchange(uint32_t ranksN, uint32_t threadsN, uint32_t channelsN, uint64_t bytes, uint32_t counted, uint32_t first)
      : n(ranksN), threads(threadsN), channels(channelsN), counters(n, std::vector<uint32_t>(counted, first)) {
    for (uint32_t r = 0; r < n; ++r) {
      windows.push_back(std::make_unique<Memory>(bytes));
      window.push_back(windows[r]->data);
      if (first == 0) continue;
      // What a long past has left: other flags everywhere, and all credit given back.
      std::memset(windows[r]->data, 0x55, ringOffset(n, 0));
      for (uint64_t at = ringOffset(n, 0); at < bytes; at += 128)
        std::memcpy(windows[r]->data + at, &first, sizeof first);
    }
  }

  static uint64_t bytesOf(uint32_t from, uint32_t to, uint32_t i, uint64_t align) {
    const uint64_t sizes[] = {1, piece * 5 + 17, 7, piece, 33, piece * 2 + 9};
    return (sizes[(from + 2 * to + i) % 6] + align - 1) / align * align;
  }

  template <class Lists>
  void run(uint32_t launches, uint64_t align, void (*kernel)(const Lists&)) {
    each([=, this](uint32_t rank) {
      for (uint32_t l = 0; l < launches; ++l) once(rank, l, align, kernel);
    });
  }

  // each runs body(rank) as every rank's host does.
  void each(const std::function<void(uint32_t)>& body) {
    std::vector<Thread> hosts;
    for (uint32_t rank = 0; rank < n; ++rank) hosts.emplace_back(body, rank);
    for (auto& h : hosts) h.join();
  }

  // once is one launch of one rank. Every rank also sends itself two messages. The senders of streams have mapped the
  // places of two messages of three.
  template <class Lists>
  void once(uint32_t rank, uint32_t l, uint64_t align, void (*kernel)(const Lists&)) {
    constexpr bool isStream = std::is_same_v<Lists, StreamArgs>;
    constexpr uint32_t messages = 3, own = 2;
    Lists a{};
    if constexpr (isStream) a.stages = stages;
    a.abort = abortBlock();
    for (uint32_t r = 0; r < n; ++r) a.window[r] = window[r];
    a.counters = counters[rank].data();
    a.rank = rank;
    a.nranks = n;
    a.width = channels;
    std::vector<std::unique_ptr<Memory>> buffers;
    uint32_t m = 0;
    for (uint32_t k = 1; k < n; ++k)
      for (bool send : {true, false}) {
        const uint32_t peer = send ? (rank + k) % n : (rank + n - k) % n, from = send ? rank : peer,
                       to = send ? peer : rank;
        a.lane[a.lanes++] =
            Lane{static_cast<uint16_t>(peer), send, static_cast<uint8_t>(channels), static_cast<uint16_t>(m), messages};
        for (uint32_t i = 0; i < messages; ++i, ++m) {
          const uint64_t bytes = bytesOf(from, to, i + l, align);
          buffers.push_back(std::make_unique<Memory>(bytes + 64));
          uint8_t* p = buffers.back()->data + (align == 1 ? 3 : 0);
          std::memset(p, 0xee, bytes + 16);
          if (send)
            for (uint64_t j = 0; j < bytes; ++j) p[j] = pattern(from * 5 + to, l * 3 + i, j);
          a.message[m] = Message{reinterpret_cast<uint64_t>(p), bytes};
          if constexpr (isStream)
            if (!send && (from + to + i + l) % 3 != 0) a.there[m] = a.message[m].address;
        }
      }
    const uint32_t lanes = a.lanes, first = m;
    a.lane[a.lanes++] =
        Lane{static_cast<uint16_t>(rank), 0, static_cast<uint8_t>(channels), static_cast<uint16_t>(m), 2 * own};
    for (uint32_t i = 0; i < 2 * own; ++i, ++m) {
      const uint64_t bytes = bytesOf(rank, rank, i / 2 + l, align);
      buffers.push_back(std::make_unique<Memory>(bytes + 64));
      uint8_t* p = buffers.back()->data + (align == 1 ? 5 * i : 0);
      std::memset(p, 0xee, bytes + 16);
      for (uint64_t j = 0; i % 2 == 0 && j < bytes; ++j) p[j] = pattern(rank, l * own + i, j);
      a.message[m] = Message{reinterpret_cast<uint64_t>(p), bytes};
    }
    launch(rank, isStream ? 2 * channels : a.lanes * channels, [kernel, a] { kernel(a); });
    checkStatus("messages", rank, l);
    for (uint32_t i = first; i < m; i += 2) {
      const uint8_t *from = reinterpret_cast<const uint8_t*>(a.message[i].address),
                    *to = reinterpret_cast<const uint8_t*>(a.message[i + 1].address);
      CHECK(std::memcmp(from, to, a.message[i].bytes + 16) == 0, "rank %u to itself, launch %u, %lu bytes", rank, l,
            static_cast<unsigned long>(a.message[i].bytes));
    }
    for (uint32_t x = 0; x < lanes; ++x) {
      const Lane& lane = a.lane[x];
      for (uint32_t i = 0; i < messages && !lane.send; ++i) {
        const Message& got = a.message[lane.first + i];
        const uint8_t* p = reinterpret_cast<const uint8_t*>(got.address);
        for (uint64_t j = 0; j < got.bytes; ++j)
          CHECK(p[j] == pattern(lane.peer * 5u + rank, l * 3 + i, j),
                "message %u of rank %u to %u, launch %u, %lu bytes: byte %lu", i, lane.peer, rank, l,
                static_cast<unsigned long>(got.bytes), static_cast<unsigned long>(j));
        for (uint64_t j = 0; j < 16; ++j) CHECK(p[got.bytes + j] == 0xee, "wrote past a message");
      }
    }
  }
};

// A fleet of ranks that stream. Messages have fewer pieces than channels, or more than a ring holds.
struct Streams : Exchange {
  Streams(uint32_t ranksN, uint32_t threadsN)
      : Exchange(ranksN, threadsN, streamChannels, streamRing(streamChannels) + ranksN * streamChannels * 2 * 128,
                 ranksN * 2 * streamChannels * 32, 0) {}
};
inline void streams() {
  Streams(2, 32).run(1, 1, stream);
  Streams(2, 9).run(3, 1, stream);
  Streams(3, 9).run(3, 16, stream);
}

}  // namespace ranks
