// Kernels that the runtime launches itself.
#include <goccl/copy.cuh>
#include <goccl/semaphore.cuh>

using namespace goccl;

// goccl_signal_add adds v to a semaphore's counter, after everything earlier in the stream; launched with one thread.
extern "C" __global__ void goccl_signal_add(uint64_t* counter, uint64_t v) {
  if (blockIdx.x == 0 && threadIdx.x == 0) addRelease<Scope::sys>(counter, v);
}

// goccl_copy copies bytes of any alignment between memories that this device maps; any grid.
extern "C" __global__ void __launch_bounds__(512, 1) goccl_copy(uint8_t* dst, const uint8_t* src, uint64_t bytes) {
  copyBytes(dst, src, bytes, blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x,
            static_cast<uint64_t>(gridDim.x) * blockDim.x);
}

// goccl_fill writes bytes copies of value to dst, of any alignment; any grid.
extern "C" __global__ void __launch_bounds__(512, 1) goccl_fill(uint8_t* dst, uint64_t bytes, uint32_t value) {
  uint64_t tid = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x,
           nthreads = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  uint32_t w = (value & 0xff) * 0x01010101u;
  uint64_t head = (16 - (reinterpret_cast<uintptr_t>(dst) & 15)) & 15;
  if (head > bytes) head = bytes;
  uint64_t vectors = (bytes - head) / 16;
  for (uint64_t i = tid; i < head; i += nthreads) dst[i] = static_cast<uint8_t>(w);
  for (uint64_t i = tid; i < vectors; i += nthreads) storeVec(dst + head + i * 16, make_uint4(w, w, w, w));
  for (uint64_t i = head + vectors * 16 + tid; i < bytes; i += nthreads) dst[i] = static_cast<uint8_t>(w);
}
