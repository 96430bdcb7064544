// Two endpoints in one process signal each other, as in the basic concepts' tutorial. The kernels are threads.
#include <mscclpp/core.hpp>
#include <mscclpp/memory_channel.hpp>
#include <thread>

#include "test.hpp"

constexpr int iterations = 100;

int main() {
  const mscclpp::Transport transport = mscclpp::Transport::CudaIpc;
  auto ctx = mscclpp::Context::create();
  mscclpp::Endpoint ep0 = ctx->createEndpoint({transport, {mscclpp::DeviceType::GPU, 0}});
  mscclpp::Endpoint ep1 = ctx->createEndpoint({transport, {mscclpp::DeviceType::GPU, 1}});
  CHECK(ep0.transport() == transport && ep1.device().id == 1);

  // By pointer, as older programs have it, and by value.
  std::shared_ptr<mscclpp::Connection> conn0 = ctx->connect(/*localEndpoint*/ ep0, /*remoteEndpoint*/ ep1);
  mscclpp::Connection conn1 = ctx->connect(/*localEndpoint*/ ep1, /*remoteEndpoint*/ ep0);
  mscclpp::SemaphoreStub semaStub0(conn0);
  mscclpp::SemaphoreStub semaStub1(conn1);
  mscclpp::Semaphore sema0(/*localSemaphoreStub*/ semaStub0, /*remoteSemaphoreStub*/ semaStub1);
  mscclpp::Semaphore sema1(/*localSemaphoreStub*/ semaStub1, /*remoteSemaphoreStub*/ semaStub0);
  mscclpp::BaseMemoryChannel memChan0(sema0);
  mscclpp::BaseMemoryChannel memChan1(sema1);
  mscclpp::BaseMemoryChannelDeviceHandle memChanHandle0 = memChan0.deviceHandle();
  mscclpp::BaseMemoryChannelDeviceHandle memChanHandle1 = memChan1.deviceHandle();

#if defined(MSCCLPP_DEVICE_COMPILE)
  int turns = 0;  // each thread adds in its turn; the signals order that
  std::thread kernel0([&] {
    for (int i = 0; i < iterations; ++i) {
      CHECK(memChanHandle0.wait() == goccl::statusOk);
      CHECK(turns++ == 2 * i + 1);
      memChanHandle0.signal();
    }
  });
  for (int i = 0; i < iterations; ++i) {
    CHECK(turns++ == 2 * i);
    memChanHandle1.signal();
    CHECK(memChanHandle1.wait() == goccl::statusOk);
  }
  kernel0.join();
  CHECK(turns == 2 * iterations && !memChanHandle0.poll());
#else
  (void)memChanHandle0, (void)memChanHandle1, (void)iterations;
#endif
  std::puts("Succeed!");
}
