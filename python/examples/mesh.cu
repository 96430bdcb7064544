#include <mscclpp/packet_device.hpp>
#include <mscclpp/proxy_channel_device.hpp>

// Every rank puts its slice of the buffer into every other rank's, and waits for theirs. channels[my_rank] does not
// exist; the slot is there for the sake of indexing.
extern "C" __global__ void __launch_bounds__(1024, 1)
    simple_proxy_channel(mscclpp::SimpleProxyChannelDeviceHandle* channels, int my_rank, int nranks, int num_elements) {
  int tid = threadIdx.x;
  uint64_t size_per_rank = (num_elements * sizeof(int)) / nranks;
  uint64_t my_offset = size_per_rank * my_rank;
  __syncthreads();
  if (tid < nranks && tid != my_rank) {
    channels[tid].putWithSignalAndFlush(my_offset, my_offset, size_per_rank);
    channels[tid].wait();
  }
}
