// Messages between pairs of ranks: point to point, and counts on the device.
#pragma once

#include "exchange.hpp"

namespace ranks {

inline void messages() {
  auto make = [](uint32_t n, uint32_t threads, uint32_t first, uint32_t width = p2pChannels) {
    return Exchange(n, threads, width, ringOffset(n, 0) + n * p2pChannels * 128, n * 2 * p2pChannels * 32, first);
  };
  make(2, 64, 0).run(2, 1, pointToPoint<LineBytes, P2PArgs>);
  make(2, 32, 0xfffffff0).run(3, 8, pointToPoint<LineWords, P2PFewArgs>);
  make(3, 32, 0).run(1, 1, pointToPoint<LineBytes, P2PFewArgs>);
  make(2, 32, 0).run(2, 1, pointToPoint<PacketBytes, P2PArgs>);
  make(3, 32, 0xfffffff0).run(2, 8, pointToPoint<PacketBytes, P2PFewArgs>);
  // Where not all channels would be resident, a launch uses fewer.
  make(2, 32, 0, 1).run(2, 1, pointToPoint<LineBytes, P2PFewArgs>);
  make(2, 32, 0, 1).run(2, 1, pointToPoint<PacketBytes, P2PArgs>);
}

// Device counts: what the ranks exchange is drawn anew for every launch, and ordinary messages go by the same rings in
// between.
struct Counted : Exchange {
  static constexpr uint32_t quiet = 1000;  // from this launch on no rank sends anything
  const uint32_t blocks;                   // of a lane
  bool lines = true;                       // LL128, not LL
  std::vector<AbortBlock> aborts;

  Counted(uint32_t ranksN, uint32_t threadsN, uint32_t first, uint32_t blocksN)
      : Exchange(ranksN, threadsN, p2pChannels, ringOffset(ranksN, 0) + ranksN * p2pChannels * 128,
                 ranksN * 2 * p2pChannels * 32, first),
        blocks(blocksN), aborts(ranksN, *abortBlock()) {}

  // draw is what from sends to in a launch, in elements: both sides draw the same. Some messages are more than a ring.
  static int64_t draw(uint32_t from, uint32_t to, uint32_t launch, uint32_t element) {
    if (launch >= quiet) return 0;
    uint32_t h = (from * 40503u + to * 9176u + launch * 7919u + 12345u) * 2654435761u;
    h ^= h >> 15;
    const int64_t some[] = {0, -3, 1, 100, piece / 8, piece, piece * 11 + 5, 33};
    const int64_t bytes = some[h % 8];
    return bytes > 0 ? (bytes + h / 8 % 9) / element : bytes;
  }

  // counted is one launch of one rank: dense, with all messages at multiples of 8, or with gaps between them. wrong is
  // added to what rank 0 sends rank 1. Rank 0's recv (side 0) or send (side 1) is cut[side] elements too short for its
  // last message.
  void counted(uint32_t rank, uint32_t l, uint32_t element, bool dense, int64_t wrong,
               std::array<uint64_t, 2> cut = {}) {
    std::vector<int64_t> counts[2], displs[2];
    uint64_t total[2];
    for (uint32_t send : {0u, 1u}) {
      int64_t at = dense ? 0 : 1;
      for (uint32_t p = 0; p < n; ++p) {
        int64_t count = send ? draw(rank, p, l, element) : draw(p, rank, l, element);
        if (send && rank == 0 && p == 1) count += wrong;
        counts[send].push_back(count);
        displs[send].push_back(count > 0 ? at : -1000000);  // not used
        if (count > 0) at = dense ? ((at + count) * element + 7) / 8 * 8 / element : at + count + 3;
      }
      total[send] = static_cast<uint64_t>(at) * element;
    }
    Memory send(total[1] + 64), recv(total[0] + 64);
    std::memset(recv.data, 0xee, total[0] + 64);
    auto at = [&](uint32_t side, uint32_t p) { return (side ? send : recv).data + displs[side][p] * element; };
    auto bytes = [&](uint32_t side, uint32_t p) {
      return counts[side][p] > 0 ? static_cast<uint64_t>(counts[side][p]) * element : 0;
    };
    for (uint32_t p = 0; p < n; ++p)
      for (uint64_t j = 0; j < bytes(1, p); ++j) at(1, p)[j] = pattern(rank * 5 + p, l, j);

    AllToAllVArgs a{};
    const bool isCut = cut[0] + cut[1] != 0;
    a.abort = wrong != 0 || isCut ? &aborts[rank] : abortBlock();
    for (uint32_t r = 0; r < n; ++r) a.window[r] = window[r];
    a.counters = counters[rank].data();
    a.rank = rank;
    a.nranks = n;
    a.width = p2pChannels;
    a.send = send.data;
    a.recv = recv.data;
    for (uint32_t side : {0u, 1u})
      a.counts[side] = counts[side].data(), a.displs[side] = displs[side].data(),
      a.elements[side] = total[side] / element - (rank == 0 ? std::min(cut[side], total[side] / element) : 0);
    a.elementBytes = element;
    a.channels = blocks;
    Launch((2 * n - 1) * blocks, threads, [a, lines = lines] {
      if (lines)
        allToAllV<LineWords, LineBytes>(a);
      else
        allToAllV<PacketBytes, PacketBytes>(a);
    }).join();
    if (wrong != 0) {
      const AbortBlock& b = aborts[rank];
      const uint64_t sent = draw(0, 1, l, element) + wrong, expected = draw(0, 1, l, element);
      CHECK(b.reported == statusMismatch && b.peer == 1 - rank && b.op == (rank == 0 ? peerExpects : peerSends) &&
                b.detail == (rank == 0 ? expected : sent) * element,
            "rank %u, %ld too many: status %x, peer %u, op %u, %lu bytes", rank, static_cast<long>(wrong), b.reported,
            b.peer, b.op, static_cast<unsigned long>(b.detail));
      return;
    }
    if (isCut) {
      const AbortBlock& b = aborts[rank];
      const uint32_t side = cut[1] != 0;
      if (rank == 0)
        CHECK(b.reported == statusInvalid && b.peer == 1 && b.op == side &&
                  b.detail == static_cast<uint64_t>(counts[side][1]),
              "side %u: status %x, peer %u, op %u, %lu elements", side, b.reported, b.peer, b.op,
              static_cast<unsigned long>(b.detail));
      else
        CHECK(b.reported == statusMismatch && b.peer == 0 && b.op == (side ? peerSends : peerExpects) && b.detail == 0,
              "rank %u, side %u: status %x, peer %u, op %u, %lu bytes", rank, side, b.reported, b.peer, b.op,
              static_cast<unsigned long>(b.detail));
      if (rank == 0 && side == 0)
        for (uint64_t j = 0; j < bytes(0, 1); ++j)
          CHECK(at(0, 1)[j] == 0xee, "byte %lu of a message that does not fit was written",
                static_cast<unsigned long>(j));
      return;
    }
    checkStatus("device counts", rank, l);
    for (uint32_t p = 0; p < n; ++p) {
      for (uint64_t j = 0; j < bytes(0, p); ++j)
        CHECK(at(0, p)[j] == pattern(p * 5 + rank, l, j), "rank %u to %u, launch %u, %lu bytes: byte %lu", p, rank, l,
              static_cast<unsigned long>(bytes(0, p)), static_cast<unsigned long>(j));
      if (bytes(0, p) > 0) std::memset(at(0, p), 0xee, bytes(0, p));
    }
    for (uint64_t j = 0; j < total[0] + 64; ++j)
      CHECK(recv.data[j] == 0xee, "rank %u, launch %u: byte %lu belongs to no message and was written", rank, l,
            static_cast<unsigned long>(j));
  }

  // alternate makes launches of both kinds, one after the other.
  void alternate(uint32_t launches) {
    each([=, this](uint32_t rank) {
      const uint32_t elements[] = {1, 8, 2, 4};
      for (uint32_t l = 0; l < launches; ++l) {
        for (uint32_t k = 0; k < 3; ++k) counted(rank, 3 * l + k, elements[(l + k) % 4], k % 2 == 1, 0);
        if (!lines)
          once(rank, l, 1, pointToPoint<PacketBytes, P2PArgs>);
        else if (l % 2 == 0)
          once(rank, l, 1, pointToPoint<LineBytes, P2PArgs>);
        else
          once(rank, l, 8, pointToPoint<LineWords, P2PFewArgs>);
      }
    });
  }
};

// Nothing to send: a launch of few threads, held up by the counts alone.
inline void noCounts() {
  Counted idle(3, 4, 0, 1);
  idle.each([&](uint32_t rank) {
    for (uint32_t l = Counted::quiet; l < Counted::quiet + 8; ++l) idle.counted(rank, l, 1, false, 0);
  });
}

inline void deviceCounts() {
  Counted(2, 32, 0, 2).alternate(2);
  Counted(2, 32, 0xfffffffe, 1).alternate(1);  // a block serves both channels
  Counted(3, 32, 0, 2).alternate(1);
  Counted small(2, 32, 0, 2);
  small.lines = false;
  small.alternate(1);
}

// Both ranks that disagree say so and name the other. Where more is expected than sent, the receiver's other blocks
// wait in vain until then.
inline void wrongCounts() {
  uint32_t l = 0;
  while (Counted::draw(0, 1, l, 1) < 2 * static_cast<int64_t>(Exchange::piece)) ++l;
  for (int64_t wrong : {-1, 1, -1500, 1500}) {
    Counted c(2, 32, 0, 2);
    c.each([&](uint32_t rank) { c.counted(rank, l, 1, false, wrong); });
  }
}

// A message that does not fit is not moved. Its rank says so, and the other one that the counts differ.
inline void outsideCounts() {
  uint32_t l = 0;
  while (Counted::draw(0, 1, l, 1) <= 0 || Counted::draw(1, 0, l, 1) <= 0 || Counted::draw(0, 0, l, 1) > 0) ++l;
  for (uint64_t cut :
       {uint64_t{4}, ~uint64_t{0}})  // there are 3 elements after the last message; or the buffer has none at all
    for (uint32_t side : {0u, 1u}) {
      Counted c(2, 32, 0, 2);
      c.each([&](uint32_t rank) {
        c.counted(rank, l, 1, false, 0, side ? std::array<uint64_t, 2>{0, cut} : std::array<uint64_t, 2>{cut, 0});
      });
    }
}

}  // namespace ranks
