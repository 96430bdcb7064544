// Memory, port and switch channels between two GPUs, a process each: every byte is checked, and bandwidth printed.
#include <functional>
#include <mscclpp/concurrency_device.hpp>
#include <mscclpp/core.hpp>
#include <mscclpp/gpu_utils.hpp>
#include <mscclpp/memory_channel.hpp>
#include <mscclpp/port_channel.hpp>
#include <mscclpp/switch_channel.hpp>
#include <vector>

#include "cuda.hpp"

__device__ mscclpp::DeviceSyncer devSyncer;
__constant__ mscclpp::SwitchChannelDeviceHandle gConstSwitchChan;

// meet lets the ranks begin together.
template <class Channel>
__device__ void meet(Channel* channel) {
  if (threadIdx.x + blockIdx.x * blockDim.x == 0) {
    channel->relaxedSignal();
    channel->relaxedWait();
  }
  devSyncer.sync(gridDim.x);
}

// The source is part rank of the buffer, and its copy arrives at the same place of the peer.
__global__ void put(mscclpp::MemoryChannelDeviceHandle* channel, size_t bytes, int rank) {
  const int tid = threadIdx.x + blockIdx.x * blockDim.x;
  meet(channel);
  channel->put(rank * bytes, rank * bytes, bytes, tid, blockDim.x * gridDim.x);
  devSyncer.sync(gridDim.x);
  if (tid == 0) {
    channel->signal();
    channel->wait();
  }
}

__global__ void get(mscclpp::MemoryChannelDeviceHandle* channel, size_t bytes, int rank) {
  const int tid = threadIdx.x + blockIdx.x * blockDim.x;
  meet(channel);
  channel->get((rank ^ 1) * bytes, (rank ^ 1) * bytes, bytes, tid, blockDim.x * gridDim.x);
  devSyncer.sync(gridDim.x);
  if (tid == 0) {
    channel->signal();
    channel->wait();
  }
}

__global__ void packets(mscclpp::MemoryChannelDeviceHandle* channel, size_t bytes, int rank, uint32_t flag) {
  const int tid = threadIdx.x + blockIdx.x * blockDim.x;
  meet(channel);
  channel->putPackets(0, rank * bytes, bytes, tid, blockDim.x * gridDim.x, flag);
  channel->unpackPackets(0, (rank ^ 1) * bytes, bytes, tid, blockDim.x * gridDim.x, flag);
}

__global__ void port(mscclpp::PortChannelDeviceHandle* channel, size_t bytes, int rank) {
  if (threadIdx.x + blockIdx.x * blockDim.x != 0) return;
  channel->signal();
  channel->wait();
  channel->putWithSignal(rank * bytes, rank * bytes, bytes);
  channel->wait();
}

// Each rank reduces its half of the floats, in vectors of four, and writes the sums to both.
__global__ void reduce(int rank, size_t vectors) {
  const size_t stride = blockDim.x * gridDim.x;
  for (size_t i = threadIdx.x + blockIdx.x * blockDim.x + rank * (vectors / 2); i < (rank + 1) * (vectors / 2);
       i += stride)
    gConstSwitchChan.broadcast(i, gConstSwitchChan.reduce<mscclpp::f32x4>(i));
}

// Run is a rank's buffer of two parts and how it is timed.
struct Run {
  int rank;
  mscclpp::TcpBootstrap& bootstrap;
  cudaStream_t stream;
  mscclpp::GpuBuffer<char>& buffer;

  void time(const char* name, size_t bytes, int iterations, const std::function<void()>& kernel) {
    std::vector<char> mine(bytes), theirs(bytes);
    for (size_t i = 0; i < bytes; ++i)
      mine[i] = static_cast<char>(i % 251 + rank * 3), theirs[i] = static_cast<char>(i % 251 + (rank ^ 1) * 3);
    mscclpp::gpuMemset(buffer.data(), 0, 2 * bytes);
    mscclpp::gpuMemcpy(buffer.data() + rank * bytes, mine.data(), bytes);
    bootstrap.barrier();
    kernel();
    MSCCLPP_CUDATHROW(cudaStreamSynchronize(stream));
    bootstrap.barrier();
    std::vector<char> got(bytes);
    mscclpp::gpuMemcpy(got.data(), buffer.data() + (rank ^ 1) * bytes, bytes);
    if (kernelsRun) CHECK(got == theirs);

    cudaGraph_t graph;
    cudaGraphExec_t exec;
    MSCCLPP_CUDATHROW(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < iterations; ++i) kernel();
    MSCCLPP_CUDATHROW(cudaStreamEndCapture(stream, &graph));
    MSCCLPP_CUDATHROW(cudaGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    cudaEvent_t start, end;
    MSCCLPP_CUDATHROW(cudaEventCreate(&start));
    MSCCLPP_CUDATHROW(cudaEventCreate(&end));
    bootstrap.barrier();
    MSCCLPP_CUDATHROW(cudaEventRecord(start, stream));
    MSCCLPP_CUDATHROW(cudaGraphLaunch(exec, stream));
    MSCCLPP_CUDATHROW(cudaEventRecord(end, stream));
    MSCCLPP_CUDATHROW(cudaEventSynchronize(end));
    float ms = 0;
    MSCCLPP_CUDATHROW(cudaEventElapsedTime(&ms, start, end));
    if (rank == 0)
      std::printf("%-8s %10zu bytes: %10.5f ms, %8.2f GB/s per direction\n", name, bytes, ms / iterations,
                  static_cast<double>(bytes) * iterations / ms * 1e-6);
    MSCCLPP_CUDATHROW(cudaGraphExecDestroy(exec));
    MSCCLPP_CUDATHROW(cudaGraphDestroy(graph));
    bootstrap.barrier();
  }
};

static void worker(int rank, const std::string& where, size_t largest, int iterations) {
  MSCCLPP_CUDATHROW(cudaSetDevice(rank));
  const int peer = rank ^ 1;
  const mscclpp::Transport transport = mscclpp::Transport::CudaIpc;
  auto bootstrap = std::make_shared<mscclpp::TcpBootstrap>(rank, 2);
  bootstrap->initialize(where);
  auto comm = std::make_shared<mscclpp::Communicator>(bootstrap);
  auto conn = comm->connect({transport, {mscclpp::DeviceType::GPU, rank}}, peer).get();
  auto sema = comm->buildSemaphore(conn, peer).get();

  mscclpp::GpuBuffer buffer(2 * largest);
  mscclpp::GpuBuffer packetBuffer(2 * largest);
  auto local = comm->registerMemory(buffer.data(), buffer.bytes(), transport);
  auto localPackets = comm->registerMemory(packetBuffer.data(), packetBuffer.bytes(), transport);
  comm->sendMemory(local, peer);
  comm->sendMemory(localPackets, peer);
  auto remoteFuture = comm->recvMemory(peer);
  auto remotePacketsFuture = comm->recvMemory(peer);
  auto remote = remoteFuture.get(), remotePackets = remotePacketsFuture.get();

  mscclpp::MemoryChannel memChan(sema, /*dst*/ remote, /*src*/ local);
  mscclpp::MemoryChannel memPktChan(sema, /*dst*/ remotePackets, /*src*/ local,
                                    /*packetBuffer*/ localPackets.data());
  auto* memory = upload(memChan.deviceHandle());
  auto* packet = upload(memPktChan.deviceHandle());

  mscclpp::ProxyService proxyService;
  auto portSema = comm->buildSemaphore(conn, peer, 1).get();
  mscclpp::SemaphoreId semaId = proxyService.addSemaphore(portSema);
  mscclpp::MemoryId localId = proxyService.addMemory(local), remoteId = proxyService.addMemory(remote);
  mscclpp::PortChannel portChan = proxyService.portChannel(semaId, remoteId, localId);
  auto* portHandle = upload(portChan.deviceHandle());

  cudaStream_t stream;
  MSCCLPP_CUDATHROW(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Run run{rank, *bootstrap, stream, buffer};
  uint32_t flag = 1;
  for (size_t bytes : {size_t{1024}, size_t{1} << 20, largest}) {
    run.time("put", bytes, iterations, [&] { put<<<32, 1024, 0, stream>>>(memory, bytes, rank); });
    run.time("get", bytes, iterations, [&] { get<<<32, 1024, 0, stream>>>(memory, bytes, rank); });
    // A flag that a graph repeats would find the packets of the last time: the graph is launched once.
    run.time("packets", bytes, iterations, [&] { packets<<<32, 1024, 0, stream>>>(packet, bytes, rank, flag++); });
    proxyService.startProxy();
    run.time("port", bytes, iterations, [&] { port<<<1, 1, 0, stream>>>(portHandle, bytes, rank); });
    proxyService.stopProxy();
  }

  auto numbers = mscclpp::GpuBuffer<float>(largest / 4);
  std::vector<float> values(numbers.nelems());
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000) * (rank + 1);
  mscclpp::gpuMemcpy(numbers.data(), values.data(), values.size());
  auto nvlsConnection = mscclpp::connectNvlsCollective(comm, {0, 1}, numbers.bytes());
  auto switchChannel = nvlsConnection->bindAllocatedMemory(CUdeviceptr(numbers.data()), numbers.bytes());
  auto deviceHandle = switchChannel.deviceHandle();
  MSCCLPP_CUDATHROW(cudaMemcpyToSymbol(gConstSwitchChan, &deviceHandle, sizeof(deviceHandle)));
  MSCCLPP_CUDATHROW(cudaDeviceSynchronize());
  bootstrap->barrier();
  reduce<<<64, 512>>>(rank, values.size() / 4);
  MSCCLPP_CUDATHROW(cudaGetLastError());
  MSCCLPP_CUDATHROW(cudaDeviceSynchronize());
  bootstrap->barrier();
  mscclpp::gpuMemcpy(values.data(), numbers.data(), values.size());
  for (size_t i = 0; kernelsRun && i < values.size(); ++i) CHECK(values[i] == static_cast<float>(i % 1000) * 3);
  bootstrap->barrier();
}

int main(int argc, char** argv) {
  begin(argc, argv);
  const std::string where = "lo:127.0.0.1:" + std::string(argc > 2 ? argv[2] : "50607");
  const size_t largest = kernelsRun ? size_t{128} << 20 : size_t{2} << 20;
  if (ranks(2, [&](int rank) { worker(rank, where, largest, kernelsRun ? 100 : 2); })) return 1;
  std::puts("Succeed!");
}
