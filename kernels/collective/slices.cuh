// Large reductions, all-gathers and broadcasts on few SMs: every slice of the buffer has an owner.
//
//   1. every source sends its part of each slice to the slice's owner
//   2. the owner adds the parts, its own among them, in the order of the ranks, rounds once, and keeps the result
//   3. the owner sends the result to every taker
//
//   job              owners           sources       takers           bytes out of a port, at most
//   all-reduce       all              all           all              2·(n−1)/n·N
//   reduce-scatter   all              all           –                (n−1)/n·N
//   all-gather       all              the owner     all              (n−1)/n·N
//   reduce           all but the root all           the root         N
//   broadcast        all but the root the root      all but the root N
//
// So the sum of an element depends on the ranks' values of that element alone, whatever the size, the launch or the
// algorithm's other numbers.
//
// # Pieces and turns
//
// A channel is a block on every rank. A slice is divided into pieces; in turn t, channel c handles piece
// t·channels + c of every slice. All ranks take the same turns, also where a slice is short or empty.
//
// # Slots and counts
//
// For each phase (0: parts to owners, 1: results to takers), channel and sender a rank's window has a FIFO of `depth`
// slots of a piece; turn t uses slot t mod depth. Counts of turns are kept in device memory for ever, in 64 bits, one
// for each phase: all ranks count alike, so a launch can be replayed. A pair of ranks shares two words for each
// channel and phase:
//
//   flag    in the receiver's window: turns below that number have arrived
//   limit   in the sender's window: turns below that number may be sent
//
// A receiver raises a limit to depth beyond what it has taken, but never beyond its launch. So between launches
// nothing is on its way: the next launch may lay the FIFOs out anew, and streams, whose rings lie in the same place,
// may run.
//
// # Memory order
//
// A sender releases a flag at system scope behind its stores; the receiver acquires it. A limit is relaxed: it follows
// the loads of the slot, which have returned their values by then.
//
// # Progress
//
// Give step (phase 0 sends, turn t) the time t, the sum of turn t the time t + lag, taking a result t + 2·lag. A send
// waits for a sum of turn t − depth, a sum for sends of its own turn and for a taking of turn t − depth, a taking for a
// sum of its own turn. With depth > lag every wait is for an earlier time. slices_bulk.cuh takes the steps of a turn in
// concurrent threads instead, each in the order of the turns; both kinds speak the same protocol, so each rank chooses.
// Property, checked in every state of a small model (internal/test/models, slices).
#pragma once

#include <collective/protocol.cuh>
#include <collective/reducer.cuh>
#include <goccl/copy.cuh>
#include <goccl/pipe.cuh>

namespace goccl {
namespace collective {

constexpr uint32_t sliceChannels = 64;  // at most
constexpr uint32_t sliceLag = 2;        // turns from sending a part to adding it, and from the sum to taking it
constexpr uint32_t sliceWorkers = 512;  // threads that move data without bulk copies, at most
constexpr uint32_t sliceFlight = 4;     // vectors of a thread in flight
constexpr uint32_t sliceLine = 128;     // bytes of a flag (at 0) and a limit (at 64)

// In Args, bytes is the length of all slices together, slotBytes the size of a slot, a multiple of 128, plus depth;
// windows are at the stream region.
struct SliceArgs : Args {
  uint8_t* mirror;   // where a sender keeps what it sends, slice after slice; or null. Only with one source
  uint64_t slice;    // bytes of a slice, at most
  uint32_t owners;   // a bit for each rank
  uint32_t sources;  // ranks that send parts to owners; 0: an owner's own part is the result
  uint32_t takers;   // ranks that get the results of others
  uint32_t keeps;    // whether an owner stores its own result
};
static_assert(sizeof(SliceArgs) == 264, "SliceArgs is filled by the host");

// loadAny reads 16 bytes at p, of which n exist; inside says that the bytes around them may be read, too.
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

// awaitCount waits until the count at word, which rank `peer` writes, is above `turn`.
GOCCL_COLD Status awaitCount(const uint64_t* word, uint64_t turn, AbortBlock* abort, uint32_t peer) {
  return waitUntil([&] { return loadAcquire<Scope::sys>(word) > turn; }, abort, word, waitPacket, -1, peer);
}

// Slices is the geometry of a launch, as both kinds of kernels and all ranks compute it.
struct Slices {
  enum Phase : uint32_t { parts = 0, results = 1 };
  const SliceArgs& a;
  const uint32_t channel, channels, piece, depth;
  const uint32_t turns;
  const uint64_t before[2];  // turns of earlier launches, by phase

  GOCCL_DEVICE explicit Slices(const SliceArgs& args)
      : a(args), channel(blockIdx.x), channels(gridDim.x), piece(args.slotBytes & ~127u), depth(args.slotBytes & 127),
        turns(turnsOf(args.slice, piece, channels)), before{counters()[0], counters()[1]} {}

  static GOCCL_DEVICE uint32_t turnsOf(uint64_t slice, uint32_t piece, uint32_t channels) {
    const uint64_t pieces = (slice + piece - 1) / piece;
    return static_cast<uint32_t>((pieces + channels - 1) / channels);
  }
  GOCCL_DEVICE uint64_t* counters() const { return reinterpret_cast<uint64_t*>(a.epochs + channel * epochStride); }
  // finish keeps the counts. One thread calls it at the end.
  GOCCL_DEVICE void finish() const {
    if (a.sources != 0) counters()[parts] = before[parts] + turns;
    if (a.takers != 0) counters()[results] = before[results] + turns;
  }

  GOCCL_DEVICE static bool has(uint32_t set, uint32_t rank) { return (set >> rank & 1) != 0; }
  GOCCL_DEVICE bool owns() const { return has(a.owners, a.rank); }
  GOCCL_DEVICE bool sends() const { return has(a.sources, a.rank); }
  GOCCL_DEVICE bool takes() const { return has(a.takers, a.rank); }
  // sendsTo, addsOf, passesTo and takesFrom say whether this rank does that with peer p.
  GOCCL_DEVICE bool sendsTo(uint32_t p) const { return p != a.rank && sends() && has(a.owners, p); }
  GOCCL_DEVICE bool addsOf(uint32_t p) const { return p != a.rank && owns() && has(a.sources, p); }
  GOCCL_DEVICE bool passesTo(uint32_t p) const { return p != a.rank && owns() && has(a.takers, p); }
  GOCCL_DEVICE bool takesFrom(uint32_t p) const { return p != a.rank && takes() && has(a.owners, p); }
  // adds says whether rank r's part is in the own sum.
  GOCCL_DEVICE bool adds(uint32_t r) const { return a.sources == 0 ? r == a.rank : has(a.sources, r); }

  GOCCL_DEVICE uint32_t ahead(uint32_t k) const { return a.rank + k >= a.nranks ? a.rank + k - a.nranks : a.rank + k; }
  GOCCL_DEVICE uint32_t behind(uint32_t k) const { return a.rank >= k ? a.rank - k : a.rank + a.nranks - k; }

  // index is the number of rank p's slice.
  GOCCL_DEVICE uint32_t index(uint32_t p) const {
    const uint32_t below = a.owners & ((1u << p) - 1);
#if GOCCL_CUDA
    return __popc(below);
#else
    return static_cast<uint32_t>(__builtin_popcount(below));
#endif
  }
  GOCCL_DEVICE uint64_t offset(uint32_t turn) const {
    return (static_cast<uint64_t>(turn) * channels + channel) * piece;
  }
  // bytes is the length of rank p's piece in a turn.
  GOCCL_DEVICE uint32_t bytes(uint32_t p, uint32_t turn) const {
    const uint64_t first = index(p) * a.slice, at = offset(turn);
    if (first >= a.bytes) return 0;
    const uint64_t left = a.bytes - first, length = left < a.slice ? left : a.slice;
    if (at >= length) return 0;
    return length - at < piece ? static_cast<uint32_t>(length - at) : piece;
  }
  GOCCL_DEVICE const uint8_t* input(uint32_t p, uint32_t turn) const {
    return a.send + index(p) * a.sendStride + offset(turn);
  }
  GOCCL_DEVICE uint8_t* output(uint32_t p, uint32_t turn) const {
    return a.recv + index(p) * a.recvStride + offset(turn);
  }

  // mirror is where this rank keeps a piece that it sends to p, or null.
  GOCCL_DEVICE uint8_t* mirror(uint32_t p, uint32_t turn) const {
    return a.mirror == nullptr ? nullptr : a.mirror + index(p) * a.recvStride + offset(turn);
  }

  // slot is where, at rank `at`, rank `by` puts its piece of a turn.
  GOCCL_DEVICE uint8_t* slot(Phase phase, uint32_t at, uint32_t by, uint32_t turn) const {
    const uint32_t peer = by < at ? by : by - 1;
    const uint32_t fifo = (phase * (a.nranks - 1) + peer) * channels + channel;
    return a.window[at] + (static_cast<uint64_t>(fifo) * depth + turn % depth) * piece;
  }
  // The words at rank `at` that rank `by` writes.
  GOCCL_DEVICE uint64_t* flag(Phase phase, uint32_t at, uint32_t by) const {
    return reinterpret_cast<uint64_t*>(a.window[at] + a.flagsOffset +
                                       ((phase * a.nranks + by) * sliceChannels + channel) * sliceLine);
  }
  GOCCL_DEVICE uint64_t* limit(Phase phase, uint32_t at, uint32_t by) const { return flag(phase, at, by) + 8; }

  // arrived says that rank p's piece of a turn is there, allowed that it may be sent to p.
  GOCCL_DEVICE bool arrived(Phase phase, uint32_t p, uint32_t turn) const {
    return loadAcquire<Scope::sys>(flag(phase, a.rank, p)) > before[phase] + turn;
  }
  GOCCL_DEVICE bool allowed(Phase phase, uint32_t p, uint32_t turn) const {
    return loadRelaxed<Scope::sys>(limit(phase, a.rank, p)) > before[phase] + turn;
  }
  GOCCL_DEVICE Status awaitArrival(Phase phase, uint32_t p, uint32_t turn) const {
    return awaitCount(flag(phase, a.rank, p), before[phase] + turn, a.abort, p);
  }
  GOCCL_DEVICE Status awaitAllowed(Phase phase, uint32_t p, uint32_t turn) const {
    return awaitCount(limit(phase, a.rank, p), before[phase] + turn, a.abort, p);
  }
  // publish tells rank p that turns below `turn` have arrived; allow, that turns up to depth beyond it may be sent.
  GOCCL_DEVICE void publish(Phase phase, uint32_t p, uint32_t turn) const {
    storeRelease<Scope::sys>(flag(phase, p, a.rank), before[phase] + turn);
  }
  GOCCL_DEVICE void allow(Phase phase, uint32_t p, uint32_t turn) const {
    storeRelaxed<Scope::sys>(limit(phase, p, a.rank), before[phase] + (turn + depth < turns ? turn + depth : turns));
  }
};

// SlicesByWorkers is a block whose threads take the steps of a turn together: for buffers of any address, operators
// that scale their inputs, and GPUs and links without bulk copies.
template <class R, Access A>
struct SlicesByWorkers {
  Slices s;
  const SliceArgs& a;
  const R reducer;
  Pipe pipe;

  GOCCL_DEVICE explicit SlicesByWorkers(const SliceArgs& args) : s(args), a(args), reducer(args), pipe(args.abort) {}

  GOCCL_DEVICE static uint4 load(const uint8_t* p, uint32_t n, bool inside) {
    return A == Access::words ? loadVec(p) : loadAny(p, n, inside);
  }
  GOCCL_DEVICE static void store(uint8_t* p, uint32_t n, const uint4& v) {
    if (A == Access::words)
      storeVec(p, v);
    else
      storeAny(p, n, v);
  }
  // inside says that the 16 bytes on either side of vector i are of the same piece. No thread writes a piece while it is
  // sent; where an owner's own part is also its output, others write what is around.
  GOCCL_DEVICE static bool inside(uint32_t i, uint32_t bytes) { return i >= 16 && i + 32 <= bytes; }

  // vectors runs body(i, j) for every 16 bytes of this thread, sliceFlight of them at a time: load, then store.
  template <class Load, class Store>
  GOCCL_DEVICE void vectors(uint32_t bytes, Load loadAt, Store storeAt) const {
    const uint32_t stride = pipe.workers() * 16;
#pragma unroll 1
    for (uint32_t base = threadIdx.x * 16; base < bytes; base += sliceFlight * stride) {
      uint4 x[sliceFlight];
#pragma unroll
      for (uint32_t j = 0; j < sliceFlight; ++j)
        if (base + j * stride < bytes) x[j] = loadAt(base + j * stride);
#pragma unroll
      for (uint32_t j = 0; j < sliceFlight; ++j)
        if (base + j * stride < bytes) storeAt(base + j * stride, x[j]);
    }
  }

  GOCCL_DEVICE void send(uint32_t turn) const {
#pragma unroll 1
    for (uint32_t k = 1; k < a.nranks; ++k) {
      const uint32_t p = s.ahead(k);
      if (!s.sendsTo(p)) continue;
      const uint8_t* in = s.input(p, turn);
      uint8_t* to = s.slot(Slices::parts, p, a.rank, turn);
      uint8_t* mirror = s.mirror(p, turn);
      const uint32_t bytes = s.bytes(p, turn);
      vectors(
          bytes, [&](uint32_t i) { return load(in + i, bytes - i, inside(i, bytes)); },
          [&](uint32_t i, const uint4& v) {
            storeVec(to + i, reducer.sent(v));
            if (mirror != nullptr) store(mirror + i, bytes - i, v);
          });
    }
  }
  GOCCL_DEVICE uint4 sumAt(const uint8_t* own, bool apart, uint32_t i, uint32_t bytes, uint32_t turn) const {
    typename R::Sum sum{};
    bool first = true;
#pragma unroll 1
    for (uint32_t r = 0; r < a.nranks; ++r) {
      if (!s.adds(r)) continue;
      const uint4 v = reducer.term(r == a.rank ? reducer.sent(load(own + i, bytes - i, apart && inside(i, bytes)))
                                               : loadVec(s.slot(Slices::parts, a.rank, r, turn) + i));
      if (first)
        reducer.begin(sum, v);
      else
        reducer.add(sum, v);
      first = false;
    }
    return reducer.end(sum);
  }
  GOCCL_DEVICE void add(uint32_t turn) const {
    const uint8_t* own = s.input(a.rank, turn);
    uint8_t* out = s.output(a.rank, turn);
    const uint32_t bytes = s.bytes(a.rank, turn);
    vectors(
        bytes, [&](uint32_t i) { return sumAt(own, own != out, i, bytes, turn); },
        [&](uint32_t i, const uint4& v) {
          if (a.keeps != 0) store(out + i, bytes - i, v);
          for (uint32_t k = 1; k < a.nranks; ++k)
            if (s.passesTo(s.ahead(k))) storeVec(s.slot(Slices::results, s.ahead(k), a.rank, turn) + i, v);
        });
  }
  GOCCL_DEVICE void take(uint32_t turn) const {
#pragma unroll 1
    for (uint32_t k = 1; k < a.nranks; ++k) {
      const uint32_t p = s.behind(k);
      if (!s.takesFrom(p)) continue;
      const uint8_t* from = s.slot(Slices::results, a.rank, p, turn);
      uint8_t* out = s.output(p, turn);
      const uint32_t bytes = s.bytes(p, turn);
      vectors(
          bytes, [&](uint32_t i) { return loadVec(from + i); },
          [&](uint32_t i, const uint4& v) { store(out + i, bytes - i, v); });
    }
  }

  // each runs body(p) for every peer until it returns a status other than statusOk.
  template <class Body>
  GOCCL_DEVICE Status each(Body body) const {
#pragma unroll 1
    for (uint32_t k = 1; k < a.nranks; ++k) {
      const Status status = body(s.behind(k));
      if (status != statusOk) return status;
    }
    return statusOk;
  }

  GOCCL_DEVICE void run() {
    if (pipe.signaler()) open();
#pragma unroll 1
    for (uint32_t now = 0; now < s.turns + 2 * sliceLag; ++now) {
      const uint32_t adding = now - sliceLag, taking = adding - sliceLag;  // beyond all turns where there is none yet
      const bool sends = now < s.turns, adds = adding < s.turns, takes = taking < s.turns;
      auto arrived = [&] {
        return each([&](uint32_t p) {
          Status status = adds && s.addsOf(p) ? s.awaitArrival(Slices::parts, p, adding) : statusOk;
          if (status == statusOk && takes && s.takesFrom(p)) status = s.awaitArrival(Slices::results, p, taking);
          return status;
        });
      };
      auto room = [&] {
        return each([&](uint32_t p) {
          Status status = sends && s.sendsTo(p) ? s.awaitAllowed(Slices::parts, p, now) : statusOk;
          if (status == statusOk && adds && s.passesTo(p)) status = s.awaitAllowed(Slices::results, p, adding);
          return status;
        });
      };
      auto move = [&] {
        if (sends && s.sends()) send(now);
        if (adds && s.owns()) add(adding);
        if (takes && s.takes()) take(taking);
      };
      auto signal = [&] {
        each([&](uint32_t p) {
          if (sends && s.sendsTo(p)) s.publish(Slices::parts, p, now + 1);
          if (adds && s.passesTo(p)) s.publish(Slices::results, p, adding + 1);
          if (adds && s.addsOf(p)) s.allow(Slices::parts, p, adding + 1);
          if (takes && s.takesFrom(p)) s.allow(Slices::results, p, taking + 1);
          return statusOk;
        });
      };
      if (!pipe.step(arrived, room, move, signal)) return;
    }
    if (threadIdx.x == 0) s.finish();
  }

  // open gives the first room of the launch.
  GOCCL_DEVICE void open() const {
    each([&](uint32_t p) {
      if (s.addsOf(p)) s.allow(Slices::parts, p, 0);
      if (s.takesFrom(p)) s.allow(Slices::results, p, 0);
      return statusOk;
    });
  }
};

template <class R, Access A>
GOCCL_DEVICE void slicesByWorkers(const SliceArgs& a) {
  SlicesByWorkers<R, A>(a).run();
}

// MoveReducer passes the one part of a result on.
struct MoveReducer {
  static constexpr bool folds = false;
  using Sum = uint4;
  GOCCL_DEVICE explicit MoveReducer(const Args&) {}
  GOCCL_DEVICE uint4 sent(const uint4& v) const { return v; }
  GOCCL_DEVICE uint4 term(const uint4& v) const { return v; }
  GOCCL_DEVICE void begin(Sum& sum, const uint4& v) const { sum = v; }
  GOCCL_DEVICE void add(Sum&, const uint4&) const {}
  GOCCL_DEVICE uint4 end(Sum& sum) const { return sum; }
};

}  // namespace collective
}  // namespace goccl
