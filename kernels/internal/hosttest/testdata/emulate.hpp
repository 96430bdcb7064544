// CUDA's language for a plain C++20 compiler, as far as goccl's device code uses it: a thread of a kernel is a
// thread of the host.
#pragma once

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __constant__
#define __forceinline__ inline
#define __noinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)

struct Dim3 {
  uint32_t x = 0, y = 0, z = 0;
};

#ifndef GOCCL_WARP
#define GOCCL_WARP 32
#endif
constexpr uint32_t warpSize = GOCCL_WARP;

// Barrier is where threads meet. It orders its own threads and no others: std::barrier would not do, because libstdc++
// waits through a table that all barriers share, which ThreadSanitizer would take for order between blocks. It does not
// see the futex that this one waits by. An acquire takes time by the number of all threads: each thread has one a
// meeting.
struct Barrier {
  void meet(uint32_t size) {
    const uint32_t mine = generation.load(std::memory_order_relaxed);
    if (arrived.fetch_add(1, std::memory_order_release) + 1 == size) {
      arrived.load(std::memory_order_acquire);
      arrived.store(0, std::memory_order_relaxed);
      generation.store(mine + 1, std::memory_order_release);
      syscall(SYS_futex, reinterpret_cast<uint32_t*>(&generation), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
    } else {
      while (generation.load(std::memory_order_relaxed) == mine)
        syscall(SYS_futex, reinterpret_cast<uint32_t*>(&generation), FUTEX_WAIT_PRIVATE, mine, nullptr, nullptr, 0);
      generation.load(std::memory_order_acquire);
    }
  }

 private:
  std::atomic<uint32_t> arrived{0}, generation{0};
};

// Unseen is a scope in which ThreadSanitizer sees neither accesses nor order.
#ifdef __SANITIZE_THREAD__
extern "C" {
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
struct Unseen {
  Unseen() {
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~Unseen() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
  }
};
#else
struct Unseen {
  ~Unseen() {}
};
#endif

// meeting, if it is set, is called before and after a thread meets its group: bulk.hpp carries more between threads.
struct Group;
inline void (*meeting)(Group& group, bool after) = nullptr;

inline thread_local Dim3 threadIdx, blockIdx, blockDim, gridDim;

// Group is a set of threads: a block or a warp.
struct Group {
  explicit Group(uint32_t n) : size(n), slots{std::vector<uint32_t>(n), std::vector<uint32_t>(n)}, turns(n) {}
  const uint32_t size;
  std::vector<uint32_t> slots[2];
  std::vector<uint32_t> turns;
  Barrier all, named[3];
  alignas(16) uint8_t shared[16 << 10] = {};  // a block's shared memory

  void meet() {
    if (meeting != nullptr) meeting(*this, false);
    all.meet(size);
    if (meeting != nullptr) meeting(*this, true);
  }

  // exchange publishes v of each thread and lets all of them look at all values. The tables alternate: a
  // thread that writes one again has met the others since, after they had looked at it.
  template <class Look>
  uint32_t exchange(uint32_t index, uint32_t v, Look look) {
    std::vector<uint32_t>& table = slots[turns[index]++ & 1];
    table[index] = v;
    meet();
    return look(table);
  }

  // vote is exchange for shuffles and votes of a warp, which do not order memory as __syncwarp does.
  template <class Look>
  uint32_t vote(uint32_t v, Look look) {
    Unseen scope;
    const uint32_t index = threadIdx.x % warpSize;
    std::vector<uint32_t>& table = slots[turns[index]++ & 1];
    table[index] = v;
    all.meet(size);
    return look(table);
  }
};

inline thread_local Group* currentBlock;
inline thread_local Group* currentWarp;

inline uint32_t anyOf(const std::vector<uint32_t>& v) {
  uint32_t r = 0;
  for (uint32_t x : v) r |= x != 0;
  return r;
}
inline uint32_t allOf(const std::vector<uint32_t>& v) {
  uint32_t r = 1;
  for (uint32_t x : v) r &= x != 0;
  return r;
}
inline uint32_t maxOf(const std::vector<uint32_t>& v) {
  uint32_t r = 0;
  for (uint32_t x : v) r = x > r ? x : r;
  return r;
}

inline void __syncthreads() { currentBlock->meet(); }
// barrierOf is the one of ring.cuh, for numbers 1 and 2. All threads that use a number give the same size.
inline void barrierOf(uint32_t number, uint32_t threads) {
  if (number == 0 || number >= std::size(currentBlock->named) || threads > currentBlock->size) std::abort();
  currentBlock->named[number].meet(threads);
}
inline int __syncthreads_or(int p) { return static_cast<int>(currentBlock->exchange(threadIdx.x, p != 0, anyOf)); }
inline void __syncwarp(uint32_t = 0xffffffff) { currentWarp->meet(); }
inline int __any_sync(uint32_t, int p) {
  return static_cast<int>(currentWarp->vote(p != 0, anyOf));
}
inline int __all_sync(uint32_t, int p) {
  return static_cast<int>(currentWarp->vote(p != 0, allOf));
}
inline uint32_t __reduce_or_sync(uint32_t, uint32_t v) {
  return currentWarp->vote(v, [](const std::vector<uint32_t>& all) {
    uint32_t r = 0;
    for (uint32_t x : all) r |= x;
    return r;
  });
}
inline uint32_t __reduce_max_sync(uint32_t, uint32_t v) {
  return currentWarp->vote(v, maxOf);
}
inline uint32_t bitsOf(const std::vector<uint32_t>& v) {
  uint32_t r = 0;
  for (size_t i = 0; i < v.size(); ++i) r |= (v[i] != 0 ? 1u : 0u) << i;
  return r;
}
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __popc(uint32_t v) { return __builtin_popcount(v); }
inline uint32_t __ballot_sync(uint32_t, int p) {
  return currentWarp->vote(p != 0, bitsOf);
}
inline uint32_t __shfl_sync(uint32_t, uint32_t v, int lane) {
  return currentWarp->vote(v, [lane](const std::vector<uint32_t>& s) {
    return s[static_cast<uint32_t>(lane) % warpSize];
  });
}
inline uint32_t __shfl_xor_sync(uint32_t, uint32_t v, uint32_t apart) {
  const uint32_t lane = threadIdx.x % warpSize;
  return currentWarp->vote(v, [=](const std::vector<uint32_t>& s) { return s[lane ^ apart]; });
}

// A block's __shared__ variables: hosttest_test.go turns their declarations into calls, because no macro can.
inline void* sharedMemory(size_t bytes) {
  if (bytes > sizeof currentBlock->shared) std::abort();
  return currentBlock->shared;
}

// polled lets others run where a poll has failed: there are more threads that wait than processors. Edits put it into
// kernels, see hosttest_test.go.
inline bool polled(bool done) {
  if (!done) std::this_thread::sleep_for(std::chrono::microseconds(20));
  return done;
}

// mutation is the name of the line that is broken in this run, see hosttest_test.go.
inline const char* mutation = "";
inline bool mutated(const char* name) { return std::strcmp(mutation, name) == 0; }

// ThreadSanitizer clears what it knows of a thread's stack when it begins: a small one costs half as much.
inline const int smallStacks = [] {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 1 << 20);  // a third of it is the sanitizer's
  return pthread_setattr_default_np(&attributes);
}();

// Worker is a thread that does one job after another for the thread that has begun it: to begin a thread costs more
// than most kernels do. Its owner and its job are ordered as by creation and join of a thread, and workers are not
// ordered with each other: each has a word that only it and its owner use.
class Worker {
 public:
  Worker() : thread_([this] { work(); }) {}
  ~Worker() {
    start(nullptr);
    thread_.join();
  }
  void start(std::function<void()> job) {
    job_ = std::move(job);
    set(1);
  }
  void wait() { await(0); }

 private:
  void work() {
    for (await(1); job_; await(1)) {
      job_();
      set(0);
    }
  }
  void set(uint32_t v) {
    busy_.store(v, std::memory_order_release);
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&busy_), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
  void await(uint32_t v) {
    while (busy_.load(std::memory_order_acquire) != v)
      syscall(SYS_futex, reinterpret_cast<uint32_t*>(&busy_), FUTEX_WAIT_PRIVATE, 1 - v, nullptr, nullptr, 0);
  }
  std::atomic<uint32_t> busy_{0};
  std::function<void()> job_;  // none: the end
  std::thread thread_;
};
inline thread_local std::vector<std::unique_ptr<Worker>> idleWorkers;

// Thread is a std::thread that a worker runs. The thread that begins one also joins it.
class Thread {
 public:
  template <class F, class... Args>
  explicit Thread(F f, Args... args) {
    if (idleWorkers.empty()) idleWorkers.push_back(std::make_unique<Worker>());
    worker_ = std::move(idleWorkers.back());
    idleWorkers.pop_back();
    worker_->start([=] { f(args...); });
  }
  Thread(Thread&&) = default;
  void join() {
    worker_->wait();
    idleWorkers.push_back(std::move(worker_));
  }

 private:
  std::unique_ptr<Worker> worker_;
};

// Launch runs kernel(args...) on blocks x threads until it is joined; several launches run at once, as ranks do.
class Launch {
 public:
  template <class Kernel, class... Args>
  Launch(uint32_t blocks, uint32_t threads, Kernel kernel, Args... args) {
    for (uint32_t b = 0; b < blocks; ++b) {
      groups_.push_back(std::make_unique<Group>(threads));
      Group* block = groups_.back().get();
      for (uint32_t t = 0; t < threads; ++t) {
        if (t % warpSize == 0)
          groups_.push_back(std::make_unique<Group>(threads - t < warpSize ? threads - t : warpSize));
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
  std::vector<Thread> threads_;
};

// A failed check ends the program at once: threads of a broken protocol may never come back.
#define CHECK(condition, ...)                                              \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
      std::fprintf(stderr, __VA_ARGS__);                                   \
      std::fprintf(stderr, "\n");                                          \
      std::_Exit(1);                                                       \
    }                                                                      \
  } while (0)
