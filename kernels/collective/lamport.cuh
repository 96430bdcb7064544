// The all-reduces of one NVLink domain by packets without flags, called Lamport packets in the field.
//
// # Packets
//
// A packet is the complement of 16 bytes of data. Memory that holds no packet is zero, as fresh memory is, and a packet
// has arrived when neither of its 8-byte halves begins with a word of zeros: only 8 bytes need to arrive as a whole.
// The data of such a word are ones, a NaN in all floating-point types. A sender replaces them by another NaN: the sum
// is a NaN all the same, and all ranks add the same words.
//
// # Slots
//
// A window has two sets of slots, one for the launches of each parity, and a set has a slot for each peer. The slot of
// the next rank comes first:
//
//   slot(parity, source) = (parity·(n−1) + (source − own − 1) mod n)·slotBytes   two-shot: results from slotBytes/2 on
//
// A receiver makes a packet's memory zero when it has read it. The number of launches so far is in device memory, so
// any launch can be replayed from a graph. Every block has a copy, and a launch raises the copies of all blocks, so
// launches may differ in blocks, and packets lie at one place whatever block they are of.
//
// # Why two sets are enough
//
// A rank sends packets of launch e+2 when its launch e+1 has ended. By then it has got packets of e+1 from all peers,
// or results of the first rank, which owns data in every two-shot and needs the inputs of all ranks. So every peer has
// begun e+1 and ended e, and the zeros that it wrote in e are in its memory: launches of a rank follow each other.
// Checked in every state of three ranks and three launches of any kinds (test/models, lamport).
#pragma once

#include <collective/kernels.cuh>
#include <goccl/word.cuh>

namespace goccl {
namespace collective {

constexpr uint32_t launchCopies = 320;  // Go: lamportBlocks

GOCCL_DEVICE uint4 complementOf(const uint4& v) { return make_uint4(~v.x, ~v.y, ~v.z, ~v.w); }

// packetOf returns the packet that carries v.
GOCCL_DEVICE uint4 packetOf(const uint4& v) {
  uint4 p = complementOf(v);
  p.x += p.x == 0;
  p.z += p.z == 0;
  return p;
}
GOCCL_DEVICE bool arrived(const uint4& packet) { return packet.x != 0 && packet.z != 0; }

// placeOf is where, among the n−1 slots of a rank, a source's is. n is a power of two.
GOCCL_DEVICE uint32_t placeOf(uint32_t source, uint32_t own, uint32_t n) { return (source - own - 1) & (n - 1); }

// awaitPackets waits for the packets of the ranks in from, a bit set; the places of n ranks are stride apart.
// It is out of line, for waits that are long anyway: inline it would make short ones longer by a twentieth.
GOCCL_COLD Status awaitPackets(AbortBlock* abort, const uint4* at, uint32_t stride, uint32_t from, uint32_t own,
                               uint32_t n) {
  uint64_t start = 0;
  uint32_t late = unknownPeer;
  return spin(
      [&] {
        late = unknownPeer;
        for (uint32_t r = 0; from >> r != 0; ++r)
          if ((from >> r & 1) && !arrived(loadPacket(at + placeOf(r, own, n) * stride))) late = r;
        return late == unknownPeer;
      },
      [&] { return checkAbort(abort, start, at, waitPacket, late); });
}

// Push is one launch of a block, for N ranks. Whole says that every buffer is a multiple of 16 bytes at such an
// address; it may differ between ranks. A thread moves 16 bytes, a unit, at a time.
template <Type T, int N, bool Whole>
struct Push {
  const Args& a;
  const uint32_t before;  // number of launches before this one

  GOCCL_DEVICE explicit Push(const Args& args) : a(args), before(args.epochs[blockIdx.x]) {}

  // units calls body(u) for this thread's units of a buffer. Warps go to blocks in turn, so that all blocks have work.
  template <class Body>
  GOCCL_DEVICE void units(uint32_t bytes, Body body) const {
    const uint32_t n = (bytes + 15) / 16, warp = threadIdx.x / warpSize * gridDim.x + blockIdx.x;
#pragma unroll 1
    for (uint32_t u = warp * warpSize + threadIdx.x % warpSize; u < n; u += gridDim.x * blockDim.x) body(u);
  }

  // The first unit is loaded while `before` is: an address that depends on it is computed behind the load of the data.
  GOCCL_DEVICE uint4* slot(uint32_t holder, uint32_t place, uint32_t half = 0) const {
    const uint64_t at = static_cast<uint64_t>((keepBelow(before) & 1) * (N - 1) + place) * a.slotBytes + half;
    return reinterpret_cast<uint4*>(a.window[holder] + at);
  }

  // target is where, in rank p's window, packets of this rank go.
  GOCCL_DEVICE uint4* target(uint32_t p, uint32_t half = 0) const { return slot(p, placeOf(a.rank, p, N), half); }

  // load reads a unit of the own data as a packet. Of the last unit some bytes may be missing.
  GOCCL_DEVICE uint4 load(const uint8_t* from, uint32_t u, uint32_t bytes) const {
    const uint8_t* p = from + u * 16ull;
    return packetOf(Whole ? loadVec(p) : gatherVector(p, bytes - u * 16));
  }
  GOCCL_DEVICE void store(uint8_t* to, uint32_t u, uint32_t bytes, const uint4& v) const {
    uint8_t* p = to + u * 16ull;
    if (Whole)
      storeVec(p, v);
    else
      scatterVector(p, bytes - u * 16, v);
  }

  // receive waits for a unit of each rank in from, a bit set. clear makes its memory zero, when nobody waits for what
  // came of it any more.
  GOCCL_DEVICE Status receive(uint32_t from, uint32_t half, uint32_t u, uint4 (&v)[N]) const {
    uint4* const at = slot(a.rank, 0, half) + u;
    const uint32_t stride = a.slotBytes / 16;
    for (uint32_t polls = 1;; ++polls) {
      bool all = true;
#pragma unroll
      for (uint32_t r = 0; r < N; ++r)
        if (from >> r & 1) v[r] = loadPacket(at + placeOf(r, a.rank, N) * stride);
#pragma unroll
      for (uint32_t r = 0; r < N; ++r) all = all && (!(from >> r & 1) || arrived(v[r]));
      if (all) break;
      pause();
      if (__builtin_expect(polls != spinsPerCheck, 1)) continue;
      const Status s = awaitPackets(a.abort, at, stride, from, a.rank, N);
      if (s != statusOk) return s;
    }
    return statusOk;
  }
  GOCCL_DEVICE void clear(uint32_t from, uint32_t half, uint32_t u) const {
    uint4* const at = slot(a.rank, 0, half) + u;
#pragma unroll
    for (uint32_t r = 0; r < N; ++r)
      if (from >> r & 1) storePacket(at + placeOf(r, a.rank, N) * (a.slotBytes / 16), make_uint4(0, 0, 0, 0));
  }

  // sum adds the inputs of all ranks to the own packet, in rank order.
  GOCCL_DEVICE Status sum(uint32_t u, const uint4& own, uint4& out) const {
    uint4 in[N];
    const Status s = receive(peers(a), 0, u, in);
    Accumulator<T, Op::sum> sum;
#pragma unroll
    for (uint32_t r = 0; r < N; ++r) {
      const uint4 v = complementOf(r == a.rank ? own : in[r]);
      if (r == 0)
        sum.load(v);
      else
        sum.add(v);
    }
    out = sum.result();
    return s;
  }

  // count makes the copies of all blocks say how many launches there were, also those that this launch has not. Blocks
  // call it when they have sent: a barrier and a store at the end of a launch would keep the next one waiting.
  GOCCL_DEVICE void count() const {
    __syncthreads();  // all threads have read this block's
    for (uint32_t b = blockIdx.x + threadIdx.x * gridDim.x; b < launchCopies; b += gridDim.x * blockDim.x)
      a.epochs[b] = before + 1;
  }
};

// oneShot: every rank sends its data to all others.
template <Type T, int N, bool Whole>
GOCCL_DEVICE void oneShot(const Push<T, N, Whole>& push) {
  const Args& a = push.a;
  const uint32_t bytes = static_cast<uint32_t>(a.bytes);
  push.units(bytes, [&](uint32_t u) {
    const uint4 own = push.load(a.send, u, bytes);
    forEachPeer<Whole ? N : 0>(a, [&](uint32_t p) { storePacket(push.target(p) + u, own); });
  });
  push.count();
  push.units(bytes, [&](uint32_t u) {
    uint4 out;
    if (push.sum(u, push.load(a.send, u, bytes), out) != statusOk) return;
    push.store(a.recv, u, bytes, out);
    push.clear(peers(a), 0, u);
  });
}

// twoShot: slices to their owners, the results back. a.sendStride is the size of a slice, a multiple of 16; the last
// slices may be short or empty. An owner keeps the sums that it sends, so that all ranks have the same NaNs.
template <Type T, int N, bool Whole>
GOCCL_DEVICE void twoShot(const Push<T, N, Whole>& push) {
  const Args& a = push.a;
  const uint32_t slice = static_cast<uint32_t>(a.sendStride), bytes = static_cast<uint32_t>(a.bytes);
  const uint32_t half = a.slotBytes / 2;
  auto length = [&](uint32_t r) {
    const uint32_t from = r * slice;
    return from >= bytes ? 0 : bytes - from < slice ? bytes - from : slice;
  };
  push.units(slice, [&](uint32_t u) {
    uint4 v[N];
#pragma unroll
    for (uint32_t k = 1; k < N; ++k)
      if (const uint32_t p = peerAt(a, k); u * 16 < length(p)) v[k] = push.load(a.send + p * slice, u, length(p));
#pragma unroll
    for (uint32_t k = 1; k < N; ++k)
      if (const uint32_t p = peerAt(a, k); u * 16 < length(p)) storePacket(push.target(p) + u, v[k]);
  });
  push.count();
  const uint32_t mine = length(a.rank);
  push.units(mine, [&](uint32_t u) {
    uint4 out;
    if (push.sum(u, push.load(a.send + a.rank * slice, u, mine), out) != statusOk) return;
    out = packetOf(out);
    forEachPeer<Whole ? N : 0>(a, [&](uint32_t p) { storePacket(push.target(p, half) + u, out); });
    push.store(a.recv + a.rank * slice, u, mine, complementOf(out));
    push.clear(peers(a), 0, u);
  });
  push.units(slice, [&](uint32_t u) {
    uint4 v[N];
    uint32_t from = 0;
#pragma unroll
    for (uint32_t r = 0; r < N; ++r) from |= r != a.rank && u * 16 < length(r) ? 1u << r : 0;
    if (push.receive(from, half, u, v) != statusOk) return;
#pragma unroll
    for (uint32_t r = 0; r < N; ++r)
      if (from >> r & 1) push.store(a.recv + r * slice, u, length(r), complementOf(v[r]));
    push.clear(from, half, u);
  });
}

GOCCL_DEVICE bool whole(const Args& a) {
  return ((reinterpret_cast<uintptr_t>(a.send) | reinterpret_cast<uintptr_t>(a.recv) | a.bytes) & 15) == 0;
}

// launchPush is the kernel. Two instances keep the code of whole units small.
template <Type T, int N, bool Two, bool Whole>
GOCCL_DEVICE void launchPush(const Args& a) {
  const Push<T, N, Whole> push(a);
  if constexpr (Two)
    twoShot(push);
  else
    oneShot(push);
}
template <Type T, int N>
GOCCL_DEVICE void pushOneShot(const Args& a) {
  whole(a) ? launchPush<T, N, false, true>(a) : launchPush<T, N, false, false>(a);
}
template <Type T, int N>
GOCCL_DEVICE void pushTwoShot(const Args& a) {
  whole(a) ? launchPush<T, N, true, true>(a) : launchPush<T, N, true, false>(a);
}

}  // namespace collective
}  // namespace goccl
