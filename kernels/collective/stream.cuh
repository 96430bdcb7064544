// Large messages between pairs of ranks: plain stores of whole pieces through rings, a flag per piece.
//
// Half of the blocks send and half receive; a block is one channel of all pairs. Every rank serves its peers one after another, in step k the
// one k ranks after it for sending and k ranks before it for receiving: so at any time each port has one sender and one receiver, which is worth
// a third of the bandwidth. A channel has one ring at each rank, and the receiver lends it to one sender at a time, by raising that sender's
// limit: so nobody counts steps. Some pair's step is the earliest of all unfinished ones, and both its ends are at it: progress.
//
//   sender     1. waits until the receiver's limit (a word in the sender's window) allows piece k, then stores it
//              2. behind a block barrier, releases flag = k+1 at system scope
//   receiver   1. acquires flag ≥ k+1, copies piece k to its place
//              2. behind a block barrier, raises the limit, at most to the end of this message's pieces
//
// Most threads of a block move data; a last warp, the teller, does step 2, so that the others need not wait for its fence. The limit is relaxed: the loads
// of a piece have returned their values by then. A ring is empty between messages, so each lays it out as suits it: pieces are the larger the longer the message, which
// hides the time that a flag takes, and small enough that the first is soon there.
//
// A receiver whose buffer the sender has mapped (Go: registry) says where, message by message, and lends it no ring but lets it send all at once:
// pieces go straight to their place, and the receiver waits for the last flag only. It never lets a sender go on to a message of which it has not said
// that yet.
//
// Where an address or size is not a multiple of 16, its side alone is slower: the ring between them is aligned. Counters go on for ever in device
// memory, as in p2p.cuh, and compare as signed differences.
#pragma once

#include <collective/p2p.cuh>
#include <goccl/copy.cuh>

namespace goccl {
namespace collective {

constexpr uint32_t streamChannels = 64;            // at most
constexpr uint32_t streamRingBytes = 192 << 10;    // of a channel
constexpr uint32_t streamPieceBytes = 32 << 10;    // of messages below streamLarge bytes, then twice that
constexpr uint32_t streamLarge = 32 << 20;
constexpr uint32_t streamWorkers = 256;            // threads that move data
constexpr uint32_t streamTellers = 32;             // and those of which one tells
static_assert(streamRingBytes % (2 * streamPieceBytes) == 0, "a ring is whole pieces of either size");

// The arguments are those of P2PArgs with windows at the stream region; lanes are in the order of the steps, and Lane::channels is not used. Blocks: the
// first `streams` send, the next receive, the rest copy the rank's messages to itself (lanes whose peer is the rank: message pairs from, to). All ranks have
// the same number of channels, always.
struct StreamArgs : P2PArgs {
  const uint64_t* maps;
  uint64_t direct[p2pMaxMessages];  // of a message to receive: its place as the sender knows it, or 0
};
static_assert(sizeof(StreamArgs) == sizeof(P2PArgs) + 8 + 8 * p2pMaxMessages, "StreamArgs is filled by the host");

GOCCL_DEVICE uint64_t streamRing(uint32_t channel) { return static_cast<uint64_t>(channel) * streamRingBytes; }
// word 0: pieces that source has put in our ring, written by source. word 1: pieces that target allows us, written by target; behind it, 64 bits, where
// they go.
GOCCL_DEVICE uint64_t streamWord(uint32_t rank, uint32_t channel, uint32_t word) {
  return streamRing(streamChannels) + ((static_cast<uint64_t>(rank) * streamChannels + channel) * 2 + word) * 128;
}

GOCCL_DEVICE uint32_t streamPiece(uint64_t bytes) { return bytes < streamLarge ? streamPieceBytes : 2 * streamPieceBytes; }

// piecesOf is how many pieces of a message go by a channel.
GOCCL_DEVICE uint32_t piecesOf(uint64_t bytes, uint32_t channel, uint32_t channels) {
  const uint64_t pieces = (bytes + streamPiece(bytes) - 1) / streamPiece(bytes);
  return channel < pieces ? static_cast<uint32_t>((pieces - channel + channels - 1) / channels) : 0;
}

// Flow is one block's way through the messages of one peer and direction. Piece i of the lane is number start + i of the pair's channel.
struct Flow {
  uint32_t peer, channel, channels;
  uint32_t start;   // pieces of the pair before this launch
  uint32_t total;   // pieces of this launch
  uint32_t base;    // of them, before the current message
  uint8_t* user;    // the current message
  uint64_t bytes;
  uint32_t piece;   // bytes of each of its pieces but the last
  uint32_t depth;   // how many of them the ring holds
  uint32_t mine;    // its pieces
  uint8_t* ring;
  uint32_t* flag;   // pieces that have arrived
  uint32_t* limit;  // pieces that may be sent

  GOCCL_DEVICE Flow(const StreamArgs& a, const Lane& lane, uint32_t c, uint32_t k)
      : peer(lane.peer), channel(c), channels(a.streams), start(k), total(0), base(0), user(nullptr), bytes(0), piece(0), depth(0), mine(0) {
    for (uint32_t i = 0; i < lane.count; ++i) total += piecesOf(a.message[lane.first + i].bytes, c, channels);
    const uint32_t source = lane.send ? a.rank : peer, target = lane.send ? peer : a.rank;
    ring = a.window[target] + streamRing(c);
    flag = reinterpret_cast<uint32_t*>(a.window[target] + streamWord(source, c, 0));
    limit = reinterpret_cast<uint32_t*>(a.window[source] + streamWord(target, c, 1));
  }
  GOCCL_DEVICE void take(const Message& m) {
    base += mine;
    user = reinterpret_cast<uint8_t*>(m.address);
    bytes = m.bytes;
    piece = streamPiece(bytes);
    depth = streamRingBytes / piece;
    mine = piecesOf(bytes, channel, channels);
  }
  GOCCL_DEVICE uint64_t offset(uint32_t j) const { return (channel + static_cast<uint64_t>(j) * channels) * piece; }
  GOCCL_DEVICE uint8_t* at(uint32_t j) const { return user + offset(j); }
  GOCCL_DEVICE uint32_t size(uint32_t j) const {
    const uint64_t left = bytes - offset(j);
    return left < piece ? static_cast<uint32_t>(left) : piece;
  }
  GOCCL_DEVICE uint8_t* slot(uint32_t j) const { return ring + static_cast<uint64_t>(j % depth) * piece; }
  GOCCL_DEVICE uint32_t number(uint32_t j) const { return start + base + j; }
  // allow lets the sender have the ring as far as it is free once the first j pieces of the message have left it. The receiver's teller only, as is open.
  GOCCL_DEVICE void allow(uint32_t j) const { storeRelaxed<Scope::sys>(limit, start + base + (j + depth < mine ? j + depth : mine)); }
  GOCCL_DEVICE uint64_t* where() const { return reinterpret_cast<uint64_t*>(limit) + 1; }
  // open begins a message: it comes to its place, or through the ring, as all that have no place; said is whether the sender remembers one.
  GOCCL_DEVICE void open(uint64_t direct, bool said) const {
    if (direct == 0 && !said) return allow(0);
    storeRelaxed<Scope::sys>(where(), direct);
    storeRelease<Scope::sys>(limit, start + base + (direct != 0 || depth > mine ? mine : depth));
  }
};

// Stream is a block.
struct Stream {
  const StreamArgs& a;
  uint32_t* halted;   // shared memory, zero: whether a wait was given up, of even and odd steps
  uint64_t* place;    // shared memory: the message at the receiver, as mapped here; 0: it goes through the ring
  uint32_t steps;

  GOCCL_DEVICE uint32_t workers() const { return blockDim.x - streamTellers; }
  GOCCL_DEVICE bool worker() const { return threadIdx.x < workers(); }
  GOCCL_DEVICE bool teller() const { return threadIdx.x == workers(); }

  // step lets thread 0 wait, the workers move, and then the teller tell. It is false where the wait was given up.
  template <class Wait, class Move, class Tell>
  GOCCL_DEVICE bool step(Wait wait, Move move, Tell tell) {
    uint32_t* stop = halted + (steps++ & 1);
    if (worker()) {
      if (threadIdx.x == 0 && wait() != statusOk) *stop = 1;
      barrierOf(1, workers());
      if (*stop == 0) move();
    }
    barrierOf(2, blockDim.x);
    if (*stop != 0) return false;
    if (teller()) tell();
    return true;
  }

  // await waits until a word is at least target; seen is what it last was.
  GOCCL_DEVICE Status await(const uint32_t* word, uint32_t target, uint32_t peer, uint32_t& seen) const {
    if (static_cast<int32_t>(seen - target) >= 0) return statusOk;
    return waitUntil([&] { return static_cast<int32_t>((seen = loadAcquire<Scope::sys>(word)) - target) >= 0; }, a.abort, word, waitPacket, -1, peer);
  }

  // meet waits until the receiver has opened the message, and finds out where it goes.
  GOCCL_DEVICE Status meet(const Flow& f, uint32_t& seen) const {
    const Status s = await(f.limit, f.number(1), f.peer, seen);
    if (s != statusOk) return s;
    const uint64_t at = loadRelaxed<Scope::sys>(f.where());
    *place = at == 0 ? 0 : reinterpret_cast<uint64_t>(placeOf(a.maps, f.peer, at, a.abort));
    return at == 0 || *place != 0 ? statusOk : statusInvalid;
  }

  GOCCL_DEVICE bool send(const Flow& f) {
    uint32_t room = f.number(0);
#pragma unroll 1
    for (uint32_t j = 0; j < f.mine; ++j) {
      auto wait = [&] { return j == 0 ? meet(f, room) : await(f.limit, f.number(j + 1), f.peer, room); };
      auto move = [&] {
        uint8_t* to = *place == 0 ? f.slot(j) : reinterpret_cast<uint8_t*>(*place) + f.offset(j);
        copyBytes<4>(to, f.at(j), f.size(j), threadIdx.x, workers());
      };
      if (!step(wait, move, [&] { storeRelease<Scope::sys>(f.flag, f.number(j + 1)); })) return false;
    }
    return true;
  }

  // receive begins with what came before: a flag may have been seen that is ahead of the message, as its sender goes on once it is opened.
  GOCCL_DEVICE bool receive(const Flow& f, uint64_t direct, bool said) {
    if (teller()) f.open(direct, said);
    uint32_t arrived = f.number(0);
    if (direct != 0) return step([&] { return await(f.flag, f.number(f.mine), f.peer, arrived); }, [] {}, [] {});
#pragma unroll 1
    for (uint32_t j = 0; j < f.mine; ++j) {
      auto wait = [&] { return await(f.flag, f.number(j + 1), f.peer, arrived); };
      auto move = [&] { copyBytes<4>(f.at(j), f.slot(j), f.size(j), threadIdx.x, workers()); };
      if (!step(wait, move, [&] { f.allow(j + 1); })) return false;
    }
    return true;
  }

  // lane takes the messages of one peer and direction through a channel.
  GOCCL_DEVICE bool lane(const Lane& lane, uint32_t channel) {
    uint32_t* counter = a.counters + ((static_cast<uint32_t>(lane.peer) * 2 + lane.send) * streamChannels + channel) * 32;
    Flow f(a, lane, channel, counter[0]);
    bool said = !lane.send && counter[1] != 0, done = true;
    for (uint32_t i = 0; i < lane.count && done; ++i) {
      f.take(a.message[lane.first + i]);
      if (f.mine == 0) continue;
      const uint64_t direct = lane.send ? 0 : a.direct[lane.first + i];
      done = lane.send ? send(f) : receive(f, direct, said);
      said = direct != 0;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      counter[0] = f.start + f.total;
      counter[1] = said;
    }
    return done;
  }
};

GOCCL_DEVICE void stream(const StreamArgs& a) {
  __shared__ uint64_t shared[2];
  if (threadIdx.x == 0) shared[0] = 0;
  __syncthreads();
  Stream block{a, reinterpret_cast<uint32_t*>(shared), shared + 1, 0};
  const uint32_t role = blockIdx.x / a.streams;  // 0 sends, 1 receives, more copy
  const uint32_t channel = blockIdx.x % a.streams;
  for (uint32_t l = 0; l < a.lanes; ++l) {
    const Lane lane = a.lane[l];
    if (lane.peer == a.rank) {
      if (role < 2) continue;
      const uint64_t copiers = gridDim.x - 2 * a.streams;
      for (uint32_t i = 0; i < lane.count; i += 2) {
        const Message from = a.message[lane.first + i], to = a.message[lane.first + i + 1];
        copyBytes<8>(reinterpret_cast<void*>(to.address), reinterpret_cast<const void*>(from.address), from.bytes,
                     (blockIdx.x - 2 * a.streams) * static_cast<uint64_t>(blockDim.x) + threadIdx.x, copiers * blockDim.x);
      }
      continue;
    }
    if (role < 2 && lane.send == (role == 0) && !block.lane(lane, channel)) return;
  }
}

}  // namespace collective
}  // namespace goccl
