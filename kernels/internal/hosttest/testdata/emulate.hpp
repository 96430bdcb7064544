// CUDA's language for a plain C++20 compiler, as far as goccl's device code uses it: a thread of a kernel is a std::thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __constant__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)

struct Dim3 {
  uint32_t x = 0, y = 0, z = 0;
};

constexpr uint32_t warpSize = 32;

// Group is a set of threads that meet: a block or a warp. Its barrier orders its own threads and nobody else: std::barrier would not do, because
// libstdc++'s waiting goes through a table that all barriers share, and ThreadSanitizer would take that for order between blocks.
struct Group {
  explicit Group(uint32_t n) : size(n), slots(n) {}
  const uint32_t size;
  std::vector<uint32_t> slots;

  void meet() {
    std::unique_lock<std::mutex> lock(mutex);
    uint64_t mine = generation;
    if (++arrived == size) {
      arrived = 0;
      ++generation;
      condition.notify_all();
    } else {
      condition.wait(lock, [&] { return generation != mine; });
    }
  }

  // exchange publishes v of each thread and lets all of them look at all values.
  template <class Look>
  uint32_t exchange(uint32_t index, uint32_t v, Look look) {
    slots[index] = v;
    meet();
    uint32_t r = look(slots);
    meet();
    return r;
  }

 private:
  std::mutex mutex;
  std::condition_variable condition;
  uint32_t arrived = 0;
  uint64_t generation = 0;
};

inline thread_local Dim3 threadIdx, blockIdx, blockDim, gridDim;
inline thread_local Group* currentBlock;
inline thread_local Group* currentWarp;

inline uint32_t anyOf(const std::vector<uint32_t>& v) {
  uint32_t r = 0;
  for (uint32_t x : v) r |= x != 0;
  return r;
}
inline uint32_t maxOf(const std::vector<uint32_t>& v) {
  uint32_t r = 0;
  for (uint32_t x : v) r = x > r ? x : r;
  return r;
}

inline void __syncthreads() { currentBlock->meet(); }
inline int __syncthreads_or(int p) { return static_cast<int>(currentBlock->exchange(threadIdx.x, p != 0, anyOf)); }
inline void __syncwarp(uint32_t = 0xffffffff) { currentWarp->meet(); }
inline int __any_sync(uint32_t, int p) { return static_cast<int>(currentWarp->exchange(threadIdx.x % warpSize, p != 0, anyOf)); }
inline uint32_t __reduce_max_sync(uint32_t, uint32_t v) { return currentWarp->exchange(threadIdx.x % warpSize, v, maxOf); }
inline uint32_t __shfl_sync(uint32_t, uint32_t v, int lane) {
  return currentWarp->exchange(threadIdx.x % warpSize, v, [lane](const std::vector<uint32_t>& s) { return s[static_cast<uint32_t>(lane) % warpSize]; });
}

// Launch runs kernel(args...) on blocks x threads until it is joined; several launches run at once, as ranks do.
class Launch {
 public:
  template <class Kernel, class... Args>
  Launch(uint32_t blocks, uint32_t threads, Kernel kernel, Args... args) {
    for (uint32_t b = 0; b < blocks; ++b) {
      groups_.push_back(std::make_unique<Group>(threads));
      Group* block = groups_.back().get();
      for (uint32_t t = 0; t < threads; ++t) {
        if (t % warpSize == 0) groups_.push_back(std::make_unique<Group>(threads - t < warpSize ? threads - t : warpSize));
        Group* warp = groups_.back().get();
        threads_.emplace_back([=] {
          threadIdx = {t, 0, 0};
          blockIdx = {b, 0, 0};
          blockDim = {threads, 1, 1};
          gridDim = {blocks, 1, 1};
          currentBlock = block;
          currentWarp = warp;
          kernel(args...);
        });
      }
    }
  }
  Launch(Launch&&) = default;
  void join() {
    for (auto& t : threads_) t.join();
    threads_.clear();
  }
  ~Launch() { join(); }

 private:
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<std::thread> threads_;
};

// A failed check ends the program at once: threads of a broken protocol may never come back.
#define CHECK(condition, ...)                                        \
  do {                                                               \
    if (!(condition)) {                                              \
      std::fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
      std::fprintf(stderr, __VA_ARGS__);                             \
      std::fprintf(stderr, "\n");                                    \
      std::_Exit(1);                                                 \
    }                                                                \
  } while (0)
