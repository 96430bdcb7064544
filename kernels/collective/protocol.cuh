// The two packet protocols behind one interface: a thread moves one unit of a slot at a time.
//
//   LL     a unit is 8 bytes of data in a 16-byte packet
//   LL128  a unit is 16 bytes of a 128-byte line (8 on its last lane); the four lines of a warp travel together
//
// Each has separate slots (Go: layout.go). A warp reads a line at once. A line is as new as its flag only if every
// access to that memory is to a whole line: in slots that had held LL packets before, an H200 has shown a line whose
// first half was old and whose second half, with the flag, was new.
//
// units(bytes) is how many units carry bytes of data; it is a multiple of group, the number of threads that must stay
// converged. payload(units) is how many bytes of data units of whole warps carry.
#pragma once

#include <collective/args.cuh>

namespace goccl {
namespace collective {

// Access says what a kernel may assume of its buffers. Words: every address and size is a multiple of 8. Bytes:
// nothing.
enum class Access { words, bytes };

// loadUnit reads 8 bytes of data, or fewer at the end; what lies past the end is zero. offset is a multiple of 8.
template <Access A>
GOCCL_DEVICE uint2 loadUnit(const uint8_t* base, uint64_t offset, uint64_t bytes) {
  uint2 v = make_uint2(0, 0);
  const uint8_t* p = base + offset;  // here, and not in the branch, the compiler computes it while it waits
  if (offset < bytes) v = A == Access::words ? loadVec2(p) : loadWord(p, bytes - offset);
  return v;
}

template <Access A>
GOCCL_DEVICE void storeUnit(uint8_t* base, uint64_t offset, uint64_t bytes, uint2 v) {
  if (offset >= bytes) return;
  if (A == Access::words)
    storeVec2(base + offset, v);
  else
    storeWord(base + offset, bytes - offset, v);
}

// Data is what a thread carries of a unit: 8 bytes (LL), or 16 (LL128), of which the last unit of a line holds 8.
struct Data8 {
  uint2 w[1];
  GOCCL_DEVICE uint4 vector() const { return make_uint4(w[0].x, w[0].y, 0, 0); }
  GOCCL_DEVICE void set(uint4 v) { w[0] = make_uint2(v.x, v.y); }
};
struct Data16 {
  uint2 w[2];
  GOCCL_DEVICE uint4 vector() const { return make_uint4(w[0].x, w[0].y, w[1].x, w[1].y); }
  GOCCL_DEVICE void set(uint4 v) { w[0] = make_uint2(v.x, v.y), w[1] = make_uint2(v.z, v.w); }
};

template <Access A>
struct LL {
  static constexpr uint32_t group = 1;
  using Data = Data8;
  static GOCCL_DEVICE uint64_t units(uint64_t bytes) { return (bytes + 7) / 8; }
  static GOCCL_DEVICE constexpr uint32_t payload(uint32_t units) { return units * 8; }
  static GOCCL_DEVICE Data load(const uint8_t* base, uint64_t unit, uint64_t bytes) {
    return {{loadUnit<A>(base, unit * 8, bytes)}};
  }
  static GOCCL_DEVICE void store(uint8_t* base, uint64_t unit, uint64_t bytes, Data d) {
    storeUnit<A>(base, unit * 8, bytes, d.w[0]);
  }
  static GOCCL_DEVICE void send(uint8_t* slot, uint32_t unit, Data d, uint32_t epoch) {
    reinterpret_cast<LL16Packet*>(slot)[unit].write(d.w[0], epoch);
  }
  // fetch reads a packet, and clears fresh if it is not of this epoch.
  static GOCCL_DEVICE Data fetch(const uint8_t* slot, uint32_t unit, uint32_t epoch, bool& fresh) {
    Data d;
    const bool here = reinterpret_cast<const LL16Packet*>(slot)[unit].tryRead(epoch, d.w[0]);
    fresh = fresh && here;
    return d;
  }
  // all says whether fresh is set on every thread of the group, and join gives all of them the status of one.
  static GOCCL_DEVICE bool all(bool fresh) { return fresh; }
  static GOCCL_DEVICE Status join(Status s) { return s; }
};

template <Access A>
struct LL128 {
  static constexpr uint32_t group = 32;
  using Data = Data16;
  static GOCCL_DEVICE uint64_t units(uint64_t bytes) {
    return (bytes + 4 * ll128Payload - 1) / (4 * ll128Payload) * 32;
  }
  static GOCCL_DEVICE constexpr uint32_t payload(uint32_t units) { return units / 8 * ll128Payload; }
  static GOCCL_DEVICE uint64_t offset(uint64_t unit) { return (unit >> 3) * ll128Payload + (unit & 7) * 16; }
  static GOCCL_DEVICE Data load(const uint8_t* base, uint64_t unit, uint64_t bytes) {
    const uint64_t o = offset(unit);
    const uint2 low = loadUnit<A>(base, o, bytes);
    const uint2 high = ll128HasFlag(unit) ? make_uint2(0, 0) : loadUnit<A>(base, o + 8, bytes);
    return {{low, high}};
  }
  static GOCCL_DEVICE void store(uint8_t* base, uint64_t unit, uint64_t bytes, Data d) {
    const uint64_t o = offset(unit);
    storeUnit<A>(base, o, bytes, d.w[0]);
    if (!ll128HasFlag(unit)) storeUnit<A>(base, o + 8, bytes, d.w[1]);
  }
  // flag repeats the epoch, so that both halves of the last word say the same. A line must arrive as a whole: where the
  // flag may come first, a rank takes data of another epoch (test/models, packets with the fault "torn").
  static GOCCL_DEVICE uint64_t flag(uint32_t epoch) { return static_cast<uint64_t>(epoch) << 32 | epoch; }
  static GOCCL_DEVICE void send(uint8_t* slot, uint32_t unit, Data d, uint32_t epoch) {
    ll128Put(slot, unit, d.vector(), flag(epoch));
  }
  static GOCCL_DEVICE Data fetch(const uint8_t* slot, uint32_t unit, uint32_t epoch, bool& fresh) {
    Data d;
    d.set(ll128Get(slot, unit, flag(epoch), fresh));
    return d;
  }
  static GOCCL_DEVICE bool all(bool fresh) { return __all_sync(0xffffffffu, fresh); }
  static GOCCL_DEVICE Status join(Status s) { return __reduce_max_sync(0xffffffffu, s); }
};

// batch is how many peers' packets a thread has in flight at once.
constexpr uint32_t batch = 8;

// batchOf is that number for a kernel made for N ranks, or, with N = 0, for any number: those kernels are many, and are
// kept small.
template <int N>
constexpr uint32_t batchOf = N == 0 ? 4 : (N < static_cast<int>(batch) ? N : batch);

// lateRank returns a rank of [first, first + width) in from whose unit has not arrived: the one to name in an error.
template <class P, int N>
GOCCL_DEVICE uint32_t lateRank(const Args& a, uint64_t area, uint32_t from, uint32_t first, uint32_t width,
                               uint32_t unit, uint32_t epoch) {
  const uint32_t n = N > 0 ? N : a.nranks;
  uint32_t late = unknownPeer;
#pragma unroll 1
  for (uint32_t r = first; r < n && r < first + width; ++r) {
    bool here = true;
    if (from >> r & 1) P::fetch(sourceSlot(a, area, r), unit, epoch, here);
    if (!P::all(here)) late = r;
  }
  return late;
}

// lateRankApart is that, out of line: inline it makes the two-shot all-reduce of eight ranks by LL spill registers.
template <class P, int N>
GOCCL_COLD uint32_t lateRankApart(const Args& a, uint64_t area, uint32_t from, uint32_t first, uint32_t width,
                                  uint32_t unit, uint32_t epoch) {
  return lateRank<P, N>(a, area, from, first, width, unit, epoch);
}

// receive waits for one unit from each of the ranks [first, first + batchOf<N>) whose bit is in from, and calls
// use(rank, data) for each rank of that range, in rank order; data of ranks that are not in from is undefined. N > 0 is
// the number of ranks where it is known at compile time.
template <class P, int N, class Use>
GOCCL_DEVICE Status receive(const Args& a, uint64_t area, uint32_t from, uint32_t first, uint32_t unit, uint32_t epoch,
                            Use use) {
  constexpr uint32_t width = batchOf<N>;
  const uint32_t n = N > 0 ? N : a.nranks;
  typename P::Data d[width];
  uint64_t start = 0;
  const Status s = spin(
      [&] {
        bool fresh = true;
#pragma unroll
        for (uint32_t i = 0; i < width; ++i) {
          const uint32_t r = first + i;
          if (r < n && (from >> r & 1)) d[i] = P::fetch(sourceSlot(a, area, r), unit, epoch, fresh);
        }
        return P::all(fresh);
      },
      [&] {
        const uint32_t late = P::group == 1 && N == 8 ? lateRankApart<P, N>(a, area, from, first, width, unit, epoch)
                                            : lateRank<P, N>(a, area, from, first, width, unit, epoch);
        return P::join(checkAbort(a.abort, start, sourceSlot(a, area, first), waitPacket, late));
      });
  if (s != statusOk) return s;
#pragma unroll
  for (uint32_t i = 0; i < width; ++i) {
    const uint32_t r = first + i;
    if (r < n) use(r, d[i]);
  }
  return statusOk;
}

// receiveAll is receive for all ranks of from.
template <class P, int N, class Use>
GOCCL_DEVICE Status receiveAll(const Args& a, uint64_t area, uint32_t from, uint32_t unit, uint32_t epoch, Use use) {
  const uint32_t n = N > 0 ? N : a.nranks;
#pragma unroll 1
  for (uint32_t first = 0; first < n; first += batchOf<N>) {
    const Status s = receive<P, N>(a, area, from, first, unit, epoch, use);
    if (s != statusOk) return s;
  }
  return statusOk;
}

// receiveFrom waits for one unit from one rank.
template <class P>
GOCCL_DEVICE Status receiveFrom(const Args& a, uint64_t area, uint32_t rank, uint32_t unit, uint32_t epoch,
                                typename P::Data& d) {
  const uint8_t* slot = sourceSlot(a, area, rank);
  uint64_t start = 0;
  return spin(
      [&] {
        bool fresh = true;
        d = P::fetch(slot, unit, epoch, fresh);
        return P::all(fresh);
      },
      [&] { return P::join(checkAbort(a.abort, start, slot, waitPacket, rank)); });
}

}  // namespace collective
}  // namespace goccl
