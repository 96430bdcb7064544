// Lamport packets between the blocks of one number: args.cuh has the protocol.
#pragma once

#include <collective/lamport.cuh>
#include <fused/args.cuh>

namespace goccl {
namespace fused {

using collective::arrived;
using collective::complementOf;
using collective::packetOf;

GOCCL_DEVICE void send(uint8_t* slot, uint32_t vector, uint4 packet) {
  storePacket(reinterpret_cast<uint4*>(slot) + vector, packet);
}

// batch is how many peers' packets a thread has in flight, n of each. Other GPUs have no registers for three.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 900
GOCCL_DEVICE constexpr uint32_t batch(uint32_t n) { return n == 1 ? 4 : n == 2 ? 2 : 1; }
#else
GOCCL_DEVICE constexpr uint32_t batch(uint32_t n) { return n == 1 ? 4 : n == 2 ? 3 : 1; }
#endif

constexpr uint32_t inOrder = 0xffffffffu;  // placeOf, n = 32: slots lie in the order of ranks

// noPacket is the place of a packet that this thread does not wait for.
constexpr uint32_t noPacket = 0xffffffffu;

// fetchAll reads the packets of a slot that are at places, and tells whether all have arrived. clearAll makes their
// memory zero.
template <uint32_t N>
GOCCL_DEVICE bool fetchAll(const uint8_t* slot, const uint32_t (&places)[N], uint4* v) {
  bool here = true;
#pragma unroll
  for (uint32_t k = 0; k < N; ++k)
    if (places[k] != noPacket) {
      v[k] = loadPacket(reinterpret_cast<const uint4*>(slot) + places[k]);
      here = here && arrived(v[k]);
    }
  return here;
}
template <uint32_t N>
GOCCL_DEVICE void clearAll(uint8_t* slot, const uint32_t (&places)[N]) {
#pragma unroll
  for (uint32_t k = 0; k < N; ++k)
    if (places[k] != noPacket) send(slot, places[k], make_uint4(0, 0, 0, 0));
}

// batchRanks returns the ranks of count peers from the first-th on, a bit set. Peers are the ranks without this one, in
// their order.
GOCCL_DEVICE uint32_t batchRanks(const Args& a, uint32_t first, uint32_t count) {
  const uint32_t peers = ((1u << count) - 1) << first;
  return (peers + (peers & (0u - (1u << a.rank)))) & ((1u << a.nranks) - 1);
}

// receive waits for the packets at places of the peers [first, first + batch(N)) and calls use(peer, packets) for each.
// The memory of earlier peers' packets is zero by then.
template <uint32_t N, class Use>
GOCCL_DEVICE Status receive(const Args& a, uint32_t area, uint32_t first, const uint32_t (&places)[N], Use use) {
  uint4 v[batch(N)][N];
  auto slot = [&](uint32_t peer) { return sourceSlot(a, area, 0, peer + (peer >= a.rank)); };
  for (uint32_t polls = 1;; ++polls) {
    bool all = true;
#pragma unroll
    for (uint32_t i = 0; i < batch(N); ++i)
      if (first + i + 1 < a.nranks) {
        const bool here = fetchAll(slot(first + i), places, v[i]);
        all = all && here;
      }
    if (all) break;
    pause();
    if (__builtin_expect(polls != spinsPerCheck, 1)) continue;
    uint32_t late = 0;
#pragma unroll
    for (uint32_t i = 0; i < batch(N); ++i)
#pragma unroll
      for (uint32_t k = 0; k < N; ++k)
        if (first + i + 1 < a.nranks && places[k] != noPacket && !arrived(v[i][k])) late = places[k];
    const Status s = collective::awaitPackets(a.abort, reinterpret_cast<uint4*>(sourceSlot(a, area, 0, 0)) + late,
                                              a.slotBytes / 16, batchRanks(a, first, batch(N)), inOrder, 32);
    if (s != statusOk) return s;
    polls = 0;  // another one may be late, too
  }
#pragma unroll
  for (uint32_t i = 0; i < batch(N); ++i)
    if (first + i + 1 < a.nranks) {
      use(first + i, v[i]);
      clearAll(slot(first + i), places);
    }
  return statusOk;
}

// receiveFrom waits for packets of the results of one rank.
template <uint32_t N>
GOCCL_DEVICE Status receiveFrom(const Args& a, uint32_t area, uint32_t rank, const uint32_t (&places)[N], uint4* v) {
  uint8_t* slot = sourceSlot(a, area, 1, rank);
  uint64_t start = 0;
  const Status s = spin([&] { return fetchAll(slot, places, v); },
                        [&] { return checkAbort(a.abort, start, slot, waitPacket, rank); });
  if (s == statusOk) clearAll(slot, places);
  return s;
}

// Pass is one launch of a block.
struct Pass {
  const Args& a;
  uint32_t number, area;

  GOCCL_DEVICE explicit Pass(const Args& args)
      : a(args), number(args.passes[blockIdx.x * passStride]), area(number % areas) {}

  // keep stores the number of passes. Blocks call it when they have sent: a barrier and a store at the end of a launch
  // would keep the next one waiting.
  GOCCL_DEVICE void keep() const {
    __syncthreads();  // all threads have read it
    if (threadIdx.x == 0) a.passes[blockIdx.x * passStride] = number + 1;
  }
};

}  // namespace fused
}  // namespace goccl
