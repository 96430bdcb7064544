// The ranks of a collective in one process: windows, epochs, jittery packets, and what each rank must end up with.
#pragma once

#include "ranks.hpp"

#include <functional>
#include <string>

#include <collective/all_to_all_v.cuh>
#include <collective/direct_move.cuh>
#include <collective/direct_reduce.cuh>
#include <collective/p2p.cuh>
#include <collective/ring_fold.cuh>
#include <collective/rooted.cuh>
#include <collective/stream.cuh>

namespace ranks {

using namespace goccl::collective;

// jitter holds a thread up now and then, so that ranks, blocks and lanes drift apart as far as the protocol lets them.
inline thread_local uint32_t dice = 0;
inline void jitter() {
  if (dice == 0) dice = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(&dice) >> 6) * 2654435761u | 1;
  dice ^= dice << 13, dice ^= dice >> 17, dice ^= dice << 5;
  if (dice % 64 == 0) sleepNs(dice % 200000);
}

// straggle makes a rank's host late now and then, if stragglers is set: by more than the polls between two looks.
inline bool stragglers = false;
inline void straggle() {
  jitter();
  if (stragglers && dice % 4 == 0) sleepNs(dice % 4000000);
}

// The packets of the kernels, where a failed poll lets others run.
template <Access A>
struct HostLL : LL<A> {
  using Data = typename LL<A>::Data;
  static void send(uint8_t* slot, uint32_t unit, Data d, uint32_t epoch) {
    LL<A>::send(slot, unit, d, epoch);
    jitter();
  }
  static bool all(bool fresh) {
    if (!fresh) sleepNs(20000);
    return fresh;
  }
};

template <Access A>
struct HostLL128 : LL128<A> {
  using Data = typename LL128<A>::Data;
  static void send(uint8_t* slot, uint32_t unit, Data d, uint32_t epoch) {
    LL128<A>::send(slot, unit, d, epoch);
    jitter();
  }
  static bool all(bool fresh) {
    const bool done = LL128<A>::all(fresh);
    if (!done) sleepNs(20000);
    return done;
  }
};

using PacketWords = HostLL<Access::words>;
using PacketBytes = HostLL<Access::bytes>;
using LineWords = HostLL128<Access::words>;
using LineBytes = HostLL128<Access::bytes>;

// World is what outlives launches: a window and a block's epochs for every rank.
struct World {
  const uint32_t n, threads;
  std::vector<std::unique_ptr<Memory>> windows;
  std::vector<std::vector<uint32_t>> epochs;

  static constexpr uint32_t maxBlocks = 2;

  World(uint32_t ranksN, uint32_t threadsN, uint32_t firstEpoch) : n(ranksN), threads(threadsN) {
    for (uint32_t r = 0; r < n; ++r) {
      windows.push_back(std::make_unique<Memory>(maxBlocks * 4 * n * threads * 16));
      epochs.emplace_back(maxBlocks * epochStride, firstEpoch);
    }
  }

  Args args(uint32_t rank) {
    straggle();
    Args a{};
    for (uint32_t r = 0; r < n; ++r) a.window[r] = windows[r]->data;
    a.abort = abortBlock();
    a.epochs = epochs[rank].data();
    a.rank = rank;
    a.nranks = n;
    a.slotBytes = threads * 16;
    a.root = everyone;
    return a;
  }

  // each runs body(rank) as every rank's host does: at once, and no rank waits for another between its launches.
  void each(const std::function<void(uint32_t)>& body) {
    std::vector<Thread> hosts;
    for (uint32_t r = 0; r < n; ++r) hosts.emplace_back(body, r);
    for (auto& h : hosts) h.join();
  }
};

inline void checkStatus(const char* what, uint32_t rank, uint32_t launch) {
  uint32_t s = loadAcquire<Scope::sys>(&abortBlock()->reported);
  const AbortBlock* b = abortBlock();
  CHECK(s == 0, "%s: rank %u, launch %u: a wait gave up with %x: op %u for rank %u at %lx", what, rank, launch, s,
        b->op, b->peer, static_cast<unsigned long>(b->detail));
}

// value is element i of what rank r puts in; sums of four ranks fit a byte.
inline uint8_t value(uint32_t r, uint32_t launch, uint64_t i) {
  return static_cast<uint8_t>((r * 31 + launch * 17 + i * 7 + (i >> 5)) % 61);
}

}  // namespace ranks
