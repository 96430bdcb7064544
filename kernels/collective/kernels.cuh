// The collectives of one NVLink domain by packets, for any number of bytes.
//
//   reduceSlices   one-shot all-reduce: every rank sends its buffer to all others, (n−1)·N bytes out;
//                  reduce-scatter: each slice to its owner, (n−1)/n·N bytes out, N being all n slices
//   twoShot        all-reduce and reduce: slices to their owners, results back: 2·(n−1)/n·N bytes out
//   exchange       all-gather and all-to-all: (n−1) slices out
//
// Each thread moves one unit per peer and pass; a launch of few bytes is one pass. There is no fence and no trailing
// barrier: a packet's flag is all the synchronisation there is. Each unit is read from send before the same unit of
// recv is written, by the same thread, so in place works. Reductions combine in rank order on every rank: the same bits
// everywhere and every time.
#pragma once

#include <collective/early.cuh>
#include <collective/protocol.cuh>
#include <collective/reducer.cuh>

namespace goccl {
namespace collective {

// early fetches what the first packets need while the launch before this one drains: this block's epoch, and its area
// in every window. In a model the weights of each layer have pushed them out. The epoch may still change, and the cache
// of the GPU changes with it.
GOCCL_DEVICE void early(const Args& a) {
  const uint32_t t = threadIdx.x;
  if (t < a.nranks) prefetch(a.window[t] + areaOffset(a, 0, 0));
  if (t == a.nranks) prefetch(a.epochs + blockIdx.x * epochStride);
}

// forEachPeer runs body(peer) for the n-1 peers, the next rank first.
template <int N, class Body>
GOCCL_DEVICE void forEachPeer(const Args& a, Body body) {
  if constexpr (N > 0) {
#pragma unroll
    for (uint32_t k = 1; k < N; ++k) body(peerAt(a, k));
  } else {
#pragma unroll 1
    for (uint32_t k = 1; k < a.nranks; ++k) body(peerAt(a, k));
  }
}

// toPeers sends each peer the unit load(peer) by send(peer, unit, epoch), and returns the epoch, which follows `last`.
// All loads are under way before one of them, or `last`, is waited for: with what the caller loaded just before, one
// latency instead of one for each rank. For N = 0 they follow each other, and the code is small.
template <class P, int N, class Load, class Send>
GOCCL_DEVICE uint32_t toPeers(const Args& a, uint32_t last, Load load, Send send) {
  if constexpr (N > 0) {
    typename P::Data d[N];
#pragma unroll
    for (uint32_t k = 1; k < N; ++k) d[k] = load(peerAt(a, k));
    const uint32_t epoch = nextEpoch(behind(last, d[N - 1].last(), a.slotBytes));
#pragma unroll
    for (uint32_t k = 1; k < N; ++k) send(peerAt(a, k), d[k], epoch);
    return epoch;
  } else {
    const uint32_t epoch = nextEpoch(last);
#pragma unroll 1
    for (uint32_t k = 1; k < a.nranks; ++k) send(peerAt(a, k), load(peerAt(a, k)), epoch);
    return epoch;
  }
}

// combine receives one unit from everybody in the given area and folds it, own data in its place, in rank order.
template <class P, class R, int N>
GOCCL_DEVICE Status combine(const Args& a, const R& reducer, uint64_t area, uint32_t unit, uint32_t epoch,
                            const typename P::Data& own, typename P::Data& out) {
  typename R::Sum sum;
  const Status s = receiveAll<P, N>(a, area, peers(a), unit, epoch, [&](uint32_t r, const typename P::Data& d) {
    const uint4 v = r == a.rank ? own.vector() : d.vector();
    if (r == 0)
      reducer.begin(sum, v);
    else
      reducer.add(sum, v);
  });
  if (s == statusOk) out.set(reducer.end(sum));
  return s;
}

// passes runs body(unit, last) for every unit of this thread, where last is the epoch of the pass before; body loads
// its data before it uses last, which may not have been loaded yet. A pass ends with a block barrier, so that an
// aborted wait ends the whole block.
template <class P, class Body>
GOCCL_DEVICE void passes(const Args& a, uint64_t bytes, Body body) {
  const uint64_t units = P::units(bytes);
  uint32_t last = a.epochs[blockIdx.x * epochStride];
  for (uint64_t base = static_cast<uint64_t>(blockIdx.x) * blockDim.x; base < units;
       base += static_cast<uint64_t>(gridDim.x) * blockDim.x) {
    Status s = base + threadIdx.x < units ? body(base + threadIdx.x, last) : statusOk;
    last = nextEpoch(last);
    if (__syncthreads_or(s != statusOk)) break;
  }
  if (threadIdx.x == 0) a.epochs[blockIdx.x * epochStride] = last;
}

template <class P, class R, int N, bool Same>
GOCCL_DEVICE void reduceSlices(const Args& a) {
  const R reducer(a);
  passes<P>(a, a.bytes, [&](uint64_t unit, uint32_t last) {
    typename P::Data own = P::load(a.send + (Same ? 0 : a.rank * a.sendStride), unit, a.bytes), out;
    uint32_t epoch;
    if constexpr (Same) {
      epoch = nextEpoch(behind(last, own.last(), a.slotBytes));
      reducer.scale(own);
      forEachPeer<N>(a, [&](uint32_t p) {
        P::send(targetSlot(a, areaOffset(a, epoch, 0), p), threadIdx.x, own, epoch);
      });
    } else {
      epoch = toPeers<P, N>(
          a, last, [&](uint32_t p) { return P::load(a.send + p * a.sendStride, unit, a.bytes); },
          [&](uint32_t p, typename P::Data d, uint32_t e) {
            reducer.scale(d);
            P::send(targetSlot(a, areaOffset(a, e, 0), p), threadIdx.x, d, e);
          });
      reducer.scale(own);
    }
    Status s = combine<P, R, N>(a, reducer, areaOffset(a, epoch, 0), threadIdx.x, epoch, own, out);
    if (s == statusOk && wants(a, a.rank)) P::store(a.recv, unit, a.bytes, out);
    return s;
  });
}

// twoShot: a.sendStride is the size of a slice, a multiple of 16; the last slices may be short or empty.
template <class P, class R, int N>
GOCCL_DEVICE void twoShot(const Args& a) {
  const R reducer(a);
  const uint64_t slice = a.sendStride;
  auto length = [&](uint32_t r) -> uint64_t {
    uint64_t from = r * slice;
    return from >= a.bytes ? 0 : (a.bytes - from < slice ? a.bytes - from : slice);
  };
  passes<P>(a, slice, [&](uint64_t unit, uint32_t last) {
    typename P::Data own = P::load(a.send + a.rank * slice, unit, length(a.rank)), out;
    const uint32_t epoch = toPeers<P, N>(
        a, last, [&](uint32_t p) { return P::load(a.send + p * slice, unit, length(p)); },
        [&](uint32_t p, typename P::Data d, uint32_t e) {
          reducer.scale(d);
          P::send(targetSlot(a, areaOffset(a, e, 0), p), threadIdx.x, d, e);
        });
    const uint64_t inputs = areaOffset(a, epoch, 0), results = areaOffset(a, epoch, 1);
    reducer.scale(own);
    Status s = combine<P, R, N>(a, reducer, inputs, threadIdx.x, epoch, own, out);
    if (s != statusOk) return s;
    forEachPeer<N>(a, [&](uint32_t p) {
      if (wants(a, p)) P::send(targetSlot(a, results, p), threadIdx.x, out, epoch);
    });
    if (!wants(a, a.rank)) return statusOk;
    P::store(a.recv + a.rank * slice, unit, length(a.rank), out);
    return receiveAll<P, N>(a, results, peers(a), threadIdx.x, epoch, [&](uint32_t r, const typename P::Data& d) {
      if (r != a.rank) P::store(a.recv + r * slice, unit, length(r), d);
    });
  });
}

template <class P, int N>
GOCCL_DEVICE void exchange(const Args& a) {
  passes<P>(a, a.bytes, [&](uint64_t unit, uint32_t last) {
    const uint8_t* mine = a.send + a.rank * a.sendStride;
    typename P::Data own = P::load(mine, unit, a.bytes);
    auto send = [&](uint32_t p, const typename P::Data& d, uint32_t e) {
      P::send(targetSlot(a, areaOffset(a, e, 0), p), threadIdx.x, d, e);
    };
    uint32_t epoch;
    if (a.sendStride != 0) {
      epoch = toPeers<P, N>(
          a, last, [&](uint32_t p) { return P::load(a.send + p * a.sendStride, unit, a.bytes); }, send);
    } else {
      epoch = nextEpoch(behind(last, own.last(), a.slotBytes));
      forEachPeer<N>(a, [&](uint32_t p) { send(p, own, epoch); });
    }
    uint8_t* home = a.recv + a.rank * a.recvStride;
    if (home != mine) P::store(home, unit, a.bytes, own);
    const uint64_t area = areaOffset(a, epoch, 0);
    return receiveAll<P, N>(a, area, peers(a), threadIdx.x, epoch, [&](uint32_t r, const typename P::Data& d) {
      if (r != a.rank) P::store(a.recv + r * a.recvStride, unit, a.bytes, d);
    });
  });
}

}  // namespace collective
}  // namespace goccl
