// What the emulation of bulk copies orders, and what it does not: small kernels, each of which has a race or none.
#pragma once

#include "bulk.hpp"
#include "ranks.hpp"

#include <goccl/bulk.cuh>

namespace litmus {

using namespace goccl;

constexpr uint32_t threads = 2 * warpSize, bytes = 64;

inline BulkBarrier& barrier() { return bulk::staticShared<BulkBarrier, 1>(0)[0]; }
inline uint8_t* tile() { return bulk::dynamicShared(); }
inline void touch(uint8_t* p) { *reinterpret_cast<volatile uint64_t*>(p) = 1; }
inline void look(const uint8_t* p) { (void)*reinterpret_cast<const volatile uint64_t*>(p); }

// first and other are threads of different warps.
inline bool first() { return threadIdx.x == 0; }
inline bool other() { return threadIdx.x == warpSize; }

inline void init(uint32_t arrivals = 1) {
  if (first()) {
    barrier().init(arrivals);
    fenceBarrierInit();
  }
  __syncthreads();
}
inline void await(uint32_t parity = 0) {
  while (!barrier().poll(parity)) {
  }
}
inline void load(const uint8_t* g) {
  barrier().arriveAndExpect(bytes);
  bulkLoad(tile(), g, bytes, &barrier());
}
inline void store(uint8_t* g) {
  bulkStore(g, tile(), bytes);
  bulkCommit();
}
// storeOf writes the tile, fences, and stores it.
inline void storeOf(uint8_t* g) {
  touch(tile());
  fenceProxyAsyncShared();
  store(g);
}

struct Test {
  const char* name;
  void (*kernel)(uint8_t* g);
};
const Test tests[] = {
    {"load and wait",
     [](uint8_t* g) {
       init();
       if (first()) load(g);
       await();
       look(tile());
     }},
    {"load without a wait: race",
     [](uint8_t* g) {
       init();
       if (first()) load(g);
       if (other()) look(tile());
       await();
     }},
    {"a wait of another thread: race",
     [](uint8_t* g) {
       init();
       if (first()) load(g), await();
       if (other()) look(tile());
     }},
    {"a wait before a meeting",
     [](uint8_t* g) {
       init();
       if (first()) load(g), await();
       __syncthreads();
       look(tile());
     }},
    {"barrier not fenced: race",
     [](uint8_t* g) {
       if (first()) barrier().init(), load(g), await();
     }},
    {"load over what was read",
     [](uint8_t* g) {
       init();
       if (other()) look(tile());
       __syncthreads();
       if (first()) load(g), await();
     }},
    {"load over what is read: race",
     [](uint8_t* g) {
       init();
       if (other()) look(tile());
       if (first()) load(g), await();
     }},
    {"load over what was written: race",
     [](uint8_t* g) {
       init();
       if (other()) touch(tile());
       __syncthreads();
       if (first()) load(g), await();
     }},
    {"load over what was written and fenced",
     [](uint8_t* g) {
       init();
       if (other()) touch(tile()), fenceProxyAsyncShared();
       __syncthreads();
       if (first()) load(g), await();
     }},
    {"load of what was written",
     [](uint8_t* g) {
       init();
       if (first()) touch(g), fenceProxyAsync(), load(g), await();
     }},
    {"load behind a fence of shared memory: race",
     [](uint8_t* g) {
       init();
       if (first()) touch(g), fenceProxyAsyncShared(), load(g), await();
     }},
    {"source written too early: race",
     [](uint8_t* g) {
       init();
       if (first()) load(g), touch(g), await();
     }},
    {"store of a fenced write",
     [](uint8_t* g) {
       if (other()) touch(tile()), fenceProxyAsyncShared();
       __syncthreads();
       if (first()) store(g), bulkWait<0>(), look(g);
     }},
    {"store of a write that the issuer has fenced",
     [](uint8_t* g) {
       if (other()) touch(tile());
       __syncthreads();
       if (first()) fenceProxyAsyncShared(), store(g), bulkWait<0>(), look(g);
     }},
    {"store of a write: race",
     [](uint8_t* g) {
       if (other()) touch(tile());
       __syncthreads();
       if (first()) store(g), bulkWait<0>();
     }},
    {"store of a write that another thread has fenced: race",
     [](uint8_t* g) {
       if (other()) fenceProxyAsyncShared(), touch(tile());
       __syncthreads();
       if (first()) store(g), bulkWait<0>();
     }},
    {"store over a write: race",
     [](uint8_t* g) {
       if (first()) touch(g), storeOf(g), bulkWait<0>();
     }},
    {"store over a fenced write",
     [](uint8_t* g) {
       if (first()) touch(g), fenceProxyAsync(), storeOf(g), bulkWait<0>();
     }},
    {"source after its wait",
     [](uint8_t* g) {
       if (first()) storeOf(g), bulkWaitSource<0>(), touch(tile()), bulkWait<0>();
     }},
    {"source without its wait: race",
     [](uint8_t* g) {
       if (first()) storeOf(g), touch(tile()), bulkWait<0>();
     }},
    {"target after the wait of the source: race",
     [](uint8_t* g) {
       if (first()) storeOf(g), bulkWaitSource<0>(), look(g), bulkWait<0>();
     }},
    {"target after a wait of its issuer, elsewhere: race",
     [](uint8_t* g) {
       if (first()) storeOf(g), bulkWait<0>();
       if (other()) look(g);
     }},
    {"target after a wait elsewhere: race",
     [](uint8_t* g) {
       if (first()) storeOf(g);
       __syncthreads();
       if (other()) bulkWait<0>(), look(g);
       if (first()) bulkWait<0>();
     }},
    {"target of an earlier group",
     [](uint8_t* g) {
       if (first()) storeOf(g), store(g + bytes), bulkWait<1>(), look(g), bulkWait<0>();
     }},
    {"target of a pending group: race",
     [](uint8_t* g) {
       if (first()) storeOf(g), store(g + bytes), bulkWait<1>(), look(g + bytes), bulkWait<0>();
     }},
    {"target of a group that is not committed: race",
     [](uint8_t* g) {
       if (!first()) return;
       storeOf(g + bytes), bulkStore(g, tile(), bytes), bulkWait<0>(), look(g);
       bulkCommit(), bulkWait<0>();
     }},
    {"load of what a store has written",
     [](uint8_t* g) {
       init();
       if (first()) storeOf(g), bulkWait<0>(), load(g), await();
     }},
    {"load of what a store writes: race",
     [](uint8_t* g) {
       init();
       if (first()) storeOf(g), bulkWaitSource<0>(), load(g), await(), bulkWait<0>();
     }},
    {"arrivals carry writes and fences",
     [](uint8_t* g) {
       init(2);
       if (threadIdx.x % warpSize == 0) {
         touch(tile() + threadIdx.x * 8);
         fenceProxyAsyncShared();
         barrier().arrive();
       }
       if (first()) await(), store(g), bulkWait<0>();
     }},
    {"arrivals carry no fence: race",
     [](uint8_t* g) {
       init();
       if (other()) touch(tile()), barrier().arrive();
       if (first()) await(), store(g), bulkWait<0>();
     }},
    {"an arrival without a wait: race",
     [](uint8_t*) {
       init();
       if (other()) touch(tile()), barrier().arrive();
       if (first()) look(tile());
     }},
    {"a write behind the arrival: race",
     [](uint8_t*) {
       init();
       if (other()) barrier().arrive(), touch(tile());
       if (first()) await(), look(tile());
     }},
};

// run runs the test of that number, and prints its name.
inline int run(uint32_t number) {
  if (number >= std::size(tests)) return 3;
  std::printf("%s\n", tests[number].name);
  std::fflush(stdout);
  bulk::Device device(1, threads, number);
  ranks::Memory g(2 * bytes);
  device.run(1, threads, [&] { tests[number].kernel(g.data); });
  return 0;
}

}  // namespace litmus
