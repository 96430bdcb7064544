// Kernels that the runtime launches itself.
#include <goccl/semaphore.cuh>

using namespace goccl;

// goccl_signal_add adds v to a semaphore's counter, after everything earlier in the stream; launched with one thread.
extern "C" __global__ void goccl_signal_add(uint64_t* counter, uint64_t v) {
  if (blockIdx.x == 0 && threadIdx.x == 0) addRelease<Scope::sys>(counter, v);
}
