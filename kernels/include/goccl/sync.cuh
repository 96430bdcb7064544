// Synchronisation: the only header with memory-order PTX. Everything that one thread writes and another polls goes
// through these functions.
//
// Orders and scopes are as in the PTX memory model. Scope::sys reaches peers and the host, Scope::gpu this device. A
// release publishes what the calling thread wrote or, through a preceding __syncthreads(), what its block wrote; an
// acquire makes that visible to the thread that read it. 8- and 16-byte packet accesses are relaxed and are used as
// single-copy atomic by 8-byte halves; a full 16-byte access is one transaction on NVLink, which the LL128 packet
// relies on and LL8/LL16 do not.
//
// All pointers are to global memory: device, peer or mapped host memory. On a plain C++ compiler the same calls are
// std::atomic_ref operations.
#pragma once

#include <goccl/config.cuh>

#if !GOCCL_CUDA
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#endif

namespace goccl {

enum class Scope { gpu, sys };

#if GOCCL_CUDA

#define GOCCL_LOAD(name, order, type, suffix, constraint)                                                   \
  template <Scope S>                                                                                        \
  GOCCL_DEVICE type name(const type* p) {                                                                   \
    type v;                                                                                                 \
    if constexpr (S == Scope::sys)                                                                          \
      asm volatile("ld." order ".sys.global." suffix " %0, [%1];" : "=" constraint(v) : "l"(p) : "memory"); \
    else                                                                                                    \
      asm volatile("ld." order ".gpu.global." suffix " %0, [%1];" : "=" constraint(v) : "l"(p) : "memory"); \
    return v;                                                                                               \
  }
GOCCL_LOAD(loadRelaxed, "relaxed", uint32_t, "u32", "r")
GOCCL_LOAD(loadRelaxed, "relaxed", uint64_t, "u64", "l")
GOCCL_LOAD(loadAcquire, "acquire", uint32_t, "u32", "r")
GOCCL_LOAD(loadAcquire, "acquire", uint64_t, "u64", "l")
#undef GOCCL_LOAD

#define GOCCL_STORE(name, order, type, suffix, constraint)                                             \
  template <Scope S>                                                                                   \
  GOCCL_DEVICE void name(type* p, type v) {                                                            \
    if constexpr (S == Scope::sys)                                                                     \
      asm volatile("st." order ".sys.global." suffix " [%0], %1;" ::"l"(p), constraint(v) : "memory"); \
    else                                                                                               \
      asm volatile("st." order ".gpu.global." suffix " [%0], %1;" ::"l"(p), constraint(v) : "memory"); \
  }
GOCCL_STORE(storeRelaxed, "relaxed", uint32_t, "u32", "r")
GOCCL_STORE(storeRelaxed, "relaxed", uint64_t, "u64", "l")
GOCCL_STORE(storeRelease, "release", uint32_t, "u32", "r")
GOCCL_STORE(storeRelease, "release", uint64_t, "u64", "l")
#undef GOCCL_STORE

#define GOCCL_RED(name, order, op, type, suffix, constraint)                                                   \
  template <Scope S>                                                                                           \
  GOCCL_DEVICE void name(type* p, type v) {                                                                    \
    if constexpr (S == Scope::sys)                                                                             \
      asm volatile("red." order ".sys.global." op "." suffix " [%0], %1;" ::"l"(p), constraint(v) : "memory"); \
    else                                                                                                       \
      asm volatile("red." order ".gpu.global." op "." suffix " [%0], %1;" ::"l"(p), constraint(v) : "memory"); \
  }
GOCCL_RED(addRelaxed, "relaxed", "add", uint32_t, "u32", "r")
GOCCL_RED(addRelaxed, "relaxed", "add", uint64_t, "u64", "l")
GOCCL_RED(addRelease, "release", "add", uint32_t, "u32", "r")
GOCCL_RED(addRelease, "release", "add", uint64_t, "u64", "l")
GOCCL_RED(maxRelaxed, "relaxed", "max", uint64_t, "u64", "l")
#undef GOCCL_RED

// The sum of two words at a 16-byte aligned address. Each is loaded with the order; either may be loaded first.
#define GOCCL_LOAD_SUM(name, order)                                                                       \
  GOCCL_DEVICE uint64_t name(const uint64_t* p) {                                                         \
    uint64_t a, b;                                                                                        \
    asm volatile("ld." order ".sys.global.v2.u64 {%0,%1}, [%2];" : "=l"(a), "=l"(b) : "l"(p) : "memory"); \
    return a + b;                                                                                         \
  }
GOCCL_LOAD_SUM(loadSumRelaxed, "relaxed")
GOCCL_LOAD_SUM(loadSumAcquire, "acquire")
#undef GOCCL_LOAD_SUM

#define GOCCL_FETCH_ADD(name, order, type, suffix, constraint)              \
  template <Scope S>                                                        \
  GOCCL_DEVICE type name(type* p, type v) {                                 \
    type old;                                                               \
    if constexpr (S == Scope::sys)                                          \
      asm volatile("atom." order ".sys.global.add." suffix " %0, [%1], %2;" \
                   : "=" constraint(old)                                    \
                   : "l"(p), constraint(v)                                  \
                   : "memory");                                             \
    else                                                                    \
      asm volatile("atom." order ".gpu.global.add." suffix " %0, [%1], %2;" \
                   : "=" constraint(old)                                    \
                   : "l"(p), constraint(v)                                  \
                   : "memory");                                             \
    return old;                                                             \
  }
GOCCL_FETCH_ADD(fetchAddRelaxed, "relaxed", uint32_t, "u32", "r")
GOCCL_FETCH_ADD(fetchAddRelaxed, "relaxed", uint64_t, "u64", "l")
GOCCL_FETCH_ADD(fetchAddAcqRel, "acq_rel", uint32_t, "u32", "r")
GOCCL_FETCH_ADD(fetchAddAcqRel, "acq_rel", uint64_t, "u64", "l")
#undef GOCCL_FETCH_ADD

// fence orders the calling thread's earlier accesses before its later ones, for observers in S. At system scope it
// costs about a microsecond while peer stores are in flight: prefer a release store, and nothing at all where packets
// carry their own flags.
template <Scope S>
GOCCL_DEVICE void fence() {
  if constexpr (S == Scope::sys)
    asm volatile("fence.acq_rel.sys;" ::: "memory");
  else
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

// Packet accesses: relaxed, system scope, one vector instruction.
GOCCL_DEVICE uint2 loadPacket(const uint2* p) {
  uint2 v;
  asm volatile("ld.relaxed.sys.global.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p) : "memory");
  return v;
}
GOCCL_DEVICE uint4 loadPacket(const uint4* p) {
  uint4 v;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p)
               : "memory");
  return v;
}
GOCCL_DEVICE void storePacket(uint2* p, uint2 v) {
  asm volatile("st.relaxed.sys.global.v2.u32 [%0], {%1,%2};" ::"l"(p), "r"(v.x), "r"(v.y) : "memory");
}
GOCCL_DEVICE void storePacket(uint4* p, uint4 v) {
  asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

// Plain data accesses of 16 bytes: they are unordered; the releases and acquires around them publish them and make them
// visible. Written as PTX so that a load is never turned into ld.global.nc, which is wrong for memory that a peer
// writes while the kernel runs. The compiler does not know that loadVec reads: a thread that loads its own earlier
// writes must make them with storeVec, or synchronise in between.
GOCCL_DEVICE uint4 loadVec(const void* p) {
  uint4 v;
  asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
  return v;
}
GOCCL_DEVICE void storeVec(void* p, uint4 v) {
  asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

// The same for 8 bytes.
GOCCL_DEVICE uint2 loadVec2(const void* p) {
  uint2 v;
  asm volatile("ld.global.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
  return v;
}
GOCCL_DEVICE void storeVec2(void* p, uint2 v) {
  asm volatile("st.global.v2.u32 [%0], {%1,%2};" ::"l"(p), "r"(v.x), "r"(v.y) : "memory");
}

// barrierOf is a barrier of `threads` threads of a block, a multiple of 32. Barrier numbers are below 16; 0 belongs to
// __syncthreads().
GOCCL_DEVICE void barrierOf(uint32_t number, uint32_t threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// pause is what a spin loop does between two polls. On the GPU a poll is slow enough by itself.
GOCCL_DEVICE void pause() {}

// sleepNs suspends the thread for about ns nanoseconds (at most 1 ms).
GOCCL_DEVICE void sleepNs(uint32_t ns) { asm volatile("nanosleep.u32 %0;" ::"r"(ns)); }

// globalTimer is nanoseconds of a clock that all SMs of one device share; its step is up to 1 µs.
GOCCL_DEVICE uint64_t globalTimer() {
  uint64_t t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}

// clockCycles counts SM clock cycles; values of different SMs are unrelated.
GOCCL_DEVICE uint64_t clockCycles() {
  uint64_t t;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(t));
  return t;
}

#else  // the host backend

// Tests set these before any thread starts, to prove that a protocol needs its orders: ThreadSanitizer must then find a
// race.
inline bool hostWeakAcquire = false;
inline bool hostWeakRelease = false;

#define GOCCL_HOST_ATOMIC(T)                                                                    \
  template <Scope S>                                                                            \
  inline T loadRelaxed(const T* p) {                                                            \
    return std::atomic_ref<T>(*const_cast<T*>(p)).load(std::memory_order_relaxed);              \
  }                                                                                             \
  template <Scope S>                                                                            \
  inline T loadAcquire(const T* p) {                                                            \
    if (hostWeakAcquire) return loadRelaxed<S>(p);                                              \
    return std::atomic_ref<T>(*const_cast<T*>(p)).load(std::memory_order_acquire);              \
  }                                                                                             \
  template <Scope S>                                                                            \
  inline void storeRelaxed(T* p, T v) {                                                         \
    std::atomic_ref<T>(*p).store(v, std::memory_order_relaxed);                                 \
  }                                                                                             \
  template <Scope S>                                                                            \
  inline void storeRelease(T* p, T v) {                                                         \
    if (hostWeakRelease) return storeRelaxed<S>(p, v);                                          \
    std::atomic_ref<T>(*p).store(v, std::memory_order_release);                                 \
  }                                                                                             \
  template <Scope S>                                                                            \
  inline T fetchAddRelaxed(T* p, T v) {                                                         \
    return std::atomic_ref<T>(*p).fetch_add(v, std::memory_order_relaxed);                      \
  }                                                                                             \
  template <Scope S>                                                                            \
  inline T fetchAddAcqRel(T* p, T v) {                                                          \
    if (hostWeakAcquire && hostWeakRelease) return fetchAddRelaxed<S>(p, v);                    \
    if (hostWeakAcquire) return std::atomic_ref<T>(*p).fetch_add(v, std::memory_order_release); \
    if (hostWeakRelease) return std::atomic_ref<T>(*p).fetch_add(v, std::memory_order_acquire); \
    return std::atomic_ref<T>(*p).fetch_add(v, std::memory_order_acq_rel);                      \
  }                                                                                             \
  template <Scope S>                                                                            \
  inline void addRelaxed(T* p, T v) {                                                           \
    fetchAddRelaxed<S>(p, v);                                                                   \
  }                                                                                             \
  template <Scope S>                                                                            \
  inline void addRelease(T* p, T v) {                                                           \
    if (hostWeakRelease) return addRelaxed<S>(p, v);                                            \
    std::atomic_ref<T>(*p).fetch_add(v, std::memory_order_release);                             \
  }
GOCCL_HOST_ATOMIC(uint32_t)
GOCCL_HOST_ATOMIC(uint64_t)
#undef GOCCL_HOST_ATOMIC

template <Scope S>
inline void maxRelaxed(uint64_t* p, uint64_t v) {
  for (uint64_t old = loadRelaxed<S>(p); old < v;)
    if (std::atomic_ref<uint64_t>(*p).compare_exchange_weak(old, v, std::memory_order_relaxed)) return;
}
inline uint64_t loadSumRelaxed(const uint64_t* p) {
  return loadRelaxed<Scope::sys>(p) + loadRelaxed<Scope::sys>(p + 1);
}
inline uint64_t loadSumAcquire(const uint64_t* p) {
  return loadAcquire<Scope::sys>(p) + loadAcquire<Scope::sys>(p + 1);
}

// ThreadSanitizer does not model fences; a protocol that needs one cannot be checked on the host, so there is none
// here.

inline uint2 loadPacket(const uint2* p) {
  uint64_t v = loadRelaxed<Scope::sys>(reinterpret_cast<const uint64_t*>(p));
  return make_uint2(static_cast<uint32_t>(v), static_cast<uint32_t>(v >> 32));
}
inline void storePacket(uint2* p, uint2 v) {
  storeRelaxed<Scope::sys>(reinterpret_cast<uint64_t*>(p), static_cast<uint64_t>(v.y) << 32 | v.x);
}
inline uint4 loadPacket(const uint4* p) {
  uint2 a = loadPacket(reinterpret_cast<const uint2*>(p)), b = loadPacket(reinterpret_cast<const uint2*>(p) + 1);
  return make_uint4(a.x, a.y, b.x, b.y);
}
inline void storePacket(uint4* p, uint4 v) {
  storePacket(reinterpret_cast<uint2*>(p), make_uint2(v.x, v.y));
  storePacket(reinterpret_cast<uint2*>(p) + 1, make_uint2(v.z, v.w));
}
inline uint4 loadVec(const void* p) {
  uint4 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline void storeVec(void* p, uint4 v) { std::memcpy(p, &v, sizeof v); }
inline uint2 loadVec2(const void* p) {
  uint2 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline void storeVec2(void* p, uint2 v) { std::memcpy(p, &v, sizeof v); }
inline void pause() { std::this_thread::yield(); }
inline void sleepNs(uint32_t ns) { std::this_thread::sleep_for(std::chrono::nanoseconds(ns)); }
inline uint64_t globalTimer() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
inline uint64_t clockCycles() { return globalTimer(); }

#endif

// keepBelow returns v, and keeps what depends on the result below the loads before the call. Compilers compute it ahead
// of a loop, and then wait for v before they issue those loads.
GOCCL_DEVICE uint32_t keepBelow(uint32_t v) {
  asm volatile("" : "+r"(v)::"memory");
  return v;
}

}  // namespace goccl
