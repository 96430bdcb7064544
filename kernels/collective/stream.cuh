// Large messages between pairs of ranks: bulk copies through rings, a flag per piece.
//
// Half of the blocks send and half receive; a block is one channel of all pairs. Every rank serves its peers one after another, in step k the
// one k ranks after it for sending and k ranks before it for receiving: so at any time each port has one sender and one receiver, which is worth
// a third of the bandwidth. Nobody counts steps: a receiver that is still in step k does not drain the ring of step k+1, and its sender waits.
// Some pair's step is the earliest of all unfinished ones, and both its ends are at it: progress.
//
//   sender     1. loads pieces ahead into shared memory
//              2. waits until the receiver has taken piece k−depth (credit, in the sender's window), then starts the store of piece k
//              3. once the store is performed, releases flag = k+1 at system scope
//   receiver   1. acquires flag ≥ k+1, orders the asynchronous proxy behind it, loads piece k
//              2. once it has landed in shared memory, posts the credit and starts the store to its place
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
constexpr uint32_t streamDepth = 4;
constexpr uint32_t streamPieceBytes = 24 << 10;
constexpr uint32_t streamStages = 8;  // pieces in shared memory

// The arguments are P2PArgs with windows at the stream region; lanes are in the order of the steps, and Lane::channels is not used. Blocks: the
// first `channels` send, the next receive, the rest copy the rank's messages to itself (lanes whose peer is the rank: message pairs from, to).
GOCCL_DEVICE uint32_t streamChannelsOf(const P2PArgs& a) { return a.nranks <= 8 ? streamChannels : streamChannels / 2; }

GOCCL_DEVICE uint64_t streamRing(const P2PArgs& a, uint32_t source, uint32_t channel) {
  return (static_cast<uint64_t>(source) * streamChannelsOf(a) + channel) * streamDepth * streamPieceBytes;
}
// word 0: the flag of source's ring, written by source. word 1: the credit of our ring at target, written by target.
GOCCL_DEVICE uint64_t streamWord(const P2PArgs& a, uint32_t rank, uint32_t channel, uint32_t word) {
  return streamRing(a, a.nranks, 0) + ((static_cast<uint64_t>(rank) * streamChannelsOf(a) + channel) * 2 + word) * 128;
}

// await waits, with one thread, until the word is at least target, and tells the block.
GOCCL_DEVICE Status await(const P2PArgs& a, const uint32_t* word, uint32_t target, uint32_t peer, uint32_t* shared) {
  if (threadIdx.x == 0)
    shared[0] = waitUntil([&] { return static_cast<int32_t>(loadAcquire<Scope::sys>(word) - target) >= 0; }, a.abort, word, waitPacket, -1, peer);
  __syncthreads();
  Status s = shared[0];
  return s;
}

// Flow is one block's way through the pieces of one message in one direction.
struct Flow {
  uint8_t* user;
  uint64_t bytes;
  uint64_t pieces;      // of the message
  uint32_t mine;        // of this channel
  uint32_t channel, channels;
  uint8_t* ring;
  uint32_t* flag;       // pieces that have arrived in the ring
  uint32_t* credit;     // pieces that have left it
  uint32_t peer;

  GOCCL_DEVICE Flow(const P2PArgs& a, const Message& m, uint32_t other, bool out, uint32_t c) : channel(c), peer(other) {
    user = reinterpret_cast<uint8_t*>(m.address);
    bytes = m.bytes;
    pieces = (m.bytes + streamPieceBytes - 1) / streamPieceBytes;
    channels = streamChannelsOf(a);
    mine = channel < pieces ? static_cast<uint32_t>((pieces - channel + channels - 1) / channels) : 0;
    const uint32_t source = out ? a.rank : other, target = out ? other : a.rank;
    ring = a.window[target] + streamRing(a, source, channel);
    flag = reinterpret_cast<uint32_t*>(a.window[target] + streamWord(a, source, channel, 0));
    credit = reinterpret_cast<uint32_t*>(a.window[source] + streamWord(a, target, channel, 1));
  }
  GOCCL_DEVICE uint8_t* at(uint32_t j) const { return user + (channel + static_cast<uint64_t>(j) * channels) * streamPieceBytes; }
  GOCCL_DEVICE uint32_t size(uint32_t j) const {
    const uint64_t left = bytes - (channel + static_cast<uint64_t>(j) * channels) * streamPieceBytes;
    return left < streamPieceBytes ? static_cast<uint32_t>(left) : streamPieceBytes;
  }
  GOCCL_DEVICE uint8_t* slot(uint32_t k) const { return ring + (k % streamDepth) * streamPieceBytes; }
  GOCCL_DEVICE bool aligned() const { return ((reinterpret_cast<uintptr_t>(user) | bytes) & 15) == 0; }
};

// By all threads of the block.
GOCCL_DEVICE Status copyOut(const P2PArgs& a, const Flow& f, uint32_t k, uint32_t* shared) {
  for (uint32_t j = 0; j < f.mine; ++j) {
    Status s = await(a, f.credit, k + j + 1 - streamDepth, f.peer, shared);
    if (s != statusOk) return s;
    copyBytes<4>(f.slot(k + j), f.at(j), f.size(j), threadIdx.x, blockDim.x);
    __syncthreads();
    if (threadIdx.x == 0) storeRelease<Scope::sys>(f.flag, k + j + 1);
  }
  return statusOk;
}

GOCCL_DEVICE Status copyIn(const P2PArgs& a, const Flow& f, uint32_t k, uint32_t* shared) {
  for (uint32_t j = 0; j < f.mine; ++j) {
    Status s = await(a, f.flag, k + j + 1, f.peer, shared);
    if (s != statusOk) return s;
    copyBytes<4>(f.at(j), f.slot(k + j), f.size(j), threadIdx.x, blockDim.x);
    __syncthreads();
    if (threadIdx.x == 0) storeRelaxed<Scope::sys>(f.credit, k + j + 1);
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
  // drain waits, boundedly, for loads that nobody will use: a block must not end under them.
  GOCCL_DEVICE void drain(uint32_t stage, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      for (uint32_t spin = 0; spin < 4096 && !barriers[stage].poll(phases >> stage & 1); ++spin) {
      }
      phases ^= 1u << stage;
      stage = (stage + 1) % streamStages;
    }
    bulkWaitSource<0>();
  }
};

constexpr uint32_t streamAhead = streamStages - 2;  // loads in flight; two stores still read their stages

GOCCL_DEVICE Status bulkOut(Stages& st, const Flow& f, uint32_t k) {
  uint32_t loaded = 0, published = 0, stage = st.next;
  auto publish = [&](uint32_t upTo) {
    if (upTo != published) storeRelease<Scope::sys>(f.flag, k + upTo);
    published = upTo;
  };
  for (; loaded < streamAhead && loaded < f.mine; ++loaded) st.load(f.at(loaded), f.size(loaded));
  uint32_t taken = loadAcquire<Scope::sys>(f.credit);
  Status s = statusOk;
  for (uint32_t j = 0; j < f.mine; ++j) {
    s = st.landed(stage);
    if (s == statusOk && static_cast<int32_t>(k + j + 1 - streamDepth - taken) > 0) {
      // The ring is full: the receiver must see everything there is before it can go on.
      bulkWait<0>();
      publish(j);
      s = waitUntil(
          [&] {
            taken = loadAcquire<Scope::sys>(f.credit);
            return static_cast<int32_t>(k + j + 1 - streamDepth - taken) <= 0;
          },
          st.abort, f.credit, waitPacket, -1, f.peer);
    }
    if (s != statusOk) {
      st.drain((stage + 1) % streamStages, loaded - j - 1);
      return s;
    }
    bulkStore(f.slot(k + j), st.piece(stage), f.size(j));
    bulkCommit();
    stage = (stage + 1) % streamStages;
    bulkWait<1>();
    publish(j);
    if (loaded < f.mine) {
      st.load(f.at(loaded), f.size(loaded));
      ++loaded;
    }
  }
  bulkWait<0>();
  publish(f.mine);
  return statusOk;
}

GOCCL_DEVICE Status bulkIn(Stages& st, const Flow& f, uint32_t k) {
  uint32_t loaded = 0, arrived = 0, stage = st.next;
  auto look = [&] {
    const uint32_t before = arrived;
    arrived = loadAcquire<Scope::sys>(f.flag) - k;
    if (static_cast<int32_t>(arrived) < 0) arrived = 0;
    if (arrived != before) fenceProxyAsync();
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
    for (; loaded < f.mine && loaded < arrived && loaded < j + streamAhead; ++loaded) st.load(f.slot(k + loaded), f.size(loaded));
    Status s = st.landed(stage);
    if (s != statusOk) {
      st.drain((stage + 1) % streamStages, loaded - j - 1);
      return s;
    }
    storeRelaxed<Scope::sys>(f.credit, k + j + 1);
    bulkStore(f.at(j), st.piece(stage), f.size(j));
    bulkCommit();
    stage = (stage + 1) % streamStages;
    bulkWaitSource<1>();
  }
  bulkWait<0>();
  return statusOk;
}
#endif

GOCCL_DEVICE void stream(const P2PArgs& a) {
  __shared__ uint32_t shared[2];
#if GOCCL_BULK
  extern __shared__ __align__(128) uint8_t pieces[];
  Stages stages;
  if (threadIdx.x == 0) stages.init(pieces, a.abort);
  __syncthreads();
#endif
  const uint32_t channels = streamChannelsOf(a);
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
    uint32_t k = *counter;
    Status s = statusOk;
    for (uint32_t i = 0; i < lane.count && s == statusOk; ++i) {
      const Flow f(a, a.message[lane.first + i], lane.peer, lane.send, channel);
#if GOCCL_BULK
      if (f.aligned()) {
        if (threadIdx.x == 0) shared[1] = lane.send ? bulkOut(stages, f, k) : bulkIn(stages, f, k);
        __syncthreads();
        s = shared[1];
        __syncthreads();
      } else
#endif
        s = lane.send ? copyOut(a, f, k, shared) : copyIn(a, f, k, shared);
      k += f.mine;
    }
    __syncthreads();
    if (threadIdx.x == 0) *counter = k;
    if (s != statusOk) return;
  }
}

}  // namespace collective
}  // namespace goccl
