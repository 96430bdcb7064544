// Adder: what the receiving blocks of combine do (combine.cuh).
#pragma once

#include <moe/combine.cuh>

namespace goccl {
namespace moe {

// Adder adds the rows of this rank's tokens.
template <bool ByExpert, uint32_t Flight = 1>
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

  // rows adds a token of plain rows. A thread has four loads in flight: of four ranks, or two vectors of two.
  GOCCL_DEVICE void rows(uint32_t token, uint32_t workers) const {
    const Route r = a.routes[token];
    const uint32_t vectors = a.row.data / 16;
    for (uint32_t i = threadIdx.x; i < vectors; i += Flight * workers) {
      Eight sum[Flight];
#pragma unroll
      for (uint32_t f = 0; f < Flight; ++f)
        if (i + f * workers < vectors) begin(sum[f], token, (i + f * workers) * 16);
      uint64_t order = r.order;
      constexpr uint32_t together = 4 / Flight;
      for (uint32_t mask = r.mask; mask != 0;) {
        uint4 v[together][Flight];
        bool some[together];
#pragma unroll
        for (uint32_t j = 0; j < together; ++j, order >>= 4) {
          some[j] = mask != 0;
          const uint8_t* row = some[j] ? rowOf(static_cast<uint32_t>(order) & 15, token) : nullptr;
#pragma unroll
          for (uint32_t f = 0; f < Flight; ++f)
            if (some[j] && i + f * workers < vectors) v[j][f] = loadVec(row + (i + f * workers) * 16);
          mask &= mask - 1;
        }
#pragma unroll
        for (uint32_t j = 0; j < together; ++j)
#pragma unroll
          for (uint32_t f = 0; f < Flight; ++f)
            if (some[j] && i + f * workers < vectors) sum[f].add(v[j][f]);
      }
#pragma unroll
      for (uint32_t f = 0; f < Flight; ++f)
        if (i + f * workers < vectors)
          storeVec(a.out + static_cast<uint64_t>(token) * a.row.data + (i + f * workers) * 16, sum[f].narrow());
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
