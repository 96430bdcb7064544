// Context, and the objects that it makes: endpoints, connections and registered memory.
#pragma once

#include <goccl/transport.hpp>

namespace goccl {

class Connection;
class Context;

namespace detail {
// The context of peers' memory that is looked at before any connection uses it.
const ObjectPtr& processContext();
const ObjectPtr& contextOf(const Connection& c);
}  // namespace detail

// Endpoint is one end of a connection. Its bytes go to the peer; they may hold a secret.
class Endpoint {
 public:
  Endpoint() = default;
  Endpoint(detail::ObjectPtr object, EndpointConfig config) : object_(std::move(object)), config_(config) {}

  const EndpointConfig& config() const { return config_; }
  goccl::Transport transport() const { return config_.transport; }
  const Device& device() const { return config_.device; }
  int maxWriteQueueSize() const { return config_.maxWriteQueueSize; }
  std::vector<char> serialize() const { return detail::serialize(object_, "endpoint"); }
  static Endpoint deserialize(const std::vector<char>& data) {
    auto object = detail::make("deserialize an endpoint", {}, goccl_endpoint_deserialize, data.data(), data.size());
    int32_t transport = 0, kind = 0, index = 0, local = 0;
    detail::check(goccl_endpoint_info(object->handle, &transport, &kind, &index, &local), "endpoint");
    const Device device(kind == GOCCL_DEVICE_HOST ? DeviceType::CPU : DeviceType::GPU, index);
    return Endpoint(object, EndpointConfig(static_cast<goccl::Transport>(transport), device));
  }
  const detail::ObjectPtr& object() const { return object_; }

 private:
  detail::ObjectPtr object_;
  EndpointConfig config_;
};

// RegisteredMemory is local memory that peers can use, or a peer's memory. The owner keeps the memory itself allocated.
class RegisteredMemory {
 public:
  RegisteredMemory() = default;
  RegisteredMemory(detail::ObjectPtr object, detail::ObjectPtr context)
      : state_(std::make_shared<detail::Exchanged>(std::move(object), std::move(context))) {}

  // data is the address in this process. A peer's memory is mapped for the calling thread's device by the first
  // call.
  void* data() const {
    Info i = info();
    if (!i.data && (i.flags & 1u << GOCCL_TRANSPORT_IPC))
      detail::check(goccl_memory_map(object()->handle, detail::currentDevice(), 0, &i.data), "map a peer's memory");
    return reinterpret_cast<void*>(i.data);
  }
  void* originalDataPtr() const { return reinterpret_cast<void*>(info().original); }
  size_t size() const { return info().size; }
  TransportFlags transports() const { return TransportFlags(TransportFlags::Bits(info().flags)); }
  std::vector<char> serialize() const { return detail::serialize(object(), "registered memory"); }
  static RegisteredMemory deserialize(const std::vector<char>& data) {
    RegisteredMemory m;
    m.state_ = std::make_shared<detail::Exchanged>(goccl_memory_deserialize, data);
    return m;
  }
  // The object in a context, which matters for a peer's bytes only: they belong to the first that is asked for.
  detail::ObjectPtr in(const detail::ObjectPtr& context) const {
    if (!state_) detail::misuse("registered memory is empty: it was default-constructed and never assigned");
    return state_->in(context);
  }
  detail::ObjectPtr context() const {
    const auto c = state_ ? state_->context() : nullptr;
    return c ? c : detail::processContext();
  }
  detail::ObjectPtr object() const { return in(context()); }

 private:
  struct Info {
    uintptr_t data = 0, original = 0;
    uint64_t size = 0;
    uint32_t flags = 0;
    int32_t local = 0;
  };
  Info info() const {
    Info i;
    detail::check(goccl_memory_info(object()->handle, &i.data, &i.original, &i.size, &i.flags, &i.local),
                  "registered memory");
    return i;
  }

  std::shared_ptr<detail::Exchanged> state_;
};

// Connection is one direction between two endpoints, seen from the local one. Its operations run in the order of the
// calls.
class Connection {
 public:
  Connection() = default;
  Connection(detail::ObjectPtr object, std::shared_ptr<Context> context, EndpointConfig config)
      : object_(std::move(object)), context_(std::move(context)), config_(config) {}
  // Older programs hold connections by pointer.
  operator std::shared_ptr<Connection>() const { return std::make_shared<Connection>(*this); }

  void write(RegisteredMemory dst, uint64_t dstOffset, RegisteredMemory src, uint64_t srcOffset, uint64_t size) {
    const auto& c = detail::contextOf(*this);
    detail::check(goccl_connection_write(handle(), dst.in(c)->handle, dstOffset, src.in(c)->handle, srcOffset, size),
                  "write");
  }
  // updateAndSync stores newValue at src, which may be null, and at the peer, after all earlier writes.
  void updateAndSync(RegisteredMemory dst, uint64_t dstOffset, uint64_t* src, uint64_t newValue) {
    detail::check(
        goccl_connection_update_and_sync(handle(), dst.in(detail::contextOf(*this))->handle, dstOffset, src, newValue),
        "updateAndSync");
  }
  // flush waits until all earlier operations are complete. A timeout that is not positive is the context's.
  void flush(int64_t timeoutUsec = -1) {
    detail::check(goccl_connection_flush(handle(), timeoutUsec > 0 ? timeoutUsec * 1000 : 0), "flush");
  }
  goccl::Transport transport() const { return config_.transport; }
  goccl::Transport remoteTransport() const { return config_.transport; }
  std::shared_ptr<Context> context() const { return context_; }
  const Device& localDevice() const { return config_.device; }
  int getMaxWriteQueueSize() const { return config_.maxWriteQueueSize; }
  goccl_object handle() const { return detail::handleOf(object_, "connection"); }
  const detail::ObjectPtr& object() const { return object_; }

 private:
  detail::ObjectPtr object_;
  std::shared_ptr<Context> context_;
  EndpointConfig config_;
};

// Context owns a process's communication resources. Objects made from it keep it alive.
class Context : public std::enable_shared_from_this<Context> {
 public:
  static std::shared_ptr<Context> create() {
    return std::make_shared<Context>(
        detail::make("create a context", {}, goccl_context_create, int64_t{0}, int64_t{0}));
  }
  explicit Context(detail::ObjectPtr object) : object_(std::move(object)) {}
  // A context that the C ABI made; it stays the caller's.
  static std::shared_ptr<Context> borrow(goccl_object handle) {
    return std::make_shared<Context>(std::make_shared<detail::Object>(handle, detail::Object::Keep{}, false));
  }

  // The memory belongs to the calling thread's current device.
  RegisteredMemory registerMemory(void* ptr, size_t size, TransportFlags transports) {
    return RegisteredMemory(detail::make("register memory", {object_}, goccl_memory_register, object_->handle,
                                         detail::currentDevice(), ptr, size, detail::maskOf(transports)),
                            object_);
  }
  Endpoint createEndpoint(EndpointConfig config) {
    const EndpointConfig::Ib& ib = config.ib;
    const auto depth = [](int value, int standard) { return value == standard ? -1 : value; };
    return Endpoint(detail::make("create an endpoint", {object_}, goccl_endpoint_create_rdma, object_->handle,
                                 static_cast<int32_t>(config.transport), ib.deviceIndex,
                                 detail::openDevice(config.device), ib.port, ib.gidIndex,
                                 depth(ib.maxCqSize, ib.DefaultMaxCqSize), depth(ib.maxSendWr, ib.DefaultMaxSendWr),
                                 depth(ib.maxRecvWr, ib.DefaultMaxRecvWr)),
                    config);
  }
  Connection connect(const Endpoint& local, const Endpoint& remote) {
    auto object = detail::make("connect", {object_, local.object(), remote.object()}, goccl_connection_create,
                               object_->handle, detail::handleOf(local.object(), "local endpoint"),
                               detail::handleOf(remote.object(), "remote endpoint"));
    return Connection(std::move(object), shared_from_this(), local.config());
  }
  const detail::ObjectPtr& object() const { return object_; }

 private:
  detail::ObjectPtr object_;
};

namespace detail {
inline const ObjectPtr& processContext() {
  static const std::shared_ptr<Context> context = Context::create();
  return context->object();
}
inline const ObjectPtr& contextOf(const Connection& c) {
  if (!c.context()) misuse("connection is empty: it was default-constructed and never assigned");
  return c.context()->object();
}
}  // namespace detail
}  // namespace goccl
