// Tutorials 04 and 06: a full mesh over port channels. One block; thread p talks to rank p. Every rank sends its own
// slice to all others.
#include <goccl/port_channel.cuh>

using namespace goccl;

static GOCCL_DEVICE void exchange(PortChannelHandle& channel, uint32_t rank, uint64_t bytesPerRank, uint32_t* status) {
  uint64_t offset = bytesPerRank * rank;
  Status s = channel.putWithSignalAndFlush(offset, offset, bytesPerRank);
  if (s == statusOk) s = channel.wait();
  if (s != statusOk) *status = s;
}

// tutorial_port_mesh: channels[p] leads to rank p; channels[rank] is not used. *status is set only by a wait that gave
// up.
extern "C" __global__ void __launch_bounds__(1024, 1)
    tutorial_port_mesh(PortChannelHandle* channels, uint32_t rank, uint32_t nranks, uint64_t bytesPerRank,
                       uint32_t* status) {
  uint32_t p = threadIdx.x;
  if (p < nranks && p != rank) exchange(channels[p], rank, bytesPerRank, status);
}

// The handles of the mesh, copied here by the host before the launch; entry p leads to rank p.
__constant__ PortChannelHandle constPortChans[8];

// tutorial_init_mesh does the same with handles in constant memory.
extern "C" __global__ void __launch_bounds__(1024, 1)
    tutorial_init_mesh(uint32_t rank, uint32_t nranks, uint64_t bytesPerRank, uint32_t* status) {
  uint32_t p = threadIdx.x;
  if (p >= nranks || p >= 8 || p == rank) return;
  PortChannelHandle channel = constPortChans[p];
  exchange(channel, rank, bytesPerRank, status);
}
