#pragma once

#include <nccl.h>

// The bytes of an element.
static inline size_t ncclTypeSize(ncclDataType_t type) {
  static const unsigned char sizes[ncclNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return (unsigned)type < ncclNumTypes ? sizes[type] : 4;
}
