// size_t is built into NVRTC.
#pragma once
#include <goccl/config.cuh>
typedef long ptrdiff_t;
namespace std {
using ::ptrdiff_t;
using ::size_t;
}  // namespace std
