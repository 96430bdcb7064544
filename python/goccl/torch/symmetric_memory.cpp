// PyTorch's SymmetricMemory on goccl's memory: the allocator "GOCCL". symmetric_memory.py compiles this file against
// the user's PyTorch and passes goccl's functions, so it needs no headers of CUDA or goccl.
//
// A block is one allocation: the signal pad, then the buffer. Ranks meet once for each block and group, and then map
// each other's blocks side by side.
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.hpp>

#include <sched.h>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>

namespace {

using namespace c10d::symmetric_memory;

// Meeting is what symmetric_memory.py returns of a meeting of ranks.
struct Meeting {
  uint64_t comm, window;
  uint64_t base, stride;  // rank r's block is at base + r * stride
  uint64_t abort;         // a word that kernels poll, or 0
  uint64_t kernel;        // symmetric_signal of symmetric_memory.cu; 0 on the host device
  int32_t rank, size;
  char error[2048];
};

struct Calls {
  int32_t (*device_open)(int32_t kind, int32_t index, uint64_t* device);
  int32_t (*alloc)(uint64_t device, uint64_t size, void** ptr);
  int32_t (*free)(void* ptr);
  int32_t (*window_deregister)(uint64_t window);
  int32_t (*comm_error)(uint64_t comm);
  int32_t (*kernel_launch)(uint64_t function, uintptr_t stream, const uint32_t shape[9], uint32_t shared,
                           const void* params, uint64_t size);
  const char* (*last_error)();
  int32_t (*meet)(int32_t cuda, int32_t index, const char* group, void* block, uint64_t bytes, Meeting* met);
} calls;

void check(int32_t result, const char* what) { TORCH_CHECK(!result, what, ": ", calls.last_error()); }

constexpr int everyone = -1, nobody = -2;  // besides ranks; everyone is all other ranks

struct Block {
  c10::Device device;
  void* ptr;
  size_t pad, size;  // bytes of the signal pad, rounded up, and of the buffer

  ~Block() {
    if (is_finalizing()) return;
    if (device.is_cuda()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
    calls.free(ptr);
  }
};

// Peers are the blocks of all ranks of a group. The addresses of the buffers and then of the pads are also in tables.
struct Peers {
  std::shared_ptr<Block> block;
  Meeting at;
  at::Tensor table;

  // pad is where rank's block is here: this rank's own is where its tensors are.
  void* pad(int rank) const {
    return rank == at.rank ? block->ptr : reinterpret_cast<void*>(at.base + rank * at.stride);
  }
  ~Peers() {
    if (!is_finalizing()) calls.window_deregister(at.window);
  }
};

class Memory final : public SymmetricMemory {
 public:
  Memory(std::shared_ptr<Peers> peers, size_t offset) : p_(std::move(peers)), offset_(offset) {}

  std::vector<void*> get_buffer_ptrs() override { return ptrs(p_->block->pad); }
  std::vector<void*> get_signal_pad_ptrs() override { return ptrs(0); }
  void** get_buffer_ptrs_dev() override { return static_cast<void**>(p_->table.data_ptr()); }
  void** get_signal_pad_ptrs_dev() override { return get_buffer_ptrs_dev() + p_->at.size; }
  size_t get_buffer_size() override { return p_->block->size; }
  size_t get_offset() override { return offset_; }
  bool has_multicast_support() override { return false; }
  void* get_multicast_ptr() override { return nullptr; }
  void barrier(int channel, size_t timeout_ms) override { signal(everyone, everyone, channel, timeout_ms); }
  void put_signal(int to, int channel, size_t timeout_ms) override { signal(to, nobody, channel, timeout_ms); }
  void wait_signal(int from, int channel, size_t timeout_ms) override { signal(nobody, from, channel, timeout_ms); }
  int get_rank() override { return p_->at.rank; }
  int get_world_size() override { return p_->at.size; }
  c10::Device get_device() override { return p_->block->device; }
  bool world_within_direct_access() override { return true; }

 private:
  std::vector<void*> ptrs(size_t offset) const {
    std::vector<void*> all;
    for (int r = 0; r < p_->at.size; r++) all.push_back(static_cast<char*>(p_->pad(r)) + offset);
    return all;
  }

  // signal sets the words of a channel at ranks and then resets those that ranks have set here. A word of a pad belongs
  // to a channel and a sender. It is set when it is 0, and reset when it is 1.
  void signal(int to, int from, int channel, size_t timeout_ms) {
    const Meeting& at = p_->at;
    TORCH_CHECK(to < at.size && from < at.size && to >= nobody && from >= nobody, "rank ", std::max(to, from), " of ",
                at.size);
    TORCH_CHECK(channel >= 0 && (channel + size_t{1}) * at.size * sizeof(uint32_t) <= p_->block->pad, "channel ",
                channel, " is not in the signal pad of ", p_->block->pad, " bytes: call set_signal_pad_size first");
    if (p_->block->device.is_cuda()) return launch(to, from, channel, timeout_ms);
    for (int r = 0; r < at.size; r++)
      if (to == r || (to == everyone && r != at.rank)) flip(r, channel * at.size + at.rank, 0, timeout_ms);
    for (int r = 0; r < at.size; r++)
      if (from == r || (from == everyone && r != at.rank)) flip(at.rank, channel * at.size + r, 1, timeout_ms);
  }

  void flip(int rank, int word, uint32_t old, size_t timeout_ms) const {
    auto* w = static_cast<uint32_t*>(p_->pad(rank)) + word;
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    for (unsigned polls = 1; __atomic_load_n(w, __ATOMIC_ACQUIRE) != old; polls++) {
      if (polls % 64) continue;
      sched_yield();
      check(calls.comm_error(p_->at.comm), "signal of symmetric memory");
      TORCH_CHECK(!timeout_ms || std::chrono::steady_clock::now() < end, "signal of symmetric memory: rank ",
                  p_->at.rank, " has waited ", timeout_ms, " ms for rank ", old ? word % p_->at.size : rank);
    }
    __atomic_store_n(w, 1 - old, __ATOMIC_RELEASE);
  }

  void launch(int to, int from, int channel, size_t timeout_ms) {
    const Meeting& at = p_->at;
    const c10::Device device = p_->block->device;
    struct {
      void** pads;
      uint64_t abort, nanoseconds;
      int32_t rank, size, channel, to, from;
    } params{get_signal_pad_ptrs_dev(), at.abort, timeout_ms * 1000000, at.rank, at.size, channel, to, from};
    const uint32_t shape[9] = {1, 1, 1, (static_cast<uint32_t>(at.size) + 31) / 32 * 32, 1, 1};
    const auto stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
    check(calls.kernel_launch(at.kernel, reinterpret_cast<uintptr_t>(stream.native_handle()), shape, 0, &params,
                              offsetof(decltype(params), from) + sizeof params.from),
          "signal of symmetric memory");
  }

  std::shared_ptr<Peers> p_;
  size_t offset_;
};

class Allocator final : public SymmetricMemoryAllocator {
 public:
  explicit Allocator(c10::DeviceType type) : type_(type) {}

  void* alloc(size_t size, int index, const std::optional<std::string>& group) override {
    if (type_ == c10::kCUDA && index < 0) index = c10::impl::VirtualGuardImpl(type_).getDevice().index();
    const size_t pad = (get_signal_pad_size() + 127) / 128 * 128;
    uint64_t device;
    void* ptr;
    check(calls.device_open(type_ == c10::kCUDA ? 2 : 1, std::max(index, 0), &device), "symmetric memory");
    check(calls.alloc(device, pad + size, &ptr), "symmetric memory");
    const auto index8 = static_cast<c10::DeviceIndex>(type_ == c10::kCUDA ? index : -1);
    std::shared_ptr<Block> block(new Block{c10::Device(type_, index8), ptr, pad, size});
    char* buffer = static_cast<char*>(ptr) + pad;
    std::lock_guard<std::mutex> lock(mu_);
    entries_[buffer] = {std::move(block), group, {}};
    return buffer;
  }

  void free(void* ptr) override {
    Entry ended;  // outlives the lock
    std::lock_guard<std::mutex> lock(mu_);
    if (auto it = entries_.find(static_cast<char*>(ptr)); it != entries_.end()) {
      ended = std::move(it->second);
      entries_.erase(it);
    }
  }

  size_t get_alloc_size(void* ptr) override {
    std::lock_guard<std::mutex> lock(mu_);
    return found(ptr)->second.block->size;
  }

  c10::intrusive_ptr<SymmetricMemory> rendezvous(void* ptr, const std::optional<std::string>& group) override {
    std::unique_lock<std::mutex> lock(mu_);
    auto it = find(ptr);
    if (it == entries_.end()) return nullptr;  // PyTorch's operators then say how to allocate
    TORCH_CHECK(group || it->second.group, "rendezvous: pass the group");
    const std::string name = group ? *group : *it->second.group;
    const size_t offset = static_cast<char*>(ptr) - it->first;
    auto& known = it->second.peers[name];
    if (!known) {
      auto block = it->second.block;
      lock.unlock();
      auto peers = meet(block, name);
      lock.lock();
      found(ptr)->second.peers[name] = peers;
      return c10::make_intrusive<Memory>(std::move(peers), offset);
    }
    return c10::make_intrusive<Memory>(known, offset);
  }

  bool has_allocation(void* ptr) {  // virtual since PyTorch 2.15
    std::lock_guard<std::mutex> lock(mu_);
    return find(ptr) != entries_.end();
  }

  bool has_multicast_support(int) override { return false; }
  c10::DeviceType supported_device_type() override { return type_; }
  std::string name() override { return "GOCCL"; }

 private:
  struct Entry {
    std::shared_ptr<Block> block;
    std::optional<std::string> group;
    std::map<std::string, std::shared_ptr<Peers>> peers;  // by group
  };
  using Entries = std::map<char*, Entry>;  // by the start of the buffer

  // find returns the entry of the buffer that ptr is in: a memory pool has several tensors in one.
  Entries::iterator find(void* ptr) {
    auto it = entries_.upper_bound(static_cast<char*>(ptr));
    if (it == entries_.begin()) return entries_.end();
    --it;
    const bool at = ptr == it->first || static_cast<char*>(ptr) < it->first + it->second.block->size;
    return at ? it : entries_.end();
  }

  Entries::iterator found(void* ptr) {
    auto it = find(ptr);
    TORCH_CHECK(it != entries_.end(), ptr, " is not symmetric memory: make the tensor by symm_mem.empty");
    return it;
  }

  std::shared_ptr<Peers> meet(const std::shared_ptr<Block>& block, const std::string& group) {
    auto peers = std::make_shared<Peers>();
    peers->block = block;
    const int32_t result = calls.meet(type_ == c10::kCUDA, block->device.index(), group.c_str(), block->ptr,
                                      block->pad + block->size, &peers->at);
    TORCH_CHECK(!result, "rendezvous of symmetric memory: ", peers->at.error);
    const int n = peers->at.size;
    at::Tensor table = at::empty({2 * n}, at::kLong);
    for (int r = 0; r < n; r++) {
      table.data_ptr<int64_t>()[n + r] = reinterpret_cast<int64_t>(peers->pad(r));
      table.data_ptr<int64_t>()[r] = table.data_ptr<int64_t>()[n + r] + static_cast<int64_t>(block->pad);
    }
    peers->table = table.to(block->device);
    return peers;
  }

  c10::DeviceType type_;
  std::mutex mu_;
  Entries entries_;
};

}  // namespace

// Makes "GOCCL" a name for symm_mem.set_backend: of memory of GPUs, and of the host in any case.
extern "C" __attribute__((visibility("default"))) void goccl_symmetric_memory(const Calls* given, int cuda) {
  calls = *given;
  auto host = c10::make_intrusive<Allocator>(c10::kCPU);
  if (cuda) register_allocator(c10::kCPU, host);
  register_availability("GOCCL", cuda ? c10::make_intrusive<Allocator>(c10::kCUDA) : host);
}
