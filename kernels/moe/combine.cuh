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

#include <moe/stage.cuh>

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
static_assert(sizeof(CombineArgs) == 432, "CombineArgs is filled by the host");

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

// returnLines sends a token's row as packets, by whole warps, whose threads have numbers from 0.
template <bool ByExpert>
GOCCL_DEVICE Status returnLines(const CombineArgs& a, const Source& s, uint32_t token, uint32_t n, uint32_t thread,
                                uint32_t threads) {
  const int32_t* places = placesOf(a, s.rank, token);
  float w[maxTopK];
  if (!present(a, places)) return statusOk;
  const Status failed = weightsOf<ByExpert>(s, places, token, n, w);
  if (__any_sync(0xffffffffu, failed != statusOk)) return statusAborted;
  uint8_t* lines = linesAt(a, a.row, s.rank, a.rank, token);
  for (uint32_t unit = thread; unit < lineUnits(a.row); unit += threads) {
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
      failed = lines ? returnLines<ByExpert>(a, s, first + t, n, threadIdx.x, pipe.workers())
                     : returnRow<ByExpert>(a, s, first + t, n, pipe.workers());
    if (failed != statusOk) pipe.halted[(pipe.steps - 1) & 1] = 1;
  };
  auto ok = [] { return statusOk; };
  auto signal = [&] {
    if (!lines) storeRelease<Scope::sys>(flagAt(a, a.row, s.rank, a.rank, piece), n);
  };
  return pipe.step(ok, ok, move, signal);
}

// toSources calls give with the pieces of part `part` of `parts`, the ranks in turn, until one fails.
template <class Give>
GOCCL_DEVICE bool toSources(const CombineArgs& a, uint32_t part, uint32_t parts, Give give) {
  uint32_t most = 0;
  for (uint32_t s = 0; s < a.nranks; ++s) {
    const uint32_t p = pieces(static_cast<uint32_t>(a.sourceTokens[s]));
    most = p > most ? p : most;
  }
  for (uint32_t piece = part; piece < most; piece += parts)
    for (uint32_t k = 1; k <= a.nranks; ++k) {
      const Source s(a, k == a.nranks ? a.rank : peerAfter(a, k));
      if (piece < pieces(s.tokens) && !give(s, piece)) return false;
    }
  return true;
}

template <bool ByExpert>
GOCCL_DEVICE bool send(const CombineArgs& a, uint32_t n) {
  if (!begin(a, n)) return false;
  if (ByExpert) tellWeights(a, n);
  Pipe pipe(a.abort);
  return toSources(a, blockIdx.x, a.senders, [&](const Source& s, uint32_t piece) {
    if (s.rank == a.rank && !ByExpert) return true;  // the adder reads the own rows where they are
    return giveBack<ByExpert>(a, pipe, s, piece, n);
  });
}

}  // namespace moe
}  // namespace goccl
