// assert in a kernel: a failed one ends the CUDA context with a message.
#pragma once
#include <goccl/config.cuh>
#undef assert
#if defined(NDEBUG)
#define assert(condition) ((void)0)
#else
extern "C" __device__ void __assertfail(const char*, const char*, unsigned int, const char*, decltype(sizeof 0))
    __attribute__((noreturn));
#define assert(condition) \
  ((condition) ? (void)0 : __assertfail(#condition, __FILE__, __LINE__, __func__, sizeof(char)))
#endif
