// Dispatch: each token goes once to each rank that its list names, and from there to the caller's rows.
//
// The first `senders` blocks send, the others receive. A sender reads a row once and stores it to all ranks of its
// token, which spreads its stores over the links. A receiver takes the pieces in the order in which they are sent, of
// one source after the other; the rank's own rows never travel.
//
//   sender     1. begin: the peers have ended the dispatch before (memory.cuh)
//              2. packets: a token at a time; or plain rows: a piece at a time, then its flag
//   receiver   1. the own rows
//              2. wait for a piece, or for the lines of a token, and copy them
//              3. lists behind the last row are empty
#pragma once

#include <moe/stage.cuh>

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
static_assert(sizeof(DispatchArgs) == 456, "DispatchArgs is filled by the host");

// listWord is entry i of a token's list as it travels: the experts, then the weights.
GOCCL_DEVICE uint32_t listWord(const DispatchArgs& a, uint32_t token, uint32_t i) {
  if (i < a.topK) {
    const int64_t x = a.index[static_cast<uint64_t>(token) * a.topK + i];
    return x >= 0 && x < static_cast<int64_t>(a.local) * a.nranks ? static_cast<uint32_t>(x) : 0xffffffffu;
  }
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

// Target is where the rows of a source go. Threads that share a row, of whole warps, number themselves from 0.
struct Target {
  const DispatchArgs& a;
  uint32_t source;
  int32_t base;  // place of the source's first row
  uint32_t thread, threads;

  GOCCL_DEVICE Target(const DispatchArgs& args, uint32_t s, uint32_t self, uint32_t all)
      : a(args), source(s), base(0), thread(self), threads(all) {
    for (uint32_t q = 0; q < s; ++q) base += a.counts[q];
  }

  // rowOf is the caller's row for a place, or -1 if RecvX has no room.
  GOCCL_DEVICE int64_t rowOf(int32_t place) const {
    if (!a.byExpert) {
      const int64_t row = base + place;
      return row < static_cast<int64_t>(a.recvRows) ? row : -1;
    }
    const uint32_t x = static_cast<uint32_t>(place) >> placeBits;
    const int64_t in = (a.ranges[x * a.nranks + source] >> 32) + (place & ((1 << placeBits) - 1));
    return in < static_cast<int64_t>(a.recvRows) ? x * static_cast<int64_t>(a.recvRows) + in : -1;
  }

  // forEach calls f with each row of a token.
  template <class F>
  GOCCL_DEVICE void forEach(const int32_t* places, F f) const {
    for (uint32_t k = 0; k < perToken(a); ++k) {
      if (places[k] < 0) continue;
      const int64_t row = rowOf(places[k]);
      if (row >= 0)
        f(static_cast<uint64_t>(row));
      else if (thread == 0)
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

// sendLines is step 2 of a sender with packets, by all threads of whole warps.
GOCCL_DEVICE void sendLines(const DispatchArgs& a, uint32_t n, uint32_t workers) {
  const uint32_t units = lineUnits(a.row);
  for (uint32_t token = blockIdx.x; token < a.tokens; token += a.senders) {
    const uint32_t mask = a.routes[token].mask & ~(1u << a.rank);
    if (mask == 0) continue;
    for (uint32_t unit = threadIdx.x; unit < units; unit += workers) {
      const uint32_t offset = lineOffset(unit);
      const uint2 low = wordOf(a, token, offset);
      const uint2 high = ll128HasFlag(unit) ? make_uint2(0, 0) : wordOf(a, token, offset + 8);
      for (uint32_t k = 1; k < a.nranks; ++k) {
        const uint32_t p = peerAfter(a, k);
        if ((mask >> p & 1) != 0)
          ll128Put(linesAt(a, a.row, p, a.rank, token), unit, make_uint4(low.x, low.y, high.x, high.y), lineFlag(n));
      }
    }
  }
}

// toPeers calls store with the token's place at each of its peers.
template <class Store>
GOCCL_DEVICE void toPeers(const DispatchArgs& a, uint32_t token, Store store) {
  const uint32_t mask = a.routes[token].mask & ~(1u << a.rank);
  for (uint32_t k = 1; k < a.nranks; ++k) {
    const uint32_t p = peerAfter(a, k);
    if ((mask >> p & 1) != 0) store(rowAt(a, a.row, p, a.rank, token));
  }
}

// sendPiece stores the rows of a piece to the peers.
GOCCL_DEVICE void sendPiece(const DispatchArgs& a, uint32_t piece, uint32_t workers) {
  const uint32_t first = piece * pieceTokens;
  const uint32_t count = a.tokens - first < pieceTokens ? a.tokens - first : pieceTokens;
  const uint32_t vectors = a.row.data / 16, words = (a.row.bytes - a.row.data) / 8;
  constexpr uint32_t flight = 4;
  for (uint32_t t = 0; t < count; ++t) {
    const uint32_t token = first + t;
    if ((a.routes[token].mask & ~(1u << a.rank)) == 0) continue;
    const uint8_t* x = a.x + token * a.xStride;
    for (uint32_t i = threadIdx.x; i < vectors; i += flight * workers) {
      uint4 v[flight];
#pragma unroll
      for (uint32_t j = 0; j < flight; ++j)
        if (i + j * workers < vectors) v[j] = loadVec(x + static_cast<uint64_t>(i + j * workers) * 16);
      toPeers(a, token, [&](uint8_t* to) {
#pragma unroll
        for (uint32_t j = 0; j < flight; ++j)
          if (i + j * workers < vectors) storeVec(to + static_cast<uint64_t>(i + j * workers) * 16, v[j]);
      });
    }
    for (uint32_t i = threadIdx.x; i < words; i += workers) {
      const uint2 v = wordOf(a, token, a.row.data + i * 8);
      toPeers(a, token, [&](uint8_t* to) { storeVec2(to + a.row.data + i * 8, v); });
    }
  }
}

// storeRest stores a row but its elements; word(offset) is 8 bytes of what came.
template <class Word>
GOCCL_DEVICE void storeRest(const Target& to, uint64_t row, uint32_t token, Word word) {
  const DispatchArgs& a = to.a;
  const uint32_t list = a.row.data + a.row.scales;
  for (uint32_t i = to.thread; i < a.row.scales / 8; i += to.threads)
    to.storeWord8(row, a.row.data + i * 8, word(a.row.data + i * 8));
  if (a.row.lists != 0)
    for (uint32_t k = to.thread; k < a.topK; k += to.threads)
      to.storeList(row, k, [&](uint32_t i) {
        const uint2 v = word(list + i / 2 * 8);
        return i % 2 == 0 ? v.x : v.y;
      });
  if (a.recvSource != nullptr && to.thread == 0) a.recvSource[row] = static_cast<int32_t>(token);
}

// plainRow is a token's row: the own one where the caller has it, or one that has come as a plain row.
GOCCL_DEVICE const uint8_t* plainRow(const Target& to, uint32_t token) {
  const DispatchArgs& a = to.a;
  return to.source == a.rank ? a.x + token * a.xStride : rowAt(a, a.row, a.rank, to.source, token);
}

// receiveRow copies a plain row.
GOCCL_DEVICE void receiveRow(const DispatchArgs& a, const Target& to, uint32_t token) {
  const int32_t* places = placesOf(a, to.source, token);
  if (!present(a, places)) return;
  const uint8_t* from = plainRow(to, token);
  to.forEach(places, [&](uint64_t row) {
    copyVectors<4>(a.recvX + row * a.row.data, from, a.row.data / 16, to.thread, to.threads);
    if (to.source == a.rank)
      storeRest(to, row, token, [&](uint32_t offset) { return wordOf(a, token, offset); });
    else
      storeRest(to, row, token, [&](uint32_t offset) { return loadVec2(from + offset); });
  });
}

// receiveLines waits for the lines of a token and stores them, by whole warps. Entries of lists, which may lie in other
// units than their weights, are read again where the lines are: they are there then.
GOCCL_DEVICE Status receiveLines(const DispatchArgs& a, const Target& to, uint32_t token, uint32_t n) {
  const int32_t* places = placesOf(a, to.source, token);
  if (!present(a, places)) return statusOk;
  const uint8_t* lines = linesAt(a, a.row, a.rank, to.source, token);
  const uint32_t units = lineUnits(a.row), plain = a.row.data + a.row.scales;
  for (uint32_t unit = to.thread; unit < units; unit += to.threads) {
    uint4 v;
    const Status s = awaitUnit(a, lines, unit, n, to.source, v);
    if (s != statusOk) return s;
    const uint32_t offset = lineOffset(unit);
    to.forEach(places, [&](uint64_t row) {
      if (offset < plain) to.storeWord8(row, offset, make_uint2(v.x, v.y));
      if (offset + 8 < plain && !ll128HasFlag(unit)) to.storeWord8(row, offset + 8, make_uint2(v.z, v.w));
    });
  }
  to.forEach(places, [&](uint64_t row) {
    if (a.recvSource != nullptr && to.thread == 0) a.recvSource[row] = static_cast<int32_t>(token);
  });
  return statusOk;
}

// listsOfLines stores the lists of a token that has come as packets, behind a barrier of its threads.
GOCCL_DEVICE void listsOfLines(const DispatchArgs& a, const Target& to, uint32_t token) {
  const int32_t* places = placesOf(a, to.source, token);
  if (a.row.lists == 0 || !present(a, places)) return;
  const uint8_t* lines = linesAt(a, a.row, a.rank, to.source, token);
  const uint32_t at = a.row.data + a.row.scales;
  auto item = [&](uint32_t i) {
    const uint32_t offset = at + i / 2 * 8, unit = offset / ll128Payload * 8 + offset % ll128Payload / 16;
    const uint2 v = loadPacket(reinterpret_cast<const uint2*>(lines) + unit * 2 + offset % ll128Payload % 16 / 8);
    return i % 2 == 0 ? v.x : v.y;
  };
  to.forEach(places, [&](uint64_t row) {
    for (uint32_t k = to.thread; k < a.topK; k += to.threads) to.storeList(row, k, item);
  });
}

// tellPiece tells the peers that a piece is there.
GOCCL_DEVICE void tellPiece(const DispatchArgs& a, uint32_t piece, uint32_t n) {
  for (uint32_t k = 1; k < a.nranks; ++k)
    storeRelease<Scope::sys>(flagAt(a, a.row, peerAfter(a, k), a.rank, piece), n);
}

GOCCL_DEVICE bool send(const DispatchArgs& a, uint32_t n) {
  if (!begin(a, n)) return false;
  Pipe pipe(a.abort);
  if (a.tokens <= a.row.packets) {
    if (threadIdx.x < pipe.workers()) sendLines(a, n, pipe.workers());
    return true;
  }
  for (uint32_t piece = blockIdx.x; piece < pieces(a.tokens); piece += a.senders) {
    auto ok = [] { return statusOk; };
    auto move = [&] { sendPiece(a, piece, pipe.workers()); };
    if (!pipe.step(ok, ok, move, [&] { tellPiece(a, piece, n); })) return false;
  }
  return true;
}

// Incoming is a piece of a source.
struct Incoming {
  uint32_t source, piece, first, count;  // its first token, and how many
  bool own, lines;

  GOCCL_DEVICE Incoming(const DispatchArgs& a, uint32_t s, uint32_t p)
      : source(s), piece(p), first(p * pieceTokens), own(s == a.rank) {
    const uint32_t tokens = static_cast<uint32_t>(a.sourceTokens[s]);
    count = tokens - first < pieceTokens ? tokens - first : pieceTokens;
    lines = !own && tokens <= a.row.packets;
  }
};

// inTurn calls take with the pieces of part `part` of `parts`, the own ones first, then in the order in which they are
// sent, until one fails.
template <class Take>
GOCCL_DEVICE bool inTurn(const DispatchArgs& a, uint32_t part, uint32_t parts, Take take) {
  uint32_t most = 0;
  for (uint32_t s = 0; s < a.nranks; ++s) {
    const uint32_t p = s == a.rank ? 0 : pieces(static_cast<uint32_t>(a.sourceTokens[s]));
    most = p > most ? p : most;
  }
  for (uint32_t piece = part; piece < pieces(a.tokens); piece += parts)
    if (!take(Incoming(a, a.rank, piece))) return false;
  for (uint32_t piece = part; piece < most; piece += parts)
    for (uint32_t k = 1; k < a.nranks; ++k) {
      const uint32_t s = peerBefore(a, k);
      if (piece < pieces(static_cast<uint32_t>(a.sourceTokens[s])) && !take(Incoming(a, s, piece))) return false;
    }
  return true;
}

// receivePiece is steps 1 and 2; all threads of the block call it.
GOCCL_DEVICE bool receivePiece(const DispatchArgs& a, Pipe& pipe, const Incoming& in, uint32_t n) {
  const Target to(a, in.source, threadIdx.x, pipe.workers());
  Status failed = statusOk;
  auto arrived = [&] { return in.own || in.lines ? statusOk : awaitPiece(a, a.row, in.source, in.piece, n); };
  auto move = [&] {
    for (uint32_t t = 0; t < in.count && failed == statusOk; ++t) {
      if (in.lines)
        failed = receiveLines(a, to, in.first + t, n);
      else
        receiveRow(a, to, in.first + t);
    }
  };
  if (!pipe.step(arrived, [] { return statusOk; }, move, [] {})) return false;
  if (!in.lines) return true;
  if (__syncthreads_or(failed != statusOk)) return false;
  for (uint32_t t = 0; t < in.count; ++t) listsOfLines(a, to, in.first + t);
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

GOCCL_DEVICE bool receive(const DispatchArgs& a, uint32_t n, uint32_t block, uint32_t blocks) {
  Pipe pipe(a.abort);
  return inTurn(a, block, blocks, [&](const Incoming& in) { return receivePiece(a, pipe, in, n); });
}

GOCCL_DEVICE void dispatch(const DispatchArgs& a) {
  const uint32_t n = number(a), block = blockIdx.x - a.senders, blocks = gridDim.x - a.senders;
  if (blockIdx.x < a.senders) {
    if (send(a, n)) end(a, n);
  } else if (receive(a, n, block, blocks)) {
    noLists(a, block, blocks);
    end(a, n);
  }
}

}  // namespace moe
}  // namespace goccl
