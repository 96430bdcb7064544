// Stage: a row in shared memory on its way from one place of global memory to others by bulk copies (TMA). Each of the
// first warps of a block has one, and moves rows by itself. A thread that copies by loads and stores has 64 bytes in
// flight; a warp with a stage has a row, so that fewer SMs fill the links.
//
//   1. load: the row before has left the stage, the next one comes; meanwhile the stores of the rows before are
//      performed, so that the caller can publish them
//   2. what the row has from elsewhere is put behind its elements
//   3. store: to one place or to several
//
// # Memory order
//
// Bulk copies belong to the asynchronous proxy. Its loads follow what a flag has published: acquire by some lane, the
// warp's barrier, fence.proxy.async and load by lane 0. What lanes put into a stage is ordered before the stores by
// their fence and the warp's barrier. A load into a stage follows the lanes' reads of it by the warp's barrier, and its
// stores by the wait for their source. Stores are performed when lane 0 has waited for them; it releases the flag.
//
// On the host a load copies at once, and a store is done by the wait that needs it, so that a missing wait is noticed.
#pragma once

#include <goccl/bulk.cuh>
#include <moe/plain.cuh>

#define GOCCL_STAGES (GOCCL_BULK || !GOCCL_CUDA)

namespace goccl {
namespace moe {

#if GOCCL_STAGES

#if GOCCL_CUDA
extern __shared__ __align__(128) uint8_t sharedBytes[];
GOCCL_DEVICE uint8_t* stageMemory() { return sharedBytes; }
#else
// Behind the block's variables.
inline uint8_t* stageMemory() { return currentBlock->shared + 8192; }

// HostCopies are the stores of a stage that nothing has waited for.
struct HostCopies {
  struct {
    uint8_t* to;
    uint32_t bytes;
  } open[maxRanks];
  uint32_t count = 0;

  void add(void* to, uint32_t bytes) {
    if (count == maxRanks) std::abort();
    open[count++] = {static_cast<uint8_t*>(to), bytes};
  }
  void perform(const uint8_t* from) {
    for (uint32_t i = 0; i < count; ++i) copyVectors<1>(open[i].to, from, open[i].bytes / 16, 0, 1);
    count = 0;
  }
};
#endif

struct Stage {
  uint8_t* memory;
  AbortBlock* abort;
  const uint32_t lane;
  uint32_t phase = 0;  // parity of the next load
#if GOCCL_CUDA
  BulkBarrier* barrier;
#else
  HostCopies copies;
#endif

  static constexpr bool gathers = true;

  static GOCCL_DEVICE uint32_t warps(const Row& r) { return r.stages; }

  // All lanes of a warp that has a stage make theirs.
  GOCCL_DEVICE Stage(const Row& r, AbortBlock* abortBlock) : abort(abortBlock), lane(laneOf()) {
    const uint32_t warp = threadIdx.x / 32;
    memory = stageMemory() + warp * r.stage;
#if GOCCL_CUDA
    barrier = reinterpret_cast<BulkBarrier*>(stageMemory() + r.stages * r.stage) + warp;
    if (lane == 0) {
      barrier->init();
      fenceBarrierInit();
      fenceProxyAsync();
    }
#endif
    __syncwarp();
  }

  // send, receive, word, acquired and settle have the contracts of Plain's (plain.cuh).
  template <class Rest, class Begun, class Place>
  GOCCL_DEVICE bool send(const uint8_t* x, const Row& r, Rest rest, Begun begun, uint32_t count, Place place) {
    if (!load(x, r.data, begun)) return false;
    for (uint32_t at = r.data + lane * 8; at < r.bytes; at += 32 * 8)
      *reinterpret_cast<uint2*>(memory + at) = rest(at);
    seal();
    if (lane == 0) store(count, place, stagedBytes(r));
    return true;
  }
  template <class Place>
  GOCCL_DEVICE bool receive(const uint8_t* from, const Row& r, uint32_t bytes, uint32_t count, Place place) {
    if (!load(from, (bytes + 15) & ~15u, [] {})) return false;
    if (lane == 0) store(count, place, r.data);
    return true;
  }
  // gather brings parts of several rows, one of each of the first `count` lanes, `apart` bytes from each other. All
  // sizes are multiples of 16. vector is then 16 bytes of the part of a lane.
  GOCCL_DEVICE bool gather(const uint8_t* from, uint32_t count, uint32_t bytes, uint32_t apart) {
    __syncwarp();
    Status s = statusOk;
#if GOCCL_CUDA
    if (lane == 0) barrier->arriveAndExpect(count * bytes);
    __syncwarp();
    if (lane < count) bulkLoad(memory + lane * apart, from, bytes, barrier);
    s = barrier->wait(phase, abort);
    phase ^= 1;
#else
    if (lane < count) copyVectors<1>(memory + lane * apart, from, bytes / 16, 0, 1);
    __syncwarp();
#endif
    return !__any_sync(allLanes, s != statusOk);
  }
  GOCCL_DEVICE uint4 vector(uint32_t lanes, uint32_t apart, uint32_t offset) const {
    return *reinterpret_cast<const uint4*>(memory + lanes * apart + offset);
  }

  GOCCL_DEVICE uint2 word(uint32_t offset) const { return *reinterpret_cast<const uint2*>(memory + offset); }

  GOCCL_DEVICE void acquired() const {
    __syncwarp();
#if GOCCL_CUDA
    fenceProxyAsync();
#endif
  }
  GOCCL_DEVICE void settle() {
    if (lane == 0) finish();
  }

 private:
  // load brings bytes, a multiple of 16. While they are on their way it calls begun.
  template <class Begun>
  GOCCL_DEVICE bool load(const uint8_t* from, uint32_t bytes, Begun begun) {
    __syncwarp();
    Status s = statusOk;
#if GOCCL_CUDA
    if (lane == 0) {
      bulkWaitSource<0>();
      barrier->arriveAndExpect(bytes);
      bulkLoad(memory, from, bytes, barrier);
    }
    begun();
    s = barrier->wait(phase, abort);
    phase ^= 1;
#else
    begun();
    if (lane == 0) {
      copies.perform(memory);
      copyVectors<1>(memory, from, bytes / 16, 0, 1);
    }
    __syncwarp();
#endif
    return !__any_sync(allLanes, s != statusOk);
  }
  // seal comes between what lanes put behind a row and its stores.
  GOCCL_DEVICE void seal() {
#if GOCCL_CUDA
    fenceProxyAsync();
#endif
    __syncwarp();
  }
  // stagedBytes is what a row takes between ranks: its slot has room for it.
  static GOCCL_DEVICE uint32_t stagedBytes(const Row& r) { return (r.bytes + 15) & ~15u; }

  // Lane 0 stores the first bytes of the row, and waits until all stores are performed.
  template <class Place>
  GOCCL_DEVICE void store(uint32_t count, Place place, uint32_t bytes) {
#pragma unroll 1
    for (uint32_t k = 0; k < count; ++k) {
      uint8_t* to = place(k);
      if (to == nullptr) continue;
#if GOCCL_CUDA
      bulkStore(to, memory, bytes);
#else
      copies.add(to, bytes);
#endif
    }
#if GOCCL_CUDA
    bulkCommit();
#endif
  }
  GOCCL_DEVICE void finish() {
#if GOCCL_CUDA
    bulkWait<0>();
#else
    copies.perform(memory);
#endif
  }
};

#endif  // GOCCL_STAGES

}  // namespace moe
}  // namespace goccl
