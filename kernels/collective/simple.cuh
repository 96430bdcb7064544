// Large messages as whole lines: pieces through rings in the peers' windows, a flag for each piece, where packets give up a sixteenth or a half of
// every line.
//
// Every slice has an owner. A channel takes pieces c, c + channels, … of all slices, and has three blocks at each rank, which work independently of
// each other, each from one piece to the next:
//
//   scatter   sends piece j of every slice to its owner                                    into ring 0 of the owner
//   combine   makes piece j of the own slice out of what all have sent, and shares it      into ring 1 of those who want it
//   collect   takes piece j of the other slices out of a ring into the user's memory
//
//                      scatter   combine             collect    bytes out of a rank
//   all-reduce         all       fold, share         all        2·(n−1)/n·N
//   reduce-scatter     all       fold, keep                     (n−1)/n·N
//   all-gather         all                           all        (n−1)·N
//   all-to-all         all                           all        (n−1)·N of N = a slice
//   broadcast          root      pass on             not root   N out of the root, N·(n−2)/(n−1) out of an owner; the root owns nothing
//   reduce             all       fold, to the root   root       N into the root, which owns nothing
//
// Where there are bulk copies, all threads bring a piece into shared memory and one thread sends it from there to each peer: a link that many blocks
// store to at once carries a fifth more of them than of plain stores. A piece is on its way while the next is being brought.
//
// # Straight into the user's memory
//
// A rank whose receive buffer all peers have mapped (Go: registry) says so when it begins, and where: then what would go into the ring that its collect
// empties goes to where it belongs, and collect only waits. The receiver decides alone, for each launch.
//
// Where all ranks have mapped all that is sent and received, and there are bulk copies, nothing goes through rings at all: each owner brings the pieces of
// its slice from everybody's send buffer into shared memory, folds them there and stores the result to everybody who wants it. One block of a channel
// does that, with pieces on their way in while others are folded and others go out; the ranks meet when they begin and when they end. They agree by a
// vote, block by block: a rank that cannot is enough for the rings.
//
// # Numbers
//
// Pieces of a channel are counted for ever, in 64 bits, by each of its blocks in device memory. A launch takes one number more than it has pieces:
// piece j is number base + j, and base itself says "I have begun". A ring is empty between launches, so it may be laid out anew by each.
//
//   flag     in the receiver's window: the source's pieces below that number have arrived
//   credit   in the source's window: the receiver has begun its launch, and has taken the pieces below that number; the source may be depth ahead,
//            or, where there is no ring, as far as it likes
//   vote     in the window of the one who is told: how a peer can reach our buffers, and base. There are two, for launches in turn: who votes a second
//            time has read everybody's first vote, and who has voted a second time has ended his first launch
//
// The rings lie in those of stream.cuh, where a peer may still be in an earlier launch: the credit of its beginning keeps others out until then. Streams
// write only where their receiver has let them, in a launch of its own that comes after this one.
//
// # Memory order
//
// A flag is stored with release at system scope: after a block barrier where threads have stored the piece themselves, after the bulk copies were
// waited for where one thread has started them. It is loaded with acquire by one thread, and a block barrier passes that on. A credit is
// relaxed: it follows a block barrier behind the loads, which have returned their values by then. The first one is released, behind the word that says
// where to.
//
// # Progress
//
// Nobody waits but for a piece, or for room: scatter for combine or collect of a peer, combine for scatter and collect, collect for what fills its ring.
// A piece waits for lower numbers only, or for the same number of a step before it. A source tells of piece j − 1 before it waits for room for
// piece j + 1, so two slots are enough. In place, collect overwrites what scatter has still to read in an all-to-all only: there it waits for that.
//
// Slots are whole vectors. Access says what may be assumed of the user's memory; it does not change what crosses the wire, so ranks need not agree.
#pragma once

#include <collective/rooted.cuh>
#include <goccl/bulk.cuh>

namespace goccl {
namespace collective {

constexpr uint32_t simpleRegion = 12 << 20;  // bytes of all rings of a window
constexpr uint32_t simpleChannels = 32;      // at most
constexpr uint32_t simpleRoles = 3;          // blocks of a channel
constexpr uint32_t simpleStages = 3;         // pieces in shared memory; two where they are sent into rings
constexpr uint32_t simpleLine = 128;         // bytes of a flag (at 0), a credit (at 64), where to (at 72), and votes
constexpr uint32_t simpleShared = simpleStages * ((64 << 10) + 8);

struct SimpleArgs : Args {
  const uint64_t* maps;
  uint64_t direct;      // recv as peers know it, or 0; 1 where peers have no use for it and bulk copies can reach it
  uint64_t directSend;  // send likewise: a vote, with direct, for doing without rings
};
static_assert(sizeof(SimpleArgs) == 256, "SimpleArgs is filled by the host");

constexpr uint32_t simplePlaces = 2 * maxRanks;

enum class Job { allReduce, reduceScatter, allGather, allToAll, broadcast, reduce };

// Arguments as in args.cuh (Access::words: all are multiples of 16), with windows at the stream region, epochs for the counters (a line for each
// block: 64 bits, then how often it has voted; of a scattering block, further on, how far it has read), and strides: from one slice to the next in send and recv. The grid
// is simpleRoles blocks for each channel.
template <Job J, class R, int N, Access A>
struct Simple {
  const SimpleArgs& a;
  const R reducer;
  uint32_t n, channels, channel, role;
  uint32_t depth;   // slots of a ring from one source
  uint32_t count;   // pieces of each slice that are this channel's
  uint64_t base;    // the number of piece 0
  uint64_t flagged, credited;  // of the rank threadIdx.x: what this thread has last seen
  uint8_t* stages;  // shared memory, as is:
  uint64_t* target; // by rank: its receive buffer as mapped here, or 0
  uint64_t* source; // and its send buffer

  static constexpr bool exchanges = J == Job::allGather || J == Job::allToAll;
  static constexpr bool shares = J == Job::allReduce || J == Job::broadcast || J == Job::reduce;
  static constexpr bool folds = J == Job::allReduce || J == Job::reduceScatter || J == Job::reduce;
  static constexpr bool rooted = J == Job::broadcast || J == Job::reduce;
  static constexpr bool divided = rooted || J == Job::allReduce;  // the slices are parts of one buffer of a.bytes

  GOCCL_DEVICE Simple(const SimpleArgs& args, uint8_t* shared, uint64_t* places)
      : a(args), reducer(args), n(N > 0 ? N : args.nranks), channels(gridDim.x / simpleRoles), channel(blockIdx.x % channels), role(blockIdx.x / channels),
        depth(simpleRegion / (2 * channels) / (n * a.slotBytes)), count(0), base(*counter() + 1), flagged(0), credited(0), stages(shared), target(places), source(places + maxRanks) {
    const uint64_t pieces = ((divided ? a.sendStride : a.bytes) + a.slotBytes - 1) / a.slotBytes;
    if (channel < pieces) count = static_cast<uint32_t>((pieces - channel + channels - 1) / channels);
  }

  GOCCL_DEVICE uint64_t* counterOf(uint32_t r) const { return reinterpret_cast<uint64_t*>(a.epochs + (r * simpleChannels + channel) * epochStride); }
  GOCCL_DEVICE uint64_t* counter() const { return counterOf(role); }
  GOCCL_DEVICE uint64_t* votes() const { return counter() + 1; }
  GOCCL_DEVICE uint64_t* readSoFar() const { return counterOf(0) + 8; }

  GOCCL_DEVICE bool owns(uint32_t r) const { return !rooted || r != a.root; }
  GOCCL_DEVICE uint32_t owners() const { return peers(a) & ~(rooted ? 1u << a.root : 0u); }  // without this rank
  GOCCL_DEVICE uint32_t sliceOf(uint32_t r) const { return rooted ? owned(a, r) : r; }
  GOCCL_DEVICE const uint8_t* input(uint32_t r) const { return a.send + sliceOf(r) * a.sendStride; }
  GOCCL_DEVICE uint8_t* output(uint32_t r) const { return a.recv + sliceOf(r) * a.recvStride; }

  GOCCL_DEVICE uint64_t offset(uint32_t j) const { return (channel + static_cast<uint64_t>(j) * channels) * a.slotBytes; }
  // size is how much of piece j there is in the slice of rank r.
  GOCCL_DEVICE uint32_t size(uint32_t r, uint32_t j) const {
    const uint64_t length = divided ? sliceLength(a, sliceOf(r)) : a.bytes, from = offset(j);
    return from >= length ? 0 : static_cast<uint32_t>(length - from < a.slotBytes ? length - from : a.slotBytes);
  }

  // slot is where, in a ring of rank `at`, what rank `from` sends of piece j lies.
  GOCCL_DEVICE uint8_t* slot(uint32_t at, uint32_t ring, uint32_t j, uint32_t from) const {
    return a.window[at] + ((static_cast<uint64_t>(channel) * 2 + ring) * n * depth + from * depth + j % depth) * a.slotBytes;
  }
  GOCCL_DEVICE uint64_t* line(uint32_t at, uint32_t ring, uint32_t of) const {
    return reinterpret_cast<uint64_t*>(a.window[at] + a.flagsOffset + ((static_cast<uint64_t>(ring) * simpleChannels + channel) * n + of) * simpleLine);
  }
  // place is where piece j of what this rank sends goes at rank p.
  GOCCL_DEVICE uint8_t* place(uint32_t p, uint32_t ring, uint32_t j) const {
    if (target[p] != 0) return reinterpret_cast<uint8_t*>(target[p]) + sliceOf(a.rank) * a.recvStride + offset(j);
    return slot(p, ring, j, a.rank);
  }
  // One thread speaks and listens for each rank.
  GOCCL_DEVICE bool mine(uint32_t set) const { return threadIdx.x < n && (set >> threadIdx.x & 1); }

  // tell: the first j pieces have arrived at the targets.
  GOCCL_DEVICE void tell(uint32_t targets, uint32_t ring, uint32_t j) const {
    if (mine(targets)) storeRelease<Scope::sys>(line(threadIdx.x, ring, a.rank), base + j);
  }
  // allow: the first j pieces of the sources have left the ring.
  GOCCL_DEVICE void allow(uint32_t sources, uint32_t ring, uint32_t j) const {
    if (mine(sources)) storeRelaxed<Scope::sys>(line(threadIdx.x, ring, a.rank) + 8, base + j);
  }
  // begin: the receiver is here, and takes what the sources send into its ring, or at `direct`.
  GOCCL_DEVICE void begin(uint32_t sources, uint32_t ring, uint64_t direct) const {
    if (!mine(sources)) return;
    uint64_t* words = line(threadIdx.x, ring, a.rank) + 8;
    storeRelaxed<Scope::sys>(words + 1, direct);
    storeRelease<Scope::sys>(words, base);
  }
  // meet waits until the targets have begun, and finds out where they take what is sent. By one thread for each rank, before a block barrier.
  GOCCL_DEVICE Status meet(uint32_t targets, uint32_t ring) {
    if (!mine(targets)) return statusOk;
    const uint64_t* words = line(a.rank, ring, threadIdx.x) + 8;
    Status s = waitUntil([&] { return (credited = loadAcquire<Scope::sys>(words)) >= base; }, a.abort, words, waitPacket, -1, threadIdx.x);
    if (s != statusOk) return s;
    uint64_t at = loadRelaxed<Scope::sys>(words + 1);
    if (at != 0 && (at = placeOf(a.maps, threadIdx.x, at, a.abort)) == 0) return statusInvalid;
    target[threadIdx.x] = at;
    return statusOk;
  }

  // arrived waits for piece j of the sources, room for a slot for piece j at the targets, which have begun. By one thread for each rank.
  GOCCL_DEVICE Status arrived(uint32_t sources, uint32_t ring, uint32_t j) {
    if (!mine(sources) || flagged > base + j) return statusOk;
    const uint64_t* word = line(a.rank, ring, threadIdx.x);
    return waitUntil([&] { return (flagged = loadAcquire<Scope::sys>(word)) > base + j; }, a.abort, word, waitPacket, -1, threadIdx.x);
  }
  GOCCL_DEVICE Status room(uint32_t targets, uint32_t ring, uint32_t j) {
    auto enough = [&] { return base + j - credited < depth; };
    if (!mine(targets) || enough() || target[threadIdx.x] != 0) return statusOk;
    const uint64_t* word = line(a.rank, ring, threadIdx.x) + 8;
    return waitUntil(
        [&] {
          credited = loadAcquire<Scope::sys>(word);
          return enough();
        },
        a.abort, word, waitPacket, -1, threadIdx.x);
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

  // stage stores where put sends from: shared memory, or the place itself.
  static GOCCL_DEVICE void stage(uint8_t* p, uint4 v) {
#if GOCCL_BULK
    *reinterpret_cast<uint4*>(p) = v;
#else
    storeVec(p, v);
#endif
  }

  // move carries a piece for each peer in the set: load(from, offset, bytes), store(to, offset, bytes, vector). Loads of a batch of peers are in flight
  // together.
  template <class From, class To, class Load, class Store>
  GOCCL_DEVICE void move(uint32_t set, uint32_t j, From from, To to, Load load, Store store) const {
    constexpr uint32_t width = N > 1 && N < 5 ? N - 1 : 4;  // more would not fit the registers
    constexpr uint32_t deep = N > 1 && N < 5 ? 2 : 1;       // vectors of each
#pragma unroll 1
    for (uint32_t k = 1; k < n; k += width) {
      const uint8_t* source[width];
      uint8_t* target[width];
      uint32_t bytes[width];
#pragma unroll
      for (uint32_t i = 0; i < width; ++i) {
        const uint32_t p = peerAt(a, k + i < n ? k + i : 0);
        bytes[i] = k + i < n && (set >> p & 1) ? size(p, j) : 0;
        source[i] = from(p);
        target[i] = to(p);
      }
      const uint32_t step = blockDim.x * 16;
#pragma unroll 1
      for (uint32_t o = threadIdx.x * 16; o < a.slotBytes; o += deep * step) {
        uint4 v[deep][width];
#pragma unroll
        for (uint32_t d = 0; d < deep; ++d)
#pragma unroll
          for (uint32_t i = 0; i < width; ++i)
            if (o + d * step < bytes[i]) v[d][i] = load(source[i], o + d * step, bytes[i]);
#pragma unroll
        for (uint32_t d = 0; d < deep; ++d)
#pragma unroll
          for (uint32_t i = 0; i < width; ++i)
            if (o + d * step < bytes[i]) store(target[i], o + d * step, bytes[i], v[d][i]);
      }
    }
  }

  // put sends piece j, which all threads have brought to the shared memory that from says, or to its place, and tells of it once it has arrived. By all threads; returns after a block
  // barrier behind what they did before; then the piece before it has left shared memory.
  template <class From>
  GOCCL_DEVICE void put(uint32_t targets, uint32_t ring, uint32_t j, [[maybe_unused]] From from) const {
#if GOCCL_BULK
    fenceProxyAsync();
    __syncthreads();
    if (threadIdx.x == 0) {
      forEachPeer<N>(a, [&](uint32_t p) {
        const uint32_t bytes = targets >> p & 1 ? size(ring == 0 ? p : a.rank, j) : 0;
        if (bytes > 0) bulkStore(place(p, ring, j), from(p), (bytes + 15) & ~15u);
      });
      bulkCommit();
      bulkWait<1>();
    }
    if (threadIdx.x < 32) {
      __syncwarp();
      if (j > 0) tell(targets, ring, j);
    }
#else
    __syncthreads();
    tell(targets, ring, j + 1);
#endif
  }
  // finish tells of the last piece. A block must not end while its shared memory is being read.
  GOCCL_DEVICE void finish([[maybe_unused]] uint32_t targets, [[maybe_unused]] uint32_t ring, [[maybe_unused]] bool ok) const {
#if GOCCL_BULK
    if (threadIdx.x == 0) bulkWait<0>();
    if (threadIdx.x < 32) {
      __syncwarp();
      if (ok) tell(targets, ring, count);
    }
#endif
  }

  GOCCL_DEVICE Status scatter() {
    if (J == Job::broadcast && a.rank != a.root) return statusOk;
    const uint32_t targets = owners();
    const bool inPlace = J == Job::allToAll && a.send == a.recv;
    Status s = meet(targets, 0);
    for (uint32_t j = 0; j < count; ++j) {
      if (s == statusOk) s = room(targets, 0, j);
      s = __syncthreads_or(s);
      if (s != statusOk) break;
      auto to = [&](uint32_t p) -> uint8_t* {
#if GOCCL_BULK
        const uint32_t k = J == Job::allGather ? 0 : (p > a.rank ? p - 1 : p);
        return stages + (j % 2 * (n - 1) + k) * a.slotBytes;
#else
        return place(p, 0, j);
#endif
      };
      if (GOCCL_BULK && J == Job::allGather)
        bring(j, [&](uint32_t o, uint32_t, uint4 v) { stage(to(0) + o, v); });
      else
        move(targets, j, [&](uint32_t p) { return input(p) + offset(j); }, to, loadUser,
             [&](uint8_t* p, uint32_t o, uint32_t, uint4 v) { stage(p + o, scaled(v)); });
      put(targets, 0, j, to);
      if (inPlace && threadIdx.x == 0) storeRelease<Scope::gpu>(readSoFar(), base + j + 1);
    }
    finish(targets, 0, s == statusOk);
    return s;
  }

  // bring loads piece j of the own slice and hands it to use(offset, bytes, vector).
  template <class Use>
  GOCCL_DEVICE void bring(uint32_t j, Use use) const {
    const uint8_t* own = input(a.rank) + offset(j);
    const uint32_t bytes = size(a.rank, j);
    const uint32_t step = blockDim.x * 16;
#pragma unroll 1
    for (uint32_t o = threadIdx.x * 16; o < bytes; o += 2 * step) {
      const uint4 v = loadUser(own, o, bytes);
      uint4 w = v;
      if (o + step < bytes) w = loadUser(own, o + step, bytes);
      use(o, bytes, v);
      if (o + step < bytes) use(o + step, bytes, w);
    }
  }

  GOCCL_DEVICE Status combine() {
    if (exchanges || !owns(a.rank)) return statusOk;
    const uint32_t sources = J == Job::broadcast ? 1u << a.root : peers(a);
    const uint32_t targets = J == Job::reduce ? 1u << a.root : (shares ? owners() : 0);
    begin(sources, 0, 0);
    Status s = meet(targets, 1);
    for (uint32_t j = 0; j < count; ++j) {
      if (s == statusOk) s = arrived(sources, 0, j);
      if (s == statusOk) s = room(targets, 1, j);
      s = __syncthreads_or(s);
      if (s != statusOk) break;
      const uint8_t* own = input(a.rank) + offset(j);
      uint8_t* home = output(a.rank) + offset(j);
      const uint32_t bytes = size(a.rank, j);
      const uint8_t* source = slot(a.rank, 0, j, 0);
#if GOCCL_BULK
      uint8_t* staged = stages + j % 2 * a.slotBytes;
      auto from = [&](uint32_t) { return staged; };
#else
      auto from = [](uint32_t) { return nullptr; };
#endif
      auto out = [&](uint32_t o, uint4 v) {
        if (J != Job::reduce) storeUser(home, o, bytes, v);
        if (!shares) return;
#if GOCCL_BULK
        stage(staged + o, v);
#else
        forEachPeer<N>(a, [&](uint32_t p) {
          if (targets >> p & 1) storeVec(place(p, 1, j) + o, v);
        });
#endif
      };
      if constexpr (folds)
        fold(own, source, bytes, out);
      else
#pragma unroll 1
        for (uint32_t o = threadIdx.x * 16; o < bytes; o += blockDim.x * 16) out(o, loadVec(source + a.root * depth * a.slotBytes + o));
      if (shares)
        put(targets, 1, j, from);
      else
        __syncthreads();
      allow(sources, 0, j + 1);
    }
    if (shares) finish(targets, 1, s == statusOk);
    return s;
  }

  // fold combines what all ranks have sent of a piece in rank order, own data in its place, and hands the result to out(offset, vector).
  template <class Out>
  GOCCL_DEVICE void fold(const uint8_t* own, const uint8_t* source, uint32_t bytes, Out out) const {
    constexpr uint32_t width = N > 0 ? N : 4;
    constexpr uint32_t deep = N > 0 && N < 5 ? 2 : 1;
    const uint32_t step = blockDim.x * 16;
    const uint64_t stride = static_cast<uint64_t>(depth) * a.slotBytes;  // from one source's slot to the next one's
#pragma unroll 1
    for (uint32_t o = threadIdx.x * 16; o < bytes; o += deep * step) {
      typename R::Sum sum[deep];
#pragma unroll 1
      for (uint32_t r0 = 0; r0 < n; r0 += width) {
        uint4 x[deep][width];
#pragma unroll
        for (uint32_t d = 0; d < deep; ++d)
#pragma unroll
          for (uint32_t i = 0; i < width; ++i)
            if (r0 + i < n && o + d * step < bytes)
              x[d][i] = r0 + i == a.rank ? loadUser(own, o + d * step, bytes) : loadVec(source + (r0 + i) * stride + o + d * step);
#pragma unroll
        for (uint32_t d = 0; d < deep; ++d)
#pragma unroll
          for (uint32_t i = 0; i < width; ++i) {
            if (r0 + i >= n || o + d * step >= bytes) break;
            const uint4 v = r0 + i == a.rank ? scaled(x[d][i]) : x[d][i];
            if (r0 + i == 0)
              reducer.begin(sum[d], v);
            else
              reducer.add(sum[d], v);
          }
      }
#pragma unroll
      for (uint32_t d = 0; d < deep; ++d)
        if (o + d * step < bytes) out(o + d * step, reducer.end(sum[d]));
    }
  }

  GOCCL_DEVICE Status collect() {
    constexpr uint32_t ring = exchanges ? 0 : 1;
    const bool root = rooted && a.rank == a.root;
    if (J == Job::reduceScatter || (J == Job::reduce && !root)) return statusOk;
    const uint32_t sources = J == Job::broadcast && root ? 0 : owners();
    const bool inPlace = J == Job::allToAll && a.send == a.recv;
    const bool direct = a.direct != 0 && !inPlace;
    begin(sources, ring, direct ? a.direct : 0);  // who asks has a word for it
    Status s = statusOk;
    for (uint32_t j = 0; j < count; ++j) {
      if (!direct) s = arrived(sources, ring, j);
      if (inPlace && s == statusOk && threadIdx.x == n)
        s = waitUntil([&] { return loadAcquire<Scope::gpu>(readSoFar()) > base + j; }, a.abort, readSoFar(), waitSyncer);
      s = __syncthreads_or(s);
      if (s != statusOk) break;
      if (exchanges && input(a.rank) != output(a.rank))
        bring(j, [&](uint32_t o, uint32_t bytes, uint4 v) { storeUser(output(a.rank) + offset(j), o, bytes, v); });
      auto home = [&](uint32_t p) { return output(p) + offset(j); };
      auto store = [](uint8_t* p, uint32_t o, uint32_t left, uint4 v) { storeUser(p, o, left, v); };
      if (J == Job::broadcast && root && a.send != a.recv) move(owners(), j, [&](uint32_t p) { return input(p) + offset(j); }, home, loadUser, store);
      if (direct || sources == 0) continue;
      move(sources, j, [&](uint32_t p) { return slot(a.rank, ring, j, p); }, home, [](const uint8_t* p, uint32_t o, uint32_t) { return loadVec(p + o); }, store);
      __syncthreads();
      allow(sources, ring, j + 1);
    }
    if (direct && count > 0) s = __syncthreads_or(arrived(sources, ring, count - 1));
    return s;
  }

#if GOCCL_BULK
  // vote tells all peers how they can reach this rank's buffers, hears the same of them, and says whether all can reach all that they must: source and
  // target then are where.
  GOCCL_DEVICE Status vote(bool& agreed) {
    const uint64_t turn = *votes() & 1;
    const uint32_t at = role == 2 ? 10 : 1 + 3 * role;  // words of a line that nothing else uses
    Status s = statusOk;
    bool reachable = a.direct != 0 && a.directSend != 0;
    if (mine(peers(a))) {
      uint64_t* ours = line(threadIdx.x, turn, a.rank) + at;
      const uint64_t* theirs = line(a.rank, turn, threadIdx.x) + at;
      storeRelaxed<Scope::sys>(ours, a.direct);
      storeRelaxed<Scope::sys>(ours + 1, a.directSend);
      storeRelease<Scope::sys>(ours + 2, base);
      s = waitUntil([&] { return loadAcquire<Scope::sys>(theirs + 2) == base; }, a.abort, theirs, waitPacket, -1, threadIdx.x);
      if (s == statusOk) {
        const uint64_t to = loadRelaxed<Scope::sys>(theirs), from = loadRelaxed<Scope::sys>(theirs + 1);
        reachable = reachable && to != 0 && from != 0;
        if (reachable && (takers() >> threadIdx.x & 1)) reachable = (target[threadIdx.x] = placeOf(a.maps, threadIdx.x, to, a.abort)) != 0;
        if (reachable && (givers() >> threadIdx.x & 1)) reachable = (source[threadIdx.x] = placeOf(a.maps, threadIdx.x, from, a.abort)) != 0;
      }
    }
    agreed = __syncthreads_or(!reachable) == 0;
    if (threadIdx.x == 0) *votes() += 1;
    return __syncthreads_or(s);
  }
  // givers are the peers whose data an owner needs, takers those who want its result.
  GOCCL_DEVICE uint32_t givers() const { return J == Job::broadcast ? 1u << a.root & peers(a) : peers(a); }
  GOCCL_DEVICE uint32_t takers() const { return J == Job::reduceScatter ? 0 : (J == Job::reduce ? 1u << a.root & peers(a) : owners()); }

  // without brings, folds and stores without rings:
  //
  //   thread 0   1. starts to bring pieces 0 and 1
  //   all        2. wait for piece j, fold it in place of the own data
  //   thread 0   3. sends it; once piece j − 1 has left shared memory, starts to bring piece j + 2 there
  //              4. at the end waits until all it has stored is performed, tells everybody, and hears it of everybody
  GOCCL_DEVICE Status without() {
    BulkBarrier* barriers = reinterpret_cast<BulkBarrier*>(stages + simpleStages * n * a.slotBytes);
    auto at = [&](uint32_t j, uint32_t r) { return stages + (j % simpleStages * n + r) * a.slotBytes; };
    const uint32_t pieces = owns(a.rank) ? count : 0;
    auto bringAll = [&](uint32_t j) {
      if (j >= pieces) return;
      const uint32_t bytes = size(a.rank, j);
      BulkBarrier* b = &barriers[j % simpleStages];
      b->arriveAndExpect(bytes * (J == Job::broadcast ? 1 : n));
      if (bytes == 0) return;
      const uint64_t from = sliceOf(a.rank) * a.sendStride + offset(j);
      if (J != Job::broadcast) bulkLoad(at(j, a.rank), a.send + from, bytes, b);
      forEachPeer<N>(a, [&](uint32_t p) {
        if (givers() >> p & 1) bulkLoad(at(j, p), reinterpret_cast<const uint8_t*>(source[p]) + from, bytes, b);
      });
    };
    if (threadIdx.x == 0) {
      for (uint32_t i = 0; i < simpleStages; ++i) barriers[i].init();
      fenceBarrierInit();
    }
    __syncthreads();
    if (threadIdx.x == 0) bringAll(0), bringAll(1);
    Status s = statusOk;
    uint32_t j = 0;
    for (; j < pieces; ++j) {
      s = barriers[j % simpleStages].wait(j / simpleStages & 1, a.abort);
      const uint32_t bytes = size(a.rank, j);
      if constexpr (folds)
        if (s == statusOk) foldShared(at(j, 0), at(j, a.rank), bytes);
      fenceProxyAsync();
      s = __syncthreads_or(s);
      if (s != statusOk) break;
      if (threadIdx.x != 0) continue;
      const uint64_t to = sliceOf(a.rank) * a.recvStride + offset(j);
      const uint8_t* result = at(j, J == Job::broadcast ? a.root : a.rank);
      if (bytes > 0) {
        if (J != Job::reduce) bulkStore(output(a.rank) + offset(j), result, bytes);
        forEachPeer<N>(a, [&](uint32_t p) {
          if (takers() >> p & 1) bulkStore(reinterpret_cast<uint8_t*>(target[p]) + to, result, bytes);
        });
      }
      bulkCommit();
      bulkWaitSource<1>();
      bringAll(j + 2);
    }
    if (J == Job::broadcast && a.rank == a.root && a.send != a.recv)
      for (uint32_t k = 0; k < count; ++k)
        move(owners(), k, [&](uint32_t p) { return input(p) + offset(k); }, [&](uint32_t p) { return output(p) + offset(k); }, loadUser,
             [](uint8_t* p, uint32_t o, uint32_t left, uint4 v) { storeUser(p, o, left, v); });
    if (threadIdx.x == 0) {
      // What was started must not outlive the block.
      for (uint32_t k = j; s != statusOk && k < pieces && k < j + 3; ++k)
        for (uint32_t i = 0; i < 4096 && !barriers[k % simpleStages].poll(k / simpleStages & 1); ++i) {
        }
      bulkWait<0>();
    }
    if (s != statusOk || count == 0) return s;
    __syncthreads();  // all is performed
    tell(peers(a), 1, count);
    return __syncthreads_or(arrived(peers(a), 1, count - 1));
  }

  // foldShared folds a piece that lies in shared memory, n slots of it, into the own one.
  GOCCL_DEVICE void foldShared(const uint8_t* all, uint8_t* own, uint32_t bytes) const {
    const uint32_t slots = N > 0 ? N : n;
#pragma unroll 1
    for (uint32_t o = threadIdx.x * 16; o < bytes; o += blockDim.x * 16) {
      typename R::Sum sum;
#pragma unroll
      for (uint32_t r = 0; r < slots; ++r) {
        const uint4 v = *reinterpret_cast<const uint4*>(all + r * a.slotBytes + o);
        if (r == 0)
          reducer.begin(sum, v);
        else
          reducer.add(sum, v);
      }
      *reinterpret_cast<uint4*>(own + o) = reducer.end(sum);
    }
  }
#endif

  GOCCL_DEVICE Status roles() { return role == 0 ? scatter() : (role == 1 ? combine() : collect()); }

  GOCCL_DEVICE void run() {
    Status s = statusOk;
#if GOCCL_BULK
    if constexpr (!exchanges) {
      bool agreed = false;
      s = vote(agreed);
      if (s == statusOk) s = !agreed ? roles() : (role == 0 ? without() : statusOk);
    } else
#endif
      s = roles();
    __syncthreads();
    if (s == statusOk && threadIdx.x == 0) *counter() = base + count;
  }
};

template <Job J, class R, int N, Access A>
GOCCL_DEVICE void simple(const SimpleArgs& a) {
  __shared__ uint64_t places[simplePlaces];
#if GOCCL_BULK
  extern __shared__ __align__(128) uint8_t shared[];
#else
  uint8_t* shared = nullptr;
#endif
  Simple<J, R, N, A>(a, shared, places).run();
}

// Nothing is what jobs that reduce nothing have for a reducer.
struct Nothing {
  GOCCL_DEVICE explicit Nothing(const Args&) {}
};

}  // namespace collective
}  // namespace goccl
