// The two packet protocols behind one face: a thread moves one unit of a slot at a time.
//
//   LL     a unit is 8 bytes of data in a 16-byte packet
//   LL128  a unit is 16 bytes of a 128-byte line (8 on its last lane); the four lines of a warp travel together
//
// Each has slots of its own (Go: layout.go). A line is read by a warp at once, and is as new as its flag only where nobody reads or writes less than a line of
// it: where LL packets were exchanged in the slot before, an H200 has shown the first half of a line as it had been and the second, with the flag, as it was to be.
//
// units(bytes) is how many units carry bytes of data; it is a multiple of group, the number of threads that must stay converged.
#pragma once

#include <collective/args.cuh>

namespace goccl {
namespace collective {

// The rare ways to read and write a word, kept out of line: they would multiply the size of every kernel.
__device__ __noinline__ uint2 gatherWord(const uint8_t* p, uint32_t n) {
  uint64_t v = 0;
#pragma unroll 1
  for (uint32_t i = 0; i < n; ++i) v |= static_cast<uint64_t>(p[i]) << (8 * i);
  return make_uint2(static_cast<uint32_t>(v), static_cast<uint32_t>(v >> 32));
}
__device__ __noinline__ void scatterWord(uint8_t* p, uint2 v, uint32_t n) {
  uint64_t bits = static_cast<uint64_t>(v.y) << 32 | v.x;
#pragma unroll 1
  for (uint32_t i = 0; i < n; ++i) p[i] = static_cast<uint8_t>(bits >> (8 * i));
}

// Access says what a kernel may assume of its buffers. Words: every address and size is a multiple of 8. Bytes: nothing.
enum class Access { words, bytes };

// loadWord reads 8 bytes of data, or fewer at the end; what lies past the end is zero. offset is a multiple of 8.
template <Access A>
GOCCL_DEVICE uint2 loadWord(const uint8_t* base, uint64_t offset, uint64_t bytes) {
  uint2 v = make_uint2(0, 0);
  const uint8_t* p = base + offset;
  if (A == Access::words ? offset < bytes : offset + 8 <= bytes && (reinterpret_cast<uintptr_t>(p) & 7) == 0)
    v = loadVec2(p);
  else if (A == Access::bytes && offset < bytes)
    v = gatherWord(p, bytes - offset < 8 ? static_cast<uint32_t>(bytes - offset) : 8);
  return v;
}

template <Access A>
GOCCL_DEVICE void storeWord(uint8_t* base, uint64_t offset, uint64_t bytes, uint2 v) {
  uint8_t* p = base + offset;
  if (A == Access::words ? offset < bytes : offset + 8 <= bytes && (reinterpret_cast<uintptr_t>(p) & 7) == 0)
    storeVec2(p, v);
  else if (A == Access::bytes && offset < bytes)
    scatterWord(p, v, bytes - offset < 8 ? static_cast<uint32_t>(bytes - offset) : 8);
}

template <Access A>
struct LL {
  static constexpr uint32_t words = 1;
  static constexpr uint32_t group = 1;
  static constexpr uint32_t unitBytes = 16;  // in a slot
  struct Data {
    uint2 w[1];
    GOCCL_DEVICE uint4 vector() const { return make_uint4(w[0].x, w[0].y, 0, 0); }
    GOCCL_DEVICE void set(uint4 v) { w[0] = make_uint2(v.x, v.y); }
  };
  static GOCCL_DEVICE uint64_t units(uint64_t bytes) { return (bytes + 7) / 8; }
  static GOCCL_DEVICE uint64_t offset(uint64_t unit) { return unit * 8; }
  static GOCCL_DEVICE Data load(const uint8_t* base, uint64_t unit, uint64_t bytes) { return {{loadWord<A>(base, unit * 8, bytes)}}; }
  static GOCCL_DEVICE void store(uint8_t* base, uint64_t unit, uint64_t bytes, Data d) { storeWord<A>(base, unit * 8, bytes, d.w[0]); }
  static GOCCL_DEVICE void send(uint8_t* slot, uint32_t unit, Data d, uint32_t epoch) {
    storePacket(reinterpret_cast<uint4*>(slot) + unit, make_uint4(d.w[0].x, epoch, d.w[0].y, epoch));
  }
  // fetch reads a packet; fresh says whether it is of this epoch.
  static GOCCL_DEVICE Data fetch(const uint8_t* slot, uint32_t unit, uint32_t epoch, bool& fresh) {
    uint4 v = loadPacket(reinterpret_cast<const uint4*>(slot) + unit);
    fresh = fresh && v.y == epoch && v.w == epoch;
    return {{make_uint2(v.x, v.z)}};
  }
  static GOCCL_DEVICE bool all(bool fresh) { return fresh; }
};

template <Access A>
struct LL128 {
  static constexpr uint32_t words = 2;
  static constexpr uint32_t group = 32;
  static constexpr uint32_t unitBytes = 16;
  struct Data {
    uint2 w[2];
    GOCCL_DEVICE uint4 vector() const { return make_uint4(w[0].x, w[0].y, w[1].x, w[1].y); }
    GOCCL_DEVICE void set(uint4 v) {
      w[0] = make_uint2(v.x, v.y);
      w[1] = make_uint2(v.z, v.w);
    }
  };
  static GOCCL_DEVICE uint64_t units(uint64_t bytes) { return (bytes + 4 * ll128Payload - 1) / (4 * ll128Payload) * 32; }
  static GOCCL_DEVICE uint64_t offset(uint64_t unit) { return (unit >> 3) * ll128Payload + (unit & 7) * 16; }
  static GOCCL_DEVICE Data load(const uint8_t* base, uint64_t unit, uint64_t bytes) {
    uint64_t o = offset(unit);
    Data d;
    d.w[0] = loadWord<A>(base, o, bytes);
    d.w[1] = (unit & 7) == 7 ? make_uint2(0, 0) : loadWord<A>(base, o + 8, bytes);
    return d;
  }
  static GOCCL_DEVICE void store(uint8_t* base, uint64_t unit, uint64_t bytes, Data d) {
    uint64_t o = offset(unit);
    storeWord<A>(base, o, bytes, d.w[0]);
    if ((unit & 7) != 7) storeWord<A>(base, o + 8, bytes, d.w[1]);
  }
  // The flag repeats the epoch, so that both halves of the last word say the same.
  static GOCCL_DEVICE void send(uint8_t* slot, uint32_t unit, Data d, uint32_t epoch) {
    bool flag = (unit & 7) == 7;
    storePacket(reinterpret_cast<uint4*>(slot) + unit, make_uint4(d.w[0].x, d.w[0].y, flag ? epoch : d.w[1].x, flag ? epoch : d.w[1].y));
  }
  static GOCCL_DEVICE Data fetch(const uint8_t* slot, uint32_t unit, uint32_t epoch, bool& fresh) {
    uint4 v = loadPacket(reinterpret_cast<const uint4*>(slot) + unit);
    if ((unit & 7) == 7) fresh = fresh && v.z == epoch && v.w == epoch;
    return {{make_uint2(v.x, v.y), make_uint2(v.z, v.w)}};
  }
  static GOCCL_DEVICE bool all(bool fresh) { return __all_sync(0xffffffffu, fresh); }
};

// Batch is how many peers' packets a thread has in flight at once.
constexpr uint32_t batch = 8;

// batchOf is that number for a kernel made for N ranks, or, with N = 0, for any number: those are many, and are kept small.
template <int N>
constexpr uint32_t batchOf = N == 0 ? 4 : (N < static_cast<int>(batch) ? N : batch);

// receive waits for one unit from each of the ranks [first, first + batchOf<N>) whose bit is in from, and hands what each rank of that range
// sent, in rank order, to use(rank, data); data of the others means nothing. N > 0 is the number of ranks when it is known at compile time.
template <class P, int N, class Use>
GOCCL_DEVICE Status receive(const Args& a, uint64_t area, uint32_t from, uint32_t first, uint32_t unit, uint32_t epoch, Use use) {
  constexpr uint32_t width = batchOf<N>;
  const uint32_t n = N > 0 ? N : a.nranks;
  typename P::Data d[width];
  uint64_t start = 0;
  for (uint32_t spins = 1;; ++spins) {
    bool fresh = true;
#pragma unroll
    for (uint32_t i = 0; i < width; ++i) {
      uint32_t r = first + i;
      if (r < n && (from >> r & 1)) d[i] = P::fetch(sourceSlot(a, area, r), unit, epoch, fresh);
    }
    if (P::all(fresh)) break;
    if (spins % spinsPerCheck == 0) {
      uint32_t late = unknownPeer;  // who is to blame
#pragma unroll 1
      for (uint32_t r = first; r < n && r < first + width; ++r) {
        bool here = true;
        if (from >> r & 1) P::fetch(sourceSlot(a, area, r), unit, epoch, here);
        if (!P::all(here)) late = r;
      }
      Status s = checkAbort(a.abort, start, sourceSlot(a, area, first), waitPacket, late);
      if constexpr (P::group == 32) s = __reduce_max_sync(0xffffffffu, s);
      if (s != statusOk) return s;
    }
  }
#pragma unroll
  for (uint32_t i = 0; i < width; ++i) {
    uint32_t r = first + i;
    if (r < n) use(r, d[i]);
  }
  return statusOk;
}

// receiveFrom waits for one unit from one rank.
template <class P>
GOCCL_DEVICE Status receiveFrom(const Args& a, uint64_t area, uint32_t rank, uint32_t unit, uint32_t epoch, typename P::Data& d) {
  const uint8_t* slot = sourceSlot(a, area, rank);
  uint64_t start = 0;
  for (uint32_t spins = 1;; ++spins) {
    bool fresh = true;
    d = P::fetch(slot, unit, epoch, fresh);
    if (P::all(fresh)) return statusOk;
    if (spins % spinsPerCheck == 0) {
      Status s = checkAbort(a.abort, start, slot, waitPacket, rank);
      if constexpr (P::group == 32) s = __reduce_max_sync(0xffffffffu, s);
      if (s != statusOk) return s;
    }
  }
}

}  // namespace collective
}  // namespace goccl
