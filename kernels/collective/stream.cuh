// Large messages between pairs of ranks: straight into the receiver's buffer where the sender has mapped it, else by
// plain stores of whole pieces through rings of slots.
//
// A channel of all pairs is two blocks: one sends and the other receives. Every rank serves its peers one after
// another: in step k it sends to the rank k places ahead and receives from the rank k places behind. So each port has
// one sender and one receiver, which is worth a third of the bandwidth. A channel has one ring at each rank, and the
// receiver lends it to one sender at a time, by raising that sender's limit: no steps are counted. Of all unfinished
// steps of all pairs one is the earliest, and both of its ends are at it: progress. Channels are independent and lie
// side by side in the grid, so the resident part of a grid makes progress.
//
// A block passes pieces by a pipe (goccl/pipe.cuh): flags and limits are the pipe's, and count pieces. A limit ends at
// the last piece of a message, so a ring is empty between messages and each message may lay it out anew: large pieces
// hide the latency of a flag, small pieces let the receiver begin early.
//
// # Mapped buffers
//
// With the first limit of a message the receiver tells where the sender has mapped its buffer, or 0. The sender copies
// its channel's part there, and then raises the flag by all pieces of the channel. It has read the place before it
// raises the flag, which the receiver awaits before it tells the next place. Only channels with pieces take part in a
// message: there is a part for each of them.
//
// Where an address or size is not a multiple of 16, only its side is slower: the ring between the two is aligned.
// Counts are kept in device memory and wrap harmlessly, as in p2p.cuh.
#pragma once

#include <collective/p2p.cuh>
#include <goccl/bulk.cuh>
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

// Windows are at the stream region. Lanes are in the order of the steps; the rank's messages to itself, which the
// receiving blocks copy, are the last lane. Lane::channels is not used. Both ranks of a message have the same width.
struct StreamArgs : P2PArgs {
  uint64_t there[p2pMaxMessages];  // of a message that is received: its address as the sender has mapped it, or 0
  uint64_t stages;                 // of streamPieceBytes of shared memory, for bulk copies; or 0
};
static_assert(sizeof(StreamArgs) == sizeof(P2PArgs) + 8 * p2pMaxMessages + 8, "StreamArgs is filled by the host");

#if GOCCL_BULK
extern __shared__ __align__(128) uint8_t streamMemory[];
#endif

GOCCL_DEVICE uint64_t streamRing(uint32_t channel) { return static_cast<uint64_t>(channel) * streamRingBytes; }

// streamWord 0 is the flag that rank `source` writes, word 1 the limit that rank `target` writes, and 8 bytes behind it
// the place.
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
  uint64_t there;  // a received message's place at the sender, or 0
  uint32_t piece;  // bytes of each of its pieces but the last
  uint32_t depth;  // how many of them the ring holds
  uint32_t mine;   // its pieces
  uint8_t* ring;
  uint32_t* flag;   // pieces that have arrived
  uint32_t* limit;  // pieces that may be sent

  GOCCL_DEVICE Flow(const P2PArgs& a, const Lane& lane, uint32_t c, uint32_t k)
      : peer(lane.peer), channel(c), channels(a.width), start(k), total(0), base(0), user(nullptr), bytes(0), there(0),
        piece(0), depth(0), mine(0) {
    for (uint32_t i = 0; i < lane.count; ++i) total += piecesOf(a.message[lane.first + i].bytes, c, channels);
    const uint32_t source = lane.send ? a.rank : peer, target = lane.send ? peer : a.rank;
    ring = a.window[target] + streamRing(c);
    flag = reinterpret_cast<uint32_t*>(a.window[target] + streamWord(source, c, 0));
    limit = reinterpret_cast<uint32_t*>(a.window[source] + streamWord(target, c, 1));
  }
  GOCCL_DEVICE void take(const Message& m, uint64_t place) {
    base += mine;
    user = reinterpret_cast<uint8_t*>(m.address);
    bytes = m.bytes;
    there = place;
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
  // parts is how many channels have pieces.
  GOCCL_DEVICE uint32_t parts() const {
    const uint64_t pieces = (bytes + piece - 1) / piece;
    return pieces < channels ? static_cast<uint32_t>(pieces) : channels;
  }
  GOCCL_DEVICE uint8_t* slot(uint32_t j) const { return ring + static_cast<uint64_t>(j % depth) * piece; }
  GOCCL_DEVICE uint32_t number(uint32_t j) const { return start + base + j; }
  GOCCL_DEVICE uint64_t* place() const { return reinterpret_cast<uint64_t*>(limit) + 1; }
  // allowed is the limit that lets the sender fill the ring once the first j pieces of the message have left it. Only
  // the receiver's signaler stores limits.
  GOCCL_DEVICE uint32_t allowed(uint32_t j) const { return number(j + depth < mine ? j + depth : mine); }
  GOCCL_DEVICE void allow(uint32_t j) const { storeRelaxed<Scope::sys>(limit, allowed(j)); }
  GOCCL_DEVICE void open() const {
    storeRelaxed<Scope::sys>(place(), there);
    storeRelease<Scope::sys>(limit, allowed(0));
  }
};

// Copier copies a channel's part of a message, without a ring.
struct Copier {
  const uint32_t channel, workers, stages;
#if GOCCL_BULK
  BulkPipe bulk;  // the signaler's
#endif

  GOCCL_DEVICE Copier(const StreamArgs& a, uint32_t c, uint32_t w)
      : channel(c), workers(w), stages(static_cast<uint32_t>(a.stages)) {
#if GOCCL_BULK
    if (stages != 0 && threadIdx.x == workers) bulk.init(streamMemory, streamPieceBytes, stages, a.abort);
#endif
  }

  // copy copies one of `parts` parts: whole vectors by bulk copies of the signaler, if both addresses are aligned, and
  // the rest by plain stores of the workers. When it returns, the stores are performed. It is large, and called thrice.
  GOCCL_COLD bool copy(uint64_t to, uint64_t from, uint64_t bytes, uint32_t parts) {
    const uint64_t vectors = hasBulk && stages != 0 && (to | from) % 16 == 0 ? bytes & ~uint64_t{15} : 0;
    Status s = statusOk;
    if (threadIdx.x < workers)
      copyBytes<4>(reinterpret_cast<void*>(to + vectors), reinterpret_cast<const void*>(from + vectors),
                   bytes - vectors, channel * workers + threadIdx.x, parts * workers);
#if GOCCL_BULK
    if (threadIdx.x == workers && vectors != 0) {
      fenceProxyAsync();
      s = bulk.copy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), vectors, channel, parts);
      bulk.finish();
    }
#endif
    return !__syncthreads_or(s != statusOk);
  }
};

// Stream is a block.
struct Stream {
  const StreamArgs& a;
  Pipe pipe;
  const uint32_t channel;
  Copier copier;
  bool alone = true;  // the rank's messages to itself are not copied yet

  GOCCL_DEVICE Stream(const StreamArgs& args, uint32_t c)
      : a(args), pipe(args.abort), channel(c), copier(args, c, pipe.workers()) {}

  // await waits for a flag or limit to pass a number. All threads of the block acquire the stores before it.
  GOCCL_DEVICE bool await(const uint32_t* word, uint32_t number, uint32_t peer) {
    uint32_t seen = number;
    const Status s = threadIdx.x == 0 ? pipe.awaitFlag(word, number, seen, peer) : statusOk;
    return !__syncthreads_or(s != statusOk);
  }

  GOCCL_DEVICE bool send(const Flow& f) {
    if (!await(f.limit, f.number(0), f.peer)) return false;
    if (const uint64_t there = loadRelaxed<Scope::sys>(f.place())) {
      if (!copier.copy(there, reinterpret_cast<uint64_t>(f.user), f.bytes, f.parts())) return false;
      if (pipe.signaler()) storeRelease<Scope::sys>(f.flag, f.number(f.mine));
      return true;
    }
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
    if (pipe.signaler()) f.open();
    if (!own()) return false;
    if (f.there != 0) return await(f.flag, f.number(0), f.peer);
    uint32_t flag = f.number(0);
#pragma unroll 1
    for (uint32_t j = 0; j < f.mine; ++j) {
      auto arrived = [&] { return pipe.awaitFlag(f.flag, f.number(j), flag, f.peer); };
      auto move = [&] { copyBytes<4>(f.at(j), f.slot(j), f.size(j), threadIdx.x, pipe.workers()); };
      if (!pipe.step(arrived, [] { return statusOk; }, move, [&] { f.allow(j + 1); })) return false;
    }
    return true;
  }

  // own copies the rank's messages to itself, pairs of messages from, to: a receiving block does so once, while the
  // first message from a peer is on its way.
  GOCCL_DEVICE bool own() {
    const Lane lane = a.lane[a.lanes - 1];
    bool done = true;
    for (uint32_t i = 0; alone && lane.peer == a.rank && i < lane.count && done; i += 2) {
      const Message from = a.message[lane.first + i], to = a.message[lane.first + i + 1];
      done = copier.copy(to.address, from.address, from.bytes, a.width);
    }
    alone = false;
    return done;
  }

  // lane takes the messages of one peer and direction through the channel.
  GOCCL_DEVICE bool lane(const Lane& lane) {
    uint32_t* counter = counterOf(a, lane.peer, lane.send, channel, streamChannels);
    Flow f(a, lane, channel, *counter);
    bool done = true;
    for (uint32_t i = 0; i < lane.count && done; ++i) {
      f.take(a.message[lane.first + i], a.there[lane.first + i]);
      done = f.mine == 0 || (lane.send ? send(f) : receive(f));
    }
    __syncthreads();
    if (threadIdx.x == 0) *counter = f.start + f.total;
    return done;
  }
};

GOCCL_DEVICE void stream(const StreamArgs& a) {
  Stream block(a, blockIdx.x / 2);
  const uint32_t sends = blockIdx.x % 2 == 0;
  for (uint32_t l = 0; l < a.lanes; ++l) {
    const Lane lane = a.lane[l];
    if (lane.peer != a.rank && lane.send == sends && !block.lane(lane)) return;
  }
  if (!sends) block.own();
}

}  // namespace collective
}  // namespace goccl
