// The torch guide's all-gather: a kernel of the user's and, in the same file, the algorithm around it. goccl.compile_native compiles both without nvcc;
// native_allgather.py runs it.
#include <goccl/algorithm.cuh>
#include <goccl/memory_channel.cuh>

// Blocks 0…n-2 serve one peer each: they store this rank's part into the peer's output, then both meet. The last block copies it into the own output.
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

struct Allgather : goccl::Algorithm {
  goccl::Channels channels;

  // Once for each communicator: connections to all other ranks.
  constexpr void initialize(goccl::Initialize& job) { job.connect(goccl::peer != goccl::rank); }

  // Once for each key: both buffers are registered, outputs exchanged, and a channel made to each peer's output.
  constexpr void context(goccl::Context& c) { channels = c.memoryChannels(/*to*/ goccl::output, /*from*/ goccl::input); }

  // Calls with the same buffers and size share a context.
  constexpr void key(goccl::Key& k) { k.input().output().inputSize(); }

  // At each call. Expressions are evaluated on the host.
  constexpr void launch(goccl::Launch& l) {
    l.kernel(GOCCL_KERNEL(allgather))
        .blocks(goccl::worldSize)
        .threads(goccl::select(goccl::threads, goccl::threads, 1024))
        .arguments(channels, goccl::input, goccl::output, goccl::rank, goccl::inputSize);
  }
};
GOCCL_ALGORITHM(allgather, Allgather, "allgather")
