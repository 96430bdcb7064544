// Bulk copies (TMA) in MSCCL++'s spelling; goccl/bulk.cuh has the rules. MSCCLPP_BULK_AVAILABLE is 1 where they can be
// called: in code for compute capability 9.0 and later. Elsewhere only BulkBarrier is declared, for its size.
#pragma once

#include <mscclpp/gpu_data_types.hpp>
#include <mscclpp/poll_device.hpp>

#if GOCCL_HANDLES
#include <goccl/bulk.cuh>
#endif

#if GOCCL_HANDLES && GOCCL_BULK && defined(__CUDA_ARCH__)
#define MSCCLPP_BULK_AVAILABLE 1
#else
#define MSCCLPP_BULK_AVAILABLE 0
#endif

namespace mscclpp {

#if MSCCLPP_BULK_AVAILABLE

// bulkFence orders this thread's generic accesses to shared memory with bulk copies, before or after.
GOCCL_DEVICE void bulkFence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// BulkBarrier counts the bytes of the loads that name it, in phases that alternate from 0.
struct BulkBarrier : private goccl::BulkBarrier {
  GOCCL_DEVICE void init(uint32_t arriveCount = 1) {
    relaxedInit(arriveCount);
    bulkFence();
  }
  // relaxedInit leaves the fence to the caller, which may serve several barriers.
  GOCCL_DEVICE void relaxedInit(uint32_t arriveCount = 1) { goccl::BulkBarrier::init(arriveCount); }
  using goccl::BulkBarrier::arrive;
  using goccl::BulkBarrier::arriveAndExpect;
  using goccl::BulkBarrier::invalidate;
  // expect announces bytes without an arrival.
  GOCCL_DEVICE void expect(uint32_t bytes) {
    asm volatile("mbarrier.expect_tx.shared::cta.b64 [%0], %1;" ::"r"(goccl::sharedAddress(&word)), "r"(bytes)
                 : "memory");
  }
  GOCCL_DEVICE bool poll(uint32_t phase) { return goccl::BulkBarrier::poll(phase & 1); }
  // wait ends with the phase, after maxSpinCount polls, or after goccl's default deadline. It flips phase.
  GOCCL_DEVICE void wait(uint32_t& phase, int64_t maxSpinCount = 10000000) {
    POLL_MAYBE_JAILBREAK(!poll(phase), maxSpinCount);
    phase ^= 1;
  }

 private:
  friend GOCCL_DEVICE void bulkLoad(void* dstShared, const void* srcGlobal, uint32_t bytes, BulkBarrier& barrier);
};

GOCCL_DEVICE void bulkLoad(void* dstShared, const void* srcGlobal, uint32_t bytes, BulkBarrier& barrier) {
  goccl::bulkLoad(dstShared, srcGlobal, bytes, &barrier);
}
GOCCL_DEVICE void bulkStore(void* dstGlobal, const void* srcShared, uint32_t bytes) {
  goccl::bulkStore(dstGlobal, srcShared, bytes);
}

enum class BulkRedOp { Add };
template <class A, class B>
constexpr bool bulkSame = false;
template <class A>
constexpr bool bulkSame<A, A> = true;

// bulkReduceStore adds the elements of shared memory to those in global memory, each by an atomic operation without
// order: of float, Bfloat16 (rounded at each addition) or uint32_t.
template <class T, BulkRedOp Op = BulkRedOp::Add>
GOCCL_DEVICE void bulkReduceStore(void* dstGlobal, const void* srcShared, uint32_t bytes) {
  static_assert(bulkSame<T, float> || bulkSame<T, Bfloat16> || bulkSame<T, uint32_t>,
                "bulkReduceStore adds float, __nv_bfloat16 and uint32_t");
  const uint32_t source = goccl::sharedAddress(srcShared);
  if constexpr (bulkSame<T, float>) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(dstGlobal),
                 "r"(source), "r"(bytes)
                 : "memory");
  } else if constexpr (bulkSame<T, uint32_t>) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], %2;" ::"l"(dstGlobal),
                 "r"(source), "r"(bytes)
                 : "memory");
  } else {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 [%0], [%1], %2;" ::"l"(dstGlobal),
                 "r"(source), "r"(bytes)
                 : "memory");
  }
}

// bulkStoreCommit closes the thread's group of stores. bulkStoreWait waits until at most PendingGroups groups have
// unperformed writes, bulkStoreWaitSource until at most PendingGroups groups have unread shared memory.
GOCCL_DEVICE void bulkStoreCommit() { goccl::bulkCommit(); }
template <uint32_t PendingGroups = 0>
GOCCL_DEVICE void bulkStoreWait() {
  goccl::bulkWait<PendingGroups>();
}
template <uint32_t PendingGroups = 0>
GOCCL_DEVICE void bulkStoreWaitSource() {
  goccl::bulkWaitSource<PendingGroups>();
}

#else

struct alignas(8) BulkBarrier {
  [[maybe_unused]] uint64_t word;
};

#endif

}  // namespace mscclpp
