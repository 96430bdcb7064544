// What the fused kernels get, and the layout of their window.
//
// Each rank has one window. Block b of a kernel owns three areas in every window, so that blocks never wait for each
// other. An area has two halves, inputs and results, and in each a slot for every source rank:
//
//   slot(b, area, half, source) = (((b·3 + area)·2 + half)·nranks + source) · slotBytes
//
// # Packets without flags
//
// A packet is 16 bytes of data. Memory that holds no packet is filled with ones, and a packet has arrived when neither
// of its two 8-byte halves begins with a word of ones (packets.cuh): only 8 bytes need to arrive as a whole. Words of
// ones are NaNs in all three types. A sender replaces such a word of data by another one of NaNs: the sum with it is
// NaN all the same, and all ranks add the same words.
//
// # Three areas
//
// A launch is one pass: block b uses its areas in turn, pass e the area e mod 3, and fills the area of its previous
// pass e-1 with ones again. The area and the size of the previous pass are in device memory, so any launch can be
// replayed from a graph. All ranks run the same passes with the same blocks, so the areas agree without being sent.
//
//   - Nobody writes to an area that is being filled: a peer writes to the area of e-1 next in its pass e+2, after it
//     has ended e+1, hence after it has got packets of e+1 from this block, which began e+1 after it had ended e.
//   - The filling is then visible: it is in an earlier launch than the packets of e+1, and the writes of a launch to
//     the local GPU's memory are complete when the next launch begins.
//   - Two areas would not do: a peer that has ended e may write e+1 while this block still fills.
#pragma once

#include <collective/args.cuh>
#include <collective/ticket.cuh>

namespace goccl {
namespace fused {

using collective::maxRanks;

constexpr uint32_t areas = 3;
constexpr uint32_t stateStride = 32;  // words between two blocks' states: a line each

// State is of one block, in device memory.
struct State {
  uint32_t area;     // of the latest pass
  uint32_t used[2];  // vectors of a slot that the latest pass has used, in each half
};

enum Quantisation : uint32_t { quantNone = 0, quantStatic = 1, quantDynamic = 2 };

// What of the steps after the sum a kernel does.
enum Stage : uint32_t { normalising = 1, writing = 2 };

struct Args {
  uint64_t* ticket;           // first: see ticket.cuh
  uint8_t* window[maxRanks];  // by rank, as mapped here; the own one included
  AbortBlock* abort;
  uint32_t* states;  // device memory: a State at word b·stateStride
  const uint8_t* input;
  uint8_t* sum;  // outputs are null where they are not wanted
  const uint8_t* residual;
  uint8_t* residualOut;
  const uint8_t* weight;  // null: all ones
  uint8_t* norm;
  uint8_t* quant;
  const float* scale;
  float* scaleOut;
  uint32_t slotBytes;  // a multiple of 16
  uint32_t rank, nranks;
  uint32_t tokens, hidden;
  uint32_t quantisation;  // Quantisation
  uint32_t quantType;     // Type
  uint32_t stage;         // Stage
  uint32_t divided;       // the residual is divided among the ranks
  float epsilon;
  uint32_t first, end;  // the rows of this launch; two-shot: of each slice
  uint32_t slice;       // two-shot: the rows of a rank
};

static_assert(sizeof(Args) == 280, "Args is filled by the host");

GOCCL_DEVICE uint64_t slotOffset(const Args& a, uint32_t area, uint32_t half, uint32_t source) {
  return (((static_cast<uint64_t>(blockIdx.x) * areas + area) * 2 + half) * a.nranks + source) * a.slotBytes;
}

// sourceSlot is where, in the own window, rank r's packets arrive; targetSlot is where, in rank p's window, ours go.
GOCCL_DEVICE uint8_t* sourceSlot(const Args& a, uint32_t area, uint32_t half, uint32_t r) {
  return a.window[a.rank] + slotOffset(a, area, half, r);
}
GOCCL_DEVICE uint8_t* targetSlot(const Args& a, uint32_t area, uint32_t half, uint32_t p) {
  return a.window[p] + slotOffset(a, area, half, a.rank);
}

// peerAt is the k-th peer after this rank: every rank starts with another one, so that stores do not collide.
GOCCL_DEVICE uint32_t peerAt(const Args& a, uint32_t k) {
  const uint32_t p = a.rank + k;
  return p >= a.nranks ? p - a.nranks : p;
}

GOCCL_DEVICE State* stateOf(const Args& a) {
  return reinterpret_cast<State*>(a.states + blockIdx.x * stateStride);
}

}  // namespace fused
}  // namespace goccl
