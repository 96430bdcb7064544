// Broadcast and reduce with the whole bandwidth of the root's port: the n−1 other ranks own a slice each.
//
//   broadcast   1. the root sends each owner its slice             N out of the root
//               2. each owner passes its slice on to the others    N·(n−2)/(n−1) out of an owner
//   reduce      1. every rank sends each owner its part of the owner's slice; the owner folds them in rank order
//               2. each owner sends the result to the root         N into the root
//
// Both run pass by pass, so the two steps overlap. The argument for the epochs (args.cuh) needs every rank to receive
// from every other in every pass. In a reduce all do. In a broadcast, owners also send the root a token when they begin
// a pass, and the root ends the pass when it has all tokens.
#pragma once

#include <collective/kernels.cuh>

namespace goccl {
namespace collective {

// owned is the number of the slice that rank r owns; r is not the root.
GOCCL_DEVICE uint32_t owned(const Args& a, uint32_t r) { return r < a.root ? r : r - 1; }

GOCCL_DEVICE uint64_t sliceLength(const Args& a, uint32_t slice) {
  const uint64_t from = slice * a.sendStride;
  return from >= a.bytes ? 0 : (a.bytes - from < a.sendStride ? a.bytes - from : a.sendStride);
}

template <class P>
GOCCL_DEVICE typename P::Data loadSlice(const Args& a, uint32_t slice, uint64_t unit) {
  return P::load(a.send + slice * a.sendStride, unit, sliceLength(a, slice));
}
template <class P>
GOCCL_DEVICE void storeSlice(const Args& a, uint32_t slice, uint64_t unit, const typename P::Data& d) {
  P::store(a.recv + slice * a.sendStride, unit, sliceLength(a, slice), d);
}

// receiveSlices stores what the ranks in from send of the slices that they own.
template <class P, int N>
GOCCL_DEVICE Status receiveSlices(const Args& a, uint64_t area, uint32_t from, uint64_t unit, uint32_t epoch) {
  return receiveAll<P, N>(a, area, from, threadIdx.x, epoch, [&](uint32_t r, const typename P::Data& d) {
    if (from >> r & 1) storeSlice<P>(a, owned(a, r), unit, d);
  });
}

template <class P, int N>
GOCCL_DEVICE void broadcast(const Args& a) {
  passes<P>(a, a.sendStride, [&](uint64_t unit, uint32_t epoch) {
    const uint64_t slices = areaOffset(a, epoch, 0), shared = areaOffset(a, epoch, 1);
    const bool token = threadIdx.x < P::group;
    if (a.rank == a.root) {
      forEachPeer<N>(a, [&](uint32_t p) {
        typename P::Data d = loadSlice<P>(a, owned(a, p), unit);
        P::send(targetSlot(a, slices, p), threadIdx.x, d, epoch);
        if (a.send != a.recv) storeSlice<P>(a, owned(a, p), unit, d);
      });
      if (!token) return statusOk;
      return receiveAll<P, N>(a, shared, peers(a), threadIdx.x, epoch, [](uint32_t, const typename P::Data&) {});
    }
    if (token) P::send(targetSlot(a, shared, a.root), threadIdx.x, typename P::Data{}, epoch);
    typename P::Data d;
    Status s = receiveFrom<P>(a, slices, a.root, threadIdx.x, epoch, d);
    if (s != statusOk) return s;
    forEachPeer<N>(a, [&](uint32_t p) {
      if (p != a.root) P::send(targetSlot(a, shared, p), threadIdx.x, d, epoch);
    });
    storeSlice<P>(a, owned(a, a.rank), unit, d);
    return receiveSlices<P, N>(a, shared, peers(a) & ~(1u << a.root), unit, epoch);
  });
}

template <class P, class R, int N>
GOCCL_DEVICE void reduceToRoot(const Args& a) {
  const R reducer(a);
  passes<P>(a, a.sendStride, [&](uint64_t unit, uint32_t epoch) {
    const uint64_t inputs = areaOffset(a, epoch, 0), results = areaOffset(a, epoch, 1);
    forEachPeer<N>(a, [&](uint32_t p) {
      if (p == a.root) return;
      typename P::Data d = loadSlice<P>(a, owned(a, p), unit);
      reducer.scale(d);
      P::send(targetSlot(a, inputs, p), threadIdx.x, d, epoch);
    });
    if (a.rank == a.root) return receiveSlices<P, N>(a, results, peers(a), unit, epoch);
    typename P::Data own = loadSlice<P>(a, owned(a, a.rank), unit), out;
    reducer.scale(own);
    Status s = combine<P, R, N>(a, reducer, inputs, threadIdx.x, epoch, own, out);
    if (s == statusOk) P::send(targetSlot(a, results, a.root), threadIdx.x, out, epoch);
    return s;
  });
}

}  // namespace collective
}  // namespace goccl
