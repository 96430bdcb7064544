// A mesh of proxy channels between all GPUs: the function of the tutorial on initialisation, with what it takes for
// granted before it, and then an exchange through the channels.
#include <memory>
#include <mscclpp/core.hpp>
#include <mscclpp/gpu_utils.hpp>
#include <mscclpp/proxy_channel.hpp>
#include <string>
#include <vector>

#include "cuda.hpp"

#define CUDACHECK MSCCLPP_CUDATHROW
static int world_size = 2;
static const mscclpp::Transport ibTransport = mscclpp::Transport::Ethernet;

template <class T>
using DeviceHandle = mscclpp::DeviceHandle<T>;
__constant__ DeviceHandle<mscclpp::SimpleProxyChannel> constProxyChans[8];

// What the tutorial's function makes must outlive the kernels.
struct Mesh {
  std::shared_ptr<mscclpp::TcpBootstrap> bootstrap;
  std::shared_ptr<mscclpp::Communicator> comm;
  mscclpp::ProxyService proxyService;
};

Mesh setupMeshTopology(int rank, const std::string& ip_port, void* data, size_t dataSize) {
  auto bootstrap = std::make_shared<mscclpp::TcpBootstrap>(rank, world_size);
  bootstrap->initialize(ip_port);
  auto owned = std::make_shared<mscclpp::Communicator>(bootstrap);
  mscclpp::Communicator& comm = *owned;
  mscclpp::ProxyService proxyService;

  std::vector<mscclpp::SemaphoreId> semaphoreIds;
  std::vector<mscclpp::RegisteredMemory> localMemories;
  std::vector<mscclpp::NonblockingFuture<std::shared_ptr<mscclpp::Connection>>> connections(world_size);
  std::vector<mscclpp::NonblockingFuture<mscclpp::RegisteredMemory>> remoteMemories;

  for (int r = 0; r < world_size; ++r) {
    if (r == rank) continue;
    mscclpp::Transport transport = mscclpp::Transport::CudaIpc;
    connections[r] = comm.connectOnSetup(r, 0, transport);
    auto memory = comm.registerMemory(data, dataSize, mscclpp::Transport::CudaIpc | ibTransport);
    localMemories.push_back(memory);
    comm.sendMemoryOnSetup(memory, r, 0);
    remoteMemories.push_back(comm.recvMemoryOnSetup(r, 0));
  }

  comm.setup();

  for (int r = 0; r < world_size; ++r) {
    if (r == rank) continue;
    semaphoreIds.push_back(proxyService.buildAndAddSemaphore(comm, connections[r].get()));
  }

  comm.setup();

  std::vector<DeviceHandle<mscclpp::SimpleProxyChannel>> proxyChannels;
  for (size_t i = 0; i < semaphoreIds.size(); ++i) {
    proxyChannels.push_back(mscclpp::deviceHandle(mscclpp::SimpleProxyChannel(
        proxyService.proxyChannel(semaphoreIds[i]), proxyService.addMemory(remoteMemories[i].get()),
        proxyService.addMemory(localMemories[i]))));
  }

  if (proxyChannels.size() > sizeof(constProxyChans) / sizeof(DeviceHandle<mscclpp::SimpleProxyChannel>)) {
    throw std::runtime_error("unexpected error");
  }
  CUDACHECK(cudaMemcpyToSymbol(constProxyChans, proxyChannels.data(),
                               sizeof(DeviceHandle<mscclpp::SimpleProxyChannel>) * proxyChannels.size()));
  return {bootstrap, owned, proxyService};
}

// Every rank puts its part at the same place of every other rank, and waits for theirs.
__global__ void exchange(int rank, int ranks, uint64_t part) {
  if (threadIdx.x >= ranks - 1) return;
  auto chan = constProxyChans[threadIdx.x];
  chan.putWithSignalAndFlush(rank * part, rank * part, part);
  chan.wait();
}

int main(int argc, char** argv) {
  begin(argc, argv);
  const std::string where = "lo:127.0.0.1:" + std::string(argc > 2 ? argv[2] : "50606");
  const bool bad = ranks(world_size, [&](int rank) {
    constexpr uint64_t part = 1 << 20;
    CUDACHECK(cudaSetDevice(rank));
    mscclpp::GpuBuffer<unsigned char> buffer(part * world_size);
    CUDACHECK(cudaMemset(buffer.data() + rank * part, rank + 1, part));
    CUDACHECK(cudaDeviceSynchronize());
    Mesh mesh = setupMeshTopology(rank, where, buffer.data(), buffer.bytes());
    mesh.proxyService.startProxy();
    mesh.bootstrap->barrier();
    exchange<<<1, 32>>>(rank, world_size, part);
    CUDACHECK(cudaGetLastError());
    CUDACHECK(cudaDeviceSynchronize());
    std::vector<unsigned char> all(buffer.bytes());
    CUDACHECK(cudaMemcpy(all.data(), buffer.data(), all.size(), cudaMemcpyDeviceToHost));
    for (size_t i = 0; kernelsRun && i < all.size(); ++i) CHECK(all[i] == i / part + 1);
    mesh.bootstrap->barrier();
    mesh.proxyService.stopProxy();
  });
  if (bad) return 1;
  std::puts("Succeed!");
}
