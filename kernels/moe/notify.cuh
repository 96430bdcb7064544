// Notify: every rank tells every other which of its tokens go there.
//
// Block b tells the rank b places ahead and hears from the rank b places behind, the rank itself for b = 0. So a block
// waits only for the block of the same number of a peer.
//
// A masked rank is neither told nor heard: it has no tokens.
//
//   1. block 0: the ranks of each token, in the order of its list
//   2. counts: how many tokens of this rank go to each rank
//   3. send the note: packets of 8 bytes, a value and the launch's number
//   4. hear: a place for each row of the source
//   5. the last block adds up what the blocks have heard
//
// A note has two buffers, used by parity of the launch. A launch ends only after it has every peer's note, so when a
// rank writes a buffer again, every peer has read its previous contents.
#pragma once

#include <moe/memory.cuh>

namespace goccl {
namespace moe {

struct NotifyArgs : Head {
  Region notes;
  uint64_t parityStride;
  const int64_t* index;    // [tokens][topK]
  const uint8_t* inRank;   // without lists: [tokens][nranks]
  const int32_t* expertCounts;  // without lists: [experts], or null
  uint32_t signature, unused;
};
static_assert(sizeof(NotifyArgs) == 336, "NotifyArgs is filled by the host");

GOCCL_DEVICE LL8Packet* noteAt(const NotifyArgs& a, uint32_t at, uint32_t source, uint32_t n) {
  return reinterpret_cast<LL8Packet*>(a.arena[at] + a.notes.base + (n & 1) * a.parityStride + source * a.notes.stride);
}
GOCCL_DEVICE uint32_t words(const Head& a) { return (a.entries + 1) / 2; }

// expertAt is the expert of entry k of a token at rank p, or none. Without lists it is 0 if the token goes there.
GOCCL_DEVICE uint32_t expertAt(const NotifyArgs& a, uint32_t token, uint32_t k, uint32_t p) {
  if (k >= a.entries) return none;
  if (a.topK == 0) return a.inRank[static_cast<uint64_t>(token) * a.nranks + p] != 0 ? 0 : none;
  const int64_t x = expertOf(a, a.index[static_cast<uint64_t>(token) * a.topK + k]) - static_cast<int64_t>(p) * a.local;
  return x >= 0 && x < static_cast<int64_t>(a.local) ? static_cast<uint32_t>(x) : none;
}

// routeOf is step 1 for a token.
GOCCL_DEVICE Route routeOf(const NotifyArgs& a, uint32_t token) {
  Route r{0, 0, 0};
  uint32_t at = 0;
  auto add = [&](uint32_t p) {
    if ((r.mask >> p & 1) != 0) return;
    r.order |= static_cast<uint64_t>(p) << (4 * at++);
    r.mask |= 1u << p;
  };
  if (a.topK == 0) {
    for (uint32_t p = 0; p < a.nranks; ++p)
      if (a.inRank[static_cast<uint64_t>(token) * a.nranks + p] != 0 && !masked(maskOf(a), p)) add(p);
    return r;
  }
  for (uint32_t k = 0; k < a.topK; ++k) {
    const int64_t x = expertOf(a, a.index[static_cast<uint64_t>(token) * a.topK + k]);
    if (x >= 0) add(static_cast<uint32_t>(x) / a.local);
  }
  return r;
}

// Scratch is a block's shared memory: a word for each warp and rank.
constexpr uint32_t maxWarps = 32;
GOCCL_DEVICE uint32_t* scratch() {
  __shared__ uint32_t words[1024];
  return words;
}
static_assert(maxWarps * maxRanks <= 1024, "counts fit");

// placeInBlock counts the threads before this one for which `here` is true, and adds the number in the block to all.
// All threads of the block call it.
GOCCL_DEVICE int32_t placeInBlock(bool here, uint32_t* shared, int32_t& all) {
  const uint32_t lane = threadIdx.x & 31, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const uint32_t ballot = __ballot_sync(0xffffffffu, here);
  if (lane == 0) shared[warp] = bits(ballot);
  __syncthreads();
  uint32_t place = bits(ballot & ((1u << lane) - 1)), sum = 0;
  for (uint32_t w = 0; w < warps; ++w) {
    if (w < warp) place += shared[w];
    sum += shared[w];
  }
  all += static_cast<int32_t>(sum);
  __syncthreads();
  return static_cast<int32_t>(place);
}

// tell is steps 1 to 3.
GOCCL_DEVICE void tell(const NotifyArgs& a, uint32_t p, uint32_t n, uint32_t* shared) {
  LL8Packet* out = noteAt(a, p, a.rank, n);
  const uint32_t lane = threadIdx.x & 31, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  uint32_t count = 0;   // of rank `lane`, in this warp's tokens
  int32_t before = 0;  // layout ZeroCopy: of rank p, in the tokens of earlier turns
  for (uint32_t base = 0; base < a.tokens; base += blockDim.x) {
    const uint32_t token = base + threadIdx.x;
    Route r{0, 0, 0};
    if (token < a.tokens) {
      r = routeOf(a, token);
      if (blockIdx.x == 0) a.routes[token] = r;
      for (uint32_t w = 0; w < words(a); ++w)
        out[noteLists + token * words(a) + w].write(
            expertAt(a, token, 2 * w, p) | expertAt(a, token, 2 * w + 1, p) << 16, n);
    }
    for (uint32_t q = 0; q < a.nranks; ++q) {
      const uint32_t there = bits(__ballot_sync(0xffffffffu, static_cast<int>(r.mask >> q & 1)));
      if (lane == q) count += there;
    }
    if (a.zeroCopy != 0) {
      const bool there = (r.mask >> p & 1) != 0;
      const int32_t first = before, place = first + placeInBlock(there, shared, before);
      if (there) a.sent[static_cast<uint64_t>(p) * a.places + token] = place;
    }
  }
  if (lane < a.nranks) shared[warp * maxRanks + lane] = count;
  __syncthreads();
  if (threadIdx.x < a.nranks) {
    uint32_t sum = 0;
    for (uint32_t w = 0; w < warps; ++w) sum += shared[w * maxRanks + threadIdx.x];
    out[noteCounts + threadIdx.x].write(sum, n);
  }
  if (threadIdx.x == 0) {
    out[noteSignature].write(a.signature, n);
    out[noteTokens].write(a.tokens, n);
  }
  if (a.topK == 0)
    for (uint32_t x = threadIdx.x; x < a.local; x += blockDim.x)
      out[noteTotals + x].write(
          a.expertCounts == nullptr ? 0 : static_cast<uint32_t>(a.expertCounts[p * a.local + x]), n);
}

// hearWord waits for a word of a note.
GOCCL_DEVICE Status hearWord(const NotifyArgs& a, const LL8Packet* in, uint32_t source, uint32_t n, uint32_t& v) {
  return waitUntil([&] { return in->tryRead(n, v); }, a.abort, in, waitPacket, -1, source);
}

// rowsOf is step 4 in the layout Rows: tokens of a source that come here have consecutive places.
GOCCL_DEVICE Status rowsOf(const NotifyArgs& a, const LL8Packet* in, uint32_t s, uint32_t tokens, uint32_t n,
                           uint32_t* shared) {
  int32_t before = 0;
  Status failed = statusOk;
  for (uint32_t base = 0; base < tokens; base += blockDim.x) {
    const uint32_t token = base + threadIdx.x;
    bool here = false;
    if (token < tokens && failed == statusOk) {
      uint32_t list[maxTopK];
      for (uint32_t w = 0; w < words(a) && failed == statusOk; ++w) {
        uint32_t v = 0;
        failed = hearWord(a, in + noteLists + token * words(a) + w, s, n, v);
        list[2 * w] = v & 0xffff, list[2 * w + 1] = v >> 16;
      }
      for (uint32_t k = 0; k < a.entries && failed == statusOk; ++k) {
        if (list[k] == none) continue;
        here = true;
        bool first = true;
        for (uint32_t j = 0; j < k; ++j) first = first && list[j] != list[k];
        if (first && a.topK != 0)
          addRelaxed<Scope::gpu>(reinterpret_cast<uint64_t*>(a.ranges) + list[k] * a.nranks + s, uint64_t{1});
      }
    }
    if (__syncthreads_or(failed != statusOk)) return statusAborted;
    const int32_t first = before, place = first + placeInBlock(here, shared, before);
    if (token < tokens) *placesOf(a, s, token) = here ? place : -1;
  }
  return statusOk;
}

// rowsByExpert is step 4 in the layout Experts. Each warp takes some of the experts, and 32 tokens at a time.
GOCCL_DEVICE Status rowsByExpert(const NotifyArgs& a, const LL8Packet* in, uint32_t s, uint32_t tokens, uint32_t n,
                                 uint32_t* counts) {
  Status failed = statusOk;
  for (uint32_t x = threadIdx.x; x < a.local; x += blockDim.x) counts[x] = 0;
  for (uint32_t i = threadIdx.x; i < tokens * words(a) && failed == statusOk; i += blockDim.x) {
    uint32_t v = 0;
    failed = hearWord(a, in + noteLists + i, s, n, v);
    int32_t* places = placesOf(a, s, i / words(a)) + i % words(a) * 2;
    if ((v & 0xffff) == none) places[0] = -1;
    if (v >> 16 == none && i % words(a) * 2 + 1 < a.topK) places[1] = -1;
  }
  if (__syncthreads_or(failed != statusOk)) return statusAborted;
  const uint32_t lane = threadIdx.x & 31, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  for (uint32_t base = 0; base < tokens; base += 32) {
    const uint32_t token = base + lane;
    uint32_t list[maxTopK];
#pragma unroll
    for (uint32_t w = 0; w < maxTopK / 2; ++w) {
      uint32_t v = 0xffffffff;
      if (token < tokens && w < words(a)) in[noteLists + token * words(a) + w].tryRead(n, v);
      list[2 * w] = v & 0xffff, list[2 * w + 1] = v >> 16;
    }
    for (uint32_t x = warp; x < a.local; x += warps) {
      bool hit = false;
#pragma unroll
      for (uint32_t k = 0; k < maxTopK; ++k) hit = hit || list[k] == x;
      const uint32_t ballot = __ballot_sync(0xffffffffu, hit), before = counts[x];
      const uint32_t place = x << placeBits | (before + bits(ballot & ((1u << lane) - 1)));
#pragma unroll
      for (uint32_t k = 0; k < maxTopK; ++k)
        if (list[k] == x) placesOf(a, s, token)[k] = static_cast<int32_t>(place);
      __syncwarp();
      if (lane == 0) counts[x] = before + bits(ballot);
      __syncwarp();
    }
  }
  __syncthreads();
  for (uint32_t x = threadIdx.x; x < a.local; x += blockDim.x) a.ranges[x * a.nranks + s] = counts[x];
  return statusOk;
}

// silence is what a handle says of a masked source.
GOCCL_DEVICE void silence(const NotifyArgs& a, uint32_t s) {
  for (uint32_t x = threadIdx.x; x < a.local; x += blockDim.x) a.ranges[x * a.nranks + s] = 0;
  if (threadIdx.x < a.nranks) a.prefix[s * a.nranks + threadIdx.x] = 0;
  if (threadIdx.x == 0) a.sourceTokens[s] = a.counts[s] = 0;
}

// hear is step 4.
GOCCL_DEVICE Status hear(const NotifyArgs& a, uint32_t s, uint32_t n, uint32_t* shared) {
  const LL8Packet* in = noteAt(a, a.rank, s, n);
  for (uint32_t x = threadIdx.x; x < a.local; x += blockDim.x) a.ranges[x * a.nranks + s] = 0;
  Status failed = statusOk;
  uint32_t signature = 0, tokens = 0;
  if (threadIdx.x == 0) {
    failed = hearWord(a, in + noteSignature, s, n, signature);
    if (failed == statusOk) failed = hearWord(a, in + noteTokens, s, n, tokens);
    if (failed == statusOk && (signature != a.signature || tokens > a.places)) {
      failed = statusMismatch;
      report(a.abort, failed, in, waitPacket, s);
    }
    shared[0] = tokens;
  }
  if (threadIdx.x < a.nranks) {
    uint32_t count = 0;
    const Status heard = hearWord(a, in + noteCounts + threadIdx.x, s, n, count);
    if (heard != statusOk) failed = heard;
    a.prefix[s * a.nranks + threadIdx.x] = static_cast<int32_t>(count);
    if (threadIdx.x == a.rank) a.counts[s] = static_cast<int32_t>(count);
  }
  if (__syncthreads_or(failed != statusOk)) return statusAborted;
  tokens = shared[0];
  if (threadIdx.x == 0) a.sourceTokens[s] = static_cast<int32_t>(tokens);
  __syncthreads();
  if (a.topK == 0)
    for (uint32_t x = threadIdx.x; x < a.local && failed == statusOk; x += blockDim.x) {
      uint32_t count = 0;
      failed = hearWord(a, in + noteTotals + x, s, n, count);
      a.ranges[x * a.nranks + s] = count;
    }
  if (__syncthreads_or(failed != statusOk)) return statusAborted;
  return a.byExpert ? rowsByExpert(a, in, s, tokens, n, shared) : rowsOf(a, in, s, tokens, n, shared);
}

// addUp is step 5.
GOCCL_DEVICE void addUp(const NotifyArgs& a) {
  if (threadIdx.x < a.nranks) {
    int32_t sum = 0;
    for (uint32_t s = 0; s < a.nranks; ++s) {
      sum += a.prefix[s * a.nranks + threadIdx.x];
      a.prefix[s * a.nranks + threadIdx.x] = sum;
    }
    if (threadIdx.x == a.rank) *a.total = sum;
    if (threadIdx.x == 0) maskOfHandle(a) = maskOf(a);
  }
  for (uint32_t x = threadIdx.x; x < a.local; x += blockDim.x) {
    int64_t begin = 0;
    for (uint32_t s = 0; s < a.nranks; ++s) {
      const int64_t count = a.ranges[x * a.nranks + s];
      a.ranges[x * a.nranks + s] = begin << 32 | count;
      begin += count;
    }
    a.totals[x] = static_cast<int32_t>(begin);
  }
}

GOCCL_DEVICE void notify(const NotifyArgs& a) {
  const uint32_t n = number(a);
  uint32_t* shared = scratch();
  const uint32_t to = peerAfter(a, blockIdx.x), from = peerBefore(a, blockIdx.x), mask = maskOf(a);
  if (!masked(mask, to)) tell(a, to, n, shared);
  __syncthreads();
  if (masked(mask, from))
    silence(a, from);
  else if (hear(a, from, n, shared) != statusOk)
    return;
  if (!last(a)) return;
  addUp(a);
  __syncthreads();
  finished(a, n);
}

}  // namespace moe
}  // namespace goccl
