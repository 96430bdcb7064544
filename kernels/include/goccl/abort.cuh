// Bounded waits. Every wait in a goccl kernel goes through spin, most of them through waitUntil, which ends when the
// condition holds, when the host raises the abort word, or when the device deadline passes. It returns a status and
// never traps, so the CUDA context stays usable.
//
// A thread that sees a status other than statusOk must stop communicating and let its kernel return.
#pragma once

#include <goccl/sync.cuh>

namespace goccl {

// Status is 0, a reason code below 0xffff0000 that the host stored in AbortBlock::abort, or one of the device's own
// codes.
using Status = uint32_t;
constexpr Status statusOk = 0;
constexpr Status statusAborted = 1;           // the host's general reason: the communicator was aborted
constexpr Status statusTimeout = 0xffff0001;  // a wait outlived AbortBlock::spinLimitNs or its maxSpin
constexpr Status statusInvalid = 0xffff0002;  // an argument that the device refused: nothing was done

// WaitOp says what a wait that gave up was waiting for.
enum WaitOp : uint32_t {
  waitNone = 0,
  waitSemaphore = 1,
  waitPacket = 2,
  waitFifoSlot = 3,  // a free slot in the proxy's FIFO
  waitFlush = 4,     // completion of a FIFO position
  waitSyncer = 5,    // the other blocks of this grid
  waitBulk = 6,      // a bulk copy
};

// AbortBlock lies in mapped host memory, one per context. The host writes abort and spinLimitNs; the device writes the
// rest, once, when a wait gives up.
struct AbortBlock {
  uint32_t abort;        // 0 = run
  uint32_t reported;     // status of a wait that gave up; stored last, with release; the host clears it
  uint64_t spinLimitNs;  // longest single wait in ns; 0 = no device deadline
  uint64_t detail;       // address that was polled
  uint32_t peer;         // rank waited for, 0xffffffff when unknown
  uint32_t op;           // WaitOp
  uint8_t pad[32];
};
static_assert(sizeof(AbortBlock) == 64, "AbortBlock is shared with the host");

constexpr uint32_t unknownPeer = 0xffffffff;

// Polls between two looks at the abort block: about 10 ms on a GPU. A look is three reads over PCIe, and there may be
// thirty thousand threads that wait. When they looked after 1 ms, ranks that were once so far apart stayed so: the
// looks themselves kept threads from their packets for as long as that, and in every operation some rank waited until
// it looked.
#if GOCCL_CUDA
constexpr uint32_t spinsPerCheck = 16384;
#else
constexpr uint32_t spinsPerCheck = 1024;
#endif

// Longest wait in ns where no abort block was given: no wait is for ever.
constexpr uint64_t defaultSpinLimitNs = 60ull * 1000 * 1000 * 1000;

// report tells the host about a wait that ended with status s. Concurrent reports may mix their fields; each field is
// whole.
GOCCL_DEVICE void report(AbortBlock* abort, Status s, const void* detail, uint32_t op, uint32_t peer) {
  if (abort == nullptr) return;
  storeRelaxed<Scope::sys>(&abort->detail, static_cast<uint64_t>(reinterpret_cast<uintptr_t>(detail)));
  storeRelaxed<Scope::sys>(&abort->peer, peer);
  storeRelaxed<Scope::sys>(&abort->op, static_cast<uint32_t>(op));
  storeRelease<Scope::sys>(&abort->reported, s);
}

// checkAbort is the slow part of a spin loop. start is 0 at the first call of one wait and is kept by the caller. A
// report by any thread makes later waits end too, so that a kernel of many waits needs one deadline, not one for each.
GOCCL_DEVICE Status checkAbort(AbortBlock* abort, uint64_t& start, const void* detail, uint32_t op, uint32_t peer) {
  uint64_t limit = defaultSpinLimitNs;
  if (abort != nullptr) {
    Status s = loadRelaxed<Scope::sys>(&abort->abort);
    if (s != statusOk) {
      report(abort, s, detail, op, peer);
      return s;
    }
    s = loadRelaxed<Scope::sys>(&abort->reported);
    if (s != statusOk) return s;
    limit = loadRelaxed<Scope::sys>(&abort->spinLimitNs);
    if (limit == 0) return statusOk;
  }
  uint64_t now = globalTimer();
  if (start == 0) start = now;
  if (now - start < limit) return statusOk;
  report(abort, statusTimeout, detail, op, peer);
  return statusTimeout;
}

// spin is the only loop that polls. It ends when ready() is true, and else calls check() after every spinsPerCheck
// polls, whose status other than statusOk ends it: checkAbort, and what a kernel adds to it. Where threads of a warp
// wait together, ready() and check() return the same to all of them.
template <class Ready, class Check>
GOCCL_DEVICE Status spin(Ready ready, Check check) {
  for (uint32_t polls = 1;; ++polls) { // one loop: with a loop in a loop small collectives take up to 6 % longer
    if (ready()) return statusOk;
    pause();
    if (polls % spinsPerCheck != 0) continue;
    const Status s = check();
    if (s != statusOk) return s;
  }
}

// waitUntil polls until done() is true. maxSpin < 0 leaves the wait to the abort block; otherwise at most maxSpin polls
// fail before statusTimeout, which is then not reported to the host.
template <class Done>
GOCCL_DEVICE Status waitUntil(Done done, AbortBlock* abort, const void* detail, uint32_t op, int64_t maxSpin = -1,
                              uint32_t peer = unknownPeer) {
  uint64_t start = 0;
  bool expired = false;
  const Status s = spin([&] { return done() || (expired = maxSpin >= 0 && maxSpin-- == 0); },
                        [&] { return checkAbort(abort, start, detail, op, peer); });
  return expired ? statusTimeout : s;
}

}  // namespace goccl
