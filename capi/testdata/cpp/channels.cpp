// Two processes move data by memory, port and switch channels. The kernels are the processes' main threads, which use
// the device headers' handles on the host device.
#include <cstring>
#include <mscclpp/core.hpp>
#include <mscclpp/gpu_utils.hpp>
#include <mscclpp/memory_channel.hpp>
#include <mscclpp/port_channel.hpp>
#include <mscclpp/switch_channel.hpp>
#include <vector>

#include "test.hpp"

constexpr size_t bytes = 1 << 16;
constexpr int rounds = 20;

static char pattern(int rank, int round, size_t i) {
  return static_cast<char>(rank * 31 + round * 7 + static_cast<int>(i));
}

static void fill(char* p, int rank, int round) {
  for (size_t i = 0; i < bytes; ++i) p[i] = pattern(rank, round, i);
}
static bool holds(const char* p, int rank, int round) {
  for (size_t i = 0; i < bytes; ++i)
    if (p[i] != pattern(rank, round, i)) return false;
  return true;
}

static void worker(int rank, const std::string& where) {
  const int peer = 1 - rank;
  auto bootstrap = std::make_shared<mscclpp::TcpBootstrap>(rank, 2);
  bootstrap->initialize(where);
  auto comm = std::make_shared<mscclpp::Communicator>(bootstrap);
  const mscclpp::Transport transport = mscclpp::Transport::CudaIpc;
  auto conn = comm->connect({transport, {mscclpp::DeviceType::GPU, rank}}, peer).get();
  CHECK(comm->remoteRankOf(conn) == peer && comm->tagOf(conn) == 0 && conn.transport() == transport);
  auto sema = comm->buildSemaphore(conn, peer).get();

  // Halves: what this rank sends, what it receives.
  mscclpp::GpuBuffer buffer(2 * bytes);
  mscclpp::GpuBuffer packets(4 * bytes);
  CHECK(buffer.bytes() == 2 * bytes && buffer.data()[bytes] == 0);
  auto local = comm->registerMemory(buffer.data(), buffer.bytes(), transport);
  auto localPackets = comm->registerMemory(packets.data(), packets.bytes(), transport);
  comm->sendMemory(local, peer);
  comm->sendMemory(localPackets, peer);
  auto remoteFuture = comm->recvMemory(peer);
  auto remotePackets = comm->recvMemory(peer).get();
  auto remote = remoteFuture.get();
  CHECK(remote.size() == local.size() && remote.data() != nullptr && remote.transports().has(transport));

  auto memory = mscclpp::MemoryChannel(sema, /*dst*/ remote, /*src*/ local).deviceHandle();
  mscclpp::MemoryChannel packetChannel(sema, remotePackets, local, /*packetBuffer*/ localPackets.data());
  auto packet = packetChannel.deviceHandle();
  for (int round = 0; round < rounds; ++round) {
    fill(buffer.data(), rank, round);
    memory.put(bytes, 0, bytes, 0, 1);
    memory.signal();
    CHECK(memory.wait() == goccl::statusOk);
    CHECK(holds(buffer.data() + bytes, peer, round));
    std::memset(buffer.data() + bytes, 0, bytes);
    memory.signal();
    CHECK(memory.wait() == goccl::statusOk);
    memory.get<16, true>(bytes, 0, bytes, 0, 1);
    CHECK(holds(buffer.data() + bytes, peer, round));
    memory.signal();
    CHECK(memory.wait() == goccl::statusOk);

    // Packets alternate between two halves of their buffer.
    const auto flag = static_cast<uint32_t>(round + 1);
    const uint64_t half = (round & 1) * 2 * bytes;
    std::memset(buffer.data() + bytes, 0, bytes);
    packet.putPackets(half, 0, bytes, 0, 1, flag);
    CHECK(packet.unpackPackets(half, bytes, bytes, 0, 1, flag) == goccl::statusOk);
    CHECK(holds(buffer.data() + bytes, peer, round));
    memory.signal();
    CHECK(memory.wait() == goccl::statusOk);
  }

  mscclpp::ProxyService service;
  service.startProxy();
  const mscclpp::MemoryId localId = service.addMemory(local), remoteId = service.addMemory(remote);
  const mscclpp::SemaphoreId semaphoreId = service.buildAndAddSemaphore(*comm, conn);
  CHECK(service.nextMemoryId() == 2);
  auto port = mscclpp::deviceHandle(mscclpp::SimpleProxyChannel(service.proxyChannel(semaphoreId), remoteId, localId));
  auto again = service.portChannel(semaphoreId, remoteId, localId).deviceHandle();
  CHECK(std::memcmp(&port, &again, sizeof port) == 0);
  for (int round = 0; round < rounds; ++round) {
    fill(buffer.data(), rank, rounds + round);
    CHECK(port.putWithSignalAndFlush(bytes, 0, bytes) == goccl::statusOk);
    CHECK(port.wait() == goccl::statusOk);
    CHECK(holds(buffer.data() + bytes, peer, rounds + round));
    bootstrap->barrier();
  }
  auto base = service.basePortChannel(semaphoreId).deviceHandle();
  fill(buffer.data(), rank, 99);
  CHECK(base.putWithSignal(remoteId, bytes, localId, 0, bytes) == goccl::statusOk);
  CHECK(base.wait() == goccl::statusOk && holds(buffer.data() + bytes, peer, 99));
  CHECK(base.flush() == goccl::statusOk);
  service.stopProxy();

  // Each rank sums its half of all ranks' vectors and writes the sums everywhere.
  constexpr int vectors = 256;
  auto numbers = mscclpp::GpuBuffer<float>(4 * vectors);
  for (int i = 0; i < 4 * vectors; ++i) numbers.data()[i] = static_cast<float>(i + 1000 * rank);
  auto nvls = mscclpp::connectNvlsCollective(comm, {0, 1}, numbers.bytes());
  auto switchChannel = nvls->bindAllocatedMemory(reinterpret_cast<unsigned long long>(numbers.data()), numbers.bytes());
  auto sw = switchChannel.deviceHandle();
  CHECK(switchChannel.getDevicePtr() == numbers.data() && static_cast<float*>(sw.devicePtr) == numbers.data());
  bootstrap->barrier();
  for (int i = rank * vectors / 2; i < (rank + 1) * vectors / 2; ++i) {
    if (i % 2) {
      sw.broadcast(static_cast<uint64_t>(i), sw.reduce<mscclpp::f32x4>(static_cast<uint64_t>(i)));
    } else {
      for (uint64_t k = 0; k < 4; ++k)
        sw.broadcast(4 * static_cast<uint64_t>(i) + k, sw.reduce<mscclpp::f32x1>(4 * static_cast<uint64_t>(i) + k));
    }
  }
  bootstrap->barrier();
  for (int i = 0; i < 4 * vectors; ++i) CHECK(numbers.data()[i] == static_cast<float>(2 * i + 1000));
  CHECK(throws<mscclpp::Error>([&] { nvls->bindAllocatedMemory(1, 1); }).find("connectNvlsCollective") !=
        std::string::npos);
  bootstrap->barrier();
}

int main(int, char** argv) {
  const std::string where = argv[1];
  if (ranks(2, [&](int rank) { worker(rank, where); })) return 1;
  std::puts("Succeed!");
}
