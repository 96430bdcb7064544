// The torch guide's all-gather: a kernel of the user's. native_allgather.py compiles it without nvcc and describes the
// algorithm around it.
#include <goccl/memory_channel.cuh>

// Blocks 0…n-2 serve one peer each: they store this rank's part into the peer's output, then both meet. The last
// block copies it into the own output.
extern "C" __global__ void __launch_bounds__(1024, 1)
    allgather(goccl::MemoryChannelHandle* channels, const uint8_t* input, uint8_t* output, int rank, uint64_t bytes) {
  if (blockIdx.x == gridDim.x - 1) {
    goccl::copyBytes(output + rank * bytes, input, bytes, threadIdx.x, blockDim.x);
    return;
  }
  int peer = static_cast<int>(blockIdx.x) < rank ? blockIdx.x : blockIdx.x + 1;
  goccl::MemoryChannelHandle& channel = channels[peer];
  if (threadIdx.x == 0) {
    channel.relaxedSignal();  // the peer's output may be written once its kernel runs
    channel.relaxedWait();
  }
  __syncthreads();
  channel.put(rank * bytes, 0, bytes, threadIdx.x, blockDim.x);
  __syncthreads();
  if (threadIdx.x == 0) {
    channel.signal();
    channel.wait();
  }
}
