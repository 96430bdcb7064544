// Large messages between pairs of ranks: plain 16-byte stores into rings, a flag per piece.
//
// Half of the blocks send and half receive; a block is one channel of all pairs. Every rank serves its peers one after another, in step k the
// one k ranks after it for sending and k ranks before it for receiving: so at any time each port has one sender and one receiver, which is worth
// a third of the bandwidth. Nobody counts steps: a receiver that is still in step k does not drain the ring of step k+1, and its sender waits.
// Some pair's step is the earliest of all unfinished ones, and both its ends are at it: progress.
//
//   sender     1. waits until the receiver has taken piece k−depth    (credit, in the sender's window)
//              2. copies the piece into the ring
//              3. after a block barrier, one thread releases flag = k+1 at system scope: the barrier makes the block's stores precede it
//   receiver   1. one thread acquires flag ≥ k+1, then a block barrier
//              2. copies the piece out
//              3. after a block barrier, which every load has been completed by, one thread posts the credit
//
// Counters go on for ever in device memory, as in p2p.cuh, and compare as signed differences.
#pragma once

#include <collective/p2p.cuh>
#include <goccl/copy.cuh>

namespace goccl {
namespace collective {

constexpr uint32_t streamChannels = 32;
constexpr uint32_t streamDepth = 3;
constexpr uint32_t streamPieceBytes = 32 << 10;

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

GOCCL_DEVICE Status streamOut(const P2PArgs& a, const Message& m, uint32_t peer, uint32_t channel, uint32_t& k, uint32_t* shared) {
  const uint8_t* src = reinterpret_cast<const uint8_t*>(m.address);
  const uint64_t pieces = (m.bytes + streamPieceBytes - 1) / streamPieceBytes;
  uint8_t* ring = a.window[peer] + streamRing(a, a.rank, channel);
  uint32_t* flag = reinterpret_cast<uint32_t*>(a.window[peer] + streamWord(a, a.rank, channel, 0));
  const uint32_t* credit = reinterpret_cast<const uint32_t*>(a.window[a.rank] + streamWord(a, peer, channel, 1));
  for (uint64_t i = channel; i < pieces; i += streamChannelsOf(a), ++k) {
    Status s = await(a, credit, k + 1 - streamDepth, peer, shared);
    if (s != statusOk) return s;
    const uint64_t from = i * streamPieceBytes;
    const uint64_t bytes = m.bytes - from < streamPieceBytes ? m.bytes - from : streamPieceBytes;
    copyBytes<4>(ring + (k % streamDepth) * streamPieceBytes, src + from, bytes, threadIdx.x, blockDim.x);
    __syncthreads();
    if (threadIdx.x == 0) storeRelease<Scope::sys>(flag, k + 1);
  }
  return statusOk;
}

GOCCL_DEVICE Status streamIn(const P2PArgs& a, const Message& m, uint32_t peer, uint32_t channel, uint32_t& k, uint32_t* shared) {
  uint8_t* dst = reinterpret_cast<uint8_t*>(m.address);
  const uint64_t pieces = (m.bytes + streamPieceBytes - 1) / streamPieceBytes;
  const uint8_t* ring = a.window[a.rank] + streamRing(a, peer, channel);
  const uint32_t* flag = reinterpret_cast<const uint32_t*>(a.window[a.rank] + streamWord(a, peer, channel, 0));
  uint32_t* credit = reinterpret_cast<uint32_t*>(a.window[peer] + streamWord(a, a.rank, channel, 1));
  for (uint64_t i = channel; i < pieces; i += streamChannelsOf(a), ++k) {
    Status s = await(a, flag, k + 1, peer, shared);
    if (s != statusOk) return s;
    const uint64_t from = i * streamPieceBytes;
    const uint64_t bytes = m.bytes - from < streamPieceBytes ? m.bytes - from : streamPieceBytes;
    copyBytes<4>(dst + from, ring + (k % streamDepth) * streamPieceBytes, bytes, threadIdx.x, blockDim.x);
    __syncthreads();
    if (threadIdx.x == 0) storeRelaxed<Scope::sys>(credit, k + 1);
  }
  return statusOk;
}

GOCCL_DEVICE void stream(const P2PArgs& a) {
  __shared__ uint32_t shared[1];
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
      const Message m = a.message[lane.first + i];
      s = lane.send ? streamOut(a, m, lane.peer, channel, k, shared) : streamIn(a, m, lane.peer, channel, k, shared);
    }
    __syncthreads();
    if (threadIdx.x == 0) *counter = k;
    if (s != statusOk) return;
  }
}

}  // namespace collective
}  // namespace goccl
