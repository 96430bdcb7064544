// The fixed-width types, for sources that include the standard header: NVRTC has no C library. Package kernels serves
// this folder's files under their bare names, to NVRTC only: a compiler that has a standard library never sees them.
#pragma once
#include <goccl/config.cuh>
namespace std {
using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::int8_t;
using ::intptr_t;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::uint8_t;
using ::uintptr_t;
}  // namespace std
