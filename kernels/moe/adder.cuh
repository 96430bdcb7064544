// Adder: what the receiving blocks of combine do (combine.cuh).
#pragma once

#include <moe/gather.cuh>

namespace goccl {
namespace moe {

// Adder adds the rows of this rank's tokens.
template <bool ByExpert, class Mover>
struct Adder {
  const CombineArgs& a;
  const Source own;
  const uint32_t n;

  GOCCL_DEVICE Adder(const CombineArgs& args, uint32_t number) : a(args), own(args, args.rank), n(number) {}

  // direct says whether the row of a rank is read where its caller has it.
  static GOCCL_DEVICE bool direct(const CombineArgs& a, uint32_t p) { return p == a.rank && !ByExpert; }

  GOCCL_DEVICE const uint8_t* bias(uint32_t b, uint32_t token) const {
    return a.bias[b] + static_cast<uint64_t>(token) * a.row.data;
  }

  // termsOf are the rows of a token's ranks, plain ones or lines.
  GOCCL_DEVICE Terms termsOf(uint32_t token) const {
    const Route r = a.routes[token];
    Terms t;
    const uint32_t count = bits(r.mask);
    t.lanes = (1u << count) - 1;
    if (laneOf() >= count) return t;
    t.rank = static_cast<uint32_t>(r.order >> (4 * laneOf())) & 15;
    if (direct(a, t.rank))
      t.mine = own.rowOf(placesOf(a, t.rank, token)[0]);
    else if (!ByExpert && a.zeroCopy != 0 && !own.lines())
      t.mine = sentRow(a, a.row, t.rank, token);
    else
      t.mine = own.lines() ? linesAt(a, a.row, a.rank, t.rank, token) : rowAt(a, a.row, a.rank, t.rank, token);
    return t;
  }

  // weights adds the lists of plain rows.
  GOCCL_DEVICE void weights(const Terms& t, uint32_t token) const {
    const uint32_t k = laneOf();
    float sum = 0;
    for (uint32_t left = t.lanes; left != 0; left &= left - 1) {
      const int lane = static_cast<int>(lowest(left));
      const uint8_t* row = shared(t.mine, static_cast<uint32_t>(lane));
      const uint32_t p = __shfl_sync(allLanes, t.rank, lane);
      if (k >= a.topK) continue;
      const uint2 v = direct(a, p) ? own.listed(placesOf(a, p, token)[0], k / 2 * 8)
                                   : loadVec2(row + a.row.data + k / 2 * 8);
      sum = Eight::sum(sum, bitsFloat(k % 2 == 0 ? v.x : v.y));
    }
    if (k < a.topK) a.outWeights[static_cast<uint64_t>(token) * a.topK + k] = sum;
  }

  // rows adds a token of plain rows: vectors of few ranks, or fewer of more ranks, at once.
  template <uint32_t Together, uint32_t Parts>
  GOCCL_DEVICE void rows(const Terms& t, uint32_t token) const {
    const uint32_t vectors = a.row.data / 16;
    for (uint32_t i = laneOf(); i - laneOf() < vectors; i += Parts * 32) {
      Eight sum[Parts];
#pragma unroll
      for (uint32_t u = 0; u < Parts; ++u) {
        sum[u].clear();
        for (uint32_t b = 0; b < 2; ++b)
          if (a.bias[b] != nullptr && i + u * 32 < vectors) sum[u].add(loadVec(bias(b, token) + (i + u * 32) * 16));
      }
      addRows<false, Together>(t, sum, i, vectors);
#pragma unroll
      for (uint32_t u = 0; u < Parts; ++u)
        if (i + u * 32 < vectors)
          storeVec(a.out + static_cast<uint64_t>(token) * a.row.data + (i + u * 32) * 16, sum[u].narrow());
    }
  }

  // arrived waits for the plain rows of a token.
  GOCCL_DEVICE bool arrived(uint32_t token) const {
    if (a.zeroCopy != 0) return true;
    uint32_t from = a.routes[token].mask;
    if (!ByExpert) from &= ~(1u << a.rank);
    const bool there = awaitPiece(a, a.row, from, token / pieceTokens, n, true) == Next::row;
    __syncwarp();
    return there;
  }

  // units loads units of terms' lines: Parts groups from unit `base` on. It waits for all of them together.
  template <bool Plain, uint32_t Together, uint32_t Parts>
  GOCCL_DEVICE bool units(const uint8_t* (&row)[Together], uint32_t (&from)[Together], uint32_t which, uint32_t token,
                          uint32_t base, uint32_t end, uint4 (&v)[Together][Parts]) const {
#pragma unroll
    for (uint32_t j = 0; j < Together; ++j)
      if ((which >> j & 1) != 0 && direct(a, from[j]))
#pragma unroll
        for (uint32_t u = 0; u < Parts; ++u)
          if (base + u * 32 < end)
            v[j][u] = Plain ? plainUnit(row[j], base + u * 32 + laneOf())
                            : unitOf(own, row[j], placesOf(a, a.rank, token)[0], base + u * 32 + laneOf());
    uint64_t start = 0;
    uint32_t late = 0;  // a rank whose unit has not come, counted from 1
    const Status s = spin(
        [&] {
          late = 0;
#pragma unroll
          for (uint32_t j = 0; j < Together; ++j) {
            if ((which >> j & 1) == 0 || direct(a, from[j])) continue;
            bool fresh = true;
#pragma unroll
            for (uint32_t u = 0; u < Parts; ++u)
              if (base + u * 32 < end) v[j][u] = ll128Get(row[j], base + u * 32 + laneOf(), lineFlag(n), fresh);
            if (!fresh) late = from[j] + 1;
          }
          return __all_sync(allLanes, late == 0) != 0;
        },
        [&] {
          const uint32_t peer = __reduce_max_sync(allLanes, late) - 1;
          return __reduce_max_sync(allLanes, checkAbort(a.abort, start, row[0], waitPacket, peer));
        });
    return s == statusOk;
  }

  // elements adds units of a token's lines that carry nothing else.
  template <uint32_t Together, uint32_t Parts>
  GOCCL_DEVICE bool elements(const Terms& t, uint32_t token, uint32_t first, uint32_t end) const {
#pragma unroll 1
    for (uint32_t base = first; base < end; base += Parts * 32) {
      Eight sum[Parts];
#pragma unroll
      for (uint32_t u = 0; u < Parts; ++u) {
        sum[u].clear();
        for (uint32_t b = 0; b < 2; ++b)
          if (a.bias[b] != nullptr && base + u * 32 < end)
            sum[u].add(plainUnit(bias(b, token), base + u * 32 + laneOf()));
      }
      auto load = [&](const uint8_t* (&row)[Together], uint32_t (&from)[Together], uint32_t which,
                      uint4 (&v)[Together][Parts]) { return units<true>(row, from, which, token, base, end, v); };
      if (!t.add<false, Together>(sum, load)) return false;
      uint8_t* out = a.out + static_cast<uint64_t>(token) * a.row.data;
#pragma unroll
      for (uint32_t u = 0; u < Parts; ++u)
        if (base + u * 32 < end) storeUnit(out, base + u * 32 + laneOf(), sum[u].narrow());
    }
    return true;
  }

  // rest adds the other units, of elements and of lists, whose sums are of floats.
  GOCCL_DEVICE bool rest(const Terms& t, uint32_t token, uint32_t first, uint32_t end) const {
#pragma unroll 1
    for (uint32_t base = first; base < end; base += 32) {
      const uint32_t unit = base + laneOf(), offset = lineOffset(unit);
      Eight sum[1];
      float listed[4] = {0, 0, 0, 0};
      sum[0].clear();
      for (uint32_t b = 0; b < 2; ++b)
        if (a.bias[b] != nullptr) sum[0].add(pairOf(bias(b, token), a.row.data, offset));
      auto load = [&](const uint8_t* (&row)[1], uint32_t (&from)[1], uint32_t which, uint4 (&v)[1][1]) {
        if (!units<false>(row, from, which, token, base, end, v)) return false;
        const uint32_t w[4] = {v[0][0].x, v[0][0].y, v[0][0].z, v[0][0].w};
        for (uint32_t i = 0; i < 4; ++i) listed[i] = Eight::sum(listed[i], bitsFloat(w[i]));
        return true;
      };
      if (!t.add<false, 1>(sum, load)) return false;
      const uint4 result = sum[0].narrow();
      store(token, offset, make_uint2(result.x, result.y), listed);
      if (!ll128HasFlag(unit)) store(token, offset + 8, make_uint2(result.z, result.w), listed + 2);
    }
    return true;
  }
  GOCCL_DEVICE void store(uint32_t token, uint32_t offset, uint2 v, const float* listed) const {
    if (offset < a.row.data) return storeVec2(a.out + static_cast<uint64_t>(token) * a.row.data + offset, v);
    const uint32_t k = (offset - a.row.data) / 4;
    if (a.outWeights == nullptr) return;
    if (k < a.topK) a.outWeights[static_cast<uint64_t>(token) * a.topK + k] = listed[0];
    if (k + 1 < a.topK) a.outWeights[static_cast<uint64_t>(token) * a.topK + k + 1] = listed[1];
  }

  // span adds units of a token's lines.
  GOCCL_DEVICE bool span(uint32_t token, uint32_t first, uint32_t end) const {
    const Terms t = termsOf(token);
    const uint32_t plain = plainUnits(a.row), last = end < plain ? end : plain;
    return elements<4, 2>(t, token, first, last) && rest(t, token, first > plain ? first : plain, end);
  }

  GOCCL_DEVICE bool work(Part part) const {
    if (own.lines())
      return Spans(part, a.row, a.tokens).each(a.tokens, [&](uint32_t token, uint32_t first, uint32_t end) {
        return span(token, first, end);
      });
    for (uint32_t token = part.at; token < a.tokens; token += part.of) {
      const Terms t = termsOf(token);
      if (!arrived(token)) return false;
      t.lanes <= 3 ? rows<2, 4>(t, token) : rows<4, 2>(t, token);
      if (a.outWeights != nullptr) weights(t, token);
    }
    return true;
  }

  GOCCL_DEVICE bool run() const {
    const uint32_t block = blockIdx.x - a.senders, blocks = gridDim.x - a.senders;
#if GOCCL_BULK
    if constexpr (Mover::gathers)
      if (!own.lines()) return Gather(a, own, n, block, blocks).run();
#endif
    return byWarps<Plain>(a.row, a.abort, block, blocks, [&](Plain&, Part part) { return work(part); });
  }
};

// meet is what the blocks of a combine in the layout ZeroCopy do before they add.
template <class Mover>
GOCCL_DEVICE bool meet(const CombineArgs& a, uint32_t n) {
  if (blockIdx.x == 0) tellPeers(a, 1, n);
  if (!begin(a, n)) return false;
  const bool ok = byWarps<Plain>(a.row, a.abort, blockIdx.x, gridDim.x,
                                 [&](Plain&, Part part) { return returnLines<false>(a, part, n); });
  if (!ok || !awaitPeers(a, 1, n)) return false;
  Mover::acquired();
  return true;
}

template <bool ByExpert, class Mover>
GOCCL_DEVICE void combine(const CombineArgs& a) {
  const uint32_t n = number(a);
  if (!current(a)) return;
  const bool pulls = !ByExpert && a.zeroCopy != 0;
  if constexpr (!ByExpert)
    if (pulls && !meet<Mover>(a, n)) return;
  if (!(blockIdx.x < a.senders ? send<ByExpert, Mover>(a, n) : Adder<ByExpert, Mover>(a, n).run())) return;
  if (!last(a)) return;
  tellPeers(a, 0, n);
  if (!pulls || awaitPeers(a, 0, n)) finished(a, n);
}

}  // namespace moe
}  // namespace goccl
