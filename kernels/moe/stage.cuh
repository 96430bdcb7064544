// Stage: a row in shared memory on its way from one place of global memory to others by bulk copies (TMA). Each of the
// first warps of a block has one, and moves rows by itself. A thread that copies by loads and stores has 64 bytes in
// flight; a warp with a stage has a row, so that fewer SMs fill the links.
//
//   1. load: the row before has left the stage, the next one comes
//   2. put, and seal: what the row has from elsewhere
//   3. store: to one place or to several
//   4. finish: all stores are performed; a release that publishes them follows it, by the same thread
//
// # Memory order
//
// Bulk copies belong to the asynchronous proxy. Its loads follow what a flag has published: acquire, fence.proxy.async,
// load, by one thread. What lanes put into a stage is ordered before the stores by their fence and the warp's barrier.
// A load into a stage follows the lanes' reads of it by the warp's barrier, and its stores by the wait for their
// source.
//
// On the host a load copies at once, and a store is done by the wait that needs it, so that a missing wait is noticed.
#pragma once

#include <goccl/bulk.cuh>
#include <moe/memory.cuh>

#define GOCCL_STAGES (GOCCL_BULK || !GOCCL_CUDA)

namespace goccl {
namespace moe {

#if GOCCL_STAGES

constexpr uint32_t allLanes = 0xffffffffu;

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
  uint32_t warp, lane;
  uint32_t phase = 0;  // parity of the next load
#if GOCCL_CUDA
  BulkBarrier* barrier;
#else
  HostCopies copies;
#endif

  // All threads of a warp that has a stage make theirs.
  GOCCL_DEVICE Stage(const Row& r, AbortBlock* abortBlock)
      : abort(abortBlock), warp(threadIdx.x / 32), lane(threadIdx.x % 32) {
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

  // acquired comes between what lane 0 has acquired and a load of it.
  GOCCL_DEVICE Status acquired(Status s) const {
#if GOCCL_CUDA
    fenceProxyAsync();
#endif
    return s;
  }

  // load brings bytes, a multiple of 16; all lanes call it. It returns false to all lanes after an abort.
  GOCCL_DEVICE bool load(const uint8_t* from, uint32_t bytes) {
    __syncwarp();
    Status s = statusOk;
#if GOCCL_CUDA
    if (lane == 0) {
      bulkWaitSource<0>();
      barrier->arriveAndExpect(bytes);
      bulkLoad(memory, from, bytes, barrier);
    }
    s = barrier->wait(phase, abort);
    phase ^= 1;
#else
    if (lane == 0) {
      copies.perform(memory);
      copyVectors<1>(memory, from, bytes / 16, 0, 1);
    }
    __syncwarp();
#endif
    return !__any_sync(allLanes, s != statusOk);
  }

  // word is 8 bytes of the row that was loaded.
  GOCCL_DEVICE uint2 word(uint32_t offset) const { return *reinterpret_cast<const uint2*>(memory + offset); }
  GOCCL_DEVICE void put(uint32_t offset, uint2 v) { *reinterpret_cast<uint2*>(memory + offset) = v; }
  // seal comes between puts and stores; all lanes call it.
  GOCCL_DEVICE void seal() {
#if GOCCL_CUDA
    fenceProxyAsync();
#endif
    __syncwarp();
  }

  // store sends the first bytes of the row, a multiple of 16. Lane 0 calls it, commit behind the stores of a row, and
  // finish.
  GOCCL_DEVICE void store(void* to, uint32_t bytes) {
#if GOCCL_CUDA
    bulkStore(to, memory, bytes);
#else
    copies.add(to, bytes);
#endif
  }
  GOCCL_DEVICE void commit() {
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

// byWarps calls work with a stage on each warp that has one, and returns to all threads of the block whether all works
// returned true. No store is open then.
template <class Work>
GOCCL_DEVICE bool byWarps(const Row& r, AbortBlock* abort, Work work) {
  bool ok = true;
  if (threadIdx.x / 32 < r.stages) {
    Stage stage(r, abort);
    ok = work(stage);
    if (stage.lane == 0) stage.finish();
  }
  return !__syncthreads_or(!ok);
}

// stagedBytes is what a row takes between ranks: its slot has room for it.
GOCCL_DEVICE uint32_t stagedBytes(const Row& r) { return (r.bytes + 15) & ~15u; }

#endif  // GOCCL_STAGES

}  // namespace moe
}  // namespace goccl
