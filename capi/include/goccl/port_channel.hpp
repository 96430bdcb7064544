// Port channels: kernels ask, and a ProxyService moves the bytes by copy engine or network. Handles are structs of the
// device headers.
#pragma once

#include <goccl/fifo.hpp>
#include <goccl/semaphore.hpp>
#include <map>

namespace goccl {

using SemaphoreId = uint32_t;
using MemoryId = uint32_t;

namespace detail {

// ProxyState belongs to the context of the first semaphore or memory that it is given. It keeps alive all that it was
// given.
class ProxyState {
 public:
  ProxyState(int fifoSize, goccl_device device) : fifoSize_(fifoSize), device_(device) {}

  ObjectPtr service() {
    std::lock_guard<std::mutex> hold(mutex_);
    if (!service_) misuse("the proxy service has no semaphore and no memory yet: add them first");
    return service_;
  }
  SemaphoreId add(const Semaphore& semaphore) {
    std::lock_guard<std::mutex> hold(mutex_);
    make(contextOf(semaphore.connection()));
    SemaphoreId id = 0;
    check(goccl_proxy_service_add_semaphore(service_->handle, semaphore.handle(), &id), "addSemaphore");
    semaphores_.emplace(id, semaphore);
    return id;
  }
  MemoryId add(const RegisteredMemory& memory) {
    std::lock_guard<std::mutex> hold(mutex_);
    make(memory.context());
    const auto m = memory.in(context_);
    MemoryId id = 0;
    check(goccl_proxy_service_add_memory(service_->handle, m->handle, &id), "addMemory");
    memories_.push_back(m);
    return id;
  }
  MemoryId memories() {
    std::lock_guard<std::mutex> hold(mutex_);
    return static_cast<MemoryId>(memories_.size());
  }
  Semaphore semaphore(SemaphoreId id) {
    std::lock_guard<std::mutex> hold(mutex_);
    const auto found = semaphores_.find(id);
    if (found == semaphores_.end()) misuse("the proxy service has no semaphore " + std::to_string(id));
    return found->second;
  }
  void start() {
    std::lock_guard<std::mutex> hold(mutex_);
    started_ = true;
    if (service_) check(goccl_proxy_service_start(service_->handle), "startProxy");
  }
  void stop() {
    std::lock_guard<std::mutex> hold(mutex_);
    started_ = false;
    if (service_) check(goccl_proxy_service_stop(service_->handle), "stopProxy");
  }

 private:
  void make(const ObjectPtr& context) {
    if (service_) return;
    service_ = detail::make("create a proxy service", {context}, goccl_proxy_service_create, context->handle, device_,
                            fifoSize_);
    context_ = context;
    if (started_) check(goccl_proxy_service_start(service_->handle), "startProxy");
  }

  const int fifoSize_;
  const goccl_device device_;
  std::mutex mutex_;  // guards what follows
  bool started_ = false;
  ObjectPtr context_;
  std::map<SemaphoreId, Semaphore> semaphores_;
  std::vector<ObjectPtr> memories_;
  ObjectPtr service_;  // closed first
};

}  // namespace detail

// BasePortChannelOf names memories by id in each call.
template <class Handle>
class BasePortChannelOf {
 public:
  using DeviceHandle = Handle;
  BasePortChannelOf() = default;
  BasePortChannelOf(std::shared_ptr<detail::ProxyState> proxy, SemaphoreId semaphore)
      : proxy_(std::move(proxy)), semaphore_(semaphore) {
    const auto service = proxy_->service();
    object_ = detail::make("create a base port channel", {service, proxy_}, goccl_base_port_channel_create,
                           service->handle, semaphore);
  }
  DeviceHandle deviceHandle() const { return detail::readHandle<Handle>(object_, "base port channel"); }
  const std::shared_ptr<detail::ProxyState>& proxy() const { return proxy_; }
  SemaphoreId semaphoreId() const { return semaphore_; }

 private:
  std::shared_ptr<detail::ProxyState> proxy_;
  SemaphoreId semaphore_ = 0;
  detail::ObjectPtr object_;
};

// PortChannelOf goes from src to dst.
template <class Handle>
class PortChannelOf {
 public:
  using DeviceHandle = Handle;
  PortChannelOf() = default;
  PortChannelOf(const std::shared_ptr<detail::ProxyState>& proxy, SemaphoreId semaphore, MemoryId dst, MemoryId src) {
    const auto service = proxy->service();
    object_ = detail::make("create a port channel", {service, proxy}, goccl_port_channel_create, service->handle,
                           semaphore, dst, src);
  }
  // The older form: a channel that names no memory, and the memories.
  template <class Base>
  PortChannelOf(const BasePortChannelOf<Base>& channel, MemoryId dst, MemoryId src)
      : PortChannelOf(channel.proxy(), channel.semaphoreId(), dst, src) {}

  DeviceHandle deviceHandle() const { return detail::readHandle<Handle>(object_, "port channel"); }

 private:
  detail::ObjectPtr object_;
};

class BaseProxyService {
 public:
  virtual ~BaseProxyService() = default;
  virtual void startProxy(bool blocking = false) = 0;
  virtual void stopProxy() = 0;
};

// ProxyServiceOf is for kernels of the device that was current when it was made. Channels keep its thread and its fifo
// alive.
template <class Base, class Port>
class ProxyServiceOf : public BaseProxyService {
 public:
  explicit ProxyServiceOf(int fifoSize = DefaultFifoSize)
      : state_(std::make_shared<detail::ProxyState>(fifoSize, detail::currentDevice())) {}

  // Waits for the connection's peer, which builds the other half.
  SemaphoreId buildAndAddSemaphore(Communicator& communicator, const Connection& connection) {
    return state_->add(Host2DeviceSemaphore(communicator, connection).semaphore());
  }
  SemaphoreId buildAndAddSemaphore(Communicator& communicator, const std::shared_ptr<Connection>& connection) {
    return buildAndAddSemaphore(communicator, *connection);
  }
  SemaphoreId addSemaphore(const Semaphore& semaphore) { return state_->add(semaphore); }
  SemaphoreId addSemaphore(const std::shared_ptr<Host2DeviceSemaphore>& semaphore) {
    return state_->add(semaphore->semaphore());
  }
  MemoryId addMemory(RegisteredMemory memory) { return state_->add(memory); }
  // nextMemoryId is the id that the next addMemory returns, for the first of count.
  MemoryId nextMemoryId([[maybe_unused]] uint32_t count = 1) const { return state_->memories(); }
  std::shared_ptr<Host2DeviceSemaphore> semaphore(SemaphoreId id) const {
    return std::make_shared<Host2DeviceSemaphore>(state_->semaphore(id));
  }

  Base basePortChannel(SemaphoreId id) { return Base(state_, id); }
  Base proxyChannel(SemaphoreId id) { return Base(state_, id); }
  Port portChannel(SemaphoreId id, MemoryId dst, MemoryId src) { return Port(state_, id, dst, src); }

  void startProxy([[maybe_unused]] bool blocking = false) override { state_->start(); }
  // stopProxy carries out what kernels asked for before, and throws the first error since the last stop.
  void stopProxy() override { state_->stop(); }

 private:
  std::shared_ptr<detail::ProxyState> state_;
};

using BasePortChannel = BasePortChannelOf<BasePortChannelHandle>;
using PortChannel = PortChannelOf<PortChannelHandle>;
using ProxyService = ProxyServiceOf<BasePortChannel, PortChannel>;

}  // namespace goccl
