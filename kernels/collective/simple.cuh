// Large messages by plain stores and a flag for each piece: the whole line carries data, where packets give up a sixteenth or a half of it.
//
// Every slice has an owner. Block b takes pieces b, b + gridDim, … of all slices, one in an iteration, and has three of them under way:
//
//   iteration t   1. scatter   piece t of every slice to its owner
//                    wait for the peers' flags of iteration t − 1
//                 2. combine   piece t − 1 of the own slice out of what all have scattered, and share the result
//                 3. collect   piece t − 2 of the other slices out of what their owners have shared
//                 4. flag      tell every peer that the iteration is over
//
//                      scatter   combine             collect    bytes out of a rank
//   all-reduce         all       fold, share         all        2·(n−1)/n·N
//   reduce-scatter     all       fold, keep                     (n−1)/n·N
//   all-gather                   own data, share     all        (n−1)·N
//   all-to-all         all       keep one of each               (n−1)·N of N = a slice
//   broadcast          root      pass on             not root   N out of the root, N·(n−2)/(n−1) out of an owner; the root owns nothing
//   reduce             all       fold, to the root   root       N into the root, which owns nothing
//
// # Memory order
//
// A flag is stored with release at system scope by one thread after a block barrier: it publishes the stores of the whole block. It is loaded with
// acquire by one thread, and a block barrier passes that on to the others.
//
// # Why three slots are enough
//
// Flag t says that its sender has written in iterations up to t, and also that it has read what the others wrote up to t − 1. Piece t + 3 is scattered
// into the slot of piece t after flags t + 1 were waited for, and whoever sent flag t + 1 had combined piece t. Results are shared after the wait, so
// for them two slots would do.
//
// # Entry
//
// The slots lie in the rings of stream.cuh, and a peer may still be in an earlier launch. So a launch begins with a flag and a wait of its own: nobody
// writes before all have begun. Streams write only where their receiver has let them, in a launch of its own that comes after this one. Flags count on
// for ever in device memory and compare as signed differences; all ranks run the same iterations.
//
// Slots are whole vectors. Access says what may be assumed of the user's memory; it does not change what crosses the wire, so ranks need not agree.
#pragma once

#include <collective/rooted.cuh>

namespace goccl {
namespace collective {

constexpr uint32_t simpleDepth = 3;
constexpr uint32_t simpleArea = 64 << 10;  // the slots of one piece from all ranks; a slot is a.slotBytes
constexpr uint32_t simpleBlocks = 32;
constexpr uint32_t simpleFlagLine = 128;  // bytes between two flags

enum class Job { allReduce, reduceScatter, allGather, allToAll, broadcast, reduce };

// Arguments as in args.cuh (Access::words: all are multiples of 16), with windows at the stream region, epochs for the flags, and strides: from one slice to the next in send and recv.
template <Job J, class R, int N, Access A>
struct Simple {
  const Args& a;
  const R reducer;
  uint32_t n, first;  // first: the flags of this launch begin after it
  uint32_t count;     // pieces of each slice that are this block's

  static constexpr bool scatters = J != Job::allGather;
  static constexpr bool shares = J != Job::reduceScatter && J != Job::allToAll;
  static constexpr bool folds = J == Job::allReduce || J == Job::reduceScatter || J == Job::reduce;
  static constexpr bool rooted = J == Job::broadcast || J == Job::reduce;
  static constexpr bool divided = rooted || J == Job::allReduce;  // the slices are parts of one buffer of a.bytes

  GOCCL_DEVICE explicit Simple(const Args& args) : a(args), reducer(args), n(N > 0 ? N : args.nranks), first(a.epochs[blockIdx.x * epochStride]) {
    const uint64_t pieces = ((divided ? a.sendStride : a.bytes) + a.slotBytes - 1) / a.slotBytes;
    count = blockIdx.x < pieces ? static_cast<uint32_t>((pieces - blockIdx.x + gridDim.x - 1) / gridDim.x) : 0;
  }

  GOCCL_DEVICE bool owns(uint32_t r) const { return !rooted || r != a.root; }
  GOCCL_DEVICE uint32_t sliceOf(uint32_t r) const { return rooted ? owned(a, r) : r; }
  GOCCL_DEVICE const uint8_t* input(uint32_t r) const { return a.send + sliceOf(r) * a.sendStride; }
  GOCCL_DEVICE uint8_t* output(uint32_t r) const { return a.recv + sliceOf(r) * a.recvStride; }

  GOCCL_DEVICE uint64_t offset(uint32_t piece) const { return (blockIdx.x + static_cast<uint64_t>(piece) * gridDim.x) * a.slotBytes; }
  // size is how much of the piece there is in the slice of rank r.
  GOCCL_DEVICE uint32_t size(uint32_t r, uint32_t piece) const {
    const uint64_t length = divided ? sliceLength(a, sliceOf(r)) : a.bytes, from = offset(piece);
    return from >= length ? 0 : static_cast<uint32_t>(length - from < a.slotBytes ? length - from : a.slotBytes);
  }

  // slot is where, in the window of rank `at`, what rank `from` sends of a piece lies. half 0: scattered, 1: shared.
  GOCCL_DEVICE uint8_t* slot(uint32_t at, uint32_t half, uint32_t piece, uint32_t from) const {
    return a.window[at] + (static_cast<uint64_t>(blockIdx.x * simpleDepth + piece % simpleDepth) * 2 + half) * simpleArea + from * a.slotBytes;
  }
  GOCCL_DEVICE uint32_t* flag(uint32_t at, uint32_t from) const {
    return reinterpret_cast<uint32_t*>(a.window[at] + a.flagsOffset + (static_cast<uint64_t>(blockIdx.x) * n + from) * simpleFlagLine);
  }

  GOCCL_DEVICE void tell(uint32_t value) const {
    __syncthreads();
    if (threadIdx.x < n && threadIdx.x != a.rank) storeRelease<Scope::sys>(flag(threadIdx.x, a.rank), value);
  }
  GOCCL_DEVICE bool hear(uint32_t value) const {
    Status s = statusOk;
    if (threadIdx.x < n && threadIdx.x != a.rank) {
      const uint32_t* word = flag(a.rank, threadIdx.x);
      s = waitUntil([&] { return static_cast<int32_t>(loadAcquire<Scope::sys>(word) - value) >= 0; }, a.abort, word, waitPacket, -1, threadIdx.x);
    }
    return __syncthreads_or(s != statusOk) == 0;
  }

  GOCCL_DEVICE uint4 scaled(uint4 v) const {
    if constexpr (folds) {
      typename LL128<Access::words>::Data d;
      d.set(v);
      reducer.scale(d);
      return d.vector();
    }
    return v;
  }

  // The user's memory, of which the piece has so many bytes.
  static GOCCL_DEVICE uint4 loadUser(const uint8_t* p, uint32_t o, uint32_t bytes) {
    if (A == Access::words) return loadVec(p + o);
    const uint2 lo = loadWord<A>(p, o, bytes), hi = loadWord<A>(p, o + 8, bytes);
    return make_uint4(lo.x, lo.y, hi.x, hi.y);
  }
  static GOCCL_DEVICE void storeUser(uint8_t* p, uint32_t o, uint32_t bytes, uint4 v) {
    if (A == Access::words) return storeVec(p + o, v);
    storeWord<A>(p, o, bytes, make_uint2(v.x, v.y));
    storeWord<A>(p, o + 8, bytes, make_uint2(v.z, v.w));
  }

  // move carries a piece for each peer: load(from, offset, bytes), store(to, offset, bytes, vector, peer). Loads of a batch of peers are in flight
  // together. A peer of 0 bytes takes no part.
  template <class Bytes, class From, class To, class Load, class Store>
  GOCCL_DEVICE void move(Bytes bytesOf, From from, To to, Load load, Store store) const {
    constexpr uint32_t width = N > 1 && N < 5 ? N - 1 : 4;  // more would not fit the registers
#pragma unroll 1
    for (uint32_t k = 1; k < n; k += width) {
      const uint8_t* source[width];
      uint8_t* target[width];
      uint32_t bytes[width];
#pragma unroll
      for (uint32_t i = 0; i < width; ++i) {
        const uint32_t p = peerAt(a, k + i < n ? k + i : 0);
        bytes[i] = k + i < n ? bytesOf(p) : 0;
        source[i] = from(p);
        target[i] = to(p);
      }
#pragma unroll 1
      for (uint32_t o = threadIdx.x * 16; o < a.slotBytes; o += blockDim.x * 16) {
        uint4 v[width];
#pragma unroll
        for (uint32_t i = 0; i < width; ++i)
          if (o < bytes[i]) v[i] = load(source[i], o, bytes[i]);
#pragma unroll
        for (uint32_t i = 0; i < width; ++i)
          if (o < bytes[i]) store(target[i], o, bytes[i], v[i], peerAt(a, k + i));
      }
    }
  }

  // toSlots and fromSlots are the two directions of move.
  template <class Bytes, class From, class To, class Also>
  GOCCL_DEVICE void toSlots(Bytes bytes, From from, To to, Also also) const {
    move(bytes, from, to, loadUser, [&](uint8_t* p, uint32_t o, uint32_t left, uint4 v, uint32_t peer) {
      storeVec(p + o, scaled(v));
      also(peer, o, left, v);
    });
  }
  template <class Bytes, class From, class To>
  GOCCL_DEVICE void fromSlots(Bytes bytes, From from, To to) const {
    move(bytes, from, to, [](const uint8_t* p, uint32_t o, uint32_t) { return loadVec(p + o); },
         [](uint8_t* p, uint32_t o, uint32_t left, uint4 v, uint32_t) { storeUser(p, o, left, v); });
  }

  GOCCL_DEVICE void scatter(uint32_t t) const {
    if (J == Job::broadcast && a.rank != a.root) return;
    toSlots([&](uint32_t p) { return owns(p) ? size(p, t) : 0; }, [&](uint32_t p) { return input(p) + offset(t); }, [&](uint32_t p) { return slot(p, 0, t, a.rank); },
            [&](uint32_t p, uint32_t o, uint32_t left, uint4 v) {
              if (J == Job::broadcast && a.send != a.recv) storeUser(output(p) + offset(t), o, left, v);
            });
  }

  GOCCL_DEVICE void combine(uint32_t t) const {
    if (!owns(a.rank)) return;
    const uint8_t* own = input(a.rank) + offset(t);
    uint8_t* home = output(a.rank) + offset(t);
    const uint32_t bytes = size(a.rank, t);
    const uint8_t* source = slot(a.rank, 0, t, 0);
    const uint64_t shared = slot(a.rank, 1, t, a.rank) - a.window[a.rank];  // the same in every window
#pragma unroll 1
    for (uint32_t o = threadIdx.x * 16; o < bytes; o += blockDim.x * 16) {
      uint4 v;
      if constexpr (folds)
        v = fold(loadUser(own, o, bytes), source + o);
      else if constexpr (J == Job::broadcast)
        v = loadVec(source + a.root * a.slotBytes + o);
      else
        v = loadUser(own, o, bytes);
      if (J == Job::allGather || J == Job::allToAll ? home != own : J != Job::reduce) storeUser(home, o, bytes, v);
      if constexpr (shares)
        forEachPeer<N>(a, [&](uint32_t p) {
          if (J == Job::reduce ? p == a.root : owns(p)) storeVec(a.window[p] + shared + o, v);
        });
    }
    if constexpr (J == Job::allToAll)
      fromSlots([&](uint32_t) { return bytes; }, [&](uint32_t p) { return slot(a.rank, 0, t, p); }, [&](uint32_t p) { return output(p) + offset(t); });
  }

  // fold combines a vector of everybody in rank order; own is this rank's.
  GOCCL_DEVICE uint4 fold(uint4 own, const uint8_t* source) const {
    typename R::Sum sum;
    constexpr uint32_t width = N > 0 ? N : 4;
    own = scaled(own);
#pragma unroll 1
    for (uint32_t r0 = 0; r0 < n; r0 += width) {
      uint4 x[width];
#pragma unroll
      for (uint32_t i = 0; i < width; ++i)
        if (r0 + i < n) x[i] = r0 + i == a.rank ? own : loadVec(source + (r0 + i) * a.slotBytes);
#pragma unroll
      for (uint32_t i = 0; i < width; ++i) {
        if (r0 + i >= n) break;
        if (r0 + i == 0)
          reducer.begin(sum, x[i]);
        else
          reducer.add(sum, x[i]);
      }
    }
    return reducer.end(sum);
  }

  GOCCL_DEVICE void collect(uint32_t t) const {
    if (J == Job::reduce ? a.rank != a.root : !owns(a.rank)) return;
    fromSlots([&](uint32_t p) { return owns(p) ? size(p, t) : 0; }, [&](uint32_t p) { return slot(a.rank, 1, t, p); }, [&](uint32_t p) { return output(p) + offset(t); });
  }

  GOCCL_DEVICE void run() {
    if (count == 0) return;
    const uint32_t last = count + (shares ? 1 : 0);
    tell(first + 1);
    if (!hear(first + 1)) return;
    for (uint32_t t = 0; t <= last; ++t) {
      if (scatters && t < count) scatter(t);
      if (t > 0) {
        if (!hear(first + 1 + t)) return;
        if (t <= count) combine(t - 1);
        if (shares && t >= 2) collect(t - 2);
      }
      if (t < last) tell(first + 2 + t);
    }
    if (threadIdx.x == 0) a.epochs[blockIdx.x * epochStride] = first + 1 + last;
  }
};

template <Job J, class R, int N, Access A>
GOCCL_DEVICE void simple(const Args& a) {
  Simple<J, R, N, A>(a).run();
}

// Nothing is what jobs that reduce nothing have for a reducer.
struct Nothing {
  GOCCL_DEVICE explicit Nothing(const Args&) {}
};

}  // namespace collective
}  // namespace goccl
