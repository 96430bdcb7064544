// All-reduce and reduce-scatter of 16-bit types, for large messages: sums stay with the owner of a slice, in 32 bits,
// and are rounded once. Every rank sends its part of a slice straight to the owner. Ranks are shifted against each
// other, so that at any time each port has one sender and one receiver.
//
//   reduce-scatter   in step k = 1…n−1 of a round to the rank k ahead, from the rank k behind   (n−1)/n·N bytes out
//   all-reduce       that, and then the results around the ring, as in all-gather               2·(n−1)/n·N
//
// A round is a piece of the slice: as much as the workers' registers hold sums of. Its steps:
//
//   1. wait for the data of the rank k behind, and for room at the rank k ahead
//   2. load both: from the FIFO, and from the own input
//   3. send the own part of the slice of the rank ahead
//   4. add the received data to the sums; the first step begins them with the own part of the own slice, the last step
//      rounds and stores them
//   5. signal: to the sender, that the slot may be filled again; to the receiver, that its data has arrived
//
// A rank takes a step `foldLag` turns after it has sent its own part in it: a part may be on its way that long. A sum
// is in the order of the owner, the rank before it, the one before that, and so on, for every element: the same bits on
// all ranks and every time. Packets fold in the order of the ranks, so their last bit may differ.
//
// A channel's share of a slice is the same in both halves of an all-reduce: in the second half a block passes on the
// sums that it folded itself, and overwrites only data that it sent itself. A block barrier between the halves is
// enough.
//
// # Counts
//
// A block passes pieces by the ring's pipe. A channel counts the steps of all launches. All ranks take the same steps,
// so one count serves all pairs. In step s a rank fills slot s modulo the depth in one peer's FIFO, and one peer fills
// slot s modulo the depth in the rank's FIFO. Each channel and peer has a line with a flag and a limit, which that peer
// writes:
//
//   flag     of the steps in which the peer sends, those below that number have arrived
//   limit    of the steps that send to the peer, those below that number may. When the peer has taken step s, it gives
//            room for step s + depth to the sender of that step, but never beyond the steps of its launch: between
//            launches nothing is in flight
//
// The FIFO of a channel has the place of the ring's, so channels need not wait for each other between the halves of an
// all-reduce: a block gives the first room of the second half when it has taken all of the first.
//
// # Progress
//
// In turn t a rank sends in step t and receives in step t − lag. It waits for turn t − lag of the rank that it receives
// from, and for room that the rank it sends to has given in turn t − depth + lag. Depth is more than lag, so both are
// earlier turns.
//
// Arguments are as in ring.cuh. The peers' flags and limits follow the ring's flags and limits, channel by channel.
#pragma once

#include <collective/ring.cuh>

namespace goccl {
namespace collective {

constexpr uint32_t foldLag = 2;    // turns from sending to receiving
constexpr uint32_t foldDepth = 4;  // slots, at most, and at least one more than the lag

template <class R, Access A>
struct Fold {
  // Step is one of either kind: with the peer that many places away, and a piece of a chunk.
  struct Step {
    uint32_t away = 1, piece = 0, chunk = 0;
  };

  Ring<NoReducer, A>& ring;
  const Args& a;
  const R reducer;
  const uint32_t slotBytes, depth;  // of the channel's FIFO
  const uint64_t before;            // steps of earlier launches
  uint32_t pieces, pieceBytes, total;
  uint32_t allowed = 0, allowedAway = 1;

  // The ring has been divided.
  GOCCL_DEVICE explicit Fold(Ring<NoReducer, A>& r)
      : ring(r), a(r.a), reducer(r.a),
        slotBytes(held(r.pipe.workers()) < r.slotBytes ? held(r.pipe.workers()) : r.slotBytes),
        depth(r.depth * r.slotBytes / slotBytes < foldDepth ? r.depth * r.slotBytes / slotBytes : foldDepth),
        before(r.counters()[2]), pieces(static_cast<uint32_t>((r.chunk + slotBytes - 1) / slotBytes)),
        pieceBytes(((static_cast<uint32_t>(r.chunk) + pieces - 1) / pieces + 127) & ~127u),
        total(r.chunks * pieces * (a.nranks - 1)) {}

  // held is how many bytes the workers have sums of.
  static GOCCL_DEVICE uint32_t held(uint32_t workers) { return workers * ringFlight * 16 & ~127u; }

  // The words that rank `by` writes at rank `at`.
  GOCCL_DEVICE uint64_t* flag(uint32_t at, uint32_t by) const {
    return reinterpret_cast<uint64_t*>(a.window[at] + a.flagsOffset +
                                       (ringChannels + ring.channel * a.nranks + by) * ringLine);
  }
  GOCCL_DEVICE uint64_t* limit(uint32_t at, uint32_t by) const { return flag(at, by) + 8; }
  GOCCL_DEVICE uint8_t* slot(uint32_t rank, uint32_t step) const {
    return a.window[rank] + static_cast<uint64_t>(ring.channel) * (ring.depth * ring.slotBytes) +
           step % depth * slotBytes;
  }

  // allow gives room for one more step to its sender.
  GOCCL_DEVICE void allow() {
    if (allowed == total) return;
    storeRelaxed<Scope::sys>(limit(ring.behind(allowedAway), a.rank), before + ++allowed);
    if (++allowedAway == a.nranks) allowedAway = 1;
  }
  GOCCL_DEVICE void advance(Step& s) const {
    if (++s.away != a.nranks) return;
    s.away = 1;
    if (++s.piece != pieces) return;
    s.piece = 0;
    ++s.chunk;
  }
  // offset is where in a slice of length bytes the piece begins, and bytes how long it is there.
  GOCCL_DEVICE uint64_t offset(const Step& s, uint64_t length, uint32_t& bytes) const {
    const uint64_t first = (static_cast<uint64_t>(s.chunk) * ring.channels + ring.channel) * ring.chunk,
                   at = first + s.piece * pieceBytes;
    const uint64_t end = length - first < ring.chunk ? length : first + ring.chunk;
    bytes = first >= length || at >= end ? 0 : static_cast<uint32_t>(end - at < pieceBytes ? end - at : pieceBytes);
    return at;
  }

  GOCCL_DEVICE static uint4 load(const uint8_t* p, uint32_t n, bool inside) {
    return A == Access::words ? loadVec(p) : loadAny(p, n, inside);
  }

  // move is what a worker does in a turn: `given` bytes from in to `to`, `taken` bytes from `from` into the sums, which
  // begin with own and end in out.
  GOCCL_DEVICE void move(typename R::Sum* sum, const uint8_t* in, uint8_t* to, uint32_t given, const uint8_t* from,
                         uint32_t taken, bool begins, const uint8_t* own, bool ends, uint8_t* out) const {
    const uint32_t stride = ring.pipe.workers() * 16, base = threadIdx.x * 16;
    uint4 x[ringFlight], y[ringFlight];
#pragma unroll
    for (uint32_t j = 0; j < ringFlight; ++j) {
      const uint32_t i = base + j * stride;
      if (i < taken) x[j] = loadVec(from + i);
      if (i < given) y[j] = load(in + i, given - i, i >= 16 && i + 32 <= given);
    }
#pragma unroll
    for (uint32_t j = 0; j < ringFlight; ++j) {
      const uint32_t i = base + j * stride;
      if (i >= given) break;
      storeVec(to + i, reducer.scaled(y[j]));
    }
    if (begins) {
#pragma unroll
      for (uint32_t j = 0; j < ringFlight; ++j) {
        const uint32_t i = base + j * stride;
        if (i < taken) y[j] = load(own + i, taken - i, own != out && i >= 16 && i + 32 <= taken);
      }
#pragma unroll
      for (uint32_t j = 0; j < ringFlight; ++j) {
        if (base + j * stride >= taken) break;
        reducer.begin(sum[j], reducer.scaled(y[j]));
      }
    }
#pragma unroll
    for (uint32_t j = 0; j < ringFlight; ++j) {
      const uint32_t i = base + j * stride;
      if (i >= taken) break;
      reducer.add(sum[j], x[j]);
      if (!ends) continue;
      const uint4 v = reducer.end(sum[j]);
      if (A == Access::words)
        storeVec(out + i, v);
      else
        storeAny(out + i, taken - i, v);
    }
  }

  // run folds the own slice into out. It is false where a wait was given up.
  GOCCL_DEVICE bool run(bool divided, uint8_t* out) {
    auto length = [&](uint32_t r) { return divided ? ring.length(r) : a.bytes; };
    const uint8_t* own = ring.input(a.rank);
    typename R::Sum sum[ringFlight];
    Step send, receive;
    if (ring.pipe.signaler())
      for (uint32_t k = 0; k < depth; ++k) allow();
#pragma unroll 1
    for (uint32_t turn = 0; turn < total + foldLag; ++turn) {
      const bool sends = turn < total, receives = turn >= foldLag;
      const uint32_t taking = turn - foldLag, to = ring.ahead(send.away), from = ring.behind(receive.away);
      auto arrival = [&] {
        uint64_t seen = before + taking;
        return receives ? ring.pipe.awaitFlag(flag(a.rank, from), before + taking, seen, from) : statusOk;
      };
      auto space = [&] {
        uint64_t seen = before + turn;
        return sends ? ring.pipe.awaitLimit(limit(a.rank, to), before + turn, seen, to) : statusOk;
      };
      auto pass = [&] {
        uint32_t given, taken;
        const uint64_t in = offset(send, length(to), given), at = offset(receive, length(a.rank), taken);
        move(sum, ring.input(to) + in, slot(to, turn), sends ? given : 0, slot(a.rank, taking), receives ? taken : 0,
             receive.away == 1, own + at, receive.away + 1 == a.nranks, out + at);
      };
      auto signal = [&] {
        if (receives) allow();
        if (sends) storeRelease<Scope::sys>(flag(to, a.rank), before + turn + 1);
      };
      if (!ring.pipe.step(arrival, space, pass, signal)) return false;
      if (sends) advance(send);
      if (receives) advance(receive);
    }
    if (threadIdx.x == 0) ring.counters()[2] = before + total;
    return true;
  }
};

template <class R, Access A>
GOCCL_DEVICE void foldReduceScatter(const Args& a) {
  Ring<NoReducer, A> ring(a);
  ring.divide(a.bytes);
  Fold<R, A>(ring).run(false, a.recv);
}

template <class R, Access A>
GOCCL_DEVICE void foldAllReduce(const Args& a) {
  Ring<NoReducer, A> ring(a);
  ring.divide(a.sendStride);
  uint8_t* home = ring.output(a.rank);
  if (!Fold<R, A>(ring).run(true, home)) return;
  ring.open(a.nranks - 1);
#pragma unroll 1
  for (uint32_t i = 0; i < ring.chunks; ++i)
    if (!ring.template step<ringSend>(home, nullptr, ring.length(a.rank), i) || !ring.share(i, true)) return;
  ring.finish();
}

}  // namespace collective
}  // namespace goccl
