// The steps of slices.cuh by bulk copies: few threads issue all copies, so a few blocks fill the links.
//
//   sender     own parts -> shared memory -> slots at the owners        a warp, a lane for each owner: a pump
//   loader     parts of all sources -> a stage of shared memory         a warp, a lane for each source
//   workers    add a stage in the order of the ranks; to the own output or, if there are takers, to shared memory
//   passer     result in shared memory -> own output, and slots at the takers     a warp, a lane for each
//   taker      slots -> shared memory -> output                         a warp, a lane for each owner: a pump
//   signaler   publishes what sender and passer have done               a warp, a lane for each phase and peer
//
// The warps run beside each other and meet at barriers in shared memory only: full and empty for the loader's stages,
// done and free for results.
//
// Addresses are multiples of 16; the last bytes beyond a multiple of 16 go by plain loads and stores. A wait that is
// given up ends its warp; the others see the same abort.
#pragma once

#include <collective/slices.cuh>
#include <goccl/pump.cuh>

namespace goccl {
namespace collective {

constexpr uint32_t bulkWorkers = 512;
constexpr uint32_t bulkRoles = 5;  // warps: sender, loader, passer, taker, signaler
constexpr uint32_t bulkThreads = bulkWorkers + 32 * bulkRoles;
constexpr uint32_t bulkStages = 3, bulkResults = 3;
constexpr uint32_t bulkStageBytes = 24 << 10;   // parts of all ranks
constexpr uint32_t bulkResultBytes = 6 << 10;   // a part of one rank, at most
constexpr uint32_t bulkPumpStages = 4;
constexpr uint32_t bulkPumpBytes = 17 << 10;    // parts of all lanes
constexpr uint32_t bulkWords = 512;             // of barriers and counts
// What a launch asks for.
constexpr uint32_t bulkShared = bulkStages * bulkStageBytes + bulkResults * bulkResultBytes +
                                2 * bulkPumpStages * bulkPumpBytes + bulkWords;

#if GOCCL_BULK

extern __shared__ __align__(128) uint8_t bulkMemory[];

using SlicePump = Pump<bulkPumpStages, 16>;

struct BulkShared {
  uint8_t* stages = bulkMemory;
  uint8_t* results = stages + bulkStages * bulkStageBytes;
  uint8_t* sending = results + bulkResults * bulkResultBytes;
  uint8_t* taking = sending + bulkPumpStages * bulkPumpBytes;
  BulkBarrier* full = reinterpret_cast<BulkBarrier*>(taking + bulkPumpStages * bulkPumpBytes);
  BulkBarrier *empty = full + bulkStages, *done = empty + bulkStages, *free = done + bulkResults;
  BulkBarrier *sendingBarriers = free + bulkResults, *takingBarriers = sendingBarriers + bulkPumpStages;
  Counts<uint64_t>* counts = reinterpret_cast<Counts<uint64_t>*>(takingBarriers + bulkPumpStages);
};
static_assert(8 * (2 * bulkStages + 2 * bulkResults + 2 * bulkPumpStages + 32) <= bulkWords, "they fit");

// PieceParts divides the pieces of a launch into parts.
struct PieceParts {
  const uint32_t bytes, count;  // of a part, at most; of a piece
  GOCCL_DEVICE PieceParts(uint32_t partBytes, uint32_t piece) : bytes(partBytes), count((piece + bytes - 1) / bytes) {}
  // sizeOf is the length of part u of a piece of so many bytes.
  GOCCL_DEVICE uint32_t sizeOf(uint32_t piece, uint32_t u) const {
    const uint32_t at = u * bytes;
    return at >= piece ? 0 : (piece - at < bytes ? piece - at : bytes);
  }
};

// SliceCursor is a step of a pump: part u of the pieces of a turn. The addresses are of this lane's piece.
struct SliceCursor {
  uint32_t turn, u, bytes;
  const uint8_t* from;
  uint8_t *to, *mirror;
};
template <class Flow>
struct SliceFlow {
  const Slices& s;
  const PieceParts parts;
  const uint32_t peer;
  const bool moves;   // whether there is anything between this rank and the peer
  uint64_t seen = 0;  // the word that the peer writes: a flag or a limit
  GOCCL_DEVICE SliceCursor first() const {
    SliceCursor c{0, 0, 0, nullptr, nullptr, nullptr};
    if (moves && s.turns > 0) static_cast<const Flow*>(this)->place(c);
    return c;
  }
  GOCCL_DEVICE bool done(const SliceCursor& c) const { return c.turn == s.turns; }
  GOCCL_DEVICE bool last(const SliceCursor& c) const { return c.u + 1 == parts.count; }
  GOCCL_DEVICE void next(SliceCursor& c) const {
    if (++c.u != parts.count) return;
    c.u = 0;
    if (++c.turn < s.turns && moves) static_cast<const Flow*>(this)->place(c);
  }
  GOCCL_DEVICE Part at(const SliceCursor& c) const {
    const uint32_t at = c.u * parts.bytes;
    return {c.from + at, c.to + at, parts.sizeOf(c.bytes, c.u), c.mirror == nullptr ? nullptr : c.mirror + at};
  }
};

struct SendFlow : SliceFlow<SendFlow> {
  static constexpr bool publishes = true;
  Counts<uint64_t>& counts;
  GOCCL_DEVICE SendFlow(const Slices& s, uint32_t partBytes, uint32_t p, Counts<uint64_t>& c)
      : SliceFlow{s, PieceParts(partBytes, s.piece), p, s.sendsTo(p)}, counts(c) {}
  GOCCL_DEVICE void place(SliceCursor& c) const {
    c.bytes = s.bytes(peer, c.turn);
    c.from = s.input(peer, c.turn);
    c.to = s.slot(Slices::parts, peer, s.a.rank, c.turn);
    c.mirror = s.mirror(peer, c.turn);
  }
  GOCCL_DEVICE bool ready(const SliceCursor&) const { return true; }
  GOCCL_DEVICE Status await(const SliceCursor&) const { return statusOk; }
  GOCCL_DEVICE void landed(const SliceCursor&) const {}
  GOCCL_DEVICE bool room(const SliceCursor& c) {
    const uint64_t turn = s.before[Slices::parts] + c.turn;
    if (c.u != 0 || !moves || seen > turn) return true;
    seen = loadRelaxed<Scope::sys>(s.limit(Slices::parts, s.a.rank, peer));
    return seen > turn;
  }
  GOCCL_DEVICE Status awaitRoom(const SliceCursor& c) const { return s.awaitAllowed(Slices::parts, peer, c.turn); }
  GOCCL_DEVICE void performed(const SliceCursor& c) const {
    if (moves && last(c)) counts.say(peer, s.before[Slices::parts] + c.turn + 1);
  }
};

struct TakeFlow : SliceFlow<TakeFlow> {
  static constexpr bool publishes = false;
  GOCCL_DEVICE TakeFlow(const Slices& s, uint32_t partBytes, uint32_t p)
      : SliceFlow{s, PieceParts(partBytes, s.piece), p, s.takesFrom(p)} {}
  GOCCL_DEVICE void place(SliceCursor& c) const {
    c.bytes = s.bytes(peer, c.turn);
    c.from = s.slot(Slices::results, s.a.rank, peer, c.turn);
    c.to = s.output(peer, c.turn);
  }
  GOCCL_DEVICE bool ready(const SliceCursor& c) {
    const uint64_t turn = s.before[Slices::results] + c.turn;
    if (c.u != 0 || !moves || seen > turn) return true;
    seen = loadAcquire<Scope::sys>(s.flag(Slices::results, s.a.rank, peer));
    if (seen <= turn) return false;
    fenceProxyAsync();
    return true;
  }
  GOCCL_DEVICE Status await(const SliceCursor& c) {
    Status status = statusOk;
    if (!ready(c)) status = s.awaitArrival(Slices::results, peer, c.turn);
    fenceProxyAsync();
    return status;
  }
  GOCCL_DEVICE bool room(const SliceCursor&) const { return true; }
  GOCCL_DEVICE Status awaitRoom(const SliceCursor&) const { return statusOk; }
  GOCCL_DEVICE void performed(const SliceCursor&) const {}
  GOCCL_DEVICE void landed(const SliceCursor& c) const {
    if (moves && last(c)) s.allow(Slices::results, peer, c.turn + 1);
  }
};

// Bulk is a block.
template <class R>
struct Bulk {
  const Slices s;
  const SliceArgs& a;
  const R reducer;
  const PieceParts parts;  // of stages
  BulkShared m;

  GOCCL_DEVICE explicit Bulk(const SliceArgs& args)
      : s(args), a(args), reducer(args), parts(partOf(args.nranks), s.piece) {}
  static GOCCL_DEVICE uint32_t partOf(uint32_t nranks) {
    const uint32_t share = bulkStageBytes / nranks & ~127u;
    return share < bulkResultBytes ? share : bulkResultBytes;
  }

  // parity is that of the phase in which barrier i mod n is used for the i-th time.
  static GOCCL_DEVICE uint32_t parity(uint32_t i, uint32_t n) { return i / n & 1; }
  static GOCCL_DEVICE uint32_t lane() { return threadIdx.x % 32; }
  GOCCL_DEVICE uint8_t* stageOf(uint32_t i, uint32_t rank) const {
    return m.stages + i % bulkStages * bulkStageBytes + rank * parts.bytes;
  }
  GOCCL_DEVICE uint8_t* resultOf(uint32_t i) const { return m.results + i % bulkResults * bulkResultBytes; }

  // loader: lane r loads rank r's parts.
  GOCCL_DEVICE Status loader() {
    const uint32_t r = lane(), mask = (1u << a.nranks) - 1;
    const bool own = r == a.rank, adds = s.adds(r);
    const uint64_t* flag = s.flag(Slices::parts, a.rank, r);
    uint64_t seen = s.addsOf(r) ? s.before[Slices::parts] : ~uint64_t{0};
    uint32_t i = 0;
#pragma unroll 1
    for (uint32_t turn = 0; turn < s.turns; ++turn) {
      Status status = statusOk;
      if (seen <= s.before[Slices::parts] + turn) {
        status = s.awaitArrival(Slices::parts, r, turn);
        seen = loadAcquire<Scope::sys>(flag);
        fenceProxyAsync();
      }
      if (__any_sync(mask, status != statusOk)) return statusAborted;
      const uint32_t bytes = s.bytes(a.rank, turn);
      const uint8_t* from = own ? s.input(r, turn) : s.slot(Slices::parts, a.rank, r, turn);
#pragma unroll 1
      for (uint32_t u = 0; u < parts.count; ++u, ++i) {
        const uint32_t stage = i % bulkStages, n = parts.sizeOf(bytes, u);
        const uint32_t size = !adds ? 0 : own ? n & ~15u : (n + 15) & ~15u;
        if (i >= bulkStages) status = m.empty[stage].wait(parity(i - bulkStages, bulkStages), a.abort);
        if (__any_sync(mask, status != statusOk)) return statusAborted;
        m.full[stage].arriveAndExpect(size);
        if (size != 0) bulkLoad(stageOf(i, r), from + u * parts.bytes, size, &m.full[stage]);
      }
    }
    return statusOk;
  }

  // sumAt adds vector v of stage i. Of the own part only whole vectors are there; of its n bytes the others are at own.
  GOCCL_DEVICE uint4 sumAt(uint32_t i, uint32_t v, uint32_t n, const uint8_t* own) const {
    typename R::Sum sum{};
    bool first = true;
    for (uint32_t r = 0; r < a.nranks; ++r) {
      if (!s.adds(r)) continue;
      uint4 x;
      if (r == a.rank && v + 16 > n)
        x = gatherVector(own + v, n - v);
      else
        x = *reinterpret_cast<const uint4*>(stageOf(i, r) + v);
      x = reducer.term(x);
      if (first)
        reducer.begin(sum, x);
      else
        reducer.add(sum, x);
      first = false;
    }
    return reducer.end(sum);
  }

  GOCCL_DEVICE Status worker() {
    uint32_t i = 0;
    const bool passes = a.takers != 0;
#pragma unroll 1
    for (uint32_t turn = 0; turn < s.turns; ++turn) {
      const uint32_t bytes = s.bytes(a.rank, turn);
      const uint8_t* input = s.input(a.rank, turn);
      uint8_t* output = s.output(a.rank, turn);
#pragma unroll 1
      for (uint32_t u = 0; u < parts.count; ++u, ++i) {
        const uint32_t stage = i % bulkStages, n = parts.sizeOf(bytes, u), at = u * parts.bytes;
        Status status = m.full[stage].wait(parity(i, bulkStages), a.abort);
        if (status == statusOk && passes && i >= bulkResults)
          status = m.free[i % bulkResults].wait(parity(i - bulkResults, bulkResults), a.abort);
        if (__any_sync(0xffffffff, status != statusOk)) return statusAborted;
#pragma unroll 1
        for (uint32_t v = threadIdx.x * 16; v < n; v += bulkWorkers * 16) {
          const uint4 x = sumAt(i, v, n, input + at);
          if (passes) *reinterpret_cast<uint4*>(resultOf(i) + v) = x;
          if (a.keeps != 0 && (!passes || v + 16 > n)) storeAny(output + at + v, n - v, x);
        }
        if (passes) fenceProxyAsyncShared();
        __syncwarp();
        if (lane() == 0) {
          if (passes) m.done[i % bulkResults].arrive();
          m.empty[stage].arrive();
        }
      }
      if (threadIdx.x < a.nranks && s.addsOf(threadIdx.x)) s.allow(Slices::parts, threadIdx.x, turn + 1);
    }
    return statusOk;
  }

  // passer: lane k > 0 passes results to the rank k ahead, lane 0 to the own output.
  GOCCL_DEVICE Status passer() {
    constexpr int lag = 16;  // groups whose stores may be on their way
    const uint32_t mask = (1u << a.nranks) - 1, peer = s.ahead(lane());
    const bool own = lane() == 0, passes = own ? a.keeps != 0 : s.passesTo(peer);
    uint32_t i = 0, told = 0;
    auto tell = [&](uint32_t turn) {
      if (turn > told && !own && passes) m.counts->say(16 + peer, s.before[Slices::results] + turn);
      told = turn > told ? turn : told;
    };
#pragma unroll 1
    for (uint32_t turn = 0; turn < s.turns; ++turn) {
      const bool room = own || !passes || s.allowed(Slices::results, peer, turn);
      if (!__all_sync(mask, room)) {
        bulkWait<0>();
        tell(turn);
        const Status status = room ? statusOk : s.awaitAllowed(Slices::results, peer, turn);
        if (__any_sync(mask, status != statusOk)) return statusAborted;
      }
      const uint32_t bytes = s.bytes(a.rank, turn);
      uint8_t* to = own ? s.output(a.rank, turn) : s.slot(Slices::results, peer, a.rank, turn);
#pragma unroll 1
      for (uint32_t u = 0; u < parts.count; ++u, ++i) {
        const Status status = m.done[i % bulkResults].wait(parity(i, bulkResults), a.abort);
        if (__any_sync(mask, status != statusOk)) return statusAborted;
        const uint32_t n = parts.sizeOf(bytes, u), size = !passes ? 0 : own ? n & ~15u : (n + 15) & ~15u;
        if (size != 0) bulkStore(to + u * parts.bytes, resultOf(i), size);
        bulkCommit();
        bulkWaitSource<1>();
        __syncwarp(mask);
        if (own && i > 0) m.free[(i - 1) % bulkResults].arrive();
        bulkWait<lag>();
        if (i + 1 > lag) tell((i + 1 - lag) / parts.count);
      }
    }
    bulkWait<0>();
    tell(s.turns);
    return statusOk;
  }

  // signaler: lane p publishes parts to rank p, lane 16 + p results.
  GOCCL_DEVICE Status signaler() {
    const Slices::Phase phase = lane() < 16 ? Slices::parts : Slices::results;
    const uint32_t p = lane() % 16;
    const bool tells = p < a.nranks && (phase == Slices::parts ? s.sendsTo(p) : s.passesTo(p));
    const uint64_t before = phase == Slices::parts ? s.before[0] : s.before[1];
    return signalCounts(*m.counts, tells ? s.flag(phase, p, a.rank) : nullptr, before, before + s.turns, a.abort);
  }

  GOCCL_DEVICE void run() {
    const uint32_t role = threadIdx.x / 32 - bulkWorkers / 32;
    if (threadIdx.x == 0) {
      for (uint32_t i = 0; i < bulkStages; ++i) m.full[i].init(a.nranks), m.empty[i].init(bulkWorkers / 32);
      for (uint32_t i = 0; i < bulkResults; ++i) m.done[i].init(bulkWorkers / 32), m.free[i].init();
      fenceBarrierInit();
    }
    if (threadIdx.x < 32) m.counts->at[threadIdx.x] = threadIdx.x < 16 ? s.before[0] : s.before[1];
    if (threadIdx.x < a.nranks) {
      if (s.addsOf(threadIdx.x)) s.allow(Slices::parts, threadIdx.x, 0);
      if (s.takesFrom(threadIdx.x)) s.allow(Slices::results, threadIdx.x, 0);
    }
    __syncthreads();
    Status status = statusOk;
    if (threadIdx.x < bulkWorkers) {
      if (s.owns()) status = worker();
    } else if (role == 4) {
      status = signaler();
    } else {
      fenceProxyAsync();  // what this rank's earlier kernels have written
      const uint32_t peers = a.nranks - 1;
      // What a job has no use for is another pump's.
      uint8_t *sending = a.takers == 0 ? m.results : m.sending, *taking = a.sources == 0 ? m.sending : m.taking;
      constexpr uint32_t wide = bulkResults * bulkResultBytes + bulkPumpStages * bulkPumpBytes;
      const uint32_t sendingBytes = bulkPumpBytes + (a.takers == 0 ? wide / bulkPumpStages & ~127u : 0),
                     takingBytes = bulkPumpBytes + (a.sources == 0 ? bulkPumpBytes : 0);
      if (role == 0 && s.sends() && lane() < peers) {
        SlicePump pump(sending, sendingBytes, m.sendingBarriers, peers, a.abort);
        const uint32_t p = s.ahead(lane() + 1);
        SendFlow flow(s, pump.partBytes, p, *m.counts);
        status = pump.run(flow);
      } else if (role == 1 && s.owns() && lane() < a.nranks) {
        status = loader();
      } else if (role == 2 && s.owns() && a.takers != 0 && lane() < a.nranks) {
        status = passer();
      } else if (role == 3 && s.takes() && lane() < peers) {
        SlicePump pump(taking, takingBytes, m.takingBarriers, peers, a.abort);
        const uint32_t p = s.behind(lane() + 1);
        TakeFlow flow(s, pump.partBytes, p);
        status = pump.run(flow);
      }
      bulkWait<0>();
    }
    // A block must not end under loads into its shared memory. All are of this GPU's memory.
    if (__syncthreads_or(status != statusOk))
      sleepNs(200000);
    else if (threadIdx.x == 0)
      s.finish();
  }
};

template <class R>
GOCCL_DEVICE void slicesBulk(const SliceArgs& a) {
  Bulk<R>(a).run();
}

#else  // every image has the same kernels

template <class R>
GOCCL_DEVICE void slicesBulk(const SliceArgs& a) {
  slicesByWorkers<R, Access::words>(a);
}

#endif

}  // namespace collective
}  // namespace goccl
