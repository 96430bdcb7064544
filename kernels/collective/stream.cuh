// Large messages between pairs of ranks: bulk copies through rings, a flag per piece.
//
// Half of the blocks send and half receive; a block is one channel of all pairs. Every rank serves its peers one after another, in step k the
// one k ranks after it for sending and k ranks before it for receiving: so at any time each port has one sender and one receiver, which is worth
// a third of the bandwidth. A channel has one ring at each rank, and the receiver lends it to one sender at a time, by raising that sender's
// limit: so nobody counts steps. Some pair's step is the earliest of all unfinished ones, and both its ends are at it: progress.
//
//   sender     1. loads pieces ahead into shared memory
//              2. waits until the receiver's limit (a word in the sender's window) allows piece k, then starts its store
//              3. once the store is performed, releases flag = k+1 at system scope
//   receiver   1. acquires flag ≥ k+1, orders the asynchronous proxy behind it, loads piece k
//              2. once it has landed in shared memory, raises the limit, at most to the end of this launch's pieces, and stores it in its place
//
// A receiver whose buffer the sender has mapped (Go: registry) says where, message by message, and lends it no ring but lets it send all at once:
// pieces go straight to their place, and the receiver waits for the last flag only. It never lets a sender go on to a message of which it has not said
// that yet.
//
// One thread of a block does all that. Where there are no bulk copies, or an address or size is not a multiple of 16, all threads of the block
// copy piece by piece instead; each side decides for itself, since the ring between them is aligned. Counters go on for ever in device memory,
// as in p2p.cuh, and compare as signed differences.
#pragma once

#include <collective/p2p.cuh>
#include <goccl/bulk.cuh>
#include <goccl/copy.cuh>

namespace goccl {
namespace collective {

constexpr uint32_t streamChannels = 32;
constexpr uint32_t streamDepth = 16;
constexpr uint32_t streamPieceBytes = 24 << 10;
constexpr uint32_t streamStages = 8;  // pieces in shared memory

// The arguments are those of P2PArgs with windows at the stream region; lanes are in the order of the steps, and Lane::channels is not used. Blocks: the
// first `channels` send, the next receive, the rest copy the rank's messages to itself (lanes whose peer is the rank: message pairs from, to).
struct StreamArgs : P2PArgs {
  const uint64_t* maps;
  uint64_t direct[p2pMaxMessages];  // of a message to receive: its place as the sender knows it, or 0
};
static_assert(sizeof(StreamArgs) == sizeof(P2PArgs) + 8 + 8 * p2pMaxMessages, "StreamArgs is filled by the host");

GOCCL_DEVICE uint64_t streamRing(uint32_t channel) { return static_cast<uint64_t>(channel) * streamDepth * streamPieceBytes; }
// word 0: pieces that source has put in our ring, written by source. word 1: pieces that target allows us, written by target; behind it, 64 bits, where
// they go.
GOCCL_DEVICE uint64_t streamWord(uint32_t rank, uint32_t channel, uint32_t word) {
  return streamRing(streamChannels) + ((static_cast<uint64_t>(rank) * streamChannels + channel) * 2 + word) * 128;
}

// await waits, with one thread, until the word is at least target, and tells the block.
GOCCL_DEVICE Status await(const StreamArgs& a, const uint32_t* word, uint32_t target, uint32_t peer, uint64_t* shared) {
  if (threadIdx.x == 0)
    shared[0] = waitUntil([&] { return static_cast<int32_t>(loadAcquire<Scope::sys>(word) - target) >= 0; }, a.abort, word, waitPacket, -1, peer);
  __syncthreads();
  Status s = static_cast<Status>(shared[0]);
  return s;
}

// piecesOf is how many pieces of a message go by a channel.
GOCCL_DEVICE uint32_t piecesOf(uint64_t bytes, uint32_t channel) {
  const uint64_t pieces = (bytes + streamPieceBytes - 1) / streamPieceBytes;
  return channel < pieces ? static_cast<uint32_t>((pieces - channel + streamChannels - 1) / streamChannels) : 0;
}

// Flow is one block's way through the messages of one peer and direction. Piece i of the lane is number start + i of the pair's channel.
struct Flow {
  uint32_t peer, channel;
  uint32_t start;   // pieces of the pair before this launch
  uint32_t total;   // pieces of this launch
  uint32_t base;    // of them, before the current message
  uint8_t* user;    // the current message
  uint64_t bytes;
  uint32_t mine;    // its pieces
  uint8_t* ring;
  uint8_t* place;   // the current message at the receiver, as mapped here; nullptr: it goes through the ring
  uint32_t* flag;   // pieces that have arrived
  uint32_t* limit;  // pieces that may be sent

  GOCCL_DEVICE Flow(const StreamArgs& a, const Lane& lane, uint32_t c, uint32_t k) : peer(lane.peer), channel(c), start(k), total(0), base(0), user(nullptr), bytes(0), mine(0), place(nullptr) {
    for (uint32_t i = 0; i < lane.count; ++i) total += piecesOf(a.message[lane.first + i].bytes, c);
    const uint32_t source = lane.send ? a.rank : peer, target = lane.send ? peer : a.rank;
    ring = a.window[target] + streamRing(c);
    flag = reinterpret_cast<uint32_t*>(a.window[target] + streamWord(source, c, 0));
    limit = reinterpret_cast<uint32_t*>(a.window[source] + streamWord(target, c, 1));
  }
  GOCCL_DEVICE void take(const Message& m) {
    base += mine;
    user = reinterpret_cast<uint8_t*>(m.address);
    bytes = m.bytes;
    mine = piecesOf(bytes, channel);
    place = nullptr;
  }
  GOCCL_DEVICE uint64_t offset(uint32_t j) const { return (channel + static_cast<uint64_t>(j) * streamChannels) * streamPieceBytes; }
  GOCCL_DEVICE uint8_t* at(uint32_t j) const { return user + offset(j); }
  GOCCL_DEVICE uint32_t size(uint32_t j) const {
    const uint64_t left = bytes - offset(j);
    return left < streamPieceBytes ? static_cast<uint32_t>(left) : streamPieceBytes;
  }
  GOCCL_DEVICE uint8_t* slot(uint32_t j) const { return ring + (base + j) % streamDepth * streamPieceBytes; }
  GOCCL_DEVICE uint8_t* target(uint32_t j) const { return place != nullptr ? place + offset(j) : slot(j); }
  GOCCL_DEVICE uint32_t number(uint32_t j) const { return start + base + j; }
  // allow lets the sender have the ring as far as it is free once the first j pieces of the message have left it. Receivers only.
  GOCCL_DEVICE void allow(uint32_t j) const { storeRelaxed<Scope::sys>(limit, start + base + (j + streamDepth < mine ? j + streamDepth : mine)); }
  GOCCL_DEVICE uint64_t* where() const { return reinterpret_cast<uint64_t*>(limit) + 1; }
  // open begins a message: it comes to its place, or through the ring, as all that have no place; said is whether the sender remembers one.
  // Receivers only.
  GOCCL_DEVICE void open(uint64_t direct, bool& said) const {
    if (direct == 0 && !said) return allow(0);
    said = direct != 0;
    storeRelaxed<Scope::sys>(where(), direct);
    storeRelease<Scope::sys>(limit, start + base + (said || streamDepth > mine ? mine : streamDepth));
  }
  // meet waits until the receiver has opened the message, and finds out where it goes. Senders only, one thread.
  GOCCL_DEVICE Status meet(const StreamArgs& a) {
    Status s = waitUntil([&] { return static_cast<int32_t>(loadAcquire<Scope::sys>(limit) - number(0)) > 0; }, a.abort, limit, waitPacket, -1, peer);
    if (s != statusOk) return s;
    const uint64_t at = loadRelaxed<Scope::sys>(where());
    if (at == 0) return statusOk;
    place = reinterpret_cast<uint8_t*>(placeOf(a.maps, peer, at, a.abort));
    return place != nullptr ? statusOk : statusInvalid;
  }
  GOCCL_DEVICE bool aligned() const { return ((reinterpret_cast<uintptr_t>(user) | bytes) & 15) == 0; }
};

// By all threads of the block.
GOCCL_DEVICE Status copyOut(const StreamArgs& a, Flow& f, uint64_t* shared) {
  if (threadIdx.x == 0) {
    shared[0] = f.meet(a);
    shared[1] = reinterpret_cast<uint64_t>(f.place);
  }
  __syncthreads();
  f.place = reinterpret_cast<uint8_t*>(shared[1]);
  if (shared[0] != statusOk) return static_cast<Status>(shared[0]);
  __syncthreads();
  for (uint32_t j = 0; j < f.mine; ++j) {
    Status s = await(a, f.limit, f.number(j) + 1, f.peer, shared);
    if (s != statusOk) return s;
    copyBytes<4>(f.target(j), f.at(j), f.size(j), threadIdx.x, blockDim.x);
    __syncthreads();
    if (threadIdx.x == 0) storeRelease<Scope::sys>(f.flag, f.number(j) + 1);
  }
  return statusOk;
}

GOCCL_DEVICE Status copyIn(const StreamArgs& a, const Flow& f, uint64_t* shared) {
  for (uint32_t j = 0; j < f.mine; ++j) {
    Status s = await(a, f.flag, f.number(j) + 1, f.peer, shared);
    if (s != statusOk) return s;
    copyBytes<4>(f.at(j), f.slot(j), f.size(j), threadIdx.x, blockDim.x);
    __syncthreads();
    if (threadIdx.x == 0) f.allow(j + 1);
  }
  return statusOk;
}

#if GOCCL_BULK
// Stages is the shared memory of one block: pieces in flight, by one thread.
struct Stages {
  uint8_t* buffer;
  BulkBarrier* barriers;
  uint32_t phases;  // bit s: the parity that stage s waits for next
  uint32_t next;    // stage to load into
  AbortBlock* abort;

  GOCCL_DEVICE void init(uint8_t* shared, AbortBlock* block) {
    buffer = shared;
    barriers = reinterpret_cast<BulkBarrier*>(shared + streamStages * streamPieceBytes);
    phases = next = 0;
    abort = block;
    for (uint32_t s = 0; s < streamStages; ++s) barriers[s].init();
    fenceBarrierInit();
  }
  GOCCL_DEVICE void load(const uint8_t* from, uint32_t n) {
    barriers[next].arriveAndExpect(n);
    bulkLoad(buffer + next * streamPieceBytes, from, n, &barriers[next]);
    next = (next + 1) % streamStages;
  }
  // landed waits for the load of a stage.
  GOCCL_DEVICE Status landed(uint32_t stage) {
    Status s = barriers[stage].wait(phases >> stage & 1, abort);
    phases ^= 1u << stage;
    return s;
  }
  GOCCL_DEVICE uint8_t* piece(uint32_t stage) { return buffer + stage * streamPieceBytes; }
  // drain waits, boundedly, for loads that nobody will use: a block must not end under them, nor finish before its stores have.
  GOCCL_DEVICE void drain(uint32_t stage, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      for (uint32_t spin = 0; spin < 4096 && !barriers[stage].poll(phases >> stage & 1); ++spin) {
      }
      phases ^= 1u << stage;
      stage = (stage + 1) % streamStages;
    }
    bulkWait<0>();
  }
};

constexpr uint32_t streamAhead = streamStages - 3;  // loads in flight; up to three stores still read their stages

GOCCL_DEVICE Status bulkOut(const StreamArgs& a, Stages& st, Flow& f) {
  uint32_t loaded = 0, published = 0, stage = st.next;
  auto publish = [&](uint32_t upTo) {
    if (upTo != published) storeRelease<Scope::sys>(f.flag, f.number(upTo));
    published = upTo;
  };
  for (; loaded < streamAhead && loaded < f.mine; ++loaded) st.load(f.at(loaded), f.size(loaded));
  if (Status s = f.meet(a); s != statusOk) {
    st.drain(stage, loaded);
    return s;
  }
  uint32_t limit = loadAcquire<Scope::sys>(f.limit);
  for (uint32_t j = 0; j < f.mine; ++j) {
    Status s = st.landed(stage);
    if (s == statusOk && static_cast<int32_t>(limit - f.number(j)) <= 0) {
      // The ring is full, or not ours yet: the receiver must see everything there is before it can go on.
      bulkWait<0>();
      publish(j);
      s = waitUntil(
          [&] {
            limit = loadAcquire<Scope::sys>(f.limit);
            return static_cast<int32_t>(limit - f.number(j)) > 0;
          },
          st.abort, f.limit, waitPacket, -1, f.peer);
    }
    if (s != statusOk) {
      st.drain((stage + 1) % streamStages, loaded - j - 1);
      return s;
    }
    bulkStore(f.target(j), st.piece(stage), f.size(j));
    bulkCommit();
    stage = (stage + 1) % streamStages;
    bulkWait<2>();
    if (j >= published + 3) publish(j - 1);  // all but the last two stores are performed; a release is dear, so one for two pieces
    if (loaded < f.mine) {
      st.load(f.at(loaded), f.size(loaded));
      ++loaded;
    }
  }
  bulkWait<0>();
  publish(f.mine);
  return statusOk;
}

GOCCL_DEVICE Status bulkIn(Stages& st, const Flow& f) {
  uint32_t loaded = 0, arrived = 0, stage = st.next;
  auto look = [&] {
    const int32_t there = static_cast<int32_t>(loadAcquire<Scope::sys>(f.flag) - f.number(0));
    if (there > static_cast<int32_t>(arrived)) {
      arrived = static_cast<uint32_t>(there);
      fenceProxyAsync();
    }
  };
  for (uint32_t j = 0; j < f.mine; ++j) {
    if (arrived <= loaded && loaded < f.mine) look();
    if (arrived <= j) {
      Status s = waitUntil(
          [&] {
            look();
            return arrived > j;
          },
          st.abort, f.flag, waitPacket, -1, f.peer);
      if (s != statusOk) {
        st.drain(stage, loaded - j);
        return s;
      }
    }
    for (; loaded < f.mine && loaded < arrived && loaded < j + streamAhead; ++loaded) st.load(f.slot(loaded), f.size(loaded));
    Status s = st.landed(stage);
    if (s != statusOk) {
      st.drain((stage + 1) % streamStages, loaded - j - 1);
      return s;
    }
    f.allow(j + 1);
    bulkStore(f.at(j), st.piece(stage), f.size(j));
    bulkCommit();
    stage = (stage + 1) % streamStages;
    bulkWaitSource<2>();
  }
  bulkWait<0>();
  return statusOk;
}
#endif

GOCCL_DEVICE void stream(const StreamArgs& a) {
  __shared__ uint64_t shared[2];  // a status; a place
#if GOCCL_BULK
  extern __shared__ __align__(128) uint8_t pieces[];
  Stages stages;
  if (threadIdx.x == 0) stages.init(pieces, a.abort);
  __syncthreads();
#endif
  const uint32_t channels = streamChannels;
  const uint32_t role = blockIdx.x / channels;  // 0 sends, 1 receives, more copy
  const uint32_t channel = blockIdx.x % channels;
  for (uint32_t l = 0; l < a.lanes; ++l) {
    const Lane lane = a.lane[l];
    if (lane.peer == a.rank) {
      if (role < 2) continue;
      const uint64_t copiers = gridDim.x - 2 * channels;
      for (uint32_t i = 0; i < lane.count; i += 2) {
        const Message from = a.message[lane.first + i], to = a.message[lane.first + i + 1];
        copyBytes<8>(reinterpret_cast<void*>(to.address), reinterpret_cast<const void*>(from.address), from.bytes,
                     (blockIdx.x - 2 * channels) * static_cast<uint64_t>(blockDim.x) + threadIdx.x, copiers * blockDim.x);
      }
      continue;
    }
    if (role > 1 || lane.send != (role == 0)) continue;
    uint32_t* counter = a.counters + ((static_cast<uint32_t>(lane.peer) * 2 + lane.send) * streamChannels + channel) * 32;
    Flow f(a, lane, channel, *counter);
    bool said = !lane.send && counter[1] != 0;
    Status s = statusOk;
    for (uint32_t i = 0; i < lane.count && s == statusOk; ++i) {
      f.take(a.message[lane.first + i]);
      if (f.mine == 0) continue;
      if (!lane.send) {
        const uint64_t direct = a.direct[lane.first + i];
        if (threadIdx.x == 0) f.open(direct, said);
        if (direct != 0) {
          s = await(a, f.flag, f.number(f.mine), f.peer, shared);
          __syncthreads();
          continue;
        }
      }
#if GOCCL_BULK
      if (f.aligned()) {
        if (threadIdx.x == 0) shared[0] = lane.send ? bulkOut(a, stages, f) : bulkIn(stages, f);
        __syncthreads();
        s = static_cast<Status>(shared[0]);
        __syncthreads();
      } else
#endif
        s = lane.send ? copyOut(a, f, shared) : copyIn(a, f, shared);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      counter[0] = f.start + f.total;
      counter[1] = said;
    }
    if (s != statusOk) return;
  }
}

}  // namespace collective
}  // namespace goccl
