// Port channels to ranks of other hosts: puts and signals travel in the slots of hosts/ring.cuh, a parcel each.
//
// Link i uses lane i modulo the number of lanes to the rank at its other end, so the parcels of one link arrive in the
// order in which they were pushed. A lock serialises the blocks of a lane. A put is divided into parcels; its signal is
// part of the last one. Its source may be reused when the op has ended: the bytes are in slots then, and flush has
// nothing to do.
//
// A launch has a courier for each lane behind the plan's blocks (courier.cuh). It takes what arrives.
#pragma once

#include <goccl/copy.cuh>
#include <goccl/device_syncer.cuh>
#include <goccl/packet.cuh>
#include <hosts/ring.cuh>

#include <executor/address.cuh>
#include <executor/span.cuh>

namespace goccl {
namespace executor {

// Far is what a plan's launches know of other hosts. In device memory; the host's side is executor/gpu_far.go.
struct Far {
  AbortBlock* abort;
  const hosts::Link* links;  // by rank
  uint32_t lanes, slots, slotBytes;
  uint32_t blocks;         // of the plan; the couriers are behind them
  uint64_t tag;            // 0
  DeviceSemaphore* locks;  // by rank and lane, one permit each
  uint32_t* turns;         // by rank: launches so far that both ranks have in common
  uint32_t* left;          // blocks of the launch that have ended; 0 between launches
  uint32_t plan;           // its number: the same on all ranks
  uint32_t count;          // of the plan's links on this rank
  uint32_t peers, pad;
  uint16_t peer[maxRanks];  // ranks of other hosts to or from which the plan has a link
};
static_assert(sizeof(Far) == 112, "the host writes it");

using Ring = hosts::RingOf<Far>;

// Parcel is in a slot between the ring's header and the bytes.
struct Parcel {
  uint32_t turn;       // of the launch: Far::turns of the sender
  uint32_t signature;  // hash of the plan and of the message's size, type and operator
  uint32_t epoch;      // of the plan
  uint32_t link;       // of the receiver
  uint64_t offset;     // of the bytes in the receiver's plane
  uint32_t size;       // of the bytes
  uint16_t plane;
  uint16_t signals;  // on the link, behind the bytes
};
constexpr uint32_t parcelAt = hosts::header, bodyAt = parcelAt + 32;
static_assert(sizeof(Parcel) == 32, "two vectors");

GOCCL_DEVICE void writeParcel(uint8_t* slot, const Parcel& p) {
  storeVec(slot + parcelAt, make_uint4(p.turn, p.signature, p.epoch, p.link));
  storeVec(slot + parcelAt + 16,
           make_uint4(static_cast<uint32_t>(p.offset), static_cast<uint32_t>(p.offset >> 32), p.size,
                      p.plane | uint32_t{p.signals} << 16));
}
GOCCL_DEVICE Parcel readParcel(const uint8_t* slot) {
  const uint4 v = loadVec(slot + parcelAt), w = loadVec(slot + parcelAt + 16);
  return Parcel{v.x, v.y, v.z, v.w, uint64_t{w.y} << 32 | w.x, w.z, static_cast<uint16_t>(w.w),
                static_cast<uint16_t>(w.w >> 16)};
}

// signatureOf tells plans apart, too.
GOCCL_DEVICE uint32_t signatureOf(const Args& a) { return a.signature + a.far->plan * 0x9e3779b9u; }

// These are out of line, because each kernel has them in several places.
GOCCL_COLD Status openLane(const Far& f, uint32_t peer, uint32_t lane) {
  DeviceSemaphore& lock = f.locks[peer * f.lanes + lane];
  const Ring ring{f, f.links[peer], lane};
  Status s = lock.acquire(f.abort);
  if (s != statusOk) return s;
  s = ring.awaitCredit(loadRelaxed<Scope::gpu>(&ring.counters().sent));
  if (s != statusOk) lock.release();
  return s;
}
GOCCL_COLD void copyBody(uint8_t* dst, const uint8_t* src, uint64_t bytes) {
  copyBytes<4>(dst, src, bytes, threadIdx.x, blockDim.x);
}

// Lane is a ring to a rank while a block fills a slot of it. One thread calls its functions.
struct Lane {
  const Far& f;
  uint32_t peer, lane;

  GOCCL_DEVICE Lane(const Far& f, const Entry& e) : f(f), peer(e.peer), lane(e.mine % f.lanes) {}
  GOCCL_DEVICE Ring ring() const { return Ring{f, f.links[peer], lane}; }
  GOCCL_DEVICE DeviceSemaphore& lock() const { return f.locks[peer * f.lanes + lane]; }
  GOCCL_DEVICE uint64_t sent() const { return loadRelaxed<Scope::gpu>(&ring().counters().sent); }

  // open waits for the lane and for slot k, which is sent() until close.
  GOCCL_DEVICE Status open() const { return openLane(f, peer, lane); }
  // label comes before the barrier that ends the copy, close after it.
  GOCCL_DEVICE void label(uint64_t k, const Parcel& p) const {
    ring().label(k, uint64_t{p.size} + sizeof p);
    writeParcel(ring().sendSlot(k), p);
  }
  GOCCL_DEVICE void close(uint64_t k, uint32_t size) const {
    ring().post(k, uint64_t{size} + sizeof(Parcel));
    storeRelaxed<Scope::gpu>(&ring().counters().sent, k + 1);
    lock().release();
  }
};

// pushSignal sends the signals of an entry. One thread calls it.
GOCCL_COLD Status pushSignal(const Args& a, const Entry& e, uint32_t epoch) {
  const Lane lane(*a.far, e);
  const Status s = lane.open();
  if (s != statusOk) return s;
  const uint64_t k = lane.sent();
  lane.label(k, Parcel{a.far->turns[e.peer], signatureOf(a), epoch, e.theirs, 0, 0, 0,
                       static_cast<uint16_t>(e.signals)});
  lane.close(k, 0);
  return statusOk;
}

// pack copies n bytes of payload from byte at on: of packets, or of plain memory of which real bytes exist.
GOCCL_DEVICE void pack(uint8_t* body, const uint8_t* from, bool packets, uint64_t at, uint64_t n, uint64_t real) {
  if (!packets && at + n <= real) return copyBody(body, from + at, n);
#pragma unroll 1
  for (uint64_t u = threadIdx.x; u * 8 < n; u += blockDim.x) {
    const uint64_t off = at + u * 8;
    uint2 w = make_uint2(0, 0);
    if (packets) {
      const uint4 v = loadPacket(reinterpret_cast<const uint4*>(from) + off / 8);
      w = make_uint2(v.x, v.z);
    } else if (off < real) {
      w = loadWord(from + off, real - off);
    }
    storeVec2(body + u * 8, w);
  }
}

// pushSpan sends a span: items are its source, its destination and its link. The link's signals go with the last bytes
// if last is set. failed is a thread's status so far; the result is the same for all threads of the block, which meet
// here.
GOCCL_DEVICE Status pushSpan(const Args& a, const Item* items, const Span& s, bool raw, bool last, uint32_t epoch,
                             Status failed, const void* place) {
  const Operand &src = items[0].operand, &dst = items[1].operand;
  const Entry& e = items[2].entry;
  const bool packets = src.plane == planePackets;
  const uint64_t total = dst.plane == planePackets ? (s.n + 7) & ~uint64_t{7} : s.real;
  const uint16_t signals = last ? static_cast<uint16_t>(e.signals) : uint16_t{0};
  uint64_t off = 0;
  const uint8_t* from = address(a, src, s.at, s.n, s.real, s.j, s.x, epoch & 1);
  if (failed == statusOk && (from == nullptr || !offset(a, dst, s.at, s.n, s.real, s.j, s.x, off))) {
    report(a.abort, statusInvalid, place, waitNone, unknownPeer);
    failed = statusInvalid;
  }
  // The packets of the source are here before the lane is taken: the peer may need another block's parcels to send
  // them.
#pragma unroll 1
  for (uint64_t u = threadIdx.x; packets && !raw && failed == statusOk && u * 8 < total; u += blockDim.x) {
    uint2 w;
    const LL16Packet* p = reinterpret_cast<const LL16Packet*>(from) + u;
    failed = waitUntil([&] { return p->tryRead(epoch, w); }, a.abort, place, waitPacket, -1, 0);
  }
  if (__syncthreads_or(failed != statusOk)) return statusAborted;
  if (total == 0 && signals == 0) return statusOk;
  const Lane lane(*a.far, e);
  const uint64_t room = (a.far->slotBytes - bodyAt) & ~15u;
#pragma unroll 1
  for (uint64_t at = 0;;) {
    if (__syncthreads_or(threadIdx.x == 0 && lane.open() != statusOk)) return statusAborted;
    const uint32_t n = static_cast<uint32_t>(total - at < room ? total - at : room);
    const bool ends = at + n == total;
    const uint64_t k = lane.sent();
    pack(lane.ring().sendSlot(k) + bodyAt, from, packets, at, n, s.real);
    if (threadIdx.x == 0)
      lane.label(k, Parcel{a.far->turns[e.peer], signatureOf(a), epoch, e.theirs, off + at, n, dst.plane,
                           ends ? signals : uint16_t{0}});
    __syncthreads();
    if (threadIdx.x == 0) lane.close(k, n);
    if (ends) return statusOk;
    at += n;
  }
}

// push does an op of codePush.
GOCCL_COLD Status push(const Args& a, const Op& o, const Item* items, uint64_t iteration, uint64_t unit, uint32_t epoch,
                       Status failed, const void* place) {
  uint64_t hi;
  Span s = firstSpan(a, o, iteration, unit, hi);
  if (s.at >= hi && threadIdx.x == 0 && failed == statusOk && items[2].entry.signals != 0)
    failed = pushSignal(a, items[2].entry, epoch);
#pragma unroll 1
  for (; s.at < hi; s.at += s.n, ++s.j, s.x = 0) {
    extend(a, o, items, hi, s);
    failed = pushSpan(a, items, s, o.flags & flagRaw, s.at + s.n >= hi, epoch, failed, place);
    if (failed != statusOk) return failed;
  }
  return __syncthreads_or(failed != statusOk) ? statusAborted : statusOk;
}

// leave ends a block of a launch with couriers. The last one ends the launch.
GOCCL_COLD void leave(const Far& f) {
  __syncthreads();
  if (threadIdx.x != 0 || fetchAddAcqRel<Scope::gpu>(f.left, uint32_t{1}) + 1 != gridDim.x) return;
#pragma unroll 1
  for (uint32_t p = 0; p < f.peers; ++p) ++f.turns[f.peer[p]];
  storeRelaxed<Scope::gpu>(f.left, uint32_t{0});
}

}  // namespace executor
}  // namespace goccl
