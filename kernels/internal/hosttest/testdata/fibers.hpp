// Threads that exist for ThreadSanitizer only, and state that it does not see: for bulk.hpp.
#pragma once

#include <mutex>

extern "C" {
void* __tsan_create_fiber(unsigned flags);
void* __tsan_get_current_fiber();
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* word);
void __tsan_release(void* word);
}

namespace bulk {

// Clock is a word that carries order from those that release it to those that acquire it.
struct Clock {
  char word[8];
  void release() { __tsan_release(word); }
  void acquire() { __tsan_acquire(word); }
};

// copyWords and lookAt are accesses that ThreadSanitizer sees. Their arguments are in registers: a fiber that they run
// as has no right to the caller's variables.
[[gnu::noinline]] inline void copyWords(uint64_t* to, const uint64_t* from, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) to[i] = from[i];
}
[[gnu::noinline]] inline uint64_t lookAt(const uint64_t* p, uint32_t count) {
  uint64_t all = 0;
  for (uint32_t i = 0; i < count; ++i) all |= p[i];
  return all;
}

// Fiber is a thread as ThreadSanitizer knows them. What its functions do is not ordered after what their caller did.
class Fiber {
 public:
#define AS_FIBER [[gnu::no_sanitize_thread, gnu::noinline]]
  AS_FIBER void release(Clock& c) {
    void* const caller = enter();
    __tsan_release(c.word);
    __tsan_switch_to_fiber(caller, unordered);
  }
  AS_FIBER void acquire(Clock& c) {
    void* const caller = enter();
    __tsan_acquire(c.word);
    __tsan_switch_to_fiber(caller, unordered);
  }
  AS_FIBER void copy(void* to, const void* from, uint32_t bytes) {
    void* const caller = enter();
    copyWords(static_cast<uint64_t*>(to), static_cast<const uint64_t*>(from), bytes / 8);
    __tsan_switch_to_fiber(caller, unordered);
  }
  AS_FIBER uint64_t look(const void* p, uint32_t bytes) {
    void* const caller = enter();
    const uint64_t all = lookAt(static_cast<const uint64_t*>(p), bytes / 8);
    __tsan_switch_to_fiber(caller, unordered);
    return all;
  }

 private:
  static constexpr unsigned unordered = 1;
  AS_FIBER void* enter() {
    void* const caller = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber_, unordered);
    return caller;
  }
#undef AS_FIBER
  void* const fiber_ = __tsan_create_fiber(0);
};

// Lock holds a mutex that orders nothing for ThreadSanitizer. In its scope no access is seen, only clocks.
class Lock {
 public:
  explicit Lock(std::mutex& m) : mutex_(m) {
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
    mutex_.lock();
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~Lock() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
    mutex_.unlock();
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
  }

 private:
  std::mutex& mutex_;
};

// Event wakes those that wait for a change. They look at what has changed under the lock, and at `count` before.
struct Event {
  uint32_t count = 0;
  void happen() {
    ++count;
    syscall(SYS_futex, &count, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  }
  void wait(uint32_t seen) {
    const timespec most{0, 2000000};
    syscall(SYS_futex, &count, FUTEX_WAIT_PRIVATE, seen, &most, nullptr, 0);
  }
};

}  // namespace bulk
