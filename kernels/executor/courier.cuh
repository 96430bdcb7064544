// The courier of a lane takes the parcels of all other hosts' ranks in that lane, while the plan's blocks of its launch
// run. It stores their bytes, and then adds their signals to the counters that the plan's blocks wait for.
//
// What arrives is of this launch, or of one that the peer has begun already: that stays in its slot. Of an earlier
// launch only bytes can be left, which no one has waited for, and no one wants them any more.
#pragma once

#include <executor/far.cuh>

namespace goccl {
namespace executor {

class Courier {
 public:
  GOCCL_DEVICE explicit Courier(const Args& args) : a(args), f(*args.far), lane(blockIdx.x - args.far->blocks) {}

  // run serves the rings of peer t by thread t. It ends when the plan's blocks have, or when one of them gives up, and
  // waits no longer than they do.
  GOCCL_DEVICE void run() {
    const bool serves = threadIdx.x < f.peers;
    const Ring mine = ring(serves ? threadIdx.x : 0);
    uint64_t next = serves ? mine.counters().received : 0;
    bool ahead = false, here = false;  // the next parcel of my peer is of a later launch; is here
    for (;;) {
      const Status s = spin(
          [&] {
            here = serves && !ahead && loadAcquire<Scope::sys>(mine.link.flag + mine.index(next)) >= mine.lap(next);
            const bool over = threadIdx.x == 0 && loadAcquire<Scope::gpu>(f.left) >= f.blocks;
            return __syncthreads_or(here || over) != 0;
          },
          [&] { return __syncthreads_or(threadIdx.x == 0 && given()) ? statusAborted : statusOk; });
      if (s != statusOk) return;
      bool any = false;
#pragma unroll 1
      for (uint32_t p = 0; p < f.peers; ++p) {
        if (!__syncthreads_or(threadIdx.x == p && here)) continue;
        any = true;
        const Result r = take(p);
        if (r == Result::wrong) return;
        if (threadIdx.x == p) r == Result::taken ? static_cast<void>(++next) : static_cast<void>(ahead = true);
      }
      if (!any) return;
    }
  }

 private:
  enum class Result { taken, later, wrong };
  const Args& a;
  const Far& f;
  uint32_t lane;

  GOCCL_DEVICE Ring ring(uint32_t p) const { return Ring{f, f.links[f.peer[p]], lane}; }

  // given says whether the launch is given up.
  GOCCL_DEVICE bool given() const {
    return loadRelaxed<Scope::sys>(&f.abort->abort) != statusOk ||
           loadRelaxed<Scope::sys>(&f.abort->reported) != statusOk;
  }

  // wrong reports what a peer did, unless a failure before it explains that.
  GOCCL_DEVICE Result wrong(uint32_t peer) const {
    if (threadIdx.x == 0 && !given())
      report(f.abort, statusInvalid, reinterpret_cast<const void*>(static_cast<uintptr_t>(uint64_t{blockIdx.x} << 32)),
             waitNone, peer);
    return Result::wrong;
  }

  // take takes the next parcel of a peer. All threads of the block call it; the result is the same for all.
  GOCCL_DEVICE Result take(uint32_t p) const {
    const Ring from = ring(p);
    const uint32_t peer = f.peer[p];
    const uint64_t k = loadRelaxed<Scope::gpu>(&from.counters().received);
    const uint8_t* slot = from.recvSlot(k);
    const Parcel x = readParcel(slot);
    const int32_t ahead = static_cast<int32_t>(x.turn - f.turns[peer]);
    if (ahead > 0) return Result::later;
    if (ahead == 0 && (x.signature != signatureOf(a) || x.link >= f.count || !store(x, slot + bodyAt)))
      return wrong(peer);
    if (ahead < 0 && x.signals != 0) return wrong(peer);
    __syncthreads();
    if (threadIdx.x != 0) return Result::taken;
    if (x.signals != 0)
      addRelease<Scope::sys>(reinterpret_cast<uint64_t*>(a.rank[a.self].control + controlInbound +
                                                         static_cast<uint64_t>(inboundStride) * x.link),
                             uint64_t{x.signals});
    storeRelaxed<Scope::gpu>(&from.counters().received, k + 1);
    from.free(k);
    return Result::taken;
  }

  // store puts the bytes of a parcel to their place: false if they do not lie in their buffer.
  GOCCL_DEVICE bool store(const Parcel& x, const uint8_t* body) const {
    const Rank& r = a.rank[a.self];
    const uint32_t parity = x.epoch & 1;
    const bool io = x.plane <= planeOutput;
    const uint64_t size = io ? r.size[x.plane] : (r.planeBytes + 7) & ~uint64_t{7};
    if (x.size == 0) return true;
    if (x.plane > planePackets || x.offset > size || x.size > size - x.offset || x.size > f.slotBytes - bodyAt)
      return false;
    if (x.plane == planePackets) {
      LL16Packet* to = reinterpret_cast<LL16Packet*>(r.scratch + r.packets[parity] + 2 * x.offset);
#pragma unroll 1
      for (uint32_t u = threadIdx.x; u * 8 < x.size; u += blockDim.x) to[u].write(loadVec2(body + u * 8), x.epoch);
      return true;
    }
    uint8_t* to = io ? a.buffer[x.plane] : r.scratch + r.plain[parity];
    if (to == nullptr) return false;
    copyBody(to + x.offset, body, x.size);
    return true;
  }
};

GOCCL_COLD void courier(const Args& a) {
  Courier(a).run();
  leave(*a.far);
}

}  // namespace executor
}  // namespace goccl
