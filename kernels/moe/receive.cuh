// Receive: what the blocks of dispatch that do not send do.
//
//   receiver   1. spans of the lines of sources of few tokens: wait for the packets, store their payload
//              2. pieces of the other sources, the own ones first, then in the order in which they are sent: wait for
//                 the flag, where the piece has a row for this rank, copy the rows
//              3. lists behind the last row are empty
//
// The own rows are taken from where the caller has them. In the layout ZeroCopy the elements of step 2 are where they
// belong, and what follows them is taken from there.
#pragma once

#include <moe/dispatch.cuh>

namespace goccl {
namespace moe {

// Target is where the rows of a source go. A warp moves a row.
struct Target {
  const DispatchArgs& a;
  uint32_t source;
  uint32_t base;  // place of the source's first row

  GOCCL_DEVICE Target(const DispatchArgs& args, uint32_t s, uint32_t first) : a(args), source(s), base(first) {}

  GOCCL_DEVICE Target(const DispatchArgs& args, uint32_t s) : a(args), source(s), base(0) {
#pragma unroll 1
    for (uint32_t q = 0; q < s; ++q) base += static_cast<uint32_t>(a.counts[q]);
  }

  // rowOf is the caller's row for a place, or -1 if RecvX has no room.
  GOCCL_DEVICE int64_t rowOf(int32_t place) const {
    if (!a.byExpert) {
      const int64_t row = static_cast<int64_t>(base) + place;
      return row < static_cast<int64_t>(a.recvRows) ? row : -1;
    }
    const uint32_t x = static_cast<uint32_t>(place) >> placeBits;
    const int64_t in = (a.ranges[x * a.nranks + source] >> 32) + (place & ((1 << placeBits) - 1));
    return in < static_cast<int64_t>(a.recvRows) ? x * static_cast<int64_t>(a.recvRows) + in : -1;
  }

  // forEach calls f with each row of a token, whose places are at(0) and so on.
  template <class At, class F>
  GOCCL_DEVICE void forEach(At at, F f) const {
#pragma unroll 1
    for (uint32_t k = 0; k < perToken(a); ++k) {
      const int32_t place = at(k);
      if (place < 0) continue;
      const int64_t row = rowOf(place);
      if (row >= 0)
        f(static_cast<uint64_t>(row));
      else if (laneOf() == 0)
        report(a.abort, statusInvalid, reinterpret_cast<const void*>(a.recvRows), 0, source);
    }
  }

  GOCCL_DEVICE void storeItem(uint64_t row, uint32_t i, uint32_t v) const {
    if (i < a.topK) {
      const int64_t x = static_cast<int64_t>(static_cast<int32_t>(v)) - static_cast<int64_t>(a.rank) * a.local;
      a.recvIndex[row * a.topK + i] = static_cast<int32_t>(v) >= 0 && x >= 0 && x < a.local ? x : -1;
    }
  }
  // storeWeight needs the entry's expert, which travels before it.
  GOCCL_DEVICE void storeWeight(uint64_t row, uint32_t k, uint32_t expert, uint32_t v) const {
    const int64_t x = static_cast<int64_t>(static_cast<int32_t>(expert)) - static_cast<int64_t>(a.rank) * a.local;
    const bool mine = static_cast<int32_t>(expert) >= 0 && x >= 0 && x < a.local;
    a.recvWeights[row * a.topK + k] = mine ? bitsFloat(v) : 0.0f;
  }

  // storeWord stores 8 bytes of a row but its list.
  GOCCL_DEVICE void storeWord8(uint64_t row, uint32_t offset, uint2 v) const {
    if (offset < a.row.data) return storeVec2(a.recvX + row * a.row.data + offset, v);
    const uint32_t g = (offset - a.row.data) / 4;
    if (offset >= a.row.data + a.row.scales) return;
    a.recvScales[row * a.groups + g] = bitsFloat(v.x);
    if (g + 1 < a.groups) a.recvScales[row * a.groups + g + 1] = bitsFloat(v.y);
  }

  // storeList stores entry k of a token's list, which item(i) gives.
  template <class Item>
  GOCCL_DEVICE void storeList(uint64_t row, uint32_t k, Item item) const {
    const uint32_t expert = item(k);
    storeItem(row, k, expert);
    if (a.recvWeights != nullptr) storeWeight(row, k, expert, item(a.topK + k));
  }
};

// listOffset is where a row's list begins.
GOCCL_DEVICE uint32_t listOffset(const DispatchArgs& a) { return a.row.data + a.row.scales; }

// storeEnd stores what a row has behind its scales: the token's list, of which item(i) is an entry, and its source.
template <class Item>
GOCCL_DEVICE void storeEnd(const Target& to, uint64_t row, uint32_t token, Item item) {
  const DispatchArgs& a = to.a;
  if (a.row.lists != 0)
    for (uint32_t k = laneOf(); k < a.topK; k += 32) to.storeList(row, k, item);
  if (a.recvSource != nullptr && laneOf() == 0) a.recvSource[row] = static_cast<int32_t>(token);
}

// storeRest stores a row but its elements; word(offset) is 8 bytes of what came.
template <class Word>
GOCCL_DEVICE void storeRest(const Target& to, uint64_t row, uint32_t token, Word word) {
  const DispatchArgs& a = to.a;
  const uint32_t list = listOffset(a);
  for (uint32_t at = a.row.data + laneOf() * 8; at < list; at += 32 * 8) to.storeWord8(row, at, word(at));
  storeEnd(to, row, token, [&](uint32_t i) {
    const uint2 v = word(list + i / 2 * 8);
    return i % 2 == 0 ? v.x : v.y;
  });
}

// awaitLists waits for the packets that carry a token's list.
GOCCL_DEVICE Status awaitLists(const Target& to, const uint8_t* lines, uint32_t n) {
  const DispatchArgs& a = to.a;
  const uint32_t units = lineUnits(a.row);
  for (uint32_t first = listOffset(a) / ll128Payload * 8 / 32 * 32; first < units; first += 32) {
    uint4 v[1];
    const Status s = awaitUnits<1>(a, lines, first, units, n, to.source, v);
    if (s != statusOk) return s;
  }
  __syncwarp();
  return statusOk;
}

// itemOf is entry i of a list that has come as packets.
GOCCL_DEVICE uint32_t itemOf(const DispatchArgs& a, const uint8_t* lines, uint32_t i) {
  const uint32_t offset = listOffset(a) + i / 2 * 8, in = offset % ll128Payload;
  const uint2 v = loadPacket(reinterpret_cast<const uint2*>(lines + offset / ll128Payload * ll128Line + in));
  return i % 2 == 0 ? v.x : v.y;
}

// receiveSpan stores units of a token's lines: those that have come, or the own row's. The span that ends a row stores
// the token's list.
GOCCL_DEVICE Status receiveSpan(const Target& to, uint32_t n, uint32_t token, uint32_t first, uint32_t end) {
  constexpr uint32_t flight = 8;
  const DispatchArgs& a = to.a;
  const int32_t* list = placesOf(a, to.source, token);
  if (!present(a, list)) return statusOk;
  auto places = [&](uint32_t k) { return list[k]; };
  const bool own = to.source == a.rank;
  const uint8_t* lines = linesAt(a, a.row, a.rank, to.source, token);
  const uint32_t plain = plainUnits(a.row), lists = listOffset(a);
  const uint32_t last = end < plain ? end : plain;
  for (uint32_t base = first; base < last; base += flight * 32) {
    uint4 v[flight];
    if (own) {
      const uint8_t* x = a.x + token * a.xStride;
#pragma unroll
      for (uint32_t u = 0; u < flight; ++u)
        if (base + u * 32 < last) v[u] = plainUnit(x, base + u * 32 + laneOf());
    } else {
      const Status s = awaitUnits<flight>(a, lines, base, last, n, to.source, v);
      if (s != statusOk) return s;
    }
    to.forEach(places, [&](uint64_t row) {
#pragma unroll
      for (uint32_t u = 0; u < flight; ++u)
        if (base + u * 32 < last) storeUnit(a.recvX + row * a.row.data, base + u * 32 + laneOf(), v[u]);
    });
  }
#pragma unroll 1
  for (uint32_t base = first > plain ? first : plain; base < end; base += 32) {
    const uint32_t unit = base + laneOf(), offset = lineOffset(unit);
    uint4 v[1] = {};
    if (own) {
      v[0] = unitOf(a, token, unit);
    } else {
      const Status s = awaitUnits<1>(a, lines, base, end, n, to.source, v);
      if (s != statusOk) return s;
    }
    to.forEach(places, [&](uint64_t row) {
      if (offset < lists) to.storeWord8(row, offset, make_uint2(v[0].x, v[0].y));
      if (offset + 8 < lists && !ll128HasFlag(unit)) to.storeWord8(row, offset + 8, make_uint2(v[0].z, v[0].w));
    });
  }
  if (end != lineUnits(a.row)) return statusOk;
  const Status s = own || a.row.lists == 0 ? statusOk : awaitLists(to, lines, n);
  if (s != statusOk) return s;
  to.forEach(places, [&](uint64_t row) {
    storeEnd(to, row, token, [&](uint32_t i) { return own ? listWord(a, token, i) : itemOf(a, lines, i); });
  });
  return statusOk;
}

// inLines says whether the rows of a source are handled in spans.
GOCCL_DEVICE bool inLines(const DispatchArgs& a, uint32_t source) {
  return static_cast<uint32_t>(a.sourceTokens[source]) <= a.row.packets;
}

// receiveLines is step 1.
GOCCL_DEVICE bool receiveLines(const DispatchArgs& a, Part part, uint32_t n) {
  uint32_t tokens = 0;
  for (uint32_t s = 0; s < a.nranks; ++s) tokens += inLines(a, s) ? static_cast<uint32_t>(a.sourceTokens[s]) : 0;
  Spans spans(part, a.row, tokens);
  for (uint32_t k = 0; k < a.nranks; ++k) {
    const uint32_t s = peerBefore(a, k);
    if (!inLines(a, s)) continue;
    const Target to(a, s);
    if (!spans.each(static_cast<uint32_t>(a.sourceTokens[s]), [&](uint32_t token, uint32_t first, uint32_t end) {
          const Status status = receiveSpan(to, n, token, first, end);
          return !__any_sync(allLanes, status != statusOk);
        }))
      return false;
  }
  return true;
}

// Incoming are the rows of a warp's pieces: the own ones first, then the rows of the sources in turn.
template <class Mover>
struct Incoming {
  const DispatchArgs& a;
  const uint32_t n;
  Turns turns;
  bool own = true;
  uint32_t here = 0, left = 0;  // tokens of the piece that come here, until it is there; those still to be taken
  int32_t mine = -1;            // lane t: the place of token t, in the layout Rows

  GOCCL_DEVICE Incoming(const DispatchArgs& args, Part part, uint32_t number)
      : a(args), n(number), turns(args, part, args.row.packets) {}

  // An item has the token's row in the layout Rows, and its source.
  GOCCL_DEVICE Next next(Item& item, bool wait) {
    while (left == 0) {
      if (here == 0) {
        if (!(own ? turns.next(1, [&](uint32_t) { return a.rank; })
                  : turns.next(a.nranks - 1, [&](uint32_t k) { return peerBefore(a, k); }))) {
          if (!own) return Next::end;
          own = false;
          turns.again();
          continue;
        }
        here = turns.tokensHere(mine);
        if (here == 0) continue;
      }
      if (!own) {
        const Next there = awaitPiece(a, a.row, 1u << turns.source, turns.piece, n, wait);
        if (there != Next::row) return there;
        Mover::acquired();
      }
      left = here, here = 0;
    }
    const uint32_t t = lowest(left);
    left &= left - 1;
    const uint32_t place = static_cast<uint32_t>(__shfl_sync(allLanes, mine, static_cast<int>(t)));
    item = {turns.first() + t, turns.baseOf() + place, turns.source};
    return Next::row;
  }

  GOCCL_DEVICE bool apart(const Item& item) const { return item.what == a.rank; }
  GOCCL_DEVICE const uint8_t* from(const Item& item) const {
    return apart(item) ? a.x + item.token * a.xStride : rowAt(a, a.row, a.rank, item.what, item.token);
  }
  GOCCL_DEVICE uint2 rest(const Item& item, uint32_t at) const { return wordOf(a, item.token, at); }
  GOCCL_DEVICE uint32_t places(const Item&) const { return perToken(a); }
  GOCCL_DEVICE uint8_t* place(const Item& item, uint32_t k) const {
    const int32_t p = placeOf(item, k);
    for (uint32_t j = 0; j < k; ++j)
      if (placeOf(item, j) == p) return nullptr;  // the list names the expert twice
    const int64_t row = p < 0 ? -1 : Target(a, item.what, 0).rowOf(p);
    return row < 0 ? nullptr : a.recvX + static_cast<uint64_t>(row) * a.row.data;
  }
  // keep stores what a row has behind its elements; word(offset) is 8 bytes of it.
  template <class Word>
  GOCCL_DEVICE void keep(const Item& item, Word word) const {
    const Target to(a, item.what, 0);
    to.forEach([&](uint32_t k) { return placeOf(item, k); },
               [&](uint64_t row) { storeRest(to, row, item.token, word); });
  }

 private:
  GOCCL_DEVICE int32_t placeOf(const Item& item, uint32_t k) const {
    return a.byExpert ? placesOf(a, item.what, item.token)[k] : static_cast<int32_t>(item.where);
  }
};

// eachItem moves `items` items of each of count tokens: store(row, i, load(token, i)), four of a lane at once. Lane t
// has the row of token t, or -1.
template <class Load, class Store>
GOCCL_DEVICE void eachItem(int64_t row, uint32_t count, uint32_t items, Load load, Store store) {
  constexpr uint32_t flight = 4;
  for (uint32_t i = laneOf(); i - laneOf() < items * count; i += flight * 32) {
    uint4 v[flight];
    int32_t to[flight];
#pragma unroll
    for (uint32_t f = 0; f < flight; ++f) {
      const uint32_t at = i + f * 32, t = minOf(at / items, count - 1);
      to[f] = __shfl_sync(allLanes, static_cast<int32_t>(row), static_cast<int>(t));
      if (at >= items * count) to[f] = -1;
      if (to[f] >= 0) v[f] = load(t, at % items);
    }
#pragma unroll
    for (uint32_t f = 0; f < flight; ++f)
      if (to[f] >= 0) store(static_cast<uint64_t>(to[f]), (i + f * 32) % items, v[f]);
  }
}

// settle is step 2 in the layout ZeroCopy. A warp takes 32 tokens at a time, each lane one; it looks for the next ones
// while it waits for the flags.
GOCCL_DEVICE bool settle(const DispatchArgs& a, Part part, uint32_t n) {
  const uint32_t scales = a.row.scales / 4;
  const bool whole = a.groups % 4 == 0 && reinterpret_cast<uintptr_t>(a.recvScales) % 16 == 0;
  Turns turns(a, part, a.row.packets, 32);
  int32_t following = -1;
  auto next = [&] {
    const bool more = turns.next(a.nranks, [&](uint32_t k) { return peerBefore(a, k); });
    following = more && laneOf() < turns.count() ? placesOf(a, turns.source, turns.first() + laneOf())[0] : -1;
    return more;
  };
  for (bool more = next(); more;) {
    const int32_t place = following;
    const uint32_t source = turns.source, first = turns.first(), count = turns.count();
    const Target to(a, source, turns.baseOf());
    more = next();
    if (__all_sync(allLanes, place < 0)) continue;
    const uint32_t* flag = flagAt(a, a.row, a.rank, source, (first + laneOf()) / pieceTokens);
    auto arrived = [&] { return loadAcquire<Scope::sys>(flag) == n; };
    const bool failed = place >= 0 && waitUntil(arrived, a.abort, flag, waitPacket, -1, source) != statusOk;
    if (__any_sync(allLanes, failed)) return false;
    __syncwarp();
    const int64_t row = place < 0 ? -1 : to.rowOf(place);  // lane t: of token t
    if (place >= 0 && row < 0) report(a.abort, statusInvalid, reinterpret_cast<const void*>(a.recvRows), 0, source);
    auto rest = [&](uint32_t t) {
      return reinterpret_cast<const uint32_t*>(restAt(a, a.row, a.rank, source, first + t));
    };
    if (a.groups != 0 && whole)
      eachItem(
          row, count, a.groups / 4, [&](uint32_t t, uint32_t g) { return loadVec(rest(t) + 4 * g); },
          [&](uint64_t r, uint32_t g, uint4 v) { storeVec(a.recvScales + r * a.groups + 4 * g, v); });
    else if (a.groups != 0)
      eachItem(
          row, count, a.groups, [&](uint32_t t, uint32_t g) { return make_uint4(rest(t)[g], 0, 0, 0); },
          [&](uint64_t r, uint32_t g, uint4 v) { a.recvScales[r * a.groups + g] = bitsFloat(v.x); });
    if (a.row.lists != 0)
      eachItem(row, count, a.topK,
               [&](uint32_t t, uint32_t k) {
                 return make_uint4(rest(t)[scales + k], rest(t)[scales + a.topK + k], 0, 0);
               },
               [&](uint64_t r, uint32_t k, uint4 v) {
                 to.storeList(r, k, [&](uint32_t i) { return i < a.topK ? v.x : v.y; });
               });
    if (a.recvSource != nullptr && row >= 0) a.recvSource[row] = static_cast<int32_t>(first + laneOf());
  }
  return true;
}

// noLists is step 3.
GOCCL_DEVICE void noLists(const DispatchArgs& a, uint32_t block, uint32_t blocks) {
  if (a.row.lists == 0) return;
  const uint64_t from = static_cast<uint64_t>(*a.total) * a.topK, to = a.recvRows * a.topK;
  for (uint64_t i = from + block * blockDim.x + threadIdx.x; i < to; i += static_cast<uint64_t>(blocks) * blockDim.x) {
    a.recvIndex[i] = -1;
    if (a.recvWeights != nullptr) a.recvWeights[i] = 0;
  }
}

template <class Mover>
GOCCL_DEVICE bool receive(const DispatchArgs& a, uint32_t n) {
  const uint32_t block = blockIdx.x - a.senders, blocks = gridDim.x - a.senders;
  const bool ok = byWarps<Mover>(a.row, a.abort, block, blocks, [&](Mover& mover, Part part) {
    if (!receiveLines(a, part, n)) return false;
    if (a.zeroCopy != 0) return settle(a, part, n);
    Incoming<Mover> rows(a, part, n);
    return mover.receive(a.row, rows);
  });
  if (ok) noLists(a, block, blocks);
  return ok;
}

template <class Mover>
GOCCL_DEVICE void dispatch(const DispatchArgs& a) {
  const uint32_t n = number(a);
  if (!current(a)) return;
  if (blockIdx.x == 0 && loadRelaxed<Scope::gpu>(a.state + 4) != 0) tellPeers(a, 0, n - 1);
  if (!(blockIdx.x < a.senders ? send<Mover>(a, n) : receive<Mover>(a, n))) return;
  if (a.zeroCopy == 0) return end(a, n);
  if (last(a)) finished(a, n, true);
}

}  // namespace moe
}  // namespace goccl
