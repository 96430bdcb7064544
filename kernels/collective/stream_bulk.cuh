// Streams (stream.cuh) by bulk copies: a block is a channel of all pairs in both directions, and its working threads
// issue copies. The protocol is that of stream.cuh, so the ranks of a pair choose their kernels by themselves.
//
//   sender     message -> shared memory -> ring at the receiver
//   receiver   ring -> shared memory -> message
//   copier     what the rank sends itself
//   signaler   publishes what the sender has done
#pragma once

#include <collective/stream.cuh>
#include <goccl/pump.cuh>

namespace goccl {
namespace collective {

constexpr uint32_t streamBulkThreads = 128;
constexpr uint32_t streamPartBytes = 16 << 10, streamPumpStages = 5, streamOwnStages = 3;
constexpr uint32_t streamBulkShared = (2 * streamPumpStages + streamOwnStages) * streamPartBytes + 256;
static_assert(streamPieceBytes % streamPartBytes == 0, "a piece is whole parts");

#if GOCCL_BULK

extern __shared__ __align__(128) uint8_t streamMemory[];

using StreamPump = Pump<streamPumpStages, 12>;
using OwnPump = Pump<streamOwnStages, 1>;

// PieceCursor is part u of piece j of a message.
struct PieceCursor {
  uint32_t j = 0, u = 0;
};
struct PieceFlow {
  const Flow& f;
  const P2PArgs& a;
  GOCCL_DEVICE PieceCursor first() const { return {}; }
  GOCCL_DEVICE bool done(const PieceCursor& c) const { return c.j == f.mine; }
  GOCCL_DEVICE uint32_t parts(uint32_t j) const { return (f.size(j) + streamPartBytes - 1) / streamPartBytes; }
  GOCCL_DEVICE bool last(const PieceCursor& c) const { return c.u + 1 == parts(c.j); }
  GOCCL_DEVICE void next(PieceCursor& c) const {
    if (++c.u != parts(c.j)) return;
    c.u = 0;
    ++c.j;
  }
  GOCCL_DEVICE Part part(const PieceCursor& c, const uint8_t* from, uint8_t* to) const {
    const uint32_t at = c.u * streamPartBytes, left = f.size(c.j) - at;
    return {from + at, to + at, left < streamPartBytes ? left : streamPartBytes};
  }
  GOCCL_DEVICE bool passed(uint32_t count, uint32_t j) const { return Pipe::passed(count, f.number(j)); }
};

struct SendPieces : PieceFlow {
  static constexpr bool publishes = true;
  Counts<uint32_t>& counts;
  uint32_t lane;  // the lane of the signaler: the number of the lane of messages
  GOCCL_DEVICE Part at(const PieceCursor& c) const { return part(c, f.at(c.j), f.slot(c.j)); }
  GOCCL_DEVICE bool ready(const PieceCursor&) const { return true; }
  GOCCL_DEVICE Status await(const PieceCursor&) const { return statusOk; }
  GOCCL_DEVICE void landed(const PieceCursor&) const {}
  GOCCL_DEVICE bool room(const PieceCursor& c) const {
    return c.u != 0 || passed(loadRelaxed<Scope::sys>(f.limit), c.j);
  }
  GOCCL_DEVICE Status awaitRoom(const PieceCursor& c) const {
    return waitUntil([&] { return room(c); }, a.abort, f.limit, waitPacket, -1, f.peer);
  }
  GOCCL_DEVICE void performed(const PieceCursor& c) const {
    if (last(c)) counts.say(lane, f.number(c.j + 1));
  }
};

struct ReceivePieces : PieceFlow {
  static constexpr bool publishes = false;
  GOCCL_DEVICE Part at(const PieceCursor& c) const { return part(c, f.slot(c.j), f.at(c.j)); }
  GOCCL_DEVICE bool ready(const PieceCursor& c) const {
    if (c.u != 0) return true;
    const bool there = passed(loadAcquire<Scope::sys>(f.flag), c.j);
    if (there) fenceProxyAsync();
    return there;
  }
  GOCCL_DEVICE Status await(const PieceCursor& c) const {
    return waitUntil([&] { return ready(c); }, a.abort, f.flag, waitPacket, -1, f.peer);
  }
  GOCCL_DEVICE bool room(const PieceCursor&) const { return true; }
  GOCCL_DEVICE Status awaitRoom(const PieceCursor&) const { return statusOk; }
  GOCCL_DEVICE void performed(const PieceCursor&) const {}
  GOCCL_DEVICE void landed(const PieceCursor& c) const {
    if (last(c)) f.allow(c.j + 1);
  }
};

// OwnParts are the parts of a message of the rank to itself that this channel copies.
struct OwnParts {
  static constexpr bool publishes = false;
  const uint8_t* from;
  uint8_t* to;
  uint64_t bytes;
  uint64_t parts = (bytes + streamPartBytes - 1) / streamPartBytes;
  GOCCL_DEVICE uint64_t first() const { return blockIdx.x; }
  GOCCL_DEVICE bool done(uint64_t i) const { return i >= parts; }
  GOCCL_DEVICE void next(uint64_t& i) const { i += gridDim.x; }
  GOCCL_DEVICE Part at(uint64_t i) const {
    const uint64_t offset = i * streamPartBytes, left = bytes - offset;
    return {from + offset, to + offset, left < streamPartBytes ? static_cast<uint32_t>(left) : streamPartBytes};
  }
  GOCCL_DEVICE bool ready(uint64_t) const { return true; }
  GOCCL_DEVICE Status await(uint64_t) const { return statusOk; }
  GOCCL_DEVICE bool room(uint64_t) const { return true; }
  GOCCL_DEVICE Status awaitRoom(uint64_t) const { return statusOk; }
  GOCCL_DEVICE void landed(uint64_t) const {}
  GOCCL_DEVICE void performed(uint64_t) const {}
};

// streamLanes takes the lanes of one direction through this block's channel.
GOCCL_DEVICE Status streamLanes(const P2PArgs& a, bool sends, StreamPump& pump, Counts<uint32_t>& counts) {
#pragma unroll 1
  for (uint32_t l = 0; l < a.lanes; ++l) {
    const Lane lane = a.lane[l];
    if (lane.peer == a.rank || (lane.send != 0) != sends) continue;
    uint32_t* counter = counterOf(a, lane.peer, lane.send, blockIdx.x, streamChannels);
    Flow f(a, lane, blockIdx.x, *counter);
#pragma unroll 1
    for (uint32_t i = 0; i < lane.count; ++i) {
      f.take(a.message[lane.first + i]);
      if (f.mine == 0) continue;
      Status s;
      if (sends) {
        SendPieces flow{{f, a}, counts, l};
        s = pump.run(flow);
      } else {
        f.allow(0);
        ReceivePieces flow{{f, a}};
        s = pump.run(flow);
      }
      if (s != statusOk) return s;
    }
    if (!sends) *counter = f.start + f.total;
  }
  return statusOk;
}

// streamSignals publishes the pieces of all lanes that send, and counts them.
GOCCL_DEVICE Status streamSignals(const P2PArgs& a, const Counts<uint32_t>& counts, uint32_t start, uint32_t end) {
  const uint32_t l = threadIdx.x % 32;
  uint32_t *flag = nullptr, *counter = nullptr;
  if (l < a.lanes && a.lane[l].send != 0 && a.lane[l].peer != a.rank) {
    counter = counterOf(a, a.lane[l].peer, 1, blockIdx.x, streamChannels);
    flag = Flow(a, a.lane[l], blockIdx.x, start).flag;
  }
  const Status s = signalCounts(counts, flag, start, end, a.abort);
  if (s == statusOk && counter != nullptr) *counter = end;
  return s;
}

GOCCL_DEVICE void streamBulk(const P2PArgs& a) {
  uint8_t* pumps = streamMemory;
  uint8_t* own = pumps + 2 * streamPumpStages * streamPartBytes;
  Counts<uint32_t>& counts = *reinterpret_cast<Counts<uint32_t>*>(own + streamOwnStages * streamPartBytes);
  BulkBarrier* barriers = reinterpret_cast<BulkBarrier*>(&counts + 1);
  const uint32_t role = threadIdx.x / 32, l = threadIdx.x % 32;
  uint32_t start = 0, end = 0;  // of what lane l sends
  if (role == 3) {
    if (l < a.lanes && a.lane[l].send != 0 && a.lane[l].peer != a.rank) {
      start = *counterOf(a, a.lane[l].peer, 1, blockIdx.x, streamChannels);
      end = start + Flow(a, a.lane[l], blockIdx.x, start).total;
    }
    counts.at[l] = start;
  }
  __syncthreads();
  Status s = statusOk;
  if (role == 3) {
    s = streamSignals(a, counts, start, end);
  } else if (l == 0) {
    fenceProxyAsync();  // what this rank's earlier kernels have written
    if (role < 2) {
      StreamPump pump(pumps + role * streamPumpStages * streamPartBytes, streamPartBytes,
                      barriers + role * streamPumpStages, 1, a.abort);
      s = streamLanes(a, role == 0, pump, counts);
    } else {
      OwnPump pump(own, streamPartBytes, barriers + 2 * streamPumpStages, 1, a.abort);
#pragma unroll 1
      for (uint32_t k = 0; k < a.lanes && s == statusOk; ++k) {
        const Lane lane = a.lane[k];
        for (uint32_t i = 0; lane.peer == a.rank && i < lane.count && s == statusOk; i += 2) {
          const Message from = a.message[lane.first + i], to = a.message[lane.first + i + 1];
          OwnParts flow{reinterpret_cast<const uint8_t*>(from.address), reinterpret_cast<uint8_t*>(to.address),
                        from.bytes};
          s = pump.run(flow);
        }
      }
    }
    bulkWait<0>();
  }
  // A block must not end under loads into its shared memory. All are of this GPU's memory.
  if (__syncthreads_or(s != statusOk)) sleepNs(200000);
}

#else  // every image has the same kernels

GOCCL_DEVICE void streamBulk(const P2PArgs& a) { stream(a); }

#endif

}  // namespace collective
}  // namespace goccl
