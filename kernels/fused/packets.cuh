// Packets of 16 bytes of data, without flags: args.cuh has the protocol.
#pragma once

#include <fused/args.cuh>
#include <goccl/packet.cuh>

namespace goccl {
namespace fused {

// absent is the word that memory without a packet holds; present replaces it in data.
constexpr uint32_t absent = 0xffffffffu;
constexpr uint32_t present = 0xfffffffeu;

// sendable makes data of a sum safe to send. The own data goes through it too, so that all ranks add the same.
GOCCL_DEVICE uint4 sendable(uint4 v) {
  v.x = v.x == absent ? present : v.x;
  v.z = v.z == absent ? present : v.z;
  return v;
}

GOCCL_DEVICE void send(uint8_t* slot, uint32_t vector, uint4 v) {
  storePacket(reinterpret_cast<uint4*>(slot) + vector, v);
}

// fetch reads a packet, and clears here if it has not arrived.
GOCCL_DEVICE uint4 fetch(const uint8_t* slot, uint32_t vector, bool& here) {
  const uint4 v = loadPacket(reinterpret_cast<const uint4*>(slot) + vector);
  here = here && v.x != absent && v.z != absent;
  return v;
}

// batch is how many ranks' packets a thread has in flight at once, when it waits for n of each.
GOCCL_DEVICE constexpr uint32_t batch(uint32_t n) { return n <= 2 ? 4 : 1; }

// noPacket is the place of a packet that this thread does not wait for.
constexpr uint32_t noPacket = 0xffffffffu;

// fetchAll reads the packets of a slot that are at places, and tells whether all have arrived.
template <uint32_t N>
GOCCL_DEVICE bool fetchAll(const uint8_t* slot, const uint32_t (&places)[N], uint4* v) {
  bool here = true;
#pragma unroll
  for (uint32_t k = 0; k < N; ++k)
    if (places[k] != noPacket) v[k] = fetch(slot, places[k], here);
  return here;
}

// receive waits for the packets at places of every other rank of [first, first + batch(N)), and calls use(rank,
// packets) for the ranks of that range, in rank order; the own one's are undefined.
template <uint32_t N, class Use>
GOCCL_DEVICE Status receive(const Args& a, uint32_t area, uint32_t first, const uint32_t (&places)[N], Use use) {
  uint4 v[batch(N)][N];
  uint64_t start = 0;
  uint32_t late = unknownPeer;
  const Status s = spin(
      [&] {
        bool all = true;
#pragma unroll
        for (uint32_t i = 0; i < batch(N); ++i) {
          const uint32_t r = first + i;
          const bool here = r >= a.nranks || r == a.rank || fetchAll(sourceSlot(a, area, 0, r), places, v[i]);
          late = here ? late : r;
          all = all && here;
        }
        return all;
      },
      [&] { return checkAbort(a.abort, start, sourceSlot(a, area, 0, first), waitPacket, late); });
  if (s != statusOk) return s;
#pragma unroll
  for (uint32_t i = 0; i < batch(N); ++i)
    if (first + i < a.nranks) use(first + i, v[i]);
  return statusOk;
}

// receiveFrom waits for packets of the results of one rank.
template <uint32_t N>
GOCCL_DEVICE Status receiveFrom(const Args& a, uint32_t area, uint32_t rank, const uint32_t (&places)[N], uint4* v) {
  const uint8_t* slot = sourceSlot(a, area, 1, rank);
  uint64_t start = 0;
  return spin([&] { return fetchAll(slot, places, v); },
              [&] { return checkAbort(a.abort, start, slot, waitPacket, rank); });
}

GOCCL_DEVICE uint32_t after(uint32_t area) { return area + 1 == areas ? 0 : area + 1; }

// Pass is one launch of a block.
struct Pass {
  const Args& a;
  State* state;
  uint32_t area, used[2];  // of this pass; of the previous one

  GOCCL_DEVICE explicit Pass(const Args& args) : a(args), state(stateOf(args)) {
    area = after(state->area);
    used[0] = state->used[0];
    used[1] = state->used[1];
  }

  // clear fills what the previous pass has used. It follows the sends, which are what peers wait for.
  GOCCL_DEVICE void clear() const {
    const uint4 ones = make_uint4(absent, absent, absent, absent);
    for (uint32_t half = 0; half < 2; ++half) {
      const uint32_t n = used[half];
      for (uint32_t k = 1; n != 0 && k < a.nranks; ++k) {
        uint8_t* slot = sourceSlot(a, after(after(area)), half, peerAt(a, k));
        for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) send(slot, i, ones);
      }
    }
  }

  // end keeps the state, when all threads have read it. inputs and results are the vectors of a slot that were used.
  GOCCL_DEVICE void end(uint32_t inputs, uint32_t results) const {
    __syncthreads();
    if (threadIdx.x != 0) return;
    state->area = area;
    state->used[0] = inputs;
    state->used[1] = results;
  }
};

}  // namespace fused
}  // namespace goccl
