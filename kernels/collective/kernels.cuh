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

#include <collective/protocol.cuh>
#include <collective/reducer.cuh>

namespace goccl {
namespace collective {

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

// passes runs body(unit, epoch) for every unit of this thread; a pass ends with a block barrier, so that an aborted
// wait ends the whole block.
template <class P, class Body>
GOCCL_DEVICE void passes(const Args& a, uint64_t bytes, Body body) {
  const uint64_t units = P::units(bytes);
  uint32_t epoch = a.epochs[blockIdx.x * epochStride];
  for (uint64_t base = static_cast<uint64_t>(blockIdx.x) * blockDim.x; base < units;
       base += static_cast<uint64_t>(gridDim.x) * blockDim.x) {
    epoch = nextEpoch(epoch);
    Status s = base + threadIdx.x < units ? body(base + threadIdx.x, epoch) : statusOk;
    if (__syncthreads_or(s != statusOk)) break;
  }
  if (threadIdx.x == 0) a.epochs[blockIdx.x * epochStride] = epoch;
}

template <class P, class R, int N, bool Same>
GOCCL_DEVICE void reduceSlices(const Args& a) {
  const R reducer(a);
  passes<P>(a, a.bytes, [&](uint64_t unit, uint32_t epoch) {
    const uint64_t area = areaOffset(a, epoch, 0);
    typename P::Data own = P::load(a.send + (Same ? 0 : a.rank * a.sendStride), unit, a.bytes);
    reducer.scale(own);
    forEachPeer<N>(a, [&](uint32_t p) {
      typename P::Data d = own;
      if (!Same) {
        d = P::load(a.send + p * a.sendStride, unit, a.bytes);
        reducer.scale(d);
      }
      P::send(targetSlot(a, area, p), threadIdx.x, d, epoch);
    });
    typename P::Data out;
    Status s = combine<P, R, N>(a, reducer, area, threadIdx.x, epoch, own, out);
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
  passes<P>(a, slice, [&](uint64_t unit, uint32_t epoch) {
    const uint64_t inputs = areaOffset(a, epoch, 0), results = areaOffset(a, epoch, 1);
    forEachPeer<N>(a, [&](uint32_t p) {
      typename P::Data d = P::load(a.send + p * slice, unit, length(p));
      reducer.scale(d);
      P::send(targetSlot(a, inputs, p), threadIdx.x, d, epoch);
    });
    typename P::Data own = P::load(a.send + a.rank * slice, unit, length(a.rank)), out;
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
  passes<P>(a, a.bytes, [&](uint64_t unit, uint32_t epoch) {
    const uint64_t area = areaOffset(a, epoch, 0);
    const uint8_t* mine = a.send + a.rank * a.sendStride;
    typename P::Data own = P::load(mine, unit, a.bytes);
    forEachPeer<N>(a, [&](uint32_t p) {
      P::send(targetSlot(a, area, p), threadIdx.x,
              a.sendStride == 0 ? own : P::load(a.send + p * a.sendStride, unit, a.bytes), epoch);
    });
    uint8_t* home = a.recv + a.rank * a.recvStride;
    if (home != mine) P::store(home, unit, a.bytes, own);
    return receiveAll<P, N>(a, area, peers(a), threadIdx.x, epoch, [&](uint32_t r, const typename P::Data& d) {
      if (r != a.rank) P::store(a.recv + r * a.recvStride, unit, a.bytes, d);
    });
  });
}

}  // namespace collective
}  // namespace goccl
