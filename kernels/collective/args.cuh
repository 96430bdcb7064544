// What every collective kernel gets, and the layout of the scratch window that the ranks share.
//
// Each rank has one window, with a part for each of the packet protocols. In a part block b of a kernel owns, in every
// window, its own area, so that blocks never wait for each other:
//
//   area(b, parity, half) = ((b·2 + parity)·2 + half) · nranks · slotBytes     half 0: inputs, 1: results (two-shot)
//   slot(source rank)     = area + source · slotBytes
//
// # Epochs
//
// A pass of block b has an epoch, one more than the block's last, kept in device memory: any launch can be replayed
// from a graph. All ranks run the same passes with the same blocks, so the epochs agree without ever being sent but as
// packet flags. Flags in an area only grow, so whatever an older pass left behind never matches.
//
// # Why two parities are enough
//
// In every pass each block sends at least one packet to the same block of every peer, and ends (a block barrier, or the
// kernel) only after it has got everyone's. So when a block begins epoch e+2, every peer's block has begun e+1, hence
// has ended e: no rank reads parity e any more. Property, checked in every state of three ranks and three epochs
// (test/models, packets): a rank gets exactly the data of the current epoch, and no rank waits for ever.
#pragma once

#include <collective/ticket.cuh>
#include <goccl/packet.cuh>

namespace goccl {
namespace collective {

constexpr uint32_t maxRanks = 16;
constexpr uint32_t everyone = 0xffffffff;
constexpr uint32_t epochStride = 32;  // words between two blocks' epochs: a line each

struct Args {
  uint64_t* ticket;           // first: see ticket.cuh
  uint8_t* window[maxRanks];  // by rank, as mapped here; the own one included
  AbortBlock* abort;
  uint32_t* epochs;  // device memory, word b·epochStride
  const uint8_t* send;
  uint8_t* recv;
  uint64_t bytes;       // of one slice: what goes to or comes from one rank; all-reduce: of the whole buffer
  uint64_t sendStride;  // from a peer's slice of send to the next; 0: all get the same
  uint64_t recvStride;
  uint32_t rank, nranks;
  uint32_t slotBytes;    // a multiple of 128
  uint32_t op;           // Operator
  uint32_t root;         // the rank that gets the result of a reduction, or everyone
  uint32_t flagsOffset;  // ring.cuh: where the flags begin in a window
  uint64_t scalar;       // PreMulSum: the factor's bits
  const void* scalarPtr;
};

static_assert(sizeof(Args) == 232, "Args is filled by the host");

// Operator numbers are datatype.Op's. For unsigned integers Args::op has unsignedBit as well (goccl/reduce.cuh).
enum Operator : uint32_t { opSum = 0, opProd = 1, opMax = 2, opMin = 3, opAvg = 4, opPreMulSum = 5 };

GOCCL_DEVICE uint64_t areaOffset(const Args& a, uint32_t epoch, uint32_t half) {
  return (static_cast<uint64_t>(blockIdx.x * 2 + (epoch & 1)) * 2 + half) * a.nranks * a.slotBytes;
}

// sourceSlot is where, in the own window, rank r's packets arrive; targetSlot is where, in rank p's window, ours go.
GOCCL_DEVICE uint8_t* sourceSlot(const Args& a, uint64_t area, uint32_t r) {
  return a.window[a.rank] + area + static_cast<uint64_t>(r) * a.slotBytes;
}
GOCCL_DEVICE uint8_t* targetSlot(const Args& a, uint64_t area, uint32_t p) {
  return a.window[p] + area + static_cast<uint64_t>(a.rank) * a.slotBytes;
}

// wants says whether rank r stores the result of a reduction.
GOCCL_DEVICE bool wants(const Args& a, uint32_t r) { return a.root == everyone || a.root == r; }

// peers is the bit set of all ranks except this one.
GOCCL_DEVICE uint32_t peers(const Args& a) { return ((1u << a.nranks) - 1) & ~(1u << a.rank); }

// peerAt is the k-th peer after this rank: every rank starts with another one, so that stores do not collide.
GOCCL_DEVICE uint32_t peerAt(const Args& a, uint32_t k) {
  uint32_t p = a.rank + k;
  return p >= a.nranks ? p - a.nranks : p;
}

}  // namespace collective
}  // namespace goccl
