// AlgorithmCollection: algorithms by collective and name, and the functions that choose among them.
#pragma once

#include <goccl/algorithm.hpp>

namespace goccl {

struct CollectiveRequest {
  int worldSize, nRanksPerNode, rank;
  const void* inputBuffer;
  void* outputBuffer;
  size_t messageSize;
  cudaStream_t stream;
  const std::string& collective;
  const DataType dtype;
  const std::unordered_map<std::string, std::vector<uint64_t>>& hints;

  // In place means that this rank's part of the larger buffer is the smaller one.
  CollectiveBufferMode bufferMode() const {
    const char* in = static_cast<const char*>(inputBuffer);
    const char* out = static_cast<char*>(outputBuffer);
    const size_t at = static_cast<size_t>(rank) * messageSize;
    const bool same = collective == "allgather"       ? in == out + at
                      : collective == "reducescatter" ? out == in + at
                                                      : in == out;
    return same ? CollectiveBufferMode::InPlace : CollectiveBufferMode::OutOfPlace;
  }
};

using AlgorithmMap = std::unordered_map<std::string, std::unordered_map<std::string, std::shared_ptr<Algorithm>>>;
using AlgoSelectFunc = std::function<std::shared_ptr<Algorithm>(const AlgorithmMap&, const CollectiveRequest&)>;

class AlgorithmCollection {
 public:
  // selectAlgorithm asks the program's selector, then the fallback; the result is null where neither chooses.
  std::shared_ptr<Algorithm> selectAlgorithm(const CollectiveRequest& request) {
    for (const auto& select : {selector_, fallback_})
      if (select)
        if (auto chosen = select(algorithms_, request)) return chosen;
    return nullptr;
  }
  void registerAlgorithm(const std::string collective, const std::string name, std::shared_ptr<Algorithm> algorithm) {
    algorithms_[collective][name] = std::move(algorithm);
  }
  std::unordered_map<std::string, std::shared_ptr<Algorithm>> getAlgorithmsByCollective(
      const std::string& collective) const {
    const auto found = algorithms_.find(collective);
    return found == algorithms_.end() ? std::unordered_map<std::string, std::shared_ptr<Algorithm>>() : found->second;
  }
  std::vector<std::shared_ptr<Algorithm>> getAllAlgorithms() const {
    std::vector<std::shared_ptr<Algorithm>> all;
    for (const auto& c : algorithms_)
      for (const auto& a : c.second) all.push_back(a.second);
    return all;
  }
  void extend(const AlgorithmCollection& other) {
    for (const auto& c : other.algorithms_)
      for (const auto& a : c.second) algorithms_[c.first][a.first] = a.second;
  }
  void setSelectors(AlgoSelectFunc selector, AlgoSelectFunc fallback) {
    selector_ = std::move(selector);
    fallback_ = std::move(fallback);
  }

 private:
  AlgorithmMap algorithms_;
  AlgoSelectFunc selector_, fallback_;
};

// AlgorithmCollectionBuilder gathers algorithms; the process has one.
class AlgorithmCollectionBuilder {
 public:
  static std::shared_ptr<AlgorithmCollectionBuilder> getInstance() {
    auto& b = instance();
    if (!b) b.reset(new AlgorithmCollectionBuilder);
    return b;
  }
  static void reset() { instance() = nullptr; }
  void addAlgorithmBuilder(std::shared_ptr<AlgorithmBuilder> builder) { builders_.push_back(std::move(builder)); }
  void setAlgorithmSelector(AlgoSelectFunc selector) { selector_ = std::move(selector); }
  void setFallbackAlgorithmSelector(AlgoSelectFunc selector) { fallback_ = std::move(selector); }
  AlgorithmCollection build() {
    AlgorithmCollection out;
    for (const auto& b : builders_) {
      auto a = b->build();
      out.registerAlgorithm(a->collective(), a->name(), a);
    }
    out.setSelectors(selector_, fallback_);
    return out;
  }

 private:
  AlgorithmCollectionBuilder() = default;
  static std::shared_ptr<AlgorithmCollectionBuilder>& instance() {
    static std::shared_ptr<AlgorithmCollectionBuilder> b;
    return b;
  }
  std::vector<std::shared_ptr<AlgorithmBuilder>> builders_;
  AlgoSelectFunc selector_, fallback_;
};

}  // namespace goccl
