// What needs no kernel: bootstraps, exchange by bytes, writes and semaphores of the host, custom proxies, plans,
// errors.
#include <cstring>
#include <mscclpp/bulk_device.hpp>
#include <mscclpp/core.hpp>
#include <mscclpp/env.hpp>
#include <mscclpp/executor.hpp>
#include <mscclpp/gpu_utils.hpp>
#include <mscclpp/numa.hpp>
#include <mscclpp/port_channel.hpp>
#include <mscclpp/semaphore.hpp>
#include <mscclpp/utils.hpp>
#include <mscclpp/version.hpp>
#include <thread>
#include <vector>

#include "test.hpp"

// OwnBootstrap is a program's own, as one over MPI would be.
struct OwnBootstrap : mscclpp::Bootstrap {
  explicit OwnBootstrap(std::shared_ptr<mscclpp::TcpBootstrap> under) : under(std::move(under)) {}
  int getRank() const override { return under->getRank(); }
  int getNranks() const override { return under->getNranks(); }
  int getNranksPerNode() const override { return under->getNranksPerNode(); }
  void send(void* data, int size, int peer, int tag) override { under->send(data, size, peer, tag); }
  void recv(void* data, int size, int peer, int tag) override { under->recv(data, size, peer, tag); }
  void allGather(void* all, int size) override { under->allGather(all, size); }
  void barrier() override { under->barrier(); }
  std::shared_ptr<mscclpp::TcpBootstrap> under;
};

static void messages(mscclpp::TcpBootstrap& b, int rank, int n) {
  CHECK(b.getRank() == rank && b.getNranks() == n && b.getNranksPerNode() == n && b.getNranksPerIpcDomain() == n);
  std::vector<int> all(static_cast<size_t>(n));
  all[static_cast<size_t>(rank)] = rank * rank;
  b.allGather(all.data(), sizeof(int));
  for (int r = 0; r < n; ++r) CHECK(all[static_cast<size_t>(r)] == r * r);
  std::vector<char> text(static_cast<size_t>(rank), 'x'), got;
  b.send(text, (rank + 1) % n, 7);
  b.recv(got, (rank + n - 1) % n, 7);
  CHECK(got.size() == static_cast<size_t>((rank + n - 1) % n));
  int word = rank == 1 ? 42 : 0;
  b.broadcast(&word, sizeof word, 1);
  CHECK(word == 42);
  if (rank < 2) b.groupBarrier({0, 1});
  b.barrier();
}

// exchange is the life of a connection without a communicator: bytes go over the bootstrap.
static void exchange(mscclpp::TcpBootstrap& b, int rank) {
  if (rank > 1) return;
  const int peer = 1 - rank;
  auto ctx = mscclpp::Context::create();
  auto swap = [&](const std::vector<char>& mine) {
    std::vector<char> theirs;
    b.send(mine, peer, 3);
    b.recv(theirs, peer, 3);
    return theirs;
  };
  auto endpoint = ctx->createEndpoint({mscclpp::Transport::CudaIpc, {mscclpp::DeviceType::CPU, 0}});
  auto remoteEndpoint = mscclpp::Endpoint::deserialize(swap(endpoint.serialize()));
  CHECK(remoteEndpoint.transport() == mscclpp::Transport::CudaIpc);
  auto conn = ctx->connect(endpoint, remoteEndpoint);
  CHECK(conn.context() == ctx);
  mscclpp::SemaphoreStub stub(conn);
  mscclpp::Semaphore sema(stub, mscclpp::SemaphoreStub::deserialize(swap(stub.serialize())));
  mscclpp::GpuBuffer<uint64_t> buffer(64);
  auto local = ctx->registerMemory(buffer.data(), buffer.bytes(), mscclpp::Transport::CudaIpc);
  auto remote = mscclpp::RegisteredMemory::deserialize(swap(local.serialize()));
  buffer.data()[0] = 100 + static_cast<uint64_t>(rank);
  mscclpp::Host2HostSemaphore semaphore(sema);
  conn.write(remote, 8, local, 0, 8);
  uint64_t seen = 0;
  conn.updateAndSync(remote, 16, &seen, 5);
  conn.flush();
  semaphore.signal();
  semaphore.wait();
  CHECK(seen == 5 && buffer.data()[1] == 100 + static_cast<uint64_t>(peer) && buffer.data()[2] == 5 &&
        !semaphore.poll());
  CHECK(remote.size() == 512 && remote.originalDataPtr() != nullptr &&
        static_cast<uint64_t*>(remote.data())[0] == 100 + static_cast<uint64_t>(peer));
  CHECK(throws<mscclpp::Error>([&] { semaphore.wait(10); }).find("10 polls") != std::string::npos);
  CHECK(throws<mscclpp::Error>([&] { conn.write(remote, 508, local, 0, 8); }).find("InvalidUsage") !=
        std::string::npos);
}

static void proxies() {
  std::vector<uint64_t> handled;
  mscclpp::Proxy proxy(
      [&](mscclpp::ProxyTrigger t) {
        handled.push_back(t.fst & 0xff);
        CHECK(t.fst >> 56 == 0x8a && t.snd == t.fst + 1);
        return mscclpp::ProxyHandlerResult::Continue;
      },
      16);
  proxy.start(true);
#if defined(MSCCLPP_DEVICE_COMPILE)
  auto fifo = proxy.fifo()->deviceHandle();
  for (uint64_t i = 1; i <= 100; ++i) fifo.push(mscclpp::ProxyTrigger(0x8aULL << 56 | i, (0x8aULL << 56 | i) + 1));
  proxy.stop();
  CHECK(handled.size() == 100 && handled.front() == 1 && handled.back() == 100 && proxy.fifo()->tail() == 100);
#else
  proxy.stop();
  CHECK(handled.empty());
#endif
  CHECK(proxy.fifo()->size() == 16);
  mscclpp::Fifo empty;
  mscclpp::ProxyTrigger trigger;
  CHECK(!empty.poll(trigger) && empty.size() == 512);
}

static void plan(const std::shared_ptr<mscclpp::Communicator>& comm, int rank, const char* file) {
  mscclpp::ExecutionPlan ring(file, rank);
  const auto n = static_cast<size_t>(comm->bootstrap()->getNranks());
  CHECK(ring.collective() == "allreduce" && ring.minMessageSize() <= ring.maxMessageSize());
  mscclpp::Executor executor(comm);
  const size_t count = 1024 * n;
  mscclpp::GpuBuffer<float> in(count), out(count);
  for (int pass = 0; pass < 3; ++pass) {
    for (size_t i = 0; i < count; ++i) in.data()[i] = static_cast<float>(rank + 1);
    if (pass == 2) executor.reset();
    float* to = ring.isInPlace() ? in.data() : out.data();
    executor.execute(rank, in.data(), to, in.bytes(), in.bytes(), mscclpp::DataType::FLOAT32, ring, nullptr);
    for (size_t i = 0; i < count; ++i) CHECK(to[i] == static_cast<float>(n * (n + 1) / 2));
  }
  CHECK(throws<mscclpp::Error>([&] {
          executor.execute(rank + 1, nullptr, nullptr, 0, 0, mscclpp::DataType::FLOAT32, ring, nullptr);
        }).find("this is the executor") != std::string::npos);
  throws<mscclpp::SysError>([&] { mscclpp::ExecutionPlan("/nonexistent", rank); });
  const auto why = throws<mscclpp::Error>([&] { mscclpp::ExecutionPlan("/proc/self/status", rank); });
  CHECK(why.find("/proc/self/status") != std::string::npos && why.find("ExecutorError") != std::string::npos);
}

static void misuse() {
  mscclpp::TcpBootstrap unborn(0, 2);
  CHECK(throws<mscclpp::Error>([&] { unborn.barrier(); }).find("initialize") != std::string::npos);
  CHECK(throws<mscclpp::BaseError>([&] { mscclpp::RegisteredMemory().size(); }).find("empty") != std::string::npos);
  CHECK(throws<mscclpp::Error>([&] { mscclpp::Connection().flush(); }).find("empty") != std::string::npos);
  CHECK(throws<mscclpp::Error>([&] { mscclpp::Endpoint::deserialize({'x'}); }).find("endpoint") != std::string::npos);
  try {
    mscclpp::Context::create()->createEndpoint({mscclpp::Transport::Unknown, mscclpp::DeviceType::GPU});
    CHECK(false);
  } catch (const mscclpp::Error& e) {
    CHECK(e.getErrorCode() == mscclpp::ErrorCode::InvalidUsage && e.result() == GOCCL_INVALID_ARGUMENT);
  }
  throws<mscclpp::SysError>([&] { mscclpp::numaBind(4095); });
  const auto flags = mscclpp::Transport::CudaIpc | mscclpp::Transport::Ethernet;
  CHECK(flags.count() == 2 && flags.has(mscclpp::Transport::Ethernet) && (flags & mscclpp::AllIBTransports).none());
  CHECK(!mscclpp::isNvlsSupported() && mscclpp::getHostName(64, '.').size() > 0 && mscclpp::env()->device == "host");
  static_assert(MSCCLPP_VERSION >= 900 && sizeof(mscclpp::BulkBarrier) == 8);
  CHECK(mscclpp::version() == std::string(goccl_version()) && !mscclpp::version().empty());
}

int main(int, char** argv) {
  const std::string where = argv[1];
  constexpr int n = 2;
  if (ranks(n, [&](int rank) {
        auto bootstrap = std::make_shared<mscclpp::TcpBootstrap>(rank, n);
        bootstrap->initialize(where);
        CHECK(throws<mscclpp::Error>([&] { bootstrap->initialize(where); }).find("already") != std::string::npos);
        messages(*bootstrap, rank, n);
        exchange(*bootstrap, rank);

        mscclpp::UniqueId id{};
        if (rank == 0) id = mscclpp::TcpBootstrap::createUniqueId();
        bootstrap->broadcast(id.data(), static_cast<int>(id.size()), 0);
        auto second = std::make_shared<mscclpp::TcpBootstrap>(rank, n);
        second->initialize(id);
        CHECK(second->getUniqueId() == id);
        messages(*second, rank, n);

        auto comm = std::make_shared<mscclpp::Communicator>(std::make_shared<OwnBootstrap>(second));
        CHECK(comm->bootstrap()->getNranks() == n);
        plan(comm, rank, argv[2]);
        proxies();
        misuse();
        bootstrap->barrier();
      }))
    return 1;
  std::puts("Succeed!");
}
