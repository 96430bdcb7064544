// What the fused kernels get, and the layout of their window.
//
// Each rank has one window. Block b of a kernel owns two areas in every window, so that blocks never wait for each
// other. An area has two halves, inputs and results, and in each a slot for every source rank:
//
//   slot(b, area, half, source) = (((b·2 + area)·2 + half)·nranks + source) · slotBytes
//
// Data travel as Lamport packets (collective/lamport.cuh). A launch is one pass: block b uses its areas in turn. The
// number of its passes is in device memory, so graphs can replay launches. All ranks run the same passes with the same
// blocks, so the areas agree without being sent. Two are enough as lamport.cuh says: every block of a two-shot has a
// row of the first rank. Checked in every state of three ranks and three passes of any kinds (test/models, lamport).
#pragma once

#include <collective/args.cuh>
#include <collective/ticket.cuh>

namespace goccl {
namespace fused {

using collective::maxRanks;

constexpr uint32_t areas = 2;
constexpr uint32_t passStride = 32;  // words between two blocks' passes: a line each

enum Quantisation : uint32_t { quantNone = 0, quantStatic = 1, quantDynamic = 2 };

// What of the steps after the sum a kernel does.
enum Stage : uint32_t { normalising = 1, writing = 2 };

struct Args {
  uint64_t* ticket;           // first: see ticket.cuh
  uint8_t* window[maxRanks];  // by rank, as mapped here; the own one included
  AbortBlock* abort;
  uint32_t* passes;  // device memory: the number of block b's at word b·passStride
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

}  // namespace fused
}  // namespace goccl
