// Semaphores by who signals and who waits. All three are views of a Semaphore.
#pragma once

#include <goccl/core.hpp>
#include <goccl/handle.hpp>

namespace goccl {
namespace detail {

class DirectedSemaphore {
 public:
  explicit DirectedSemaphore(const Semaphore& semaphore) : semaphore_(semaphore) {}
  // Builds it together with the connection's peer, and waits for the peer.
  DirectedSemaphore(Communicator& communicator, const Connection& connection)
      : semaphore_(
            communicator
                .buildSemaphore(connection, communicator.remoteRankOf(connection), communicator.tagOf(connection))
                .get()) {}

  Connection& connection() { return semaphore_.connection(); }
  const Semaphore& semaphore() const { return semaphore_; }

 protected:
  SemaphoreHandle kernelHandle() const { return readHandle<SemaphoreHandle>(semaphore_.object(), "semaphore"); }
  Semaphore semaphore_;
};

}  // namespace detail

// The host signals, a kernel waits.
class Host2DeviceSemaphore : public detail::DirectedSemaphore {
 public:
  using DirectedSemaphore::DirectedSemaphore;
  using DeviceHandle = SemaphoreHandle;
  void signal() { detail::check(goccl_semaphore_signal(semaphore_.handle()), "signal"); }
  DeviceHandle deviceHandle() const { return kernelHandle(); }
};

// The host signals and waits. The counters must be in host memory: endpoints on the CPU, or on the host device.
class Host2HostSemaphore : public detail::DirectedSemaphore {
 public:
  using DirectedSemaphore::DirectedSemaphore;
  void signal() { detail::check(goccl_semaphore_signal(semaphore_.handle()), "signal"); }
  bool poll() {
    int32_t signalled = 0;
    detail::check(goccl_semaphore_poll(semaphore_.handle(), &signalled), "poll");
    return signalled != 0;
  }
  // wait polls maxSpinCount times. Without a count, the context's timeout bounds it.
  void wait(int64_t maxSpinCount = -1) {
    if (maxSpinCount < 0) return detail::check(goccl_semaphore_wait(semaphore_.handle(), 0), "wait");
    for (int64_t i = 0; i < maxSpinCount; ++i)
      if (poll()) return;
    throw Error("wait: no signal in " + std::to_string(maxSpinCount) + " polls", ErrorCode::Timeout, GOCCL_TIMEOUT);
  }
};

// Kernels signal and wait.
class MemoryDevice2DeviceSemaphore : public detail::DirectedSemaphore {
 public:
  using DirectedSemaphore::DirectedSemaphore;
  using DeviceHandle = SemaphoreHandle;
  DeviceHandle deviceHandle() const { return kernelHandle(); }
};

}  // namespace goccl
