// Dispatch: each token goes once to each rank that its list names, and from there to the caller's rows.
//
// The first `senders` blocks send, the others receive (receive.cuh). A sender reads a row once and stores it to all
// ranks of its token, which spreads its stores over the links: with loads and stores, because bulk copies to several
// ranks take longer (4,096 tokens of 14 KiB between four H100: 8 blocks send in 496 µs, with stages in 551). The rank's
// own rows never travel.
//
//   sender     1. begin: the peers have ended the dispatch before (memory.cuh)
//              2. a rank of few tokens: spans of lines, as packets
//                 of more tokens: a piece at a time, then its flag
#pragma once

#include <moe/plain.cuh>

namespace goccl {
namespace moe {

struct DispatchArgs : Head {
  Row row;
  const uint8_t* x;  // rows of this rank's tokens, xStride bytes apart
  const uint8_t* scales;
  uint64_t xStride, scaleStride;
  const int64_t* index;  // with lists
  const float* weights;  // or null
  uint8_t* recvX;
  float* recvScales;
  int64_t* recvIndex;
  float* recvWeights;   // or null
  int32_t* recvSource;  // or null
  uint64_t recvRows;    // in the layout Experts of each expert
  uint32_t groups;      // scales of a row
  uint32_t senders;     // blocks that send
};
static_assert(sizeof(DispatchArgs) == 464, "DispatchArgs is filled by the host");

// listWord is entry i of a token's list as it travels: the experts, then the weights.
GOCCL_DEVICE uint32_t listWord(const DispatchArgs& a, uint32_t token, uint32_t i) {
  if (i < a.topK) return static_cast<uint32_t>(expertOf(a, a.index[static_cast<uint64_t>(token) * a.topK + i]));
  if (i >= 2 * a.topK || a.weights == nullptr) return 0;
  return floatBits(a.weights[static_cast<uint64_t>(token) * a.topK + i - a.topK]);
}

// wordOf is the 8 bytes of a token's row from an offset on, a multiple of 8; what lies beyond the row is 0.
GOCCL_DEVICE uint2 wordOf(const DispatchArgs& a, uint32_t token, uint32_t offset) {
  if (offset < a.row.data) return loadVec2(a.x + token * a.xStride + offset);
  offset -= a.row.data;
  if (offset < a.row.scales) {
    const float* scales = reinterpret_cast<const float*>(a.scales + token * a.scaleStride);
    const uint32_t g = offset / 4;
    return make_uint2(floatBits(scales[g]), g + 1 < a.groups ? floatBits(scales[g + 1]) : 0);
  }
  offset -= a.row.scales;
  if (offset >= a.row.lists) return make_uint2(0, 0);
  return make_uint2(listWord(a, token, offset / 4), listWord(a, token, offset / 4 + 1));
}

// unitOf is what a unit of a token's lines carries.
GOCCL_DEVICE uint4 unitOf(const DispatchArgs& a, uint32_t token, uint32_t unit) {
  const uint32_t offset = lineOffset(unit);
  const uint2 low = wordOf(a, token, offset);
  const uint2 high = ll128HasFlag(unit) ? make_uint2(0, 0) : wordOf(a, token, offset + 8);
  return make_uint4(low.x, low.y, high.x, high.y);
}

// toPeers calls put with the token's lines at each peer of a set.
template <class Put>
GOCCL_DEVICE void toPeers(const DispatchArgs& a, uint32_t token, uint32_t mask, Put put) {
#pragma unroll 1
  for (uint32_t k = 1; k < a.nranks; ++k) {
    const uint32_t p = peerAfter(a, k);
    if ((mask >> p & 1) != 0) put(linesAt(a, a.row, p, a.rank, token));
  }
}

// sendSpan sends units of a token's lines as packets. A lane has eight units on their way.
GOCCL_DEVICE void sendSpan(const DispatchArgs& a, uint32_t n, uint32_t token, uint32_t first, uint32_t end) {
  constexpr uint32_t flight = 8;
  const uint32_t mask = a.routes[token].mask & ~(1u << a.rank), plain = plainUnits(a.row);
  if (mask == 0) return;
  const uint8_t* x = a.x + token * a.xStride;
  uint32_t base = first;
  for (const uint32_t to = end < plain ? end : plain; base < to; base += flight * 32) {
    uint4 v[flight];
#pragma unroll
    for (uint32_t u = 0; u < flight; ++u)
      if (base + u * 32 < to) v[u] = plainUnit(x, base + u * 32 + laneOf());
    toPeers(a, token, mask, [&](uint8_t* lines) {
#pragma unroll
      for (uint32_t u = 0; u < flight; ++u)
        if (base + u * 32 < to) ll128Put(lines, base + u * 32 + laneOf(), v[u], lineFlag(n));
    });
  }
#pragma unroll 1
  for (base = first > plain ? first : plain; base < end; base += 32) {
    const uint4 v = unitOf(a, token, base + laneOf());
    toPeers(a, token, mask, [&](uint8_t* lines) { ll128Put(lines, base + laneOf(), v, lineFlag(n)); });
  }
}

// tellPiece tells the peers that a piece is there.
GOCCL_DEVICE void tellPiece(const DispatchArgs& a, uint32_t mask, uint32_t piece, uint32_t n) {
  for (uint32_t k = 1; k < a.nranks; ++k)
    if (const uint32_t p = peerAfter(a, k); !masked(mask, p))
      storeRelease<Scope::sys>(flagAt(a, a.row, p, a.rank, piece), n);
}

// sendPieces sends a warp's pieces.
GOCCL_DEVICE bool sendPieces(const DispatchArgs& a, Plain& mover, Part part, uint32_t n) {
  constexpr uint32_t nothing = 0xffffffffu;
  const uint32_t gone = maskOf(a);
  uint32_t sent = nothing;  // a piece whose flag is to be set
  auto publish = [&] {
    if (sent == nothing) return;
    mover.settle();
    if (laneOf() == 0) tellPiece(a, gone, sent, n);
    sent = nothing;
  };
  for (uint32_t piece = part.at; piece < pieces(a.tokens); piece += part.of) {
    const uint32_t first = piece * pieceTokens;
    const uint32_t count = a.tokens - first < pieceTokens ? a.tokens - first : pieceTokens;
    const uint32_t mine = laneOf() < count ? a.routes[first + laneOf()].mask & ~(1u << a.rank) : 0;
    for (uint32_t t = 0; t < count; ++t) {
      const uint32_t token = first + t, mask = __shfl_sync(allLanes, mine, static_cast<int>(t));
      auto rest = [&](uint32_t at) { return wordOf(a, token, at); };
      auto place = [&](uint32_t k) {
        const uint32_t p = peerAfter(a, k + 1);
        return (mask >> p & 1) != 0 ? rowAt(a, a.row, p, a.rank, token) : nullptr;
      };
      if (mask != 0 && !mover.send(a.x + token * a.xStride, a.row, rest, publish, a.nranks - 1, place)) return false;
    }
    publish();
    sent = piece;
  }
  publish();
  return true;
}

GOCCL_DEVICE bool send(const DispatchArgs& a, uint32_t n) {
  if (!begin(a, n)) return false;
  return byWarps<Plain>(a.row, a.abort, blockIdx.x, a.senders, [&](Plain& mover, Part part) {
    if (a.tokens > a.row.packets) return sendPieces(a, mover, part, n);
    return Spans(part, a.row, a.tokens).each(a.tokens, [&](uint32_t token, uint32_t first, uint32_t end) {
      sendSpan(a, n, token, first, end);
      return true;
    });
  });
}

}  // namespace moe
}  // namespace goccl
