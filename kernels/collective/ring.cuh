// Large messages around a ring: every rank sends to the next one only, whole lines by plain stores. Packets use a
// sixteenth of every line for flags, and a switch carries less when each rank sends to all others: on four H200 plain
// stores to all bring 343 GB/s, to the next rank 365.
//
//   all-reduce       n−1 steps fold each slice on its way to its owner, n−1 pass the results on   2·(n−1)/n·N bytes out
//   reduce-scatter   the first half                                                               (n−1)/n·N
//   all-gather       the second half                                                              (n−1)/n·N
//   broadcast        a chain from the root to the rank before it                                  N
//   reduce           a chain from the rank behind the root to the root                            N
//
// A slice is folded in the order of the ring, from its owner's successor on, and only once: the same bits on all ranks
// and every time. Between two ranks data has the width of its type. So partial sums of 16- and 8-bit types, which must
// be rounded only once, cannot travel: ring_fold.cuh folds the 16-bit types.
//
// A channel is a block on every rank, with a FIFO of a few slots in the window of the next rank. It takes its share of
// every slice chunk by chunk. A chunk is two parts, each a slot: while the flag of one is on its way, the other is
// moved. A block passes parts by a pipe (goccl/pipe.cuh); flags and limits are the pipe's, and count the slots of a
// channel: what was sent to the next rank, and what was received from the one before.
//
// The receiver raises a limit to depth slots beyond the last one that it has taken, but never beyond the last slot of
// its launch. So between launches nothing is in flight: the next launch may lay the FIFOs out anew, and streams, whose
// rings lie in the same place, may run.
//
// # Progress
//
// A rank waits for the flag of the rank before and for room at the next, part by part in one order that is the same
// everywhere. It gives the room for a chunk before that is needed: a chunk and one slot more are enough, since a part
// that is passed on needs room before it gives any.
//
// # Arguments
//
// As in args.cuh, with windows at the stream region and epochs for the counters. a.bytes is the size of a slice, or of
// the buffer (all-reduce, broadcast, reduce); strides lead from one slice to the next. slotBytes is the size of a slot
// of the FIFOs, a multiple of 128, plus the number of slots of each, which is less. The grid is a block for each
// channel.
#pragma once

#include <collective/protocol.cuh>
#include <collective/reducer.cuh>
#include <goccl/copy.cuh>
#include <goccl/pipe.cuh>

namespace goccl {
namespace collective {

constexpr uint32_t ringChannels = 128;  // at most
constexpr uint32_t ringParts = 2;       // of a chunk
constexpr uint32_t ringLine = 128;      // bytes of a flag (at 0) and a limit (at 64)
constexpr uint32_t ringWorkers = 512;   // threads that move data, at most
constexpr uint32_t ringFlight = 4;      // vectors of a thread in flight

// loadAny reads 16 bytes at p, of which n exist; inside says that those around them may be read, too.
GOCCL_DEVICE uint4 loadAny(const uint8_t* p, uint32_t n, bool inside) {
  const uint32_t shift = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(p) & 15);
  if (shift == 0 && n >= 16) return loadVec(p);
  if (inside) return shiftBytes(loadVec(p - shift), loadVec(p - shift + 16), shift);
  return gatherVector(p, n);
}
GOCCL_DEVICE void storeAny(uint8_t* p, uint32_t n, const uint4& v) {
  const uint32_t shift = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(p) & 15);
  if (n >= 16 && shift == 0) {
    storeVec(p, v);
  } else if (n >= 16 && (shift & 3) == 0) {
    uint32_t* w = reinterpret_cast<uint32_t*>(p);
    w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
  } else {
    scatterVector(p, n, v);
  }
}

// What a step does, as a sum of: receive from the rank before, fold it into the own input, send the result to the next
// rank, store it.
enum : uint32_t { ringReceive = 1, ringFold = 2, ringSend = 4, ringStore = 8, ringLast = 16 };

template <class R, Access A>
struct Ring {
  const Args& a;
  const R reducer;
  Pipe pipe;
  const uint32_t slotBytes, depth, channel, channels;
  const uint32_t next, before;
  uint64_t sent, received, end;  // end: slots that this launch receives
  uint64_t arrived, room;        // the flag and the limit as the threads that wait have last seen them
  uint64_t chunk = 0, part = 0;  // bytes
  uint32_t chunks = 0;

  GOCCL_DEVICE explicit Ring(const Args& args)
      : a(args), reducer(args), pipe(args.abort), slotBytes(args.slotBytes & ~127u), depth(args.slotBytes & 127),
        channel(blockIdx.x), channels(gridDim.x), next(args.rank + 1 == args.nranks ? 0 : args.rank + 1),
        before(args.rank == 0 ? args.nranks - 1 : args.rank - 1), sent(counters()[0]), received(counters()[1]),
        end(received), arrived(received), room(sent) {}

  GOCCL_DEVICE uint64_t* counters() const { return reinterpret_cast<uint64_t*>(a.epochs + channel * epochStride); }
  GOCCL_DEVICE uint64_t* flag(uint32_t rank) const {
    return reinterpret_cast<uint64_t*>(a.window[rank] + a.flagsOffset + channel * ringLine);
  }
  GOCCL_DEVICE uint64_t* limit(uint32_t rank) const { return flag(rank) + 8; }
  GOCCL_DEVICE uint8_t* slot(uint32_t rank, uint64_t number) const {
    return a.window[rank] + (channel * depth + number % depth) * static_cast<uint64_t>(slotBytes);
  }

  // allow lets the rank before send on once `taken` slots have been received.
  GOCCL_DEVICE void allow(uint64_t taken) const {
    storeRelaxed<Scope::sys>(limit(before), taken + depth < end ? taken + depth : end);
  }

  // divide shares slices of bytes out among channels and chunks.
  GOCCL_DEVICE void divide(uint64_t bytes) {
    const uint64_t all = static_cast<uint64_t>(channels) * ringParts * slotBytes;
    chunks = static_cast<uint32_t>((bytes + all - 1) / all);
    const uint64_t shares = static_cast<uint64_t>(chunks) * channels;
    part = (((bytes + shares - 1) / shares + ringParts - 1) / ringParts + 127) & ~uint64_t{127};
    chunk = part * ringParts;
  }
  // open lets the rank before send: it does so in `receives` steps for each chunk.
  GOCCL_DEVICE void open(uint32_t receives) {
    end = received + static_cast<uint64_t>(chunks) * ringParts * receives;
    if (pipe.signaler() && receives > 0) allow(received);
  }
  GOCCL_DEVICE void begin(uint64_t bytes, uint32_t receives) {
    divide(bytes);
    open(receives);
  }
  GOCCL_DEVICE void finish() const {
    if (threadIdx.x != 0) return;
    counters()[0] = sent;
    counters()[1] = received;
  }

  // move is what a worker does with a part.
  template <uint32_t What>
  GOCCL_DEVICE void move(const uint8_t* from, const uint8_t* in, uint8_t* out, uint8_t* to, uint32_t bytes) const {
    constexpr bool receives = (What & ringReceive) != 0, loads = (What & ringFold) != 0 || !receives;
    const uint32_t stride = pipe.workers() * 16;
#pragma unroll 1
    for (uint32_t base = threadIdx.x * 16; base < bytes; base += ringFlight * stride) {
      uint4 x[ringFlight], y[ringFlight];
#pragma unroll
      for (uint32_t j = 0; j < ringFlight; ++j) {
        const uint32_t i = base + j * stride;
        if (receives && i < bytes) x[j] = loadVec(from + i);
      }
#pragma unroll
      for (uint32_t j = 0; j < ringFlight; ++j) {
        const uint32_t i = base + j * stride;
        if (loads && i < bytes)
          y[j] = A == Access::words ? loadVec(in + i)
                                    : loadAny(in + i, bytes - i, in != out && i >= 16 && i + 32 <= bytes);
      }
#pragma unroll
      for (uint32_t j = 0; j < ringFlight; ++j) {
        const uint32_t i = base + j * stride;
        if (i >= bytes) break;
        uint4 v;
        if constexpr (loads) {
          v = y[j];
          if constexpr (R::folds) v = reducer.scaled(v);
        }
        if constexpr (R::folds && (What & ringFold) != 0) {
          typename R::Sum sum;
          reducer.begin(sum, x[j]);
          reducer.add(sum, v);
          v = (What & ringLast) != 0 ? reducer.end(sum) : sum.result();
        } else if constexpr (receives) {
          v = x[j];
        }
        if ((What & ringSend) != 0) storeVec(to + i, v);
        if ((What & ringStore) != 0 && out != nullptr) {
          if (A == Access::words)
            storeVec(out + i, v);
          else
            storeAny(out + i, bytes - i, v);
        }
      }
    }
  }

  // step does What with a chunk: number i of the channel in a slice of length bytes at in and out. It is false where a
  // wait was given up.
  template <uint32_t What>
  GOCCL_DEVICE bool step(const uint8_t* in, uint8_t* out, uint64_t length, uint32_t i) {
    constexpr bool receives = (What & ringReceive) != 0, sends = (What & ringSend) != 0;
    const uint64_t first = (static_cast<uint64_t>(i) * channels + channel) * chunk;
#pragma unroll 1
    for (uint32_t k = 0; k < ringParts; ++k) {
      const uint64_t at = first + k * part;
      const uint32_t bytes = at >= length ? 0 : static_cast<uint32_t>(length - at < part ? length - at : part);
      auto arrival = [&] { return receives ? pipe.awaitFlag(flag(a.rank), received, arrived, before) : statusOk; };
      auto space = [&] { return sends ? pipe.awaitLimit(limit(a.rank), sent, room, next) : statusOk; };
      auto pass = [&] {
        move<What>(slot(a.rank, received), in + at, out == nullptr ? out : out + at, slot(next, sent), bytes);
      };
      auto signal = [&] {
        if (receives) allow(received + 1);
        if (sends) storeRelease<Scope::sys>(flag(next), sent + 1);
      };
      if (!pipe.step(arrival, space, pass, signal)) return false;
      if (receives) ++received;
      if (sends) ++sent;
    }
    return true;
  }

  // The slice of rank r, and how long it is where slices are parts of one buffer.
  GOCCL_DEVICE const uint8_t* input(uint32_t r) const { return a.send + r * a.sendStride; }
  GOCCL_DEVICE uint8_t* output(uint32_t r) const { return a.recv + r * a.recvStride; }
  GOCCL_DEVICE uint64_t length(uint32_t r) const {
    const uint64_t from = r * a.sendStride;
    return from >= a.bytes ? 0 : (a.bytes - from < a.sendStride ? a.bytes - from : a.sendStride);
  }
  // behind and ahead are the ranks k places before this one and after it.
  GOCCL_DEVICE uint32_t behind(uint32_t k) const { return a.rank >= k ? a.rank - k : a.rank + a.nranks - k; }
  GOCCL_DEVICE uint32_t ahead(uint32_t k) const { return a.rank + k >= a.nranks ? a.rank + k - a.nranks : a.rank + k; }

  // fold passes chunk i of every slice along to its owner; the owner does Last with it.
  template <uint32_t Last>
  GOCCL_DEVICE bool fold(uint32_t i, bool divided, uint8_t* out) {
    auto bytes = [&](uint32_t r) { return divided ? length(r) : a.bytes; };
    if (!step<ringSend>(input(before), nullptr, bytes(before), i)) return false;
#pragma unroll 1
    for (uint32_t k = 2; k < a.nranks; ++k)
      if (!step<ringReceive | ringFold | ringSend>(input(behind(k)), nullptr, bytes(behind(k)), i)) return false;
    return step<ringReceive | ringFold | ringLast | Last>(input(a.rank), out, bytes(a.rank), i);
  }
  // share brings chunk i of every slice to all others; the owner has sent it.
  GOCCL_DEVICE bool share(uint32_t i, bool divided) {
    auto bytes = [&](uint32_t r) { return divided ? length(r) : a.bytes; };
#pragma unroll 1
    for (uint32_t k = 1; k + 1 < a.nranks; ++k)
      if (!step<ringReceive | ringSend | ringStore>(nullptr, output(behind(k)), bytes(behind(k)), i)) return false;
    return step<ringReceive | ringStore>(nullptr, output(next), bytes(next), i);
  }
};

#define GOCCL_RING(name)                  \
  template <class R, Access A>            \
  GOCCL_DEVICE void name(const Args& a) { \
    Ring<R, A> ring(a);                   \
    name##Of(ring);                       \
    ring.finish();                        \
  }

template <class Ring>
GOCCL_DEVICE void ringAllReduceOf(Ring& ring) {
  ring.begin(ring.a.sendStride, 2 * (ring.a.nranks - 1));
#pragma unroll 1
  for (uint32_t i = 0; i < ring.chunks; ++i)
    if (!ring.template fold<ringSend | ringStore>(i, true, ring.output(ring.a.rank)) || !ring.share(i, true)) return;
}
GOCCL_RING(ringAllReduce)

template <class Ring>
GOCCL_DEVICE void ringReduceScatterOf(Ring& ring) {
  ring.begin(ring.a.bytes, ring.a.nranks - 1);
#pragma unroll 1
  for (uint32_t i = 0; i < ring.chunks; ++i)
    if (!ring.template fold<ringStore>(i, false, ring.a.recv)) return;
}
GOCCL_RING(ringReduceScatter)

// What a rank sends goes to its own place, too, where it is not there.
template <class Ring>
GOCCL_DEVICE void ringAllGatherOf(Ring& ring) {
  uint8_t* home = ring.output(ring.a.rank);
  if (home == ring.a.send) home = nullptr;
  ring.begin(ring.a.bytes, ring.a.nranks - 1);
#pragma unroll 1
  for (uint32_t i = 0; i < ring.chunks; ++i)
    if (!ring.template step<ringSend | ringStore>(ring.a.send, home, ring.a.bytes, i) || !ring.share(i, false)) return;
}
GOCCL_RING(ringAllGather)

template <class Ring>
GOCCL_DEVICE void ringBroadcastOf(Ring& ring) {
  const Args& a = ring.a;
  const bool root = a.rank == a.root, last = ring.next == a.root;
  ring.begin(a.bytes, root ? 0 : 1);
#pragma unroll 1
  for (uint32_t i = 0; i < ring.chunks; ++i)
    if (root   ? !ring.template step<ringSend | ringStore>(a.send, a.send == a.recv ? nullptr : a.recv, a.bytes, i)
        : last ? !ring.template step<ringReceive | ringStore>(nullptr, a.recv, a.bytes, i)
               : !ring.template step<ringReceive | ringSend | ringStore>(nullptr, a.recv, a.bytes, i))
      return;
}
GOCCL_RING(ringBroadcast)

template <class Ring>
GOCCL_DEVICE void ringReduceOf(Ring& ring) {
  const Args& a = ring.a;
  const bool root = a.rank == a.root, first = ring.before == a.root;
  ring.begin(a.bytes, first ? 0 : 1);
#pragma unroll 1
  for (uint32_t i = 0; i < ring.chunks; ++i)
    if (root    ? !ring.template step<ringReceive | ringFold | ringLast | ringStore>(a.send, a.recv, a.bytes, i)
        : first ? !ring.template step<ringSend>(a.send, nullptr, a.bytes, i)
                : !ring.template step<ringReceive | ringFold | ringSend>(a.send, nullptr, a.bytes, i))
      return;
}
GOCCL_RING(ringReduce)
#undef GOCCL_RING

// NoReducer is the reducer of rings that reduce nothing.
struct NoReducer {
  static constexpr bool folds = false;
  GOCCL_DEVICE explicit NoReducer(const Args&) {}
};

}  // namespace collective
}  // namespace goccl
