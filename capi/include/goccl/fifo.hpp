// Fifo: a ring of triggers that kernels push and the host polls. Proxy: a thread that gives each trigger to a handler
// of the program.
#pragma once

#include <atomic>
#include <functional>
#include <goccl/core.hpp>
#include <goccl/handle.hpp>
#include <thread>

namespace goccl {

constexpr int DefaultFifoSize = 512;

class Fifo {
 public:
  using DeviceHandle = FifoHandle;
  // The ring is for kernels of the calling thread's current device. size is rounded up to a power of two.
  explicit Fifo(int size = DefaultFifoSize)
      : context_(Context::create()),
        object_(detail::make("create a fifo", {context_->object()}, goccl_fifo_create, context_->object()->handle,
                             detail::currentDevice(), size)) {}
  // poll fetches the next trigger, which stays until pop.
  bool poll(goccl_trigger& trigger) {
    int32_t found = 0;
    detail::check(goccl_fifo_poll(object_->handle, &trigger, &found), "poll");
    return found != 0;
  }
  void pop() {
    detail::check(goccl_fifo_pop(object_->handle), "pop");
    ++taken_;
  }
  uint64_t tail() const { return taken_; }
  int size() const {
    int32_t n = 0;
    detail::check(goccl_fifo_size(object_->handle, &n), "fifo");
    return n;
  }
  DeviceHandle deviceHandle() const { return detail::readHandle<DeviceHandle>(object_, "fifo"); }

 private:
  std::shared_ptr<Context> context_;
  detail::ObjectPtr object_;
  std::atomic<uint64_t> taken_{0};
};

enum class ProxyHandlerResult { Continue, Stop };

// ProxyOf calls handler(trigger) for each trigger, in the order of the ring, from one thread. Ring is Fifo, or a class
// derived from it.
template <class Ring, class Trigger>
class ProxyOf {
 public:
  using Handler = std::function<ProxyHandlerResult(Trigger)>;
  ProxyOf(Handler handler, std::function<void()> threadInit, int fifoSize = DefaultFifoSize)
      : fifo_(std::make_shared<Ring>(fifoSize)), handler_(std::move(handler)), threadInit_(std::move(threadInit)) {}
  explicit ProxyOf(Handler handler, int fifoSize = DefaultFifoSize) : ProxyOf(std::move(handler), [] {}, fifoSize) {}
  ~ProxyOf() { stop(); }
  ProxyOf(const ProxyOf&) = delete;
  ProxyOf& operator=(const ProxyOf&) = delete;

  // start returns when the thread runs, if blocking is true.
  void start(bool blocking = false) {
    stop();
    running_ = true;
    std::promise<void> up;
    auto ready = up.get_future();
    thread_ = std::thread([this, up = std::move(up)]() mutable {
      threadInit_();
      up.set_value();
      run();
    });
    if (blocking) ready.wait();
  }
  // stop lets the thread handle what kernels pushed before, and ends it.
  void stop() {
    running_ = false;
    if (thread_.joinable()) thread_.join();
  }
  std::shared_ptr<Ring> fifo() { return fifo_; }

 private:
  void run() {
    for (Trigger trigger;;) {
      const bool last = !running_;  // read before the poll: what was pushed before stop is still handled
      if (fifo_->poll(trigger)) {
        const auto result = handler_(trigger);
        fifo_->pop();
        if (result == ProxyHandlerResult::Stop) return;
      } else if (last) {
        return;
      } else {
        std::this_thread::yield();
      }
    }
  }

  std::shared_ptr<Ring> fifo_;
  Handler handler_;
  std::function<void()> threadInit_;
  std::atomic<bool> running_{false};
  std::thread thread_;
};

using Proxy = ProxyOf<Fifo, goccl_trigger>;
using ProxyHandler = Proxy::Handler;

}  // namespace goccl
