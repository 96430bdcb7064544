// Put with signal, and the wait for signals, over flat windows (docs/device-api.md).
//
// A signal is a counter at the receiver, one for each sender and id. Only one rank raises it, from any stream. The
// receiver keeps how many of its signals earlier waits have used up, in its own memory, so that a captured wait awaits
// later signals in each launch.
#pragma once

#include <collective/ticket.cuh>
#include <goccl/abort.cuh>
#include <goccl/copy.cuh>
#include <onesided/cluster.cuh>

namespace goccl {
namespace onesided {

// The WaitOps of waits for signals and for the copy engine. internal/abort has them too.
constexpr uint32_t waitSignal = 7, waitCopy = 8;

// Sent is this rank's side of a counter at a peer to which only stores lead, as over PCIe.
struct Sent {
  uint64_t taken;   // signals that have taken a number
  uint64_t stored;  // the number that the counter has
};

struct PutArgs {
  uint64_t* ticket;
  uint8_t* dst;  // at the peer
  const uint8_t* src;
  uint64_t bytes;  // 0: a signal only
  uint64_t* word;  // the peer's counter of this rank's signals; null: a copy only
  Sent* sent;      // null: atomic additions reach the peer
  AbortBlock* abort;
  const uint64_t* mark;  // reaches copies when the copy engine has copied the rest; null: there is no rest
  uint64_t copies;
  uint32_t peer;
};

struct Awaited {
  const uint64_t* word;  // at this rank
  uint64_t* used;
  uint32_t count;
  uint32_t peer;
};

constexpr uint32_t mostAwaited = 64;

struct WaitArgs {
  uint64_t* ticket;
  AbortBlock* abort;
  uint64_t count;
  Awaited awaited[mostAwaited];
};

// raise adds one to the counter. With stores only, signals of several streams store their numbers in turn: each waits
// for the one before, which runs.
GOCCL_DEVICE void raise(uint64_t* word, Sent* sent) {
  if (sent == nullptr) {
    addRelease<Scope::sys>(word, uint64_t{1});
    return;
  }
  const uint64_t before = fetchAddRelaxed<Scope::gpu>(&sent->taken, uint64_t{1});
  spin([&] { return loadAcquire<Scope::gpu>(&sent->stored) == before; }, [] { return statusOk; });
  storeRelease<Scope::sys>(word, before + 1);
  storeRelease<Scope::gpu>(&sent->stored, before + 1);
}

// put copies with one block, or with the blocks of one cluster. The release makes the bytes of all threads visible, the
// copy engine's bytes, which the mark follows, and what came before on the stream, to the wait that acquires the
// counter. Without the mark there is no signal.
GOCCL_DEVICE void put(const PutArgs& a) {
  copyBytes(a.dst, a.src, a.bytes, blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x);
  meet();
  if (blockIdx.x != 0 || threadIdx.x != 0 || a.word == nullptr) return;
  const auto copied = [&] { return static_cast<int64_t>(loadAcquire<Scope::sys>(a.mark) - a.copies) >= 0; };
  if (a.mark != nullptr && waitUntil(copied, a.abort, a.mark, waitCopy, -1, a.peer) != statusOk) return;
  raise(a.word, a.sent);
}

// await waits with one thread for each counter. Waits of several streams for one counter each take their own signals:
// the addition is atomic.
GOCCL_DEVICE void await(const WaitArgs& a) {
  if (threadIdx.x >= a.count) return;
  const Awaited& w = a.awaited[threadIdx.x];
  const uint64_t until = fetchAddRelaxed<Scope::gpu>(w.used, uint64_t{w.count}) + w.count;
  waitUntil([&] { return loadAcquire<Scope::sys>(w.word) >= until; }, a.abort, w.word, waitSignal, -1, w.peer);
}

}  // namespace onesided
}  // namespace goccl
