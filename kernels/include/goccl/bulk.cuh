// Bulk copies (TMA): global memory to shared and shared to global, of this device or of a peer, by one issuing thread
// per block. Compute capability 9.0 and later; elsewhere hasBulk is false and nothing of this may be called.
//
// Addresses and sizes are multiples of 16 bytes. The asynchronous proxy orders its accesses with the generic one only
// by the fences and waits below: a consumer that acquired a flag must fenceProxyAsync() before bulk copies read what
// the flag published, and a producer must wait with bulkWait<0>() before it releases the flag.
#pragma once

#include <goccl/abort.cuh>

namespace goccl {

#if GOCCL_CUDA && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900)
#define GOCCL_BULK 1
#else
#define GOCCL_BULK 0
#endif
constexpr bool hasBulk = GOCCL_BULK != 0;

#if GOCCL_BULK

GOCCL_DEVICE uint32_t sharedAddress(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

// fenceProxyAsync orders this thread's generic accesses to any memory before its later bulk copies.
GOCCL_DEVICE void fenceProxyAsync() { asm volatile("fence.proxy.async;" ::: "memory"); }

// fenceProxyAsyncShared is fenceProxyAsync for shared memory only: it takes less time while stores are on their way.
GOCCL_DEVICE void fenceProxyAsyncShared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// BulkBarrier is an mbarrier in shared memory that counts the bytes of the loads that name it. Phases alternate: the
// first wait is for phase 0.
struct alignas(8) BulkBarrier {
  uint64_t word;

  // init makes it ready for arrivals of one thread; fenceBarrierInit() and a block barrier follow before other threads
  // or copies use it.
  GOCCL_DEVICE void init(uint32_t arrivals = 1) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(sharedAddress(&word)), "r"(arrivals) : "memory");
  }
  GOCCL_DEVICE void invalidate() {
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(sharedAddress(&word)) : "memory");
  }

  // arriveAndExpect arrives and announces bytes that loads will bring in this phase.
  GOCCL_DEVICE void arriveAndExpect(uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(sharedAddress(&word)), "r"(bytes)
                 : "memory");
  }
  GOCCL_DEVICE void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(sharedAddress(&word)) : "memory");
  }

  // poll says whether the phase of that parity is complete; it may block for a short time that the hardware bounds.
  GOCCL_DEVICE bool poll(uint32_t parity) {
    uint32_t done;
    asm volatile(
        "{\n\t.reg .pred q;\n\tmbarrier.try_wait.parity.shared::cta.b64 q, [%1], %2;\n\tselp.u32 %0, 1, 0, q;\n\t}"
        : "=r"(done)
        : "r"(sharedAddress(&word)), "r"(parity)
        : "memory");
    return done != 0;
  }
  GOCCL_DEVICE Status wait(uint32_t parity, AbortBlock* abort) {
    return waitUntil([&] { return poll(parity); }, abort, &word, waitBulk);
  }
};

// fenceBarrierInit makes initialised barriers visible to the asynchronous proxy.
GOCCL_DEVICE void fenceBarrierInit() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  fenceProxyAsyncShared();
}

// bulkLoad starts a copy global -> shared that completes on barrier.
GOCCL_DEVICE void bulkLoad(void* shared, const void* global, uint32_t bytes, BulkBarrier* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   sharedAddress(shared)),
               "l"(global), "r"(bytes), "r"(sharedAddress(&barrier->word))
               : "memory");
}

// bulkStore starts a copy shared -> global in the current bulk group; bulkCommit closes the group.
GOCCL_DEVICE void bulkStore(void* global, const void* shared, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global), "r"(sharedAddress(shared)),
               "r"(bytes)
               : "memory");
}
GOCCL_DEVICE void bulkCommit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// bulkWait waits until at most Pending of this thread's groups are unfinished: their writes are performed.
template <int Pending>
GOCCL_DEVICE void bulkWait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(Pending) : "memory");
}
// bulkWaitSource waits until at most Pending groups still read their shared memory: it may be overwritten, the writes
// may be on their way.
template <int Pending>
GOCCL_DEVICE void bulkWaitSource() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}

// BulkPipe is a ring of stages x chunk bytes of shared memory through which one thread of a block streams data from
// global to global.
//
//   1. up to stages-2 loads are in flight ahead of the chunk that is stored;
//   2. when a chunk has landed its store starts, in a separate bulk group;
//   3. before a stage is loaded again, its store has read it: at most two stores still read.
//
// Phases carry over from one copy to the next, so a pipe serves a whole kernel. Only the thread that called init uses
// it.
struct BulkPipe {
  uint8_t* buffer;        // stages * chunk bytes, 128-byte aligned
  BulkBarrier* barriers;  // stages
  uint32_t chunk;         // bytes, multiple of 16
  uint32_t stages;        // 3..32
  uint32_t phases;        // bit s: parity that stage s waits for next
  uint32_t stage;         // next stage to load into
  AbortBlock* abort;

  // sharedBytes is what init needs.
  static constexpr GOCCL_HOST_DEVICE uint32_t sharedBytes(uint32_t chunk, uint32_t stages) {
    return stages * (chunk + 8);
  }

  GOCCL_DEVICE void init(void* shared, uint32_t chunkBytes, uint32_t stageCount, AbortBlock* abortBlock) {
    buffer = static_cast<uint8_t*>(shared);
    barriers = reinterpret_cast<BulkBarrier*>(buffer + static_cast<uint64_t>(chunkBytes) * stageCount);
    chunk = chunkBytes;
    stages = stageCount;
    phases = 0;
    stage = 0;
    abort = abortBlock;
    for (uint32_t s = 0; s < stages; ++s) barriers[s].init();
    fenceBarrierInit();
  }

  // copy streams the chunks part, part + parts, ... of bytes (a multiple of 16) from src to dst; the last
  // chunk may be short. When it returns, every load is done and stores may be in flight: finish() completes them. After
  // a status other than statusOk the pipe is dead.
  GOCCL_DEVICE Status copy(void* dst, const void* src, uint64_t bytes, uint32_t part, uint32_t parts) {
    uint64_t total = (bytes + chunk - 1) / chunk;
    uint64_t mine = part < total ? (total - part + parts - 1) / parts : 0;
    uint32_t first = stage;
    auto size = [&](uint64_t index) -> uint32_t {
      uint64_t left = bytes - index * chunk;
      return left < chunk ? static_cast<uint32_t>(left) : chunk;
    };
    auto load = [&](uint64_t k) {
      uint64_t index = part + k * parts;
      uint32_t n = size(index);
      barriers[stage].arriveAndExpect(n);
      bulkLoad(buffer + stage * static_cast<uint64_t>(chunk), static_cast<const uint8_t*>(src) + index * chunk, n,
               &barriers[stage]);
      stage = stage + 1 == stages ? 0 : stage + 1;
    };
    uint64_t ahead = stages - 2;
    // Stages may still be read by stores of an earlier copy.
    bulkWaitSource<0>();
    for (uint64_t k = 0; k < ahead && k < mine; ++k) load(k);
    uint32_t s = first;
    for (uint64_t k = 0; k < mine; ++k) {
      Status status = barriers[s].wait((phases >> s) & 1, abort);
      if (status != statusOk) {
        drain(s, k, k + ahead < mine ? k + ahead : mine);
        return status;
      }
      phases ^= 1u << s;
      uint64_t index = part + k * parts;
      bulkStore(static_cast<uint8_t*>(dst) + index * chunk, buffer + s * static_cast<uint64_t>(chunk), size(index));
      bulkCommit();
      s = s + 1 == stages ? 0 : s + 1;
      if (k + ahead < mine) {
        bulkWaitSource<2>();
        load(k + ahead);
      }
    }
    return statusOk;
  }

  // drain waits for the loads of chunks [from, to), the first of them into stage s: a block must not end under a load
  // into its shared memory. It is bounded, for the case that the memory itself is gone.
  GOCCL_DEVICE void drain(uint32_t s, uint64_t from, uint64_t to) {
    for (uint64_t k = from; k < to; ++k) {
      for (uint32_t i = 0; i < 4096 && !barriers[s].poll((phases >> s) & 1); ++i) {
      }
      phases ^= 1u << s;
      s = s + 1 == stages ? 0 : s + 1;
    }
  }

  // finish waits until every store is performed at its destination. A release that publishes the data follows it.
  GOCCL_DEVICE void finish() { bulkWait<0>(); }
};

#endif  // GOCCL_BULK

}  // namespace goccl
