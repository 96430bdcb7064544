// Dispatch: each token goes once to each rank that its list names, and from there to the caller's rows.
//
// The first `senders` blocks send, the others receive (receive.cuh). A sender reads a row once and stores it to all
// ranks of its token, which spreads its stores over the links. The rank's own rows never travel. The flag of a piece
// goes to the ranks to which it has a row. In the layout ZeroCopy a sender stores the elements where the receiver's
// caller gets them, also of the own rows of a rank of more tokens.
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
static_assert(sizeof(DispatchArgs) == 496, "DispatchArgs is filled by the host");

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

// Outgoing are a warp's rows for peers.
struct Outgoing {
  const DispatchArgs& a;
  const Part part;
  const uint32_t n;
  uint32_t piece, first = 0, left = 0;  // the tokens of the piece that are still to be sent
  uint32_t mine = 0, all = 0;           // lane t: the peers of token t; and of all tokens of the piece
  Entries experts, weights;

  GOCCL_DEVICE Outgoing(const DispatchArgs& args, Part p, uint32_t number)
      : a(args), part(p), n(number), piece(p.at), experts{a.topK}, weights{a.topK} {}

  // An item has the token's peers, and the last one of a piece the peers to be told.
  GOCCL_DEVICE Next next(Item& item, bool) {
    for (; left == 0; piece += part.of) {
      if (piece >= pieces(a.tokens)) return Next::end;
      first = piece * pieceTokens;
      const uint32_t count = minOf(a.tokens - first, pieceTokens);
      mine = laneOf() < count ? a.routes[first + laneOf()].mask & ~(a.zeroCopy != 0 ? 0u : 1u << a.rank) : 0;
      if (a.row.lists != 0) {
        experts.load(count, [&](uint32_t t, uint32_t k) { return listWord(a, first + t, k); });
        weights.load(count, [&](uint32_t t, uint32_t k) { return listWord(a, first + t, a.topK + k); });
      }
      left = __ballot_sync(allLanes, mine != 0);
      all = __reduce_or_sync(allLanes, mine);
    }
    const uint32_t t = lowest(left);
    left &= left - 1;
    item = {first + t, __shfl_sync(allLanes, mine, static_cast<int>(t)), left == 0 ? all : 0};
    return Next::row;
  }
  GOCCL_DEVICE const uint8_t* from(const Item& item) const { return a.x + item.token * a.xStride; }
  template <class Put>
  GOCCL_DEVICE void tail(const Item& item, Put put) const {
    const uint32_t list = a.row.data + a.row.scales, t = item.token - first;
    for (uint32_t at = a.row.data + laneOf() * 8; at < list; at += 32 * 8) put(at, wordOf(a, item.token, at));
    if (a.row.lists == 0) return;
    uint32_t word[2];
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t w = 2 * laneOf() + i, k = w < a.topK ? w : w - a.topK;
      const uint32_t expert = experts.of(t, k), weight = weights.of(t, k);
      word[i] = w < a.topK ? expert : weight;
    }
    if (laneOf() < a.topK) put(list + laneOf() * 8, make_uint2(word[0], word[1]));
  }
  GOCCL_DEVICE uint32_t places(const Item&) const { return a.nranks - (a.zeroCopy != 0 ? 0 : 1); }
  GOCCL_DEVICE uint8_t* place(const Item& item, uint32_t k) const {
    const uint32_t p = peerAfter(a, k + 1);
    if ((item.where >> p & 1) == 0) return nullptr;
    return a.zeroCopy != 0 ? sentRow(a, a.row, p, item.token) : rowAt(a, a.row, p, a.rank, item.token);
  }
  GOCCL_DEVICE bool split() const { return a.zeroCopy != 0; }
  GOCCL_DEVICE uint8_t* end(const Item& item, uint32_t k) const {
    return restAt(a, a.row, peerAfter(a, k + 1), a.rank, item.token);
  }
  GOCCL_DEVICE void done(const Item& item) const {
    if (item.what == 0) return;
    __syncwarp();
    if ((item.what >> laneOf() & 1) != 0)
      storeRelease<Scope::sys>(flagAt(a, a.row, laneOf(), a.rank, item.token / pieceTokens), n);
  }
};

template <class Mover>
GOCCL_DEVICE bool send(const DispatchArgs& a, uint32_t n) {
  if (!begin(a, n)) return false;
  return byWarps<Mover>(a.row, a.abort, blockIdx.x, a.senders, [&](Mover& mover, Part part) {
    if (a.tokens > a.row.packets) {
      Outgoing rows(a, part, n);
      return mover.send(a.row, rows);
    }
    return Spans(part, a.row, a.tokens).each(a.tokens, [&](uint32_t token, uint32_t first, uint32_t end) {
      sendSpan(a, n, token, first, end);
      return true;
    });
  });
}

}  // namespace moe
}  // namespace goccl
