// Combine: each row returns to its token's rank, which adds the rows of the token.
//
// The first `senders` blocks send, the others add. Senders serve the sources in turn, a piece at a time, because a
// token needs the rows of all its ranks. In the layout Experts a sender adds the rows of the token's experts first, and
// waits for the weights, which the token's rank sends at the start.
//
//   sender     1. begin: the peers have ended the combine before (memory.cuh)
//              2. layout Experts: the weights of this rank's tokens
//              3. packets: a token at a time; or plain rows: a piece at a time, then its flag
//   adder      1. wait for the rows of a token, in the order of its list
//              2. add them in float32, round once
//
// Sums are of single products and additions, never contracted: the host device computes the same bits.
#pragma once

#include <moe/memory.cuh>

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
static_assert(sizeof(CombineArgs) == 424, "CombineArgs is filled by the host");

// Eight is a vector of bfloat16 in float32.
struct Eight {
  float v[8];
  GOCCL_DEVICE void clear() {
#pragma unroll
    for (uint32_t i = 0; i < 8; ++i) v[i] = 0;
  }
  static GOCCL_DEVICE float low(uint32_t w) { return bitsFloat(w << 16); }
  static GOCCL_DEVICE float high(uint32_t w) { return bitsFloat(w & 0xffff0000u); }
  static GOCCL_DEVICE float sum(float x, float y) {
#if GOCCL_CUDA
    return __fadd_rn(x, y);
#else
    return x + y;
#endif
  }
  static GOCCL_DEVICE float product(float x, float y) {
#if GOCCL_CUDA
    return __fmul_rn(x, y);
#else
    return x * y;
#endif
  }
  GOCCL_DEVICE void add(uint4 x) {
    const uint32_t w[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) v[2 * i] = sum(v[2 * i], low(w[i])), v[2 * i + 1] = sum(v[2 * i + 1], high(w[i]));
  }
  GOCCL_DEVICE void addProduct(float f, uint4 x) {
    const uint32_t w[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      v[2 * i] = sum(v[2 * i], product(f, low(w[i])));
      v[2 * i + 1] = sum(v[2 * i + 1], product(f, high(w[i])));
    }
  }
  GOCCL_DEVICE uint4 narrow() const {
    uint32_t w[4];
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      Bfloat16 a, b;
      fromFloat(v[2 * i], a);
      fromFloat(v[2 * i + 1], b);
      w[i] = a.bits | static_cast<uint32_t>(b.bits) << 16;
    }
    return make_uint4(w[0], w[1], w[2], w[3]);
  }
};

GOCCL_DEVICE LL8Packet* weightWord(const CombineArgs& a, uint32_t at, uint32_t source, uint32_t token, uint32_t k) {
  return reinterpret_cast<LL8Packet*>(a.arena[at] + a.weightWords.base + source * a.weightWords.stride) +
         token * a.topK + k;
}

// tellWeights is step 2 of a sender.
GOCCL_DEVICE void tellWeights(const CombineArgs& a, uint32_t n) {
  const uint32_t count = a.tokens * a.topK;
  for (uint32_t p = 0; p < a.nranks; ++p)
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += a.senders * blockDim.x)
      weightWord(a, peerAfter(a, p), a.rank, i / a.topK, i % a.topK)->write(floatBits(a.weights[i]), n);
}

// Source is what a rank gets back.
struct Source {
  const CombineArgs& a;
  uint32_t rank, tokens;
  int64_t base;

  GOCCL_DEVICE Source(const CombineArgs& args, uint32_t s)
      : a(args), rank(s), tokens(static_cast<uint32_t>(args.sourceTokens[s])), base(0) {
    for (uint32_t q = 0; q < s; ++q) base += a.counts[q];
  }
  GOCCL_DEVICE const uint8_t* rowOf(int32_t place) const {
    if (!a.byExpert) return a.x + static_cast<uint64_t>(base + place) * a.row.data;
    const uint32_t x = static_cast<uint32_t>(place) >> placeBits;
    const int64_t in = (a.ranges[x * a.nranks + rank] >> 32) + (place & ((1 << placeBits) - 1));
    return a.x + (x * a.rows + static_cast<uint64_t>(in)) * a.row.data;
  }

  // weightOf waits for a weight of the rank's token.
  GOCCL_DEVICE Status weightOf(uint32_t token, uint32_t k, uint32_t n, float& w) const {
    const LL8Packet* in = weightWord(a, a.rank, rank, token, k);
    uint32_t v = 0;
    const Status s = waitUntil([&] { return in->tryRead(n, v); }, a.abort, in, waitPacket, -1, rank);
    w = bitsFloat(v);
    return s;
  }

  // vector is 16 bytes of the row that returns for a token.
  template <bool ByExpert>
  GOCCL_DEVICE uint4 vector(const int32_t* places, const float* w, uint32_t offset) const {
    if (!ByExpert) return loadVec(rowOf(places[0]) + offset);
    Eight sum;
    sum.clear();
    for (uint32_t k = 0; k < a.topK; ++k)
      if (places[k] >= 0) sum.addProduct(w[k], loadVec(rowOf(places[k]) + offset));
    return sum.narrow();
  }

  // word is 8 bytes of the row; what lies beyond is 0.
  template <bool ByExpert>
  GOCCL_DEVICE uint2 word(const int32_t* places, const float* w, uint32_t offset) const {
    if (offset < a.row.data) {
      const uint4 v = vector<ByExpert>(places, w, offset & ~15u);
      return (offset & 8) == 0 ? make_uint2(v.x, v.y) : make_uint2(v.z, v.w);
    }
    offset -= a.row.data;
    if (offset >= a.row.lists) return make_uint2(0, 0);
    const float* list = a.weights + static_cast<uint64_t>(base + places[0]) * a.topK;
    const uint32_t i = offset / 4;
    return make_uint2(floatBits(list[i]), i + 1 < a.topK ? floatBits(list[i + 1]) : 0);
  }
};

// Weights holds those of a token.
template <bool ByExpert>
GOCCL_DEVICE Status weightsOf(const Source& s, const int32_t* places, uint32_t token, uint32_t n, float* w) {
  Status failed = statusOk;
  if (ByExpert)
    for (uint32_t k = 0; k < s.a.topK && failed == statusOk; ++k)
      if (places[k] >= 0) failed = s.weightOf(token, k, n, w[k]);
  return failed;
}

// returnLines sends a token's row as packets, by whole warps.
template <bool ByExpert>
GOCCL_DEVICE Status returnLines(const CombineArgs& a, const Source& s, uint32_t token, uint32_t n, uint32_t workers) {
  const int32_t* places = placesOf(a, s.rank, token);
  float w[maxTopK];
  if (!present(a, places)) return statusOk;
  const Status failed = weightsOf<ByExpert>(s, places, token, n, w);
  if (__any_sync(0xffffffffu, failed != statusOk)) return statusAborted;
  uint8_t* lines = linesAt(a, a.row, s.rank, a.rank, token);
  for (uint32_t unit = threadIdx.x; unit < lineUnits(a.row); unit += workers) {
    const uint32_t offset = lineOffset(unit);
    const uint2 low = s.word<ByExpert>(places, w, offset);
    const uint2 high = ll128HasFlag(unit) ? make_uint2(0, 0) : s.word<ByExpert>(places, w, offset + 8);
    ll128Put(lines, unit, make_uint4(low.x, low.y, high.x, high.y), lineFlag(n));
  }
  return statusOk;
}

// returnRow stores a token's row.
template <bool ByExpert>
GOCCL_DEVICE Status returnRow(const CombineArgs& a, const Source& s, uint32_t token, uint32_t n, uint32_t workers) {
  const int32_t* places = placesOf(a, s.rank, token);
  float w[maxTopK];
  if (!present(a, places)) return statusOk;
  const Status failed = weightsOf<ByExpert>(s, places, token, n, w);
  if (failed != statusOk) return failed;
  uint8_t* to = rowAt(a, a.row, s.rank, a.rank, token);
  if (ByExpert) {
    for (uint32_t i = threadIdx.x; i < a.row.data / 16; i += workers)
      storeVec(to + i * 16, s.vector<true>(places, w, i * 16));
    return statusOk;
  }
  copyVectors<4>(to, s.rowOf(places[0]), a.row.data / 16, threadIdx.x, workers);
  for (uint32_t i = threadIdx.x; i < a.row.lists / 8; i += workers)
    storeVec2(to + a.row.data + i * 8, s.word<false>(places, w, a.row.data + i * 8));
  return statusOk;
}

// giveBack is step 3 of a sender for a piece of a source; all threads of the block call it.
template <bool ByExpert>
GOCCL_DEVICE bool giveBack(const CombineArgs& a, Pipe& pipe, const Source& s, uint32_t piece, uint32_t n) {
  const uint32_t first = piece * pieceTokens;
  const uint32_t count = s.tokens - first < pieceTokens ? s.tokens - first : pieceTokens;
  const bool lines = s.rank != a.rank && s.tokens <= a.row.packets;
  Status failed = statusOk;
  auto move = [&] {
    for (uint32_t t = 0; t < count && failed == statusOk; ++t)
      failed = lines ? returnLines<ByExpert>(a, s, first + t, n, pipe.workers())
                     : returnRow<ByExpert>(a, s, first + t, n, pipe.workers());
    if (failed != statusOk) pipe.halted[(pipe.steps - 1) & 1] = 1;
  };
  auto ok = [] { return statusOk; };
  auto signal = [&] {
    if (!lines) storeRelease<Scope::sys>(flagAt(a, a.row, s.rank, a.rank, piece), n);
  };
  return pipe.step(ok, ok, move, signal);
}

template <bool ByExpert>
GOCCL_DEVICE bool send(const CombineArgs& a, uint32_t n) {
  if (!begin(a, n)) return false;
  if (ByExpert) tellWeights(a, n);
  Pipe pipe(a.abort);
  uint32_t most = 0;
  for (uint32_t s = 0; s < a.nranks; ++s) {
    const uint32_t p = pieces(static_cast<uint32_t>(a.sourceTokens[s]));
    most = p > most ? p : most;
  }
  for (uint32_t piece = blockIdx.x; piece < most; piece += a.senders)
    for (uint32_t k = 1; k <= a.nranks; ++k) {
      const Source s(a, k == a.nranks ? a.rank : peerAfter(a, k));
      if (s.rank == a.rank && !ByExpert) continue;  // the adder reads the own rows where they are
      if (piece < pieces(s.tokens) && !giveBack<ByExpert>(a, pipe, s, piece, n)) return false;
    }
  return true;
}

// Adder adds the rows of this rank's tokens.
template <bool ByExpert>
struct Adder {
  const CombineArgs& a;
  const Source own;
  const uint32_t n;
  const bool lines;

  GOCCL_DEVICE Adder(const CombineArgs& args, uint32_t number)
      : a(args), own(args, args.rank), n(number), lines(args.tokens <= args.row.packets) {}

  GOCCL_DEVICE void begin(Eight& sum, uint32_t token, uint32_t offset) const {
    sum.clear();
    for (uint32_t b = 0; b < 2; ++b)
      if (a.bias[b] != nullptr) sum.add(loadVec(a.bias[b] + static_cast<uint64_t>(token) * a.row.data + offset));
  }

  // rowOf is where the row of rank p is, unless it comes as packets.
  GOCCL_DEVICE const uint8_t* rowOf(uint32_t p, uint32_t token) const {
    if (p == a.rank && !ByExpert) return own.rowOf(placesOf(a, p, token)[0]);
    return rowAt(a, a.row, a.rank, p, token);
  }
  GOCCL_DEVICE float weightAt(uint32_t p, uint32_t token, uint32_t k) const {
    if (p == a.rank) return a.weights[static_cast<uint64_t>(own.base + placesOf(a, p, token)[0]) * a.topK + k];
    const uint2 v = loadVec2(rowAt(a, a.row, a.rank, p, token) + a.row.data + k / 2 * 8);
    return bitsFloat(k % 2 == 0 ? v.x : v.y);
  }

  GOCCL_DEVICE void weights(uint32_t token, uint32_t workers) const {
    const Route r = a.routes[token];
    for (uint32_t k = threadIdx.x; k < a.topK; k += workers) {
      float sum = 0;
      for (uint32_t m = r.mask, i = 0; m != 0; m &= m - 1, ++i)
        sum = Eight::sum(sum, weightAt(static_cast<uint32_t>(r.order >> (4 * i)) & 15, token, k));
      a.outWeights[static_cast<uint64_t>(token) * a.topK + k] = sum;
    }
  }

  // rows adds a token of plain rows. Loads of up to four ranks are in flight together.
  GOCCL_DEVICE void rows(uint32_t token, uint32_t workers) const {
    const Route r = a.routes[token];
    for (uint32_t i = threadIdx.x; i < a.row.data / 16; i += workers) {
      Eight sum;
      begin(sum, token, i * 16);
      uint64_t order = r.order;
      for (uint32_t mask = r.mask; mask != 0;) {
        uint4 v[4];
        bool some[4];
#pragma unroll
        for (uint32_t j = 0; j < 4; ++j, order >>= 4) {
          some[j] = mask != 0;
          if (some[j]) v[j] = loadVec(rowOf(static_cast<uint32_t>(order) & 15, token) + i * 16);
          mask &= mask - 1;
        }
#pragma unroll
        for (uint32_t j = 0; j < 4; ++j)
          if (some[j]) sum.add(v[j]);
      }
      storeVec(a.out + static_cast<uint64_t>(token) * a.row.data + i * 16, sum.narrow());
    }
    if (a.outWeights != nullptr) weights(token, workers);
  }

  // packets adds a token whose rows come as packets, by whole warps. Units are 16 bytes of a row, or 8; their offsets
  // are multiples of 8, so a unit is handled as two words.
  GOCCL_DEVICE Status packets(uint32_t token, uint32_t workers) const {
    const Route r = a.routes[token];
    for (uint32_t unit = threadIdx.x; unit < lineUnits(a.row); unit += workers) {
      const uint32_t offset = lineOffset(unit);
      Eight sum;
      sum.clear();
      for (uint32_t b = 0; b < 2; ++b)
        if (a.bias[b] != nullptr) sum.add(pair(a.bias[b] + static_cast<uint64_t>(token) * a.row.data, offset));
      float listed[4] = {0, 0, 0, 0};
      uint64_t order = r.order;
      for (uint32_t mask = r.mask; mask != 0; mask &= mask - 1, order >>= 4) {
        const uint32_t p = static_cast<uint32_t>(order) & 15;
        uint4 v;
        if (p == a.rank) {
          v = ownUnit(token, offset);
        } else {
          const Status s = awaitUnit(a, linesAt(a, a.row, a.rank, p, token), unit, n, p, v);
          if (s != statusOk) return s;
        }
        sum.add(v);
        listed[0] = Eight::sum(listed[0], bitsFloat(v.x)), listed[1] = Eight::sum(listed[1], bitsFloat(v.y));
        listed[2] = Eight::sum(listed[2], bitsFloat(v.z)), listed[3] = Eight::sum(listed[3], bitsFloat(v.w));
      }
      const uint4 result = sum.narrow();
      store(token, offset, make_uint2(result.x, result.y), listed);
      if (!ll128HasFlag(unit)) store(token, offset + 8, make_uint2(result.z, result.w), listed + 2);
    }
    return statusOk;
  }

  // pair is the 16 bytes of elements from an offset on, as far as a row has them.
  GOCCL_DEVICE uint4 pair(const uint8_t* row, uint32_t offset) const {
    const uint2 low = offset < a.row.data ? loadVec2(row + offset) : make_uint2(0, 0);
    const uint2 high = offset + 8 < a.row.data ? loadVec2(row + offset + 8) : make_uint2(0, 0);
    return make_uint4(low.x, low.y, high.x, high.y);
  }
  GOCCL_DEVICE uint4 ownUnit(uint32_t token, uint32_t offset) const {
    uint4 v = pair(rowOf(a.rank, token), offset);
    if (a.row.lists == 0) return v;
    uint32_t* w[4] = {&v.x, &v.y, &v.z, &v.w};
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t at = offset + i * 4;
      if (at < a.row.data || (at - a.row.data) / 4 >= a.topK) continue;
      *w[i] = floatBits(weightAt(a.rank, token, (at - a.row.data) / 4));
    }
    return v;
  }
  GOCCL_DEVICE void store(uint32_t token, uint32_t offset, uint2 v, const float* listed) const {
    if (offset < a.row.data) return storeVec2(a.out + static_cast<uint64_t>(token) * a.row.data + offset, v);
    const uint32_t k = (offset - a.row.data) / 4;
    if (a.outWeights == nullptr) return;
    if (k < a.topK) a.outWeights[static_cast<uint64_t>(token) * a.topK + k] = listed[0];
    if (k + 1 < a.topK) a.outWeights[static_cast<uint64_t>(token) * a.topK + k + 1] = listed[1];
  }

  // arrived waits for the plain rows of a piece.
  GOCCL_DEVICE Status arrived(uint32_t piece, uint32_t count) const {
    uint32_t from = 0;
    for (uint32_t t = 0; t < count; ++t) from |= a.routes[piece * pieceTokens + t].mask;
    if (!ByExpert) from &= ~(1u << a.rank);
    for (uint32_t p = 0; p < a.nranks; ++p) {
      if ((from >> p & 1) == 0 || (lines && p != a.rank)) continue;
      const Status s = awaitPiece(a, a.row, p, piece, n);
      if (s != statusOk) return s;
    }
    return statusOk;
  }

  GOCCL_DEVICE bool run() const {
    Pipe pipe(a.abort);
    const uint32_t blocks = gridDim.x - a.senders;
    for (uint32_t piece = blockIdx.x - a.senders; piece < pieces(a.tokens); piece += blocks) {
      const uint32_t first = piece * pieceTokens;
      const uint32_t count = a.tokens - first < pieceTokens ? a.tokens - first : pieceTokens;
      Status failed = statusOk;
      auto move = [&] {
        for (uint32_t t = 0; t < count && failed == statusOk; ++t) {
          if (lines)
            failed = packets(first + t, pipe.workers());
          else
            rows(first + t, pipe.workers());
        }
        if (failed != statusOk) pipe.halted[(pipe.steps - 1) & 1] = 1;
      };
      if (!pipe.step([&] { return arrived(piece, count); }, [] { return statusOk; }, move, [] {})) return false;
    }
    return true;
  }
};

template <bool ByExpert>
GOCCL_DEVICE void combine(const CombineArgs& a) {
  const uint32_t n = number(a);
  if (blockIdx.x < a.senders ? send<ByExpert>(a, n) : Adder<ByExpert>(a, n).run()) end(a, n);
}

}  // namespace moe
}  // namespace goccl
