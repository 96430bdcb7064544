// Algorithms: one way to do a collective each. NativeAlgorithm is four functions around kernels of one's own,
// DslAlgorithm a plan.
#pragma once

#include <goccl/algorithm_table.hpp>
#include <goccl/memory_channel.hpp>
#include <goccl/port_channel.hpp>
#include <goccl/switch_channel.hpp>
#include <goccl/utils.hpp>

namespace goccl {

struct AlgorithmCtxKey {
  void* baseSendBuff;
  void* baseRecvBuff;
  size_t baseSendSize, baseRecvSize;
  int tag;
  friend bool operator==(const AlgorithmCtxKey& a, const AlgorithmCtxKey& b) {
    return a.baseSendBuff == b.baseSendBuff && a.baseRecvBuff == b.baseRecvBuff && a.baseSendSize == b.baseSendSize &&
           a.baseRecvSize == b.baseRecvSize && a.tag == b.tag;
  }
};

namespace detail {

// Described has what an algorithm says about itself.
template <class Base>
class Described : public Base {
 public:
  const std::string& name() const override { return name_; }
  const std::string& collective() const override { return collective_; }
  const std::pair<size_t, size_t>& messageRange() const override { return range_; }
  void setMessageSizeRange(size_t min, size_t max) override { range_ = {min, max}; }
  const std::unordered_map<std::string, uint64_t>& tags() const override { return tags_; }
  const CollectiveBufferMode& bufferMode() const override { return mode_; }
  Algorithm::Constraint constraint() const override { return constraint_; }

 protected:
  Described(std::string name, std::string collective, std::pair<size_t, size_t> range, CollectiveBufferMode mode,
            std::unordered_map<std::string, uint64_t> tags, Algorithm::Constraint constraint)
      : name_(std::move(name)),
        collective_(std::move(collective)),
        range_(range),
        mode_(mode),
        tags_(std::move(tags)),
        constraint_(constraint) {}

 private:
  std::string name_, collective_;
  std::pair<size_t, size_t> range_;
  CollectiveBufferMode mode_;
  std::unordered_map<std::string, uint64_t> tags_;
  Algorithm::Constraint constraint_;
};

}  // namespace detail
}  // namespace goccl

template <>
struct std::hash<goccl::AlgorithmCtxKey> {
  std::size_t operator()(const goccl::AlgorithmCtxKey& k) const {
    std::size_t seed = 42;
    goccl::detail::hashCombine(seed, k.baseSendBuff);
    goccl::detail::hashCombine(seed, k.baseRecvBuff);
    goccl::detail::hashCombine(seed, k.baseSendSize);
    goccl::detail::hashCombine(seed, k.baseRecvSize);
    goccl::detail::hashCombine(seed, k.tag);
    return seed;
  }
};

namespace goccl {

// NativeAlgorithm calls init once, at the first execution, and contextInit once for each key; all ranks do both
// together, so keys change together on all ranks. kernel enqueues the work. It is for one communicator.
class NativeAlgorithm : public detail::Described<Algorithm> {
 public:
  using Extras = std::unordered_map<std::string, uintptr_t>;
  using InitFunc = std::function<void(std::shared_ptr<Communicator>)>;
  using KernelFunc = std::function<CommResult(const std::shared_ptr<void>, const void*, void*, size_t, size_t, DataType,
                                              ReduceOp, cudaStream_t, int, int, const Extras&, DataType)>;
  // An older form, without the type to accumulate in.
  using OlderKernelFunc = std::function<CommResult(const std::shared_ptr<void>, const void*, void*, size_t, size_t,
                                                   DataType, ReduceOp, cudaStream_t, int, int, const Extras&)>;
  using ContextInitFunc =
      std::function<std::shared_ptr<void>(std::shared_ptr<Communicator>, const void*, void*, size_t, size_t, DataType)>;
  using ContextKeyGenFunc = std::function<AlgorithmCtxKey(const void*, void*, size_t, size_t, DataType, bool)>;
  // An older form, without the promise that memory is symmetric.
  using OlderContextKeyGenFunc = std::function<AlgorithmCtxKey(const void*, void*, size_t, size_t, DataType)>;

  template <class Kernel, class Key>
  NativeAlgorithm(std::string name, std::string collective, InitFunc init, Kernel kernel, ContextInitFunc contextInit,
                  Key contextKey, size_t minMessageSize = 0, size_t maxMessageSize = UINT64_MAX,
                  CollectiveBufferMode mode = CollectiveBufferMode::Any,
                  std::unordered_map<std::string, uint64_t> tags = {}, Constraint constraint = {})
      : Described(std::move(name), std::move(collective), {minMessageSize, maxMessageSize}, mode, std::move(tags),
                  constraint),
        init_(std::move(init)),
        kernel_(kernelOf(std::move(kernel))),
        contextInit_(std::move(contextInit)),
        key_(keyOf(std::move(contextKey))) {}

  AlgorithmType type() const override { return AlgorithmType::Native; }
  CommResult execute(std::shared_ptr<Communicator> comm, const void* input, void* output, size_t inputSize,
                     size_t outputSize, DataType type, ReduceOp op, cudaStream_t stream, std::shared_ptr<Executor>,
                     int nBlocks = 0, int nThreadsPerBlock = 0, bool symmetricMemory = false, const Extras& extras = {},
                     DataType accumulate = DataType::AUTO) override {
    if (!communicator_) {
      init_(comm);
      communicator_ = comm;
    } else if (communicator_ != comm) {
      detail::misuse("algorithm " + name() + " was executed on another communicator before: make one for each");
    }
    const auto key = key_(input, output, inputSize, outputSize, type, symmetricMemory);
    auto found = contexts_.find(key);
    if (found == contexts_.end())
      found = contexts_.emplace(key, contextInit_(comm, input, output, inputSize, outputSize, type)).first;
    return kernel_(found->second, input, output, inputSize, outputSize, type, op, stream, nBlocks, nThreadsPerBlock,
                   extras, accumulate == DataType::AUTO ? type : accumulate);
  }
  // reset forgets the contexts. No kernel may run, and all ranks do it together.
  void reset() override { contexts_.clear(); }

 private:
  template <class F>
  static KernelFunc kernelOf(F f) {
    if constexpr (std::is_constructible_v<KernelFunc, F>) {
      return f;
    } else {
      return [older = OlderKernelFunc(std::move(f))](const std::shared_ptr<void> c, const void* in, void* out, size_t n,
                                                     size_t m, DataType t, ReduceOp op, cudaStream_t s, int blocks,
                                                     int threads, const Extras& extras, DataType) {
        return older(c, in, out, n, m, t, op, s, blocks, threads, extras);
      };
    }
  }
  template <class F>
  static ContextKeyGenFunc keyOf(F f) {
    if constexpr (std::is_constructible_v<ContextKeyGenFunc, F>) {
      return f;
    } else {
      return [older = OlderContextKeyGenFunc(std::move(f))](const void* in, void* out, size_t n, size_t m, DataType t,
                                                            bool) { return older(in, out, n, m, t); };
    }
  }

  InitFunc init_;
  KernelFunc kernel_;
  ContextInitFunc contextInit_;
  ContextKeyGenFunc key_;
  std::shared_ptr<Communicator> communicator_;
  std::unordered_map<AlgorithmCtxKey, std::shared_ptr<void>> contexts_;
};

class DslAlgorithm : public detail::Described<Algorithm>,
                     public AlgorithmBuilder,
                     public std::enable_shared_from_this<DslAlgorithm> {
 public:
  DslAlgorithm(std::string id, ExecutionPlan plan, std::unordered_map<std::string, uint64_t> tags = {},
               Constraint constraint = {})
      : Described(plan.name(), plan.collective(), {plan.minMessageSize(), plan.maxMessageSize()},
                  plan.isInPlace() ? CollectiveBufferMode::InPlace : CollectiveBufferMode::OutOfPlace, std::move(tags),
                  constraint),
        plan_(std::move(plan)),
        id_(std::move(id)) {}

  AlgorithmType type() const override { return AlgorithmType::DSL; }
  const std::string& id() const { return id_; }
  CommResult execute(std::shared_ptr<Communicator> comm, const void* input, void* output, size_t inputSize,
                     size_t outputSize, DataType type, ReduceOp op, cudaStream_t stream,
                     std::shared_ptr<Executor> executor, int nBlocks = 0, int nThreadsPerBlock = 0, bool = false,
                     const std::unordered_map<std::string, uintptr_t>& = {}, DataType = DataType::AUTO) override {
    if (!executor) detail::misuse(name() + " is a plan: give an Executor of the communicator");
    if (nBlocks || nThreadsPerBlock)
      detail::misuse(name() + " is a plan, which has its own blocks and threads: leave both 0");
    if (op != SUM && op != NOP) detail::misuse(name() + ": plans are executed with sums");
    executor->execute(comm->bootstrap()->getRank(), const_cast<void*>(input), output, inputSize, outputSize, type,
                      plan_, stream);
    return CommResult::CommSuccess;
  }
  void reset() override {}
  std::shared_ptr<Algorithm> build() override { return shared_from_this(); }

 private:
  ExecutionPlan plan_;
  std::string id_;
};

}  // namespace goccl
