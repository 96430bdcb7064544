// Messages between pairs of ranks: send, receive, all-to-all-v, gather, scatter, and small broadcasts and reductions of
// rooted kind.
//
// A pair has, for each direction, `channels` rings of `depth` pieces in the receiver's window. A block serves one
// channel of one peer and direction; it takes the messages of that peer and direction in the order of the list, so the
// k-th send meets the k-th receive. Both sides compute from the size of a message and the launch's width alone how
// large its pieces are and how many channels it uses; piece i travels on channel i mod that number.
//
//   sender     1. each warp waits until the receiver has taken piece k−depth
//              2. stores the piece as packets (LL128; LL for ranks without NVLink), flag = k+1
//   receiver   1. waits for the packets, thread by thread, and stores the data
//              2. after a block barrier, one thread posts the credit, a word in the sender's window: all loads of the
//                 piece have returned their values
//
// Without NVLink a word for the peer, or from it, takes about as long as a small message. So there the receiver posts
// the credit when it begins the next piece of the channel: a launch that ended with it would wait for it. A sender that
// needs this credit waits until its peer begins to receive. And a launch that has used half of the ring looks for new
// credit when it has sent its data, for the next launch.
//
// k counts the pieces of a channel for ever, in device memory, so launches can be replayed. It has 32 bits and wraps
// harmlessly: flags compare equal or not, credits by signed difference.
#pragma once

#include <collective/protocol.cuh>
#include <goccl/copy.cuh>

namespace goccl {
namespace collective {

constexpr uint32_t p2pChannels = 32;
constexpr uint32_t p2pDepth = 4;
constexpr uint32_t p2pUnits = 1024;               // of a piece
constexpr uint32_t p2pSlotBytes = p2pUnits * 16;  // 16384 in the window
template <class Packet>
constexpr uint32_t p2pPieceBytes = Packet::payload(p2pUnits);  // of data: LL128 15360, LL 8192
// A message gets one channel per p2pSpreadBytes. Without NVLink a warp's failed poll of LL packets takes link time in
// proportion to the bytes that it reads, so a thread should have one unit.
template <class Packet>
constexpr uint32_t p2pSpreadBytes = Packet::group > 1 ? p2pPieceBytes<Packet> : p2pPieceBytes<Packet> / 4;
constexpr uint32_t p2pMaxMessages = 128;
constexpr uint32_t p2pFewMessages = 16;
constexpr uint32_t p2pMaxLanes = 2 * maxRanks;  // both directions of every peer, and the rank to itself
constexpr uint32_t p2pFlight = 4;               // units of a thread in flight at once

struct Message {
  uint64_t address;
  uint64_t bytes;  // > 0
};

// The messages of one peer and direction: [first, first + count) of the list. What a rank sends itself is a lane whose
// peer is the rank, and pairs of messages: from, to.
struct Lane {
  uint16_t peer;
  uint8_t send;
  uint8_t channels;  // blocks of this lane
  uint16_t first, count;
};

// What the two sides of a pair need to know of the ranks.
struct P2PHead {
  uint64_t* ticket;           // first: see ticket.cuh
  uint8_t* window[maxRanks];  // the base of the p2p region of each rank's window
  AbortBlock* abort;
  uint32_t* counters;  // device memory: [peer][direction][channel], pieces so far
  uint32_t rank, nranks, lanes;
  uint32_t width;  // channels of stream.cuh; the most that a message uses of p2pChannels
};

template <uint32_t Lanes, uint32_t Messages>
struct P2PLists : P2PHead {
  Lane lane[Lanes];
  Message message[Messages];
};
using P2PArgs = P2PLists<p2pMaxLanes, p2pMaxMessages>;
using P2PFewArgs = P2PLists<p2pFewMessages, p2pFewMessages>;

static_assert(sizeof(Lane) == 8 && sizeof(P2PHead) == 168, "P2PArgs is filled by the host");
static_assert(sizeof(P2PArgs) == 168 + 8 * p2pMaxLanes + 16 * p2pMaxMessages &&
                  sizeof(P2PFewArgs) == 168 + 24 * p2pFewMessages,
              "P2PArgs is filled by the host");

// The p2p region of a window: rings by source rank, then credits by target rank.
GOCCL_DEVICE uint64_t ringOffset(uint32_t source, uint32_t channel) {
  return (static_cast<uint64_t>(source) * p2pChannels + channel) * p2pDepth * p2pSlotBytes;
}
GOCCL_DEVICE uint64_t creditOffset(const P2PHead& a, uint32_t target, uint32_t channel) {
  return ringOffset(a.nranks, 0) + (static_cast<uint64_t>(target) * p2pChannels + channel) * 128;
}

// channelsOf spreads a message over more channels the larger it is; both sides use it. The host chooses a width with
// which all blocks are resident, the same on all ranks.
template <class Packet>
GOCCL_DEVICE uint32_t channelsOf(const P2PHead& a, uint64_t bytes) {
  const uint64_t parts = (bytes + p2pSpreadBytes<Packet> - 1) / p2pSpreadBytes<Packet>;
  return parts < a.width ? static_cast<uint32_t>(parts) : a.width;
}

// pieceSize is the size of the pieces of a message but the last: such that all its channels have the same number of
// them, and whole units for a warp.
template <class Packet>
GOCCL_DEVICE uint32_t pieceSize(const P2PHead& a, uint64_t bytes) {
  constexpr uint32_t least = Packet::payload(32), most = p2pPieceBytes<Packet>;
  static_assert(most % least == 0, "rounded up it is at most the largest");
  const uint64_t pieces = (bytes + most - 1) / most, channels = channelsOf<Packet>(a, bytes),
                 slots = (pieces + channels - 1) / channels * channels;
  return (static_cast<uint32_t>((bytes + slots - 1) / slots) + least - 1) / least * least;
}

// pieceFlag is what the packets of the k-th piece carry. It is never 0, which fresh memory holds; piece 0xffffffff
// takes 1, which its slot never sees otherwise.
GOCCL_DEVICE uint32_t pieceFlag(uint32_t k) { return k + 1 + (k == 0xffffffffu); }

// Pieces are the pieces of a message that go through one channel: first, first + stride, … of all.
template <class Packet>
struct Pieces {
  const Message& m;
  uint64_t all, index;
  uint32_t size, stride;

  // A message of one piece needs no divisions, which take a tenth of a microsecond together.
  GOCCL_DEVICE Pieces(const P2PHead& a, const Message& message, uint32_t channel)
      : m(message), all(1), index(channel), size(p2pSpreadBytes<Packet>), stride(1) {
    if (m.bytes <= size) return;
    size = pieceSize<Packet>(a, m.bytes);
    stride = channelsOf<Packet>(a, m.bytes);
    all = (m.bytes + size - 1) / size;
  }
  GOCCL_DEVICE bool more() const { return index < all; }
  GOCCL_DEVICE void next() { index += stride; }
  GOCCL_DEVICE uint8_t* data() const { return reinterpret_cast<uint8_t*>(m.address) + index * size; }
  GOCCL_DEVICE uint32_t bytes() const {
    const uint64_t left = m.bytes - index * size;
    return left < size ? static_cast<uint32_t>(left) : size;
  }
};

// creditOf is where rank `by` says how many pieces of a channel it has taken from rank `of`.
GOCCL_DEVICE uint32_t* creditOf(const P2PHead& a, uint32_t of, uint32_t by, uint32_t channel) {
  return reinterpret_cast<uint32_t*>(a.window[of] + creditOffset(a, by, channel));
}

// sendPieces needs no block barrier: every warp looks at the credit for itself. done counts the pieces that this launch
// has sent through the channel. The counter, the credit and the data are loaded together, so that they take the time of
// one load: nothing before the data depends on the other two. Ranks that use LL may have their windows in host memory,
// from which a load takes longer than a message: they begin with the credit that an earlier message has seen. It lies
// beside the counter. Credits only grow, so an old one is safe. ahead is how many pieces the ring holds by that credit.
template <class Packet>
GOCCL_DEVICE Status sendPieces(const P2PHead& a, const Message& m, uint32_t peer, uint32_t channel,
                               uint32_t* counter, uint32_t& done, uint32_t& ahead) {
  uint8_t* ring = a.window[peer] + ringOffset(a.rank, channel);
  const uint32_t* credit = creditOf(a, a.rank, peer, channel);
  const uint32_t before = loadRelaxed<Scope::gpu>(counter);
  constexpr bool lines = Packet::group > 1;
  // The latest that this warp has seen.
  uint32_t taken = lines ? loadRelaxed<Scope::sys>(credit) : loadRelaxed<Scope::gpu>(counter + 1);
  for (Pieces<Packet> p(a, m, channel); p.more(); p.next(), ++done) {
    const uint8_t* from = p.data();
    const uint32_t bytes = p.bytes();
    const uint32_t units = static_cast<uint32_t>(Packet::units(bytes));
    for (uint32_t base = threadIdx.x; base < units; base += p2pFlight * blockDim.x) {
      typename Packet::Data d[p2pFlight];
#pragma unroll
      for (uint32_t j = 0; j < p2pFlight; ++j)
        if (base + j * blockDim.x < units) d[j] = Packet::load(from, base + j * blockDim.x, bytes);
      const uint32_t k = keepBelow(before) + done;
      uint64_t start = 0;
      const Status s = spin(
          [&] {
            if (Packet::all(static_cast<int32_t>(k - taken) < static_cast<int32_t>(p2pDepth))) return true;
            taken = loadRelaxed<Scope::sys>(credit);
            return false;
          },
          [&] { return Packet::join(checkAbort(a.abort, start, credit, waitPacket, peer)); });
      if (s != statusOk) return s;
      uint8_t* slot = ring + (k % p2pDepth) * p2pSlotBytes;
#pragma unroll
      for (uint32_t j = 0; j < p2pFlight; ++j)
        if (base + j * blockDim.x < units) Packet::send(slot, base + j * blockDim.x, d[j], pieceFlag(k));
    }
  }
  ahead = before + done - taken;
  if (!lines && threadIdx.x == 0) storeRelaxed<Scope::gpu>(counter + 1, taken);
  return statusOk;
}

// refreshCredit is for one thread of a block that has sent all its pieces: see above.
template <class Packet>
GOCCL_DEVICE void refreshCredit(const P2PHead& a, uint32_t peer, uint32_t channel, uint32_t* counter, uint32_t ahead) {
  if (Packet::group == 1 && ahead >= p2pDepth / 2)
    storeRelaxed<Scope::gpu>(counter + 1, loadRelaxed<Scope::sys>(creditOf(a, a.rank, peer, channel)));
}

template <class Packet>
GOCCL_DEVICE Status receivePieces(const P2PHead& a, const Message& m, uint32_t peer, uint32_t channel, uint32_t& k) {
  const uint8_t* ring = a.window[a.rank] + ringOffset(peer, channel);
  uint32_t* credit = creditOf(a, peer, a.rank, channel);
  constexpr bool lines = Packet::group > 1;
  for (Pieces<Packet> p(a, m, channel); p.more(); p.next(), ++k) {
    if (!lines && threadIdx.x == 0) storeRelaxed<Scope::sys>(credit, k);  // the pieces before this one
    uint8_t* to = p.data();
    const uint32_t bytes = p.bytes();
    const uint8_t* slot = ring + (k % p2pDepth) * p2pSlotBytes;
    const uint32_t units = static_cast<uint32_t>(Packet::units(bytes));
    Status s = statusOk;
    for (uint32_t base = threadIdx.x; base < units && s == statusOk; base += p2pFlight * blockDim.x) {
      typename Packet::Data d[p2pFlight];
      uint64_t start = 0;
      s = spin(
          [&] {
            bool fresh = true;
#pragma unroll
            for (uint32_t j = 0; j < p2pFlight; ++j)
              if (base + j * blockDim.x < units) d[j] = Packet::fetch(slot, base + j * blockDim.x, pieceFlag(k), fresh);
            return Packet::all(fresh);
          },
          [&] { return Packet::join(checkAbort(a.abort, start, slot, waitPacket, peer)); });
      if (s != statusOk) break;
#pragma unroll
      for (uint32_t j = 0; j < p2pFlight; ++j)
        if (base + j * blockDim.x < units) Packet::store(to, base + j * blockDim.x, bytes, d[j]);
    }
    if (__syncthreads_or(s != statusOk)) return statusAborted;
    if (lines && threadIdx.x == 0) storeRelaxed<Scope::sys>(credit, k + 1);
  }
  return statusOk;
}

// counterOf counts the pieces of a channel.
GOCCL_DEVICE uint32_t* counterOf(const P2PHead& a, uint32_t peer, uint32_t send, uint32_t channel, uint32_t channels) {
  return a.counters + ((peer * 2 + send) * channels + channel) * 32;
}

// pointToPoint: block b serves the lane and channel that b falls into.
template <class Packet, class Lists>
GOCCL_DEVICE void pointToPoint(const Lists& a) {
  uint32_t l = 0, channel = blockIdx.x;
  while (channel >= a.lane[l].channels) channel -= a.lane[l++].channels;
  const Lane lane = a.lane[l];
  if (lane.peer == a.rank) {
    for (uint32_t i = 0; i < lane.count; i += 2) {
      const Message from = a.message[lane.first + i], to = a.message[lane.first + i + 1];
      copyBytes<4>(reinterpret_cast<void*>(to.address), reinterpret_cast<const void*>(from.address), from.bytes,
                   channel * blockDim.x + threadIdx.x, static_cast<uint32_t>(lane.channels) * blockDim.x);
    }
    return;
  }
  uint32_t* counter = counterOf(a, lane.peer, lane.send, channel, p2pChannels);
  uint32_t k = lane.send ? 0 : *counter, ahead = 0;  // see sendPieces
  for (uint32_t i = 0; i < lane.count; ++i) {
    const Message m = a.message[lane.first + i];
    if (channel >= channelsOf<Packet>(a, m.bytes)) continue;
    Status s = lane.send ? sendPieces<Packet>(a, m, lane.peer, channel, counter, k, ahead)
                         : receivePieces<Packet>(a, m, lane.peer, channel, k);
    if (s != statusOk) break;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (lane.send) {
    addRelaxed<Scope::gpu>(counter, k);  // k counts from 0 here, and nobody waits for the sum
    refreshCredit<Packet>(a, lane.peer, channel, counter, ahead);
  } else {
    *counter = k;
  }
}

}  // namespace collective
}  // namespace goccl
