// A probe of links: does memory of another rank take what this GPU stores, and can this GPU load what lies there?
//
// Every rank has a window of nranks slots. Slot s of rank r's window belongs to rank s:
//
//   [0, half)       what rank s has stored there with this kernel; the last word is the flag
//   [half, 2·half)  what a copy engine of rank s has copied there
//
//   1. probeStore   stores a pattern into the own slot of every window, the own one too; a release sets each flag
//   2. copies       the host enqueues copies from the own slot of the own window
//   3. probeCheck   behind a barrier of the ranks: waits for each flag, within a limit, and compares the received data;
//                   then loads from the windows of those peers whose stores have arrived
//
// A load from memory that cannot be reached may never return, and then nothing ends the kernel. So loads come last, and
// only from where stores have shown that bytes move.
#pragma once

#include <goccl/sync.cuh>

namespace goccl {
namespace probe {

constexpr uint32_t half = 4096;  // bytes
constexpr uint32_t words = half / 4 - 1;
constexpr uint32_t maxRanks = 16;

// The results, by rank: the first test that failed.
constexpr uint32_t works = 1, silent = 2, wrongStores = 3, wrongCopies = 4, wrongLoads = 5;

struct Args {
  uint8_t* window[maxRanks];  // by rank, as mapped here; the own one included
  uint32_t* result;           // probeCheck: one word for each rank
  uint64_t limitNs;           // of the wait for a flag
  uint32_t rank, nranks;
  uint32_t token;  // differs between probes, and is not 0
  uint32_t loads;  // whether peers' memory is loaded
};
static_assert(sizeof(Args) == 160, "Args is filled by the host");

// pattern is word i of what rank `from` stores in the window of rank `to`.
GOCCL_DEVICE uint32_t pattern(uint32_t token, uint32_t from, uint32_t to, uint32_t i) {
  return (token ^ (from * 16 + to) * 0x9e3779b9u) + i * 0x85ebca6bu;
}

GOCCL_DEVICE uint32_t* slot(const Args& a, uint32_t window, uint32_t source) {
  return reinterpret_cast<uint32_t*>(a.window[window] + source * 2 * half);
}

// probeStore: block b serves window b.
GOCCL_DEVICE void store(const Args& a) {
  uint32_t* to = slot(a, blockIdx.x, a.rank);
  for (uint32_t i = threadIdx.x; i < words; i += blockDim.x)
    storeRelaxed<Scope::sys>(to + i, pattern(a.token, a.rank, blockIdx.x, i));
  __syncthreads();
  if (threadIdx.x == 0) storeRelease<Scope::sys>(to + words, a.token);
}

// same says, to all threads of the block, whether the words at p are what rank `from` has stored for rank `to`.
GOCCL_DEVICE bool same(const Args& a, const uint32_t* p, uint32_t from, uint32_t to) {
  bool wrong = false;
  for (uint32_t i = threadIdx.x; i < words; i += blockDim.x)
    wrong = wrong || loadRelaxed<Scope::sys>(p + i) != pattern(a.token, from, to, i);
  return !__syncthreads_or(wrong);
}

// probeCheck: block b checks the data of rank b.
GOCCL_DEVICE void check(const Args& a) {
  const uint32_t from = blockIdx.x;
  const uint32_t* mine = slot(a, a.rank, from);
  bool late = false;
  if (threadIdx.x == 0) {
    const uint64_t start = globalTimer();
    while (loadAcquire<Scope::sys>(mine + words) != a.token && !late) late = globalTimer() - start > a.limitNs;
  }
  uint32_t result = works;
  if (__syncthreads_or(late))
    result = silent;
  else if (!same(a, mine, from, a.rank))
    result = wrongStores;
  else if (!same(a, mine + half / 4, from, from))
    result = wrongCopies;
  else if (a.loads != 0 && !same(a, slot(a, from, from), from, from))
    result = wrongLoads;
  if (threadIdx.x == 0) storeRelaxed<Scope::sys>(a.result + from, result);
}

}  // namespace probe
}  // namespace goccl
