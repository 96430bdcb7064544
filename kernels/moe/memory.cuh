// What the kernels of experts share: the arguments that all have, and the layout of arenas and handles. Package
// engine/moe of the host describes the protocol and computes the offsets (layout.go).
//
// # Numbers
//
// Each kind of operation counts its launches in device memory, so a graph can replay them. All blocks read the count
// at their start, and the block that ends last raises it. A count is the flag of all that a launch sends.
//
// # Memory order
//
// Plain rows are published by a flag for each piece: stores of a warp, its barrier, release at system scope by one
// lane; acquire by one lane, the warp's barrier, loads. Packets carry the count. A rank's arena may be written again
// once its `ended` word says that its earlier launch of the kind is over: the last block releases it to all peers.
//
// In the layout ZeroCopy the rows of a dispatch stay in the arena, where the caller's work reads them. So that launch
// owes its `ended` word until the next one of the kind starts, behind that work in the stream. The rows of a combine
// are in the arena as well: a launch says when it starts, in the word behind `ended`, that they are there, and is over
// when all peers have read them. Checked in every state of three ranks and four operations (test/models, experts).
//
// # Masks
//
// The host writes the mask beside the count, while no launch runs. Nothing is written to a masked rank, and nothing
// waits for one: notify gives its tokens and rows as 0 and names it in no route, so that other operations meet masked
// ranks only where they tell all peers. A handle has the mask for which it was filled.
#pragma once

#include <collective/ticket.cuh>
#include <goccl/abort.cuh>
#include <goccl/copy.cuh>
#include <goccl/packet.cuh>
#include <goccl/types.cuh>

namespace goccl {
namespace moe {

constexpr uint32_t maxRanks = 16, maxTopK = 16;
constexpr uint32_t pieceTokens = 4;  // tokens that share a flag
constexpr uint32_t group = 128;      // elements of float8 that share a scale
constexpr uint32_t placeBits = 20;   // of a place in the layout Experts; the expert is above them
constexpr uint32_t none = 0xffff;    // an entry of a note that concerns no expert of the receiver

constexpr Status statusMismatch = 0xffff0003;  // a peer calls an operation of another shape

// The words of a note: see host_notify.go. Entries are pairs of 16 bits.
constexpr uint32_t noteSignature = 1, noteTokens = 2, noteCounts = 3, noteTotals = 32, noteLists = noteTotals + 1024;

// Region is what an arena has for each source.
struct Region {
  uint64_t base, stride;
};

struct Route {
  uint64_t order;  // ranks, four bits each
  uint32_t mask, unused;
};

// Head is the beginning of all arguments.
struct Head {
  uint64_t* ticket;  // first: see ticket.cuh
  uint8_t* arena[maxRanks];
  AbortBlock* abort;
  uint32_t* state;  // words: launches of the kind, blocks of this launch that have ended, mask, size of replicas, owed
  uint32_t rank, nranks;
  uint32_t tokens;   // of this rank
  uint32_t places;   // tokens for which a handle has places, of each rank
  uint32_t byExpert;  // layout Experts
  uint32_t entries;  // of a token's list
  uint32_t topK;
  uint32_t local;  // experts of a rank
  int32_t* sourceTokens;
  int32_t* counts;
  int32_t* total;
  int32_t* prefix;
  int32_t* totals;
  int64_t* ranges;
  Route* routes;
  int32_t* place;
  uint64_t ended;  // offset of the words [peer], 64 bytes each
  const int32_t* replicas;
  int32_t* sent;  // layout ZeroCopy: [rank][token]: the token's place among this rank's rows at the rank
  uint32_t zeroCopy, unused;
};
static_assert(sizeof(Head) == 280, "Head is filled by the host");

GOCCL_DEVICE uint32_t minOf(uint32_t x, uint32_t y) { return x < y ? x : y; }
GOCCL_DEVICE uint32_t lowest(uint32_t bits) { return static_cast<uint32_t>(__ffs(static_cast<int>(bits))) - 1; }
GOCCL_DEVICE uint32_t bits(uint32_t v) { return static_cast<uint32_t>(__popc(v)); }

GOCCL_DEVICE uint32_t* endedWord(const Head& a, uint32_t at, uint32_t by) {
  return reinterpret_cast<uint32_t*>(a.arena[at] + a.ended + by * 64);
}

// peerAfter is the k-th rank after this one, peerBefore the k-th before it.
GOCCL_DEVICE uint32_t peerAfter(const Head& a, uint32_t k) {
  const uint32_t p = a.rank + k;
  return p >= a.nranks ? p - a.nranks : p;
}
GOCCL_DEVICE uint32_t peerBefore(const Head& a, uint32_t k) { return peerAfter(a, k == 0 ? 0 : a.nranks - k); }

// maskOf is the mask: a bit for each masked rank, and above them the number of the host's change.
GOCCL_DEVICE uint32_t maskOf(const Head& a) { return a.state[2]; }
GOCCL_DEVICE bool masked(uint32_t mask, uint32_t rank) { return (mask >> rank & 1) != 0; }

// maskOfHandle is the mask for which a handle was filled.
GOCCL_DEVICE uint32_t& maskOfHandle(const Head& a) { return reinterpret_cast<uint32_t&>(a.total[1]); }

// expertOf is the expert that serves x, or -1: x itself, or its replica if its rank is masked.
template <class Args>
GOCCL_DEVICE int64_t expertOf(const Args& a, int64_t x) {
  const uint32_t experts = a.local * a.nranks, mask = a.state[2] & ((1u << maxRanks) - 1);
  if (x < 0 || x >= experts) return -1;
  if (mask == 0 || !masked(mask, static_cast<uint32_t>(x) / a.local)) return x;
  return a.state[3] == experts ? a.replicas[x] : -1;
}

// perToken is the number of places of a token.
GOCCL_DEVICE uint32_t perToken(const Head& a) { return a.byExpert ? a.topK : 1; }
GOCCL_DEVICE int32_t* placesOf(const Head& a, uint32_t source, uint32_t token) {
  return a.place + (static_cast<uint64_t>(source) * a.places + token) * perToken(a);
}

GOCCL_DEVICE bool present(const Head& a, const int32_t* places) {
  bool here = false;
  for (uint32_t k = 0; k < perToken(a); ++k) here = here || places[k] >= 0;
  return here;
}

// settled is the number that is stored when launch n has ended. For the last number before the wrap that is 1: the next
// launch has number 2. Number 0 is not used, because fresh memory holds zeros. Odd and even numbers still alternate.
GOCCL_DEVICE uint32_t settled(uint32_t n) { return n == 0xffffffff ? 1 : n; }

// number returns the number of this launch, counted from 1.
GOCCL_DEVICE uint32_t number(const Head& a) { return loadRelaxed<Scope::gpu>(a.state) + 1; }

// current says whether the handle was filled for the mask. All blocks of a launch find the same.
GOCCL_DEVICE bool current(const Head& a) {
  if (maskOfHandle(a) == maskOf(a)) return true;
  if (threadIdx.x == 0) report(a.abort, statusMismatch, a.total, waitNone, unknownPeer);
  return false;
}

// awaitPeers waits until a word of all peers is n or later; all threads of the block call it.
GOCCL_DEVICE bool awaitPeers(const Head& a, uint32_t which, uint32_t n) {
  Status s = statusOk;
  if (threadIdx.x < a.nranks && !masked(maskOf(a), threadIdx.x)) {
    const uint32_t* word = endedWord(a, a.rank, threadIdx.x) + which;
    s = waitUntil([&] { return static_cast<int32_t>(loadAcquire<Scope::sys>(word) - n) >= 0; }, a.abort, word,
                  waitSemaphore, -1, threadIdx.x);
  }
  return !__syncthreads_or(s != statusOk);
}
// begin waits until all peers have ended the launch before.
GOCCL_DEVICE bool begin(const Head& a, uint32_t n) { return awaitPeers(a, 0, n - 1); }

// tellPeers releases a word to all peers.
GOCCL_DEVICE void tellPeers(const Head& a, uint32_t which, uint32_t n) {
  if (threadIdx.x < a.nranks && !masked(maskOf(a), threadIdx.x))
    storeRelease<Scope::sys>(endedWord(a, threadIdx.x, a.rank) + which, settled(n));
}

// last tells all threads of a block whether all other blocks of the launch have ended. If so, the writes of those
// blocks are visible. The last block of a launch calls finished.
GOCCL_DEVICE bool last(const Head& a) {
  bool is = false;
  __syncthreads();
  if (threadIdx.x == 0) is = fetchAddAcqRel<Scope::gpu>(a.state + 1, uint32_t{1}) + 1 == gridDim.x;
  return __syncthreads_or(is);
}
GOCCL_DEVICE void finished(const Head& a, uint32_t n, bool owes = false) {
  if (threadIdx.x != 0) return;
  storeRelaxed<Scope::gpu>(a.state + 4, static_cast<uint32_t>(owes));
  storeRelaxed<Scope::gpu>(a.state + 1, uint32_t{0});
  storeRelaxed<Scope::gpu>(a.state, settled(n));
}

// end is the end of a block of a kernel that moves rows.
GOCCL_DEVICE void end(const Head& a, uint32_t n) {
  if (!last(a)) return;
  tellPeers(a, 0, n);
  finished(a, n);
}

// Row is the format of a row between ranks. Each part is a multiple of 8 bytes: elements, scales, and the token's list,
// entries before weights.
struct Row {
  uint32_t data, scales, lists, bytes;
  Region rows, lines, flags;
  Region rests;  // layout ZeroCopy: what rows have behind their elements
  uint64_t slot, lineSlot;
  uint32_t packets;  // ranks of up to that many tokens send packets
  uint32_t stage;    // bytes of a stage (stage.cuh), a multiple of 128
  uint32_t stages;   // warps of a block that have one; 0: rows go by loads and stores
  uint32_t unused;
};
static_assert(sizeof(Row) == 112, "Row is filled by the host");

GOCCL_DEVICE uint8_t* rowAt(const Head& a, const Row& r, uint32_t at, uint32_t source, uint32_t token) {
  return a.arena[at] + r.rows.base + source * r.rows.stride + token * r.slot;
}
// restAt is what a row has behind its elements, in the layout ZeroCopy.
GOCCL_DEVICE uint8_t* restAt(const Head& a, const Row& r, uint32_t at, uint32_t source, uint32_t token) {
  return a.arena[at] + r.rests.base + source * r.rests.stride + token * (r.slot - r.data);
}
// sentRow is where a rank has the elements of a token of this one, in the layout ZeroCopy.
GOCCL_DEVICE uint8_t* sentRow(const Head& a, const Row& r, uint32_t at, uint32_t token) {
  const int32_t before = a.rank == 0 ? 0 : a.prefix[(a.rank - 1) * a.nranks + at];
  const int32_t place = before + a.sent[static_cast<uint64_t>(at) * a.places + token];
  return a.arena[at] + r.rows.base + static_cast<uint64_t>(place) * r.data;
}
GOCCL_DEVICE uint8_t* linesAt(const Head& a, const Row& r, uint32_t at, uint32_t source, uint32_t token) {
  return a.arena[at] + r.lines.base + source * r.lines.stride + token * r.lineSlot;
}
GOCCL_DEVICE uint32_t* flagAt(const Head& a, const Row& r, uint32_t at, uint32_t source, uint32_t piece) {
  return reinterpret_cast<uint32_t*>(a.arena[at] + r.flags.base + source * r.flags.stride) + piece;
}
GOCCL_DEVICE uint32_t pieces(uint32_t tokens) { return (tokens + pieceTokens - 1) / pieceTokens; }

// Lines: unit u of a row's lines carries 16 bytes of the row from lineOffset(u) on, or 8 if it holds the flag. The
// units of a row are whole warps.
GOCCL_DEVICE uint32_t lineUnits(const Row& r) { return (r.bytes + 4 * ll128Payload - 1) / (4 * ll128Payload) * 32; }
GOCCL_DEVICE uint32_t lineOffset(uint32_t unit) { return (unit >> 3) * ll128Payload + (unit & 7) * 16; }
GOCCL_DEVICE uint64_t lineFlag(uint32_t n) { return static_cast<uint64_t>(n) << 32 | n; }

}  // namespace moe
}  // namespace goccl
