// Switch channels in their unicast form: reduce loads from every peer and combines, broadcast stores to every peer. The
// API matches in-switch reduction (multimem), but no multicast object is used. Ranks synchronise through memory
// channels around these calls.
#pragma once

#include <goccl/abort.cuh>
#include <goccl/copy.cuh>
#include <goccl/reduce.cuh>

namespace goccl {

struct SwitchChannelHandle {
  uint8_t** peers;  // device array of nranks addresses of the buffer, in rank order, my own included
  uint32_t nranks;
  uint32_t rank;
  uint64_t size;  // bytes of each rank's buffer
  AbortBlock* abort;

  // reduceVector returns the reduction of the 16 bytes at offset (a multiple of 16) of every rank's buffer, accumulated
  // in rank order on every rank.
  template <Type T, Op O = Op::sum>
  GOCCL_DEVICE uint4 reduceVector(uint64_t offset) {
    Accumulator<T, O> acc;
    acc.load(loadVec(peers[0] + offset));
    for (uint32_t r = 1; r < nranks; ++r) acc.add(loadVec(peers[r] + offset));
    return acc.result();
  }

  // broadcastVector stores 16 bytes at offset (a multiple of 16) of every rank's buffer, beginning after my own rank so
  // that ranks spread over the links.
  GOCCL_DEVICE void broadcastVector(uint64_t offset, const uint4& v) {
    for (uint32_t k = 1; k <= nranks; ++k) storeVec(peers[(rank + k) % nranks] + offset, v);
  }

  // reduceElement and broadcastElement do the same for the element at index.
  template <Type T, Op O = Op::sum>
  GOCCL_DEVICE typename Element<T>::Storage reduceElement(uint64_t index) {
    using S = typename Element<T>::Storage;
    auto acc = widen<T>(reinterpret_cast<const S*>(peers[0])[index]);
    for (uint32_t r = 1; r < nranks; ++r) acc = apply<O>(acc, widen<T>(reinterpret_cast<const S*>(peers[r])[index]));
    return narrow<T>(acc);
  }
  template <Type T>
  GOCCL_DEVICE void broadcastElement(uint64_t index, typename Element<T>::Storage v) {
    using S = typename Element<T>::Storage;
    for (uint32_t k = 1; k <= nranks; ++k) reinterpret_cast<S*>(peers[(rank + k) % nranks])[index] = v;
  }

  // reduce writes the reduction of elements [first, first+count) of all buffers to out, by threads tid of nthreads.
  // Vectors where the addresses allow it: out and the buffers are 16-byte aligned at the same elements.
  template <Type T, Op O = Op::sum>
  GOCCL_DEVICE void reduce(void* out, uint64_t first, uint64_t count, uint64_t tid, uint64_t nthreads) {
    using S = typename Element<T>::Storage;
    S* o = static_cast<S*>(out);
    uint64_t vectors = 0;
    if (((reinterpret_cast<uintptr_t>(o) | first * sizeof(S)) & 15) == 0) vectors = count / Element<T>::perVector;
    for (uint64_t i = tid; i < vectors; i += nthreads)
      storeVec(o + i * Element<T>::perVector, reduceVector<T, O>(first * sizeof(S) + i * 16));
    for (uint64_t i = vectors * Element<T>::perVector + tid; i < count; i += nthreads)
      o[i] = reduceElement<T, O>(first + i);
  }

  // broadcast writes bytes of src, of any alignment, to offset of every rank's buffer, by threads tid of nthreads.
  GOCCL_DEVICE void broadcast(uint64_t offset, const void* src, uint64_t bytes, uint64_t tid, uint64_t nthreads) {
    for (uint32_t k = 1; k <= nranks; ++k) copyBytes(peers[(rank + k) % nranks] + offset, src, bytes, tid, nthreads);
  }
};

}  // namespace goccl
