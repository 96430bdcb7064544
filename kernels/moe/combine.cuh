// Combine: each row returns to its token's rank, which adds the rows of the token.
//
// The first `senders` blocks send, the others add (adder.cuh). Senders serve the sources in turn, because a token needs
// the rows of all its ranks. In the layout Experts a sender adds the rows of the token's experts first, and waits for
// the weights, which the token's rank sends at the start.
//
//   sender     1. begin: the peers have ended the combine before (memory.cuh)
//              2. layout Experts: the weights of this rank's tokens
//              3. to sources of few tokens: spans of lines, as packets
//              4. to the others: the rows of a piece, then its flag
//   adder      1. wait for the rows of a token, in the order of its list
//              2. add them in float32, round once
//
// In the layout ZeroCopy there are no senders: all blocks send the packets, and then add the other rows where the
// experts' ranks have them.
#pragma once

#include <moe/plain.cuh>
#include <moe/sum.cuh>

namespace goccl {
namespace moe {

struct CombineArgs : Head {
  Row row;  // its lists are weights that are added as well
  const uint8_t* x;
  uint64_t rows;         // of each expert
  const float* weights;  // layout Experts: of the own tokens; else of the rows, with row.lists
  const uint8_t* bias[2];
  uint8_t* out;
  float* outWeights;
  Region weightWords;
  uint32_t hidden, senders;
};
static_assert(sizeof(CombineArgs) == 472, "CombineArgs is filled by the host");

GOCCL_DEVICE LL8Packet* weightWord(const CombineArgs& a, uint32_t at, uint32_t source, uint32_t token, uint32_t k) {
  return reinterpret_cast<LL8Packet*>(a.arena[at] + a.weightWords.base + source * a.weightWords.stride) +
         token * a.topK + k;
}

// tellWeights is step 2 of a sender.
GOCCL_DEVICE void tellWeights(const CombineArgs& a, uint32_t n) {
  const uint32_t count = a.tokens * a.topK, mask = maskOf(a);
  for (uint32_t k = 0; k < a.nranks; ++k) {
    const uint32_t p = peerAfter(a, k);
    if (masked(mask, p)) continue;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += a.senders * blockDim.x)
      weightWord(a, p, a.rank, i / a.topK, i % a.topK)->write(floatBits(a.weights[i]), n);
  }
}

// Source is what a rank gets back.
struct Source {
  const CombineArgs& a;
  uint32_t rank, tokens;
  int64_t base;

  GOCCL_DEVICE Source(const CombineArgs& args, uint32_t s, uint32_t count)
      : a(args), rank(s), tokens(count), base(0) {}
  GOCCL_DEVICE Source(const CombineArgs& args, uint32_t s)
      : a(args), rank(s), tokens(static_cast<uint32_t>(args.sourceTokens[s])), base(0) {
#pragma unroll 1
    for (uint32_t q = 0; q < s; ++q) base += a.counts[q];
  }

  // own rows are added where they are, unless they are sums of experts.
  GOCCL_DEVICE bool returns() const { return rank != a.rank || a.byExpert; }
  GOCCL_DEVICE bool lines() const { return tokens <= a.row.packets; }

  GOCCL_DEVICE const uint8_t* rowOf(int32_t place) const {
    if (!a.byExpert) return a.x + static_cast<uint64_t>(base + place) * a.row.data;
    const uint32_t x = static_cast<uint32_t>(place) >> placeBits;
    const int64_t in = (a.ranges[x * a.nranks + rank] >> 32) + (place & ((1 << placeBits) - 1));
    return a.x + (x * a.rows + static_cast<uint64_t>(in)) * a.row.data;
  }

  // listOf are the weights that go with a row.
  GOCCL_DEVICE const float* listOf(int32_t place) const {
    return a.weights + static_cast<uint64_t>(base + place) * a.topK;
  }
  // listed is 8 bytes of the weights that go with a row, from an offset in them on.
  GOCCL_DEVICE uint2 listed(int32_t place, uint32_t offset) const {
    if (offset >= a.row.lists) return make_uint2(0, 0);
    const float* list = listOf(place);
    const uint32_t i = offset / 4;
    return make_uint2(floatBits(list[i]), i + 1 < a.topK ? floatBits(list[i + 1]) : 0);
  }

  // experts are the rows that make a token's row in the layout Experts; it waits for their weights.
  GOCCL_DEVICE bool experts(const int32_t* places, uint32_t token, uint32_t n, Terms& t) const {
    const uint32_t k = laneOf();
    Status s = statusOk;
    const bool here = k < a.topK && places[k] >= 0;
    if (here) {
      const LL8Packet* in = weightWord(a, a.rank, rank, token, k);
      uint32_t v = 0;
      s = waitUntil([&] { return in->tryRead(n, v); }, a.abort, in, waitPacket, -1, rank);
      t.mine = rowOf(places[k]);
      t.factor = bitsFloat(v);
    }
    t.lanes = __ballot_sync(allLanes, here);
    return !__any_sync(allLanes, s != statusOk);
  }
};

// unitOf is what a unit of a returning row's lines carries, in the layout Rows.
GOCCL_DEVICE uint4 unitOf(const Source& s, const uint8_t* row, int32_t place, uint32_t unit) {
  const CombineArgs& a = s.a;
  const uint32_t offset = lineOffset(unit);
  uint4 v = pairOf(row, a.row.data, offset);
  if (offset + 8 < a.row.data) return v;
  const uint2 high = s.listed(place, offset + 8 - a.row.data);
  v.z = high.x, v.w = high.y;
  if (offset < a.row.data) return v;
  const uint2 low = s.listed(place, offset - a.row.data);
  v.x = low.x, v.y = low.y;
  return v;
}

// returnRow sends units of a row as packets.
GOCCL_DEVICE void returnRow(const Source& s, uint8_t* lines, int32_t place, uint32_t n, uint32_t first, uint32_t end) {
  constexpr uint32_t flight = 8;
  const uint8_t* row = s.rowOf(place);
  const uint32_t plain = plainUnits(s.a.row), last = end < plain ? end : plain;
  for (uint32_t base = first; base < last; base += flight * 32) {
    uint4 v[flight];
#pragma unroll
    for (uint32_t u = 0; u < flight; ++u)
      if (base + u * 32 < last) v[u] = plainUnit(row, base + u * 32 + laneOf());
#pragma unroll
    for (uint32_t u = 0; u < flight; ++u)
      if (base + u * 32 < last) ll128Put(lines, base + u * 32 + laneOf(), v[u], lineFlag(n));
  }
#pragma unroll 1
  for (uint32_t base = first > plain ? first : plain; base < end; base += 32)
    ll128Put(lines, base + laneOf(), unitOf(s, row, place, base + laneOf()), lineFlag(n));
}

// returnSums sends units of the sum of experts' rows as packets.
GOCCL_DEVICE void returnSums(const Source& s, uint8_t* lines, const Terms& t, uint32_t n, uint32_t first,
                             uint32_t end) {
  constexpr uint32_t flight = 2;
  for (uint32_t base = first; base < end; base += flight * 32) {
    Eight sum[flight];
#pragma unroll
    for (uint32_t u = 0; u < flight; ++u) sum[u].clear();
    t.add<true, 4>(sum, [&](const uint8_t* (&rows)[4], uint32_t (&)[4], uint32_t which, uint4 (&v)[4][flight]) {
#pragma unroll
      for (uint32_t j = 0; j < 4; ++j)
#pragma unroll
        for (uint32_t u = 0; u < flight; ++u)
          if ((which >> j & 1) != 0) v[j][u] = pairOf(rows[j], s.a.row.data, lineOffset(base + u * 32 + laneOf()));
      return true;
    });
#pragma unroll
    for (uint32_t u = 0; u < flight; ++u)
      if (base + u * 32 < end) ll128Put(lines, base + u * 32 + laneOf(), sum[u].narrow(), lineFlag(n));
  }
}

// returnSpan sends units of a token's row as packets.
template <bool ByExpert>
GOCCL_DEVICE bool returnSpan(const Source& s, uint32_t n, uint32_t token, uint32_t first, uint32_t end) {
  const int32_t* places = placesOf(s.a, s.rank, token);
  if (!present(s.a, places)) return true;
  uint8_t* lines = linesAt(s.a, s.a.row, s.rank, s.a.rank, token);
  if (!ByExpert) return returnRow(s, lines, places[0], n, first, end), true;
  Terms t;
  if (!s.experts(places, token, n, t)) return false;
  returnSums(s, lines, t, n, first, end);
  return true;
}

// returnSum stores a token's row in the layout Experts.
GOCCL_DEVICE bool returnSum(const Source& s, const int32_t* places, uint32_t token, uint32_t n) {
  const CombineArgs& a = s.a;
  Terms t;
  if (!s.experts(places, token, n, t)) return false;
  uint8_t* to = rowAt(a, a.row, s.rank, a.rank, token);
  const uint32_t vectors = a.row.data / 16;
  for (uint32_t i = laneOf(); i - laneOf() < vectors; i += 64) {
    Eight sum[2];
    sum[0].clear(), sum[1].clear();
    addRows<true, 4>(t, sum, i, vectors);
    for (uint32_t u = 0; u < 2; ++u)
      if (i + u * 32 < vectors) storeVec(to + static_cast<uint64_t>(i + u * 32) * 16, sum[u].narrow());
  }
  return true;
}

// eachSource calls take with the sources to which rows return, this rank last, until one fails.
template <class Take>
GOCCL_DEVICE bool eachSource(const CombineArgs& a, Take take) {
#pragma unroll 1
  for (uint32_t k = 1; k <= a.nranks; ++k) {
    const Source s(a, k == a.nranks ? a.rank : peerAfter(a, k));
    if (s.returns() && !take(s)) return false;
  }
  return true;
}

// returnLines is step 3.
template <bool ByExpert>
GOCCL_DEVICE bool returnLines(const CombineArgs& a, Part part, uint32_t n) {
  uint32_t tokens = 0;
  eachSource(a, [&](const Source& s) { return tokens += s.lines() ? s.tokens : 0, true; });
  Spans spans(part, a.row, tokens);
  return eachSource(a, [&](const Source& s) {
    return !s.lines() || spans.each(s.tokens, [&](uint32_t token, uint32_t first, uint32_t end) {
      return returnSpan<ByExpert>(s, n, token, first, end);
    });
  });
}

// Returning are the rows of a warp's pieces, of the sources in turn.
template <bool ByExpert>
struct Returning {
  const CombineArgs& a;
  const uint32_t n;
  Turns turns;
  uint32_t left = 0;  // tokens of the piece whose rows are still to be sent
  int32_t mine = -1;  // lane t: the place of token t, in the layout Rows
  Entries weights;

  static constexpr uint32_t last = 1u << 31;

  GOCCL_DEVICE Returning(const CombineArgs& args, Part part, uint32_t number)
      : a(args), n(number), turns(args, part, args.row.packets), weights{args.topK} {}

  // An item has the row in the layout Rows, and the source; the last one of a piece is marked.
  GOCCL_DEVICE Next next(Item& item, bool) {
    while (left == 0) {
      if (!turns.next(ByExpert ? a.nranks : a.nranks - 1, [&](uint32_t k) { return peerAfter(a, k); }))
        return Next::end;
      left = turns.tokensHere(mine);
      if (ByExpert || a.row.lists == 0) continue;
      const uint32_t base = turns.baseOf();
      weights.load(turns.count(), [&](uint32_t t, uint32_t k) {
        const int32_t place = placesOf(a, turns.source, turns.first() + t)[0];
        return place < 0 ? 0 : floatBits(a.weights[static_cast<uint64_t>(base + place) * a.topK + k]);
      });
    }
    const uint32_t t = lowest(left);
    left &= left - 1;
    item = {turns.first() + t, 0, turns.source | (left == 0 ? last : 0)};
    if (!ByExpert)
      item.where = turns.baseOf() + static_cast<uint32_t>(__shfl_sync(allLanes, mine, static_cast<int>(t)));
    return Next::row;
  }
  GOCCL_DEVICE uint32_t source(const Item& item) const { return item.what & ~last; }
  GOCCL_DEVICE const uint8_t* from(const Item& item) const {
    return a.x + static_cast<uint64_t>(item.where) * a.row.data;
  }
  template <class Put>
  GOCCL_DEVICE void tail(const Item& item, Put put) const {
    if (a.row.lists == 0) return;
    const uint32_t t = item.token - turns.first(), k = 2 * laneOf();
    const uint32_t low = weights.of(t, k), high = weights.of(t, k + 1);
    if (k < a.topK) put(a.row.data + k * 4, make_uint2(low, k + 1 < a.topK ? high : 0));
  }
  GOCCL_DEVICE uint32_t places(const Item&) const { return 1; }
  GOCCL_DEVICE bool split() const { return false; }
  GOCCL_DEVICE uint8_t* end(const Item&, uint32_t) const { return nullptr; }
  GOCCL_DEVICE uint8_t* place(const Item& item, uint32_t) const {
    return rowAt(a, a.row, source(item), a.rank, item.token);
  }
  GOCCL_DEVICE void done(const Item& item) const {
    if ((item.what & last) == 0) return;
    __syncwarp();
    if (laneOf() == 0) storeRelease<Scope::sys>(flagAt(a, a.row, source(item), a.rank, item.token / pieceTokens), n);
  }
};

// returnPieces is step 4.
template <bool ByExpert, class Mover>
GOCCL_DEVICE bool returnPieces(const CombineArgs& a, Mover& mover, Part part, uint32_t n) {
  Returning<ByExpert> rows(a, part, n);
  if constexpr (ByExpert) {
    for (Item item; rows.next(item, true) == Next::row; rows.done(item)) {
      const Source s(a, rows.source(item), 0);
      if (!returnSum(s, placesOf(a, s.rank, item.token), item.token, n)) return false;
    }
    return true;
  } else {
    return mover.send(a.row, rows);
  }
}

template <bool ByExpert, class Mover>
GOCCL_DEVICE bool send(const CombineArgs& a, uint32_t n) {
  if (!begin(a, n)) return false;
  if (ByExpert) tellWeights(a, n);
  return byWarps<Mover>(a.row, a.abort, blockIdx.x, a.senders, [&](Mover& mover, Part part) {
    return returnLines<ByExpert>(a, part, n) && returnPieces<ByExpert>(a, mover, part, n);
  });
}

}  // namespace moe
}  // namespace goccl
