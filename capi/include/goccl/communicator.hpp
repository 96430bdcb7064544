// Communicator: connections, memory and semaphores between the ranks of a bootstrap. Semaphore, and its two halves.
#pragma once

#include <goccl/bootstrap.hpp>
#include <goccl/context.hpp>

namespace goccl {

// SemaphoreStub is one side's half of a semaphore. It is exchanged with the peer's.
class SemaphoreStub {
 public:
  SemaphoreStub(const Connection& connection) : connection_(connection) {
    auto object = detail::make("create a semaphore stub", {connection.object()}, goccl_semaphore_stub_create,
                               connection.handle());
    state_ = std::make_shared<detail::Exchanged>(std::move(object), detail::contextOf(connection));
  }
  SemaphoreStub(const std::shared_ptr<Connection>& connection) : SemaphoreStub(*connection) {}

  std::vector<char> serialize() const { return detail::serialize(state_->in(state_->context()), "semaphore stub"); }
  static SemaphoreStub deserialize(const std::vector<char>& data) {
    return SemaphoreStub(std::make_shared<detail::Exchanged>(goccl_semaphore_stub_deserialize, data));
  }
  const Connection& connection() const { return connection_; }
  detail::ObjectPtr in(const detail::ObjectPtr& context) const { return state_->in(context); }

 private:
  explicit SemaphoreStub(std::shared_ptr<detail::Exchanged> state) : state_(std::move(state)) {}

  Connection connection_;  // empty in a peer's stub
  std::shared_ptr<detail::Exchanged> state_;
};

// Semaphore is a pair of counters by which two sides signal each other. Each side makes one of both stubs.
class Semaphore {
 public:
  Semaphore() = default;
  Semaphore(const SemaphoreStub& localStub, const SemaphoreStub& remoteStub) : connection_(localStub.connection()) {
    const auto& c = detail::contextOf(connection_);
    const auto local = localStub.in(c), remote = remoteStub.in(c);
    object_ = detail::make("create a semaphore", {local, remote, c}, goccl_semaphore_create, local->handle,
                           remote->handle);
  }
  Semaphore(detail::ObjectPtr object, Connection connection)
      : object_(std::move(object)), connection_(std::move(connection)) {}

  Connection& connection() { return connection_; }
  const Connection& connection() const { return connection_; }
  goccl_object handle() const { return detail::handleOf(object_, "semaphore"); }
  const detail::ObjectPtr& object() const { return object_; }

 private:
  detail::ObjectPtr object_;
  Connection connection_;
};

// ConnectionFuture is also the future of a pointer, as older programs hold it.
class ConnectionFuture : public std::shared_future<Connection> {
 public:
  ConnectionFuture() = default;
  ConnectionFuture(std::shared_future<Connection> f) : std::shared_future<Connection>(std::move(f)) {}
  operator std::shared_future<std::shared_ptr<Connection>>() const {
    return std::async(std::launch::deferred,
                      [f = std::shared_future<Connection>(*this)] { return std::make_shared<Connection>(f.get()); })
        .share();
  }
};

template <class T>
using NonblockingFuture = std::shared_future<T>;

// Communicator gives futures; the get of one waits. The k-th call of one kind to (rank, tag) meets the k-th of the
// peer.
class Communicator {
 public:
  explicit Communicator(std::shared_ptr<Bootstrap> bootstrap, std::shared_ptr<Context> context = nullptr)
      : bootstrap_(std::move(bootstrap)),
        tcp_(detail::tcpOf(bootstrap_)),
        context_(context ? std::move(context) : Context::create()),
        object_(detail::make("create a communicator", {tcp_, context_->object()}, goccl_communicator_create,
                             tcp_->handle(), context_->object()->handle)) {}
  // What the C ABI made; it stays the caller's.
  Communicator(std::shared_ptr<TcpBootstrap> bootstrap, std::shared_ptr<Context> context, goccl_object borrowed)
      : bootstrap_(bootstrap),
        tcp_(std::move(bootstrap)),
        context_(std::move(context)),
        object_(std::make_shared<detail::Object>(borrowed, detail::Object::Keep{}, false)) {}

  std::shared_ptr<Bootstrap> bootstrap() { return bootstrap_; }
  std::shared_ptr<Context> context() { return context_; }
  RegisteredMemory registerMemory(void* ptr, size_t size, TransportFlags transports) {
    return context_->registerMemory(ptr, size, transports);
  }

  // sendMemory lets the peer use local memory, which stays registered while the communicator lives.
  void sendMemory(RegisteredMemory memory, int remoteRank, int tag = 0) {
    const auto m = memory.in(context_->object());
    auto sent = detail::make("sendMemory", {m, object_}, goccl_communicator_send_memory, object_->handle, m->handle,
                             remoteRank, tag);
    std::lock_guard<std::mutex> hold(mutex_);
    sent_.push_back(std::move(sent));
  }
  std::shared_future<RegisteredMemory> recvMemory(int remoteRank, int tag = 0) {
    return detail::later<RegisteredMemory>(
        detail::make("recvMemory", {object_}, goccl_communicator_recv_memory, object_->handle, remoteRank, tag),
        "recvMemory",
        [o = object_, c = context_->object()](goccl_object m) { return RegisteredMemory(detail::own(m, {o, c}), c); });
  }
  ConnectionFuture connect(const Endpoint& local, int remoteRank, int tag = 0) {
    const auto handle = detail::handleOf(local.object(), "endpoint");
    return connected(detail::make("connect", {object_, local.object()}, goccl_communicator_connect_endpoint,
                                  object_->handle, handle, remoteRank, tag),
                     local.config(), local.object());
  }
  ConnectionFuture connect(const EndpointConfig& local, int remoteRank, int tag = 0) {
    if (local.ib.chosen()) return connect(context_->createEndpoint(local), remoteRank, tag);
    return connected(detail::make("connect", {object_}, goccl_communicator_connect, object_->handle,
                                  static_cast<int32_t>(local.transport), detail::openDevice(local.device), remoteRank,
                                  tag),
                     local, nullptr);
  }
  std::shared_future<Semaphore> buildSemaphore(const Connection& connection, int remoteRank, int tag = 0) {
    return detail::later<Semaphore>(
        detail::make("buildSemaphore", {object_, connection.object()}, goccl_communicator_build_semaphore,
                     object_->handle, connection.handle(), remoteRank, tag),
        "buildSemaphore", [connection](goccl_object s) {
          return Semaphore(detail::own(s, {connection.object(), detail::contextOf(connection)}), connection);
        });
  }
  int remoteRankOf(const Connection& connection) { return peerOf(connection).first; }
  int tagOf(const Connection& connection) { return peerOf(connection).second; }

  // The older, deferred style. Everything has been started when these return, and setup has nothing left to do.
  void sendMemoryOnSetup(RegisteredMemory memory, int remoteRank, int tag) {
    sendMemory(std::move(memory), remoteRank, tag);
  }
  NonblockingFuture<RegisteredMemory> recvMemoryOnSetup(int remoteRank, int tag) { return recvMemory(remoteRank, tag); }
  ConnectionFuture connectOnSetup(int remoteRank, int tag, EndpointConfig local) {
    return connect(local, remoteRank, tag);
  }
  void setup() {}

  goccl_bootstrap bootstrapHandle() const { return tcp_->handle(); }
  const detail::ObjectPtr& object() const { return object_; }

 private:
  ConnectionFuture connected(detail::ObjectPtr future, const EndpointConfig& config, detail::ObjectPtr endpoint) {
    auto make = [o = object_, c = context_, config, endpoint](goccl_object h) {
      return Connection(detail::own(h, {o, endpoint, c->object()}), c, config);
    };
    return ConnectionFuture(detail::later<Connection>(std::move(future), "connect", std::move(make)));
  }
  static std::pair<int, int> peerOf(const Connection& connection) {
    int32_t transport = 0, peer = 0, tag = 0;
    detail::check(goccl_connection_info(connection.handle(), &transport, &peer, &tag), "connection");
    return {peer, tag};
  }

  std::shared_ptr<Bootstrap> bootstrap_;
  std::shared_ptr<TcpBootstrap> tcp_;
  std::shared_ptr<Context> context_;
  detail::ObjectPtr object_;
  std::mutex mutex_;
  std::vector<detail::ObjectPtr> sent_;  // guarded by mutex_
};

template <class T>
using PacketPayload = typename T::Payload;

// deviceHandle is what a kernel gets of a channel or semaphore.
template <class T>
auto deviceHandle(T&& t) {
  return t.deviceHandle();
}

}  // namespace goccl
