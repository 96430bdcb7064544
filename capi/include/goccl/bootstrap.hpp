// Bootstraps: the ranks of a job find each other and exchange small messages.
#pragma once

#include <array>
#include <goccl/object.hpp>
#include <string>

namespace goccl {

constexpr unsigned int UniqueIdBytes = sizeof(goccl_unique_id);
using UniqueId = std::array<uint8_t, UniqueIdBytes>;

inline std::string version() { return goccl_version(); }

namespace detail {
constexpr int64_t second = 1000000000;
constexpr int groupBarrierTag = 0x60cc0, broadcastTag = 0x60cc1;
}  // namespace detail

// Bootstrap may be implemented by programs, for example over MPI.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  virtual int getRank() const = 0;
  virtual int getNranks() const = 0;
  virtual int getNranksPerNode() const = 0;
  virtual int getNranksPerIpcDomain() const { return getNranksPerNode(); }
  virtual void send(void* data, int size, int peer, int tag) = 0;
  virtual void recv(void* data, int size, int peer, int tag) = 0;
  // allGather fills allData, size bytes for each rank, with every rank's part. This rank's part is in its place
  // at the call.
  virtual void allGather(void* allData, int size) = 0;
  virtual void barrier() = 0;

  // groupBarrier returns when all ranks of the list have called it. They pass the same list.
  void groupBarrier(const std::vector<int>& ranks) {
    // The first of the list receives from each other rank, then answers.
    char token = 0;
    if (ranks.empty()) return;
    const int first = ranks.front();
    if (getRank() != first) {
      send(&token, 1, first, detail::groupBarrierTag);
      recv(&token, 1, first, detail::groupBarrierTag);
      return;
    }
    for (int r : ranks)
      if (r != first) recv(&token, 1, r, detail::groupBarrierTag);
    for (int r : ranks)
      if (r != first) send(&token, 1, r, detail::groupBarrierTag);
  }

  // These send the length before the bytes, so that the receiver need not know it.
  void send(const std::vector<char>& data, int peer, int tag) {
    auto size = static_cast<uint64_t>(data.size());
    send(&size, sizeof size, peer, tag);
    if (size) send(const_cast<char*>(data.data()), static_cast<int>(size), peer, tag);
  }
  void recv(std::vector<char>& data, int peer, int tag) {
    uint64_t size = 0;
    recv(&size, sizeof size, peer, tag);
    if (size > INT32_MAX)
      throw Error("rank " + std::to_string(peer) + " announced a message of " + std::to_string(size) + " bytes",
                  ErrorCode::RemoteError);
    data.resize(size);
    if (size) recv(data.data(), static_cast<int>(size), peer, tag);
  }
};

// TcpBootstrap is goccl's own. It leaves the job when it is destroyed.
class TcpBootstrap : public Bootstrap {
 public:
  TcpBootstrap(int rank, int nRanks) : rank_(rank), size_(nRanks) {}
  // A bootstrap that the C ABI made; it stays the caller's.
  static std::shared_ptr<TcpBootstrap> borrow(goccl_bootstrap handle) {
    int32_t rank = 0, size = 0;
    detail::check(goccl_bootstrap_info(handle, &rank, &size, nullptr, nullptr), "bootstrap");
    auto b = std::make_shared<TcpBootstrap>(rank, size);
    b->handle_ = handle;
    b->owned_ = false;
    return b;
  }
  ~TcpBootstrap() override {
    if (handle_ && owned_) (void)goccl_bootstrap_close(handle_);
  }
  TcpBootstrap(const TcpBootstrap&) = delete;
  TcpBootstrap& operator=(const TcpBootstrap&) = delete;

  // createUniqueId makes an id that this process serves to the other ranks, who get it by other means.
  static UniqueId createUniqueId() {
    goccl_unique_id raw;
    detail::check(goccl_unique_id_create(0, &raw), "create a unique id");
    UniqueId id;
    std::memcpy(id.data(), raw.bytes, id.size());
    return id;
  }
  UniqueId getUniqueId() const {
    if (!identified_) detail::misuse("the bootstrap was not initialized with a unique id");
    return id_;
  }
  void initialize(UniqueId id, int64_t timeoutSec = 30) {
    begin();
    goccl_unique_id raw;
    std::memcpy(raw.bytes, id.data(), id.size());
    detail::check(goccl_bootstrap_join_id(&raw, rank_, size_, timeoutSec * detail::second, &handle_),
                  "join by unique id");
    id_ = id;
    identified_ = true;
  }
  // where is "ip:port", "host:port" or "interface:ip:port"; rank 0 listens there.
  void initialize(const std::string& where, int64_t timeoutSec = 30) {
    begin();
    detail::check(goccl_bootstrap_join_address(where.c_str(), rank_, size_, timeoutSec * detail::second, &handle_),
                  "join by address");
  }

  using Bootstrap::recv;
  using Bootstrap::send;
  int getRank() const override { return rank_; }
  int getNranks() const override { return size_; }
  int getNranksPerNode() const override {
    int32_t n = 0;
    detail::check(goccl_bootstrap_info(handle(), nullptr, nullptr, nullptr, &n), "bootstrap");
    return n;
  }
  void send(void* data, int size, int peer, int tag) override {
    detail::check(goccl_bootstrap_send(handle(), peer, tag, data, static_cast<uint64_t>(size), 0), "send");
  }
  void recv(void* data, int size, int peer, int tag) override {
    void* got = nullptr;
    uint64_t n = 0;
    detail::check(goccl_bootstrap_recv(handle(), peer, tag, 0, &got, &n), "recv");
    const bool fits = n == static_cast<uint64_t>(size);
    if (fits) std::memcpy(data, got, n);
    goccl_release(got);
    if (!fits)
      detail::misuse("recv of " + std::to_string(size) + " bytes from rank " + std::to_string(peer) + ", tag " +
                     std::to_string(tag) + ": it sent " + std::to_string(n));
  }
  void allGather(void* allData, int size) override {
    const auto n = static_cast<size_t>(size);
    const char* mine = static_cast<char*>(allData) + n * static_cast<size_t>(rank_);
    detail::check(goccl_bootstrap_all_gather(handle(), mine, n, allData, 0), "allGather");
  }
  void broadcast(void* data, int size, int root) {
    if (rank_ != root) return recv(data, size, root, detail::broadcastTag);
    for (int r = 0; r < size_; ++r)
      if (r != root) send(data, size, r, detail::broadcastTag);
  }
  void barrier() override { detail::check(goccl_bootstrap_barrier(handle(), 0), "barrier"); }

  goccl_bootstrap handle() const {
    if (!handle_) detail::misuse("the bootstrap has not joined a job: call initialize first");
    return handle_;
  }

 private:
  void begin() const {
    if (handle_) detail::misuse("the bootstrap is initialized already");
  }

  int rank_, size_;
  goccl_bootstrap handle_ = 0;
  bool owned_ = true, identified_ = false;
  UniqueId id_{};
};

namespace detail {

// tcpOf is the bootstrap itself, or for a program's own class a TcpBootstrap of the same ranks, who meet by an id that
// rank 0 makes.
inline std::shared_ptr<TcpBootstrap> tcpOf(const std::shared_ptr<Bootstrap>& b) {
  if (!b) misuse("the bootstrap is null");
  if (auto tcp = std::dynamic_pointer_cast<TcpBootstrap>(b)) return tcp;
  const int rank = b->getRank(), size = b->getNranks();
  std::vector<UniqueId> ids(static_cast<size_t>(size));
  if (rank == 0) ids[0] = TcpBootstrap::createUniqueId();
  b->allGather(ids.data(), UniqueIdBytes);
  auto tcp = std::make_shared<TcpBootstrap>(rank, size);
  tcp->initialize(ids[0]);
  return tcp;
}

}  // namespace detail
}  // namespace goccl
