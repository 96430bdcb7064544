// All-to-all-v whose counts and displacements are read on the device: a kernel before it may have computed them, and a
// graph's replay reads them anew.
//
// The grid is the same whatever the counts say: lane 0 copies what the rank has for itself, lane 2k−1 receives from the
// k-th rank before this one, lane 2k sends to the k-th after it. Each has `channels` blocks, and block c of a lane
// serves channels c, c + channels, … of point_to_point (p2p.cuh), with its rings and its counters: the two may follow
// each other in any order.
//
//   1. each block reads the count and the displacement of its lane; most have nothing to do then
//   2. lane 0, block 0: sends every peer two packets: how many bytes it sends there and expects from there
//   3. messages travel as in point_to_point; each side chooses its accesses by the alignment of its memory
//   4. lane 0, block 0: compares the peers' counts with its own; it reports a difference, which ends the other blocks'
//      waits
//
// A message that lies outside of its buffer is reported as statusInvalid and counts as empty: its peer, which expects
// more, sees a difference.
//
// # Blocks that are not resident yet
//
// The GPU starts blocks in their order. A block waits only for blocks of the peer's lane with the same k. So if not all
// blocks fit, the first lanes end without the last ones and make room for them.
//
// # Why two parities are enough
//
// The packets of step 2 lie in the second half of the line of channel 0's credit for the pair, which the same peer
// writes. A launch ends only after it has every peer's packets, so the argument of args.cuh holds: a rank that writes a
// parity again has received from every rank since, so every rank has read it.
#pragma once

#include <collective/p2p.cuh>
#include <goccl/packet.cuh>

namespace goccl {
namespace collective {

// statusMismatch is reported when the counts of two ranks differ. The abort block's peer is the other rank, detail its
// number of bytes, op whether it sends or expects them.
constexpr Status statusMismatch = 0xffff0003;
constexpr uint32_t peerSends = 0, peerExpects = 1;

struct AllToAllVArgs : P2PHead {  // lanes is not used
  uint8_t* send;
  uint8_t* recv;
  // By rank, in elements. Index 0: received, 1: sent.
  const int64_t* counts[2];
  const int64_t* displs[2];
  uint64_t elements[2];  // lengths of recv and send
  uint32_t elementBytes;
  uint32_t channels;  // blocks of a lane, at most p2pChannels
};
static_assert(sizeof(AllToAllVArgs) == 240, "AllToAllVArgs is filled by the host");

// outside says that a message of count elements, which is positive, does not lie within its buffer.
GOCCL_DEVICE bool outside(const AllToAllVArgs& a, uint32_t send, uint32_t peer, uint64_t count) {
  return count > a.elements[send] || static_cast<uint64_t>(a.displs[send][peer]) > a.elements[send] - count;
}

// bytesOf returns the size of a message in bytes. A count that is negative or exceeds the buffer is treated as 0.
GOCCL_DEVICE uint64_t bytesOf(const AllToAllVArgs& a, uint32_t send, uint32_t peer) {
  const int64_t count = a.counts[send][peer];
  return count > 0 && !outside(a, send, peer, static_cast<uint64_t>(count))
             ? static_cast<uint64_t>(count) * a.elementBytes
             : 0;
}

GOCCL_DEVICE Message messageOf(const AllToAllVArgs& a, uint32_t send, uint32_t peer) {
  const uint64_t base = reinterpret_cast<uint64_t>(send ? a.send : a.recv);
  return Message{base + static_cast<uint64_t>(a.displs[send][peer]) * a.elementBytes, bytesOf(a, send, peer)};
}

// countPackets are the two that source writes in target's window.
GOCCL_DEVICE LL16Packet* countPackets(const AllToAllVArgs& a, uint32_t source, uint32_t target, uint32_t epoch) {
  return reinterpret_cast<LL16Packet*>(a.window[target] + creditOffset(a, source, 0) + 64 + (epoch & 1) * 32);
}

GOCCL_DEVICE uint2 split(uint64_t v) { return make_uint2(static_cast<uint32_t>(v), static_cast<uint32_t>(v >> 32)); }
GOCCL_DEVICE uint64_t joined(uint2 v) { return static_cast<uint64_t>(v.y) << 32 | v.x; }

// sendCounts and compareCounts are steps 2 and 4, with a thread for each rank. A rank with a message outside of its
// buffers has sent its counts, and need not compare them.
GOCCL_DEVICE void sendCounts(const AllToAllVArgs& a, uint32_t epoch) {
  const uint32_t p = threadIdx.x;
  if (p >= a.nranks || p == a.rank) return;
  LL16Packet* out = countPackets(a, a.rank, p, epoch);
  out[0].write(split(bytesOf(a, 1, p)), epoch);
  out[1].write(split(bytesOf(a, 0, p)), epoch);
}

GOCCL_DEVICE void compareCounts(const AllToAllVArgs& a, uint32_t epoch) {
  const uint32_t p = threadIdx.x;
  if (p >= a.nranks) return;
  for (uint32_t send = 0; send < 2; ++send) {
    const int64_t count = a.counts[send][p];
    if (count > 0 && outside(a, send, p, static_cast<uint64_t>(count)))
      return report(a.abort, statusInvalid, reinterpret_cast<const void*>(count), send, p);
  }
  const uint64_t mySends = bytesOf(a, 1, p), myReceives = bytesOf(a, 0, p);
  uint64_t sends = mySends, expects = myReceives;
  if (p != a.rank) {
    const LL16Packet* in = countPackets(a, p, a.rank, epoch);
    uint2 first, second;
    Status s = waitUntil([&] { return in[0].tryRead(epoch, first) && in[1].tryRead(epoch, second); }, a.abort, in,
                         waitPacket, -1, p);
    if (s != statusOk) return;
    sends = joined(first);
    expects = joined(second);
  }
  if (sends != myReceives)
    report(a.abort, statusMismatch, reinterpret_cast<const void*>(sends), peerSends, p);
  else if (expects != mySends)
    report(a.abort, statusMismatch, reinterpret_cast<const void*>(expects), peerExpects, p);
}

// ownLane is lane 0. The counters of the rank's messages to itself, which need none, hold the epoch of the packets.
GOCCL_DEVICE void ownLane(const AllToAllVArgs& a, uint32_t block) {
  uint32_t* counter = counterOf(a, a.rank, 0, 0, p2pChannels);
  const uint32_t epoch = block == 0 ? nextEpoch(*counter) : 0;
  if (block == 0) sendCounts(a, epoch);
  const Message from = messageOf(a, 1, a.rank), to = messageOf(a, 0, a.rank);
  if (from.bytes == to.bytes && from.address != to.address)
    copyBytes<4>(reinterpret_cast<void*>(to.address), reinterpret_cast<const void*>(from.address), from.bytes,
                 block * blockDim.x + threadIdx.x, a.channels * blockDim.x);
  if (block != 0) return;
  compareCounts(a, epoch);
  __syncthreads();
  if (threadIdx.x == 0) *counter = epoch;
}

template <class A, class B>
constexpr bool same = false;
template <class A>
constexpr bool same<A, A> = true;

// allToAllV: Words for messages whose address and size are multiples of 8, Bytes for all others.
template <class Words, class Bytes>
GOCCL_DEVICE void allToAllV(const AllToAllVArgs& a) {
  const uint32_t lane = blockIdx.x / a.channels, block = blockIdx.x % a.channels;
  if (lane == 0) return ownLane(a, block);
  const uint32_t step = (lane + 1) / 2, send = lane % 2 == 0;
  uint32_t peer = send ? a.rank + step : a.rank + a.nranks - step;
  if (peer >= a.nranks) peer -= a.nranks;
  const Message m = messageOf(a, send, peer);
  const bool words = !same<Words, Bytes> && ((m.address | m.bytes) & 7) == 0;
  const uint32_t used = channelsOf<Words>(a, m.bytes);
  for (uint32_t channel = block; channel < used; channel += a.channels) {
    uint32_t* counter = counterOf(a, peer, send, channel, p2pChannels);
    uint32_t k = send ? 0 : *counter, ahead = 0;
    Status s;
    if (send)
      s = words ? sendPieces<Words>(a, m, peer, channel, counter, k, ahead)
                : sendPieces<Bytes>(a, m, peer, channel, counter, k, ahead);
    else
      s = words ? receivePieces<Words>(a, m, peer, channel, k) : receivePieces<Bytes>(a, m, peer, channel, k);
    const bool stop = __syncthreads_or(s != statusOk);
    if (threadIdx.x == 0) {
      *counter = send ? *counter + k : k;
      if (send) refreshCredit<Bytes>(a, peer, channel, counter, ahead);
    }
    if (stop) return;
  }
}

}  // namespace collective
}  // namespace goccl
