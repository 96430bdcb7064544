// Large messages between pairs of ranks: plain stores of whole pieces through rings of slots, one flag a piece.
//
// Half of the blocks send and half receive; a block is one channel of all pairs. Every rank serves its peers one after
// another: in step k it sends to the rank k places ahead and receives from the rank k places behind. So at any time
// each port has one sender and one receiver, which is worth a third of the bandwidth. A channel has one ring at each
// rank, and the receiver lends it to one sender at a time, by raising that sender's limit: no steps are counted. Of all
// unfinished steps of all pairs one is the earliest, and both of its ends are at it: progress.
//
// A block passes pieces by a pipe (goccl/pipe.cuh): flags and limits are the pipe's, and count pieces. A limit ends at
// the last piece of a message, so a ring is empty between messages and each message may lay it out anew: longer
// messages have larger pieces, which hide the latency of a flag; shorter messages have smaller pieces, which let the
// receiver begin early.
//
// Where an address or size is not a multiple of 16, only its side is slower: the ring between the two is aligned.
// Counts are kept in device memory and wrap harmlessly, as in p2p.cuh.
#pragma once

#include <collective/p2p.cuh>
#include <goccl/copy.cuh>
#include <goccl/pipe.cuh>

namespace goccl {
namespace collective {

constexpr uint32_t streamChannels = 64;          // at most
constexpr uint32_t streamRingBytes = 192 << 10;  // of a channel
constexpr uint32_t streamPieceBytes = 32 << 10;  // of messages below streamLarge bytes, then twice that
constexpr uint32_t streamLarge = 32 << 20;
constexpr uint32_t streamWorkers = 256;  // threads that move data
static_assert(streamRingBytes % (2 * streamPieceBytes) == 0, "a ring is whole pieces of either size");

// The arguments are P2PArgs with windows at the stream region. Lanes are in the order of the steps; Lane::channels is
// not used. Blocks: the first `width` send, the next `width` receive, the rest copy the rank's messages to itself
// (lanes whose peer is the rank: pairs of messages from, to). All ranks have the same number of channels, always.

GOCCL_DEVICE uint64_t streamRing(uint32_t channel) { return static_cast<uint64_t>(channel) * streamRingBytes; }

// streamWord 0 is the flag that rank `source` writes, word 1 the limit that rank `target` writes.
GOCCL_DEVICE uint64_t streamWord(uint32_t rank, uint32_t channel, uint32_t word) {
  return streamRing(streamChannels) + ((static_cast<uint64_t>(rank) * streamChannels + channel) * 2 + word) * 128;
}

GOCCL_DEVICE uint32_t streamPiece(uint64_t bytes) {
  return bytes < streamLarge ? streamPieceBytes : 2 * streamPieceBytes;
}

// piecesOf is how many pieces of a message go by a channel.
GOCCL_DEVICE uint32_t piecesOf(uint64_t bytes, uint32_t channel, uint32_t channels) {
  const uint64_t pieces = (bytes + streamPiece(bytes) - 1) / streamPiece(bytes);
  return channel < pieces ? static_cast<uint32_t>((pieces - channel + channels - 1) / channels) : 0;
}

// Flow is one block's way through the messages of one peer and direction. Piece i of the lane is number start + i of
// the pair's channel.
struct Flow {
  uint32_t peer, channel, channels;
  uint32_t start;  // pieces of the pair before this launch
  uint32_t total;  // pieces of this launch
  uint32_t base;   // of them, before the current message
  uint8_t* user;   // the current message
  uint64_t bytes;
  uint32_t piece;  // bytes of each of its pieces but the last
  uint32_t depth;  // how many of them the ring holds
  uint32_t mine;   // its pieces
  uint8_t* ring;
  uint32_t* flag;   // pieces that have arrived
  uint32_t* limit;  // pieces that may be sent

  GOCCL_DEVICE Flow(const P2PArgs& a, const Lane& lane, uint32_t c, uint32_t k)
      : peer(lane.peer), channel(c), channels(a.width), start(k), total(0), base(0), user(nullptr), bytes(0),
        piece(0), depth(0), mine(0) {
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
  // allow lets the sender fill the ring as far as it is free once the first j pieces of the message have left it. Only
  // the receiver's signaler calls it.
  GOCCL_DEVICE void allow(uint32_t j) const {
    storeRelaxed<Scope::sys>(limit, number(j + depth < mine ? j + depth : mine));
  }
};

// Stream is a block.
struct Stream {
  const P2PArgs& a;
  Pipe pipe;

  GOCCL_DEVICE explicit Stream(const P2PArgs& args) : a(args), pipe(args.abort) {}

  GOCCL_DEVICE bool send(const Flow& f) {
    uint32_t limit = f.number(0);
#pragma unroll 1
    for (uint32_t j = 0; j < f.mine; ++j) {
      auto room = [&] { return pipe.awaitLimit(f.limit, f.number(j), limit, f.peer); };
      auto move = [&] { copyBytes<4>(f.slot(j), f.at(j), f.size(j), threadIdx.x, pipe.workers()); };
      auto signal = [&] { storeRelease<Scope::sys>(f.flag, f.number(j + 1)); };
      if (!pipe.step([] { return statusOk; }, room, move, signal)) return false;
    }
    return true;
  }

  // A flag that was seen can be ahead of the message: its sender goes on as soon as the next one is opened.
  GOCCL_DEVICE bool receive(const Flow& f) {
    if (pipe.signaler()) f.allow(0);
    uint32_t flag = f.number(0);
#pragma unroll 1
    for (uint32_t j = 0; j < f.mine; ++j) {
      auto arrived = [&] { return pipe.awaitFlag(f.flag, f.number(j), flag, f.peer); };
      auto move = [&] { copyBytes<4>(f.at(j), f.slot(j), f.size(j), threadIdx.x, pipe.workers()); };
      if (!pipe.step(arrived, [] { return statusOk; }, move, [&] { f.allow(j + 1); })) return false;
    }
    return true;
  }

  // lane takes the messages of one peer and direction through a channel.
  GOCCL_DEVICE bool lane(const Lane& lane, uint32_t channel) {
    uint32_t* counter = counterOf(a, lane.peer, lane.send, channel, streamChannels);
    Flow f(a, lane, channel, *counter);
    bool done = true;
    for (uint32_t i = 0; i < lane.count && done; ++i) {
      f.take(a.message[lane.first + i]);
      done = lane.send ? send(f) : f.mine == 0 || receive(f);
    }
    __syncthreads();
    if (threadIdx.x == 0) *counter = f.start + f.total;
    return done;
  }
};

GOCCL_DEVICE void stream(const P2PArgs& a) {
  Stream block(a);
  const uint32_t role = blockIdx.x / a.width;  // 0 sends, 1 receives, more copy
  const uint32_t channel = blockIdx.x % a.width;
  for (uint32_t l = 0; l < a.lanes; ++l) {
    const Lane lane = a.lane[l];
    if (lane.peer == a.rank) {
      if (role < 2) continue;
      const uint64_t copiers = gridDim.x - 2 * a.width;
      const uint64_t copier = blockIdx.x - 2 * a.width;
      for (uint32_t i = 0; i < lane.count; i += 2) {
        const Message from = a.message[lane.first + i], to = a.message[lane.first + i + 1];
        copyBytes<8>(reinterpret_cast<void*>(to.address), reinterpret_cast<const void*>(from.address), from.bytes,
                     copier * blockDim.x + threadIdx.x, copiers * blockDim.x);
      }
      continue;
    }
    if (role < 2 && lane.send == (role == 0) && !block.lane(lane, channel)) return;
  }
}

}  // namespace collective
}  // namespace goccl
