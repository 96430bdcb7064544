// The executor: one kernel that runs any plan. A block of the grid is a thread block of the plan.
//
//   1. fetch     the block's program (fetch.cuh); block 0 publishes where this rank's buffers are
//   2. ops       one after the other; threads run freely between the points where they meet: nops, barriers, bulk
//                copies, and what the host adds around port ops
//
// A plan with links to other hosts has couriers behind its blocks: courier.cuh.
//
// A block ends without a signal to others. Plans that only send packets run in another kernel: quick.cuh.
//
// # Memory order
//
// A signal is a release at system scope by one thread, a wait an acquire by one thread; the plan's nops (__syncthreads)
// join them to the block. Packets carry their own flag, the epoch. What peers say of their buffers is read once per
// block and launch, after their record shows this epoch.
//
// # Failure
//
// A wait that gives up makes its thread skip all further work; at the next meeting point the block learns of it and
// leaves. Bounds of every access are checked against the sizes of the buffers, whatever the plan says.
#pragma once

#include <goccl/semaphore.cuh>

#include <executor/bulk_copy.cuh>
#include <executor/courier.cuh>
#include <executor/fetch.cuh>
#include <executor/move.cuh>
#include <executor/pointers.cuh>
#include <executor/span.cuh>

namespace goccl {
namespace executor {

template <Type T>
class Block {
 public:
  GOCCL_DEVICE explicit Block(const Args& args) : a(args) {}

  GOCCL_DEVICE void run() {
    program = a.program + static_cast<uint64_t>(blockIdx.x) * a.stride;
    epoch = fetchProgram(program, a.stride, a.shared != 0);
    if (a.publish && blockIdx.x == 0 && threadIdx.x == 0) publish();
    ops();
  }

 private:
  const Args& a;
  uint8_t* program;
  uint32_t epoch;
  uint32_t pc = 0;
  uint32_t known = 0;  // ranks whose buffers are in the table
  Status failed = statusOk;
  uint64_t iteration = 0, iterations = 0, unit = 0;

  GOCCL_DEVICE const Header& header() const { return *reinterpret_cast<const Header*>(program); }
  GOCCL_DEVICE const Op& op() const { return reinterpret_cast<const Op*>(program + sizeof(Header))[pc]; }
  GOCCL_DEVICE const Item& item(uint32_t i) const { return reinterpret_cast<const Item*>(program + header().items)[i]; }
  GOCCL_DEVICE uint32_t parity() const { return epoch & 1; }
  // place is what a report says of the position in the plan.
  GOCCL_DEVICE const void* place() const {
    return reinterpret_cast<const void*>(static_cast<uintptr_t>(static_cast<uint64_t>(blockIdx.x) << 32 | pc));
  }

  GOCCL_DEVICE Record* record(uint32_t r) const {
    return reinterpret_cast<Record*>(a.rank[r].control + controlRecord * parity());
  }
  GOCCL_DEVICE uint64_t* inbound(uint32_t r, uint32_t link) const {
    return reinterpret_cast<uint64_t*>(a.rank[r].control + controlInbound +
                                       static_cast<uint64_t>(inboundStride) * link);
  }

  GOCCL_DEVICE void publish() {
    Record* r = record(a.self);
    storeRelaxed<Scope::sys>(&r->signature, a.signature);
    for (uint32_t k = 0; k < 2; ++k) {
      storeRelaxed<Scope::sys>(&r->region[k], a.region[k]);
      storeRelaxed<Scope::sys>(&r->offset[k], a.offset[k]);
    }
    storeRelease<Scope::sys>(&r->epoch, epoch);
  }

  // meet joins the block's threads; true when one of them has given up.
  GOCCL_DEVICE bool meet() { return __syncthreads_or(failed != statusOk); }

  GOCCL_DEVICE void ops() {
    uint32_t n = header().ops;
    while (pc < n) {
      const Op& o = op();
      if ((o.flags & flagMeet) && meet()) return;
      switch (o.code) {
        case codeNop:
          if (meet()) return;
          break;
        case codeBarrier:
          if (meet()) return;
          failed = a.barriers[item(o.first).entry.mine].sync(o.count, a.abort);
          if (failed != statusOk) return;
          break;
        case codeSignal:
          for (uint32_t i = threadIdx.x; i < o.count && failed == statusOk; i += blockDim.x) {
            const Entry& e = item(o.first + i).entry;
            // A relaxed signal only covers work of earlier launches, which stream order has already completed. Host
            // tests have no streams, so they use a release.
            if (GOCCL_CUDA && (o.flags & flagRelaxed))
              addRelaxed<Scope::sys>(inbound(e.peer, e.theirs), uint64_t{1});
            else
              addRelease<Scope::sys>(inbound(e.peer, e.theirs), uint64_t{1});
          }
          break;
        case codeWait:
          for (uint32_t i = threadIdx.x; i < o.count && failed == statusOk; i += blockDim.x) {
            const Entry& e = item(o.first + i).entry;
            uint64_t next = loadRelaxed<Scope::gpu>(&a.expected[e.mine]) + 1;
            const uint64_t* counter = inbound(a.self, e.mine);
            failed = waitUntil([&] { return SemaphoreHandle::reached(loadAcquire<Scope::sys>(counter), next); },
                               a.abort, place(), waitSemaphore, -1, e.peer);
            if (failed == statusOk) storeRelaxed<Scope::gpu>(&a.expected[e.mine], next);
          }
          break;
        case codeAcquire:
          for (uint32_t i = threadIdx.x; i < o.count && failed == statusOk; i += blockDim.x)
            failed = a.semaphores[item(o.first + i).entry.mine].acquire(a.abort);
          break;
        case codeRelease:
          for (uint32_t i = threadIdx.x; i < o.count && failed == statusOk; i += blockDim.x)
            a.semaphores[item(o.first + i).entry.mine].release();
          break;
        case codeData:
          if (!data(o)) return;
          break;
        case codePush:
          failed = push(a, o, &item(o.first), iteration, unit, epoch, failed, place());
          if (failed != statusOk) return;
          break;
        case codePushSignal:
#pragma unroll 1
          for (uint32_t i = 0; threadIdx.x == 0 && i < o.count && failed == statusOk; ++i)
            failed = pushSignal(a, item(o.first + i).entry, epoch);
          break;
        case codeLoop:
          unit = o.unit;
          iteration = 0;
          iterations = (static_cast<uint64_t>(o.chunks) * a.chunk + unit - 1) / unit;
          if (iterations == 0) {
            pc = o.to;
            continue;
          }
          break;
        case codeEndLoop:
          if (++iteration < iterations) {
            pc = o.to;
            continue;
          }
          break;
        default:
          break;  // codeFlush: its flagMeet is all it needs, since transfers are done by this block
      }
      ++pc;
    }
  }

  // resolve fills in the table for ranks in mask. It returns false when the block must leave.
  GOCCL_DEVICE bool resolve(uint32_t mask) {
    for (uint32_t r = threadIdx.x; r < a.nranks && failed == statusOk; r += blockDim.x) {
      if (!(mask >> r & 1)) continue;
      const Record* rec = record(r);
      failed = waitUntil([&] { return loadAcquire<Scope::sys>(&rec->epoch) == epoch; }, a.abort, place(), waitSemaphore,
                         -1, r);
      if (failed != statusOk) break;
      if (loadRelaxed<Scope::sys>(&rec->signature) != a.signature) {
        failed = statusInvalid;
        report(a.abort, failed, place(), waitNone, r);
        break;
      }
      for (uint32_t k = 0; k < 2; ++k) {
        uint32_t region = loadRelaxed<Scope::sys>(&rec->region[k]);
        uint64_t base = region < maxRegions ? a.regions[r * maxRegions + region] : 0;
        a.peers[(blockIdx.x * maxRanks + r) * 2 + k] = base == 0 ? 0 : base + loadRelaxed<Scope::sys>(&rec->offset[k]);
      }
    }
    known |= mask;
    return !meet();
  }

  // data moves what an op moves now: false when the block must leave.
  GOCCL_DEVICE bool data(const Op& o) {
    if ((o.io & ~known) && !resolve(o.io & ~known)) return false;
    uint64_t hi;
    for (Span s = firstSpan(a, o, iteration, unit, hi); s.at < hi; s.at += s.n) {
      extend(a, o, &item(o.first), hi, s);
      // Threads of a warp stay together: each computes one address.
      if (a.bulk != 0 && o.sources == 1 && o.destinations == 1 && !(o.flags & (flagPackets | flagRaw)) &&
          s.real >= bulkBytes) {
        if (!moveBulk(o, s)) return false;
      } else if (!__any_sync(0xffffffffu, failed != statusOk)) {
        move(o, s);
      }
      ++s.j;
      s.x = 0;
    }
    return true;
  }

  // reduction is the operator of an op, with the unsignedBit of the caller's type.
  GOCCL_DEVICE uint32_t reduction(const Op& o) const {
    return o.reduction == callersOp ? a.op : o.reduction | (a.op & unsignedBit);
  }

  GOCCL_DEVICE bool point(Pointers& p, const Op& o, const Span& s) const {
    return executor::point(a, p, &item(o.first), o.sources, o.destinations, s, parity());
  }

  // moveBulk copies a large span by bulk copies of one thread, what does not fill 16 bytes by all, or, where an address
  // is not aligned, everything by all. The block's threads meet before and after: what any of them has written can be
  // the source, and any of them may go on with the copy. It returns false when the block must leave.
  GOCCL_DEVICE bool moveBulk(const Op& o, const Span& s) {
    if (meet()) return false;
    Pointers p;
    if (!point(p, o, s)) {
      report(a.abort, statusInvalid, place(), waitNone, unknownPeer);
      failed = statusInvalid;
    } else if (p.dst[0] != p.src[0]) {
      uint64_t whole = 0;
      if (((reinterpret_cast<uintptr_t>(p.dst[0]) | reinterpret_cast<uintptr_t>(p.src[0])) & 15) == 0) {
        whole = s.real & ~uint64_t{15};
        if (threadIdx.x == 0) failed = bulkCopy(a.bulk, p.dst[0], p.src[0], whole, a.abort);
      }
      copyBytes(p.dst[0] + whole, p.src[0] + whole, s.real - whole, threadIdx.x, blockDim.x);
    }
    return !meet();
  }

  // move moves a span. The host makes ops of at most batch sources and at most batch destinations.
  GOCCL_DEVICE void move(const Op& o, const Span& s) {
    Pointers p;
    if (o.sources > batch || o.destinations > batch || !point(p, o, s)) {
      report(a.abort, statusInvalid, place(), waitNone, unknownPeer);
      failed = statusInvalid;
      return;
    }
    if (o.flags & flagRaw)
      copyPackets(p, o, s);
    else if (o.flags & flagPackets)
      movePackets(p, o, s);
    else if (s.real == 0)
      return;
    else if (o.sources == 1 && o.destinations == 1)
      copyPlain(p.dst[0], p.src[0], s.real);
    else
      movePlain(p, o, s);
  }

  GOCCL_DEVICE void copyPlain(uint8_t* dst, const uint8_t* src, uint64_t bytes) {
    if (dst != src) copyBytes(dst, src, bytes, threadIdx.x, blockDim.x);
  }

  GOCCL_DEVICE void movePlain(const Pointers& p, const Op& o, const Span& s) {
    const uint32_t ns = o.sources, nd = o.destinations, kind = reduction(o);
#pragma unroll 1
    for (uint64_t v = threadIdx.x; v * 16 < s.real; v += blockDim.x) {
      uint64_t off = v * 16, left = s.real - off;
      uint4 x[batch];
      load16(x, p.src, ns, off, left);
      uint4 out = x[0];
      if (ns > 1) {
        Fold<T> acc;
        acc.all(x, ns, kind);
        out = acc.result();
      }
      store16(p.dst, nd, off, left, out);
    }
  }

  // movePackets moves 8 bytes a thread. Packets beyond what exists in the plain operands carry zeros, and are waited
  // for.
  GOCCL_DEVICE void movePackets(const Pointers& p, const Op& o, const Span& s) {
    const uint32_t ns = o.sources, nd = o.destinations, kind = reduction(o);
#pragma unroll 1
    for (uint64_t u = threadIdx.x; u * 8 < s.n; u += blockDim.x) {
      uint64_t left = u * 8 < s.real ? s.real - u * 8 : 0;
      uint4 x[batch];
      if (!fetch(x, p.src, p.srcPackets, ns, u, left)) return;
      uint4 out = x[0];
      if (ns > 1) {
        Fold<T> acc;
        acc.all(x, ns, kind);
        out = acc.result();
      }
#pragma unroll
      for (uint32_t i = 0; i < batch; ++i)
        if (i < nd) put(p.dst[i], p.dstPackets >> i & 1, u, left, out);
    }
  }

  GOCCL_DEVICE void put(uint8_t* p, bool packet, uint64_t u, uint64_t left, uint4 v) {
    if (packet)
      reinterpret_cast<LL16Packet*>(p)[u].write(v.x, v.y, epoch);
    else if (left > 0)
      storeWord(p + u * 8, left, make_uint2(v.x, v.y));
  }

  // fetch reads one unit of the first batch of n sources into the lower halves of x; for packets it waits until all are
  // of this epoch.
  GOCCL_DEVICE bool fetch(uint4 (&x)[batch], uint8_t* const (&src)[batch], uint32_t packets, uint32_t n, uint64_t u,
                          uint64_t left) {
#pragma unroll
    for (uint32_t i = 0; i < batch; ++i) {
      if (i >= n || (packets >> i & 1)) continue;
      const uint2 w = left > 0 ? loadWord(src[i] + u * 8, left) : make_uint2(0, 0);
      x[i] = make_uint4(w.x, w.y, 0, 0);
    }
    uint64_t start = 0;
    uint32_t late;
    failed = spin(
        [&] {
          late = batch;
#pragma unroll
          for (uint32_t i = 0; i < batch; ++i) {
            if (i >= n || !(packets >> i & 1)) continue;
            uint2 w;
            if (!reinterpret_cast<const LL16Packet*>(src[i])[u].tryRead(epoch, w)) late = i;
            x[i] = make_uint4(w.x, w.y, 0, 0);
          }
          return late == batch;
        },
        // Which rank writes the packet is not known here: the host finds it by the number of the source, which travels
        // as the peer.
        [&] { return checkAbort(a.abort, start, place(), waitPacket, late); });
    return failed == statusOk;
  }

  // copyPackets copies packets as they are, flags included.
  GOCCL_DEVICE void copyPackets(const Pointers& p, const Op& o, const Span& s) {
#pragma unroll 1
    for (uint64_t u = threadIdx.x; u * 8 < s.n; u += blockDim.x) {
      uint4 v = loadPacket(reinterpret_cast<const uint4*>(p.src[0]) + u);
#pragma unroll
      for (uint32_t d = 0; d < batch; ++d)
        if (d < o.destinations) storePacket(reinterpret_cast<uint4*>(p.dst[d]) + u, v);
    }
  }
};

// execute runs a block of a launch.
template <Type T>
GOCCL_DEVICE void execute(const Args& a) {
  if (a.far != nullptr && blockIdx.x >= a.far->blocks) return courier(a);
  Block<T>(a).run();
  if (a.far != nullptr) leave(*a.far);
}

}  // namespace executor
}  // namespace goccl
