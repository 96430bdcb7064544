// Algorithm, and how it is called from another language: through a table of C functions whose address follows the
// object's virtual table.
#pragma once

#include <cstdio>
#include <functional>
#include <goccl/executor.hpp>
#include <string>
#include <unordered_map>

namespace goccl {

// The name of a PyCapsule whose pointer is a std::shared_ptr<Algorithm>*.
constexpr char ALGORITHM_NATIVE_CAPSULE_NAME[] = "mscclpp::AlgorithmPtr";

enum class CollectiveBufferMode { Any = 0, InPlace, OutOfPlace };
enum class AlgorithmType { Native = 0, DSL };
enum class CommResult {
  CommSuccess = 0,
  CommUnhandledCudaError = 1,
  CommSystemError = 2,
  CommInternalError = 3,
  CommInvalidArgument = 4,
  CommInvalidUsage = 5,
  CommRemoteError = 6,
  CommInProgress = 7,
  CommNumResults = 8
};

class Algorithm;

namespace detail {

// python/goccl/algorithm.py reads it. Functions do not throw: they return a CommResult, or -1 with a text.
struct AlgorithmCall {
  goccl_bootstrap bootstrap;
  goccl_object context, communicator;
  const void* input;
  void* output;
  uint64_t inputSize, outputSize;
  int32_t type, op;  // type is goccl's
  uintptr_t stream;
  int32_t blocks, threads, symmetric, extras;
  const char* const* names;
  const uintptr_t* values;
};
struct AlgorithmTable {
  uint64_t magic;  // algorithmMagic
  const char* (*name)(const Algorithm*);
  const char* (*collective)(const Algorithm*);
  void (*range)(const Algorithm*, uint64_t* range);
  int32_t (*execute)(Algorithm*, const AlgorithmCall*, char* text, uint64_t size);
  int32_t (*reset)(Algorithm*, char* text, uint64_t size);
};
constexpr uint64_t algorithmMagic = 0x31474c41434f47;  // "GOCALG1"
inline const AlgorithmTable* algorithmTable();

}  // namespace detail

// Algorithm is executed by all ranks in the same order.
class Algorithm {
 public:
  struct Constraint {
    int worldSize = 0, nRanksPerNode = 0;  // 0: any
  };
  virtual ~Algorithm() = default;
  virtual const std::string& name() const = 0;
  virtual const std::string& collective() const = 0;
  virtual const std::pair<size_t, size_t>& messageRange() const = 0;
  virtual const std::unordered_map<std::string, uint64_t>& tags() const = 0;
  virtual const CollectiveBufferMode& bufferMode() const = 0;
  virtual AlgorithmType type() const = 0;
  virtual Constraint constraint() const = 0;
  virtual void setMessageSizeRange(size_t minMessageSize, size_t maxMessageSize) = 0;
  // Sizes are in bytes. nBlocks and nThreadsPerBlock are for kernels of one's own; 0 is the algorithm's choice.
  virtual CommResult execute(std::shared_ptr<Communicator> comm, const void* input, void* output, size_t inputSize,
                             size_t outputSize, DataType type, ReduceOp op, cudaStream_t stream,
                             std::shared_ptr<Executor> executor, int nBlocks = 0, int nThreadsPerBlock = 0,
                             bool symmetricMemory = false,
                             const std::unordered_map<std::string, uintptr_t>& extras = {},
                             DataType accumulate = DataType::AUTO) = 0;
  virtual void reset() = 0;

 private:
  [[maybe_unused]] const detail::AlgorithmTable* const table_ =
      detail::algorithmTable();  // the first member: at offset 8
};

class AlgorithmBuilder {
 public:
  virtual ~AlgorithmBuilder() = default;
  virtual std::shared_ptr<Algorithm> build() = 0;
};

namespace detail {

inline DataType dataTypeOf(int32_t type) {
  for (int t = 0; t <= static_cast<int>(DataType::UINT8); ++t) {
    const auto d = static_cast<DataType>(t);
    if (d != DataType::FLOAT8_E4M3FNUZ && d != DataType::FLOAT8_E5M2FNUZ && typeOf(d) == static_cast<uint32_t>(type))
      return d;
  }
  misuse("element type " + std::to_string(type) + " has no mscclpp::DataType");
}

// The communicators of callers, by handle: an algorithm sees the same object at each call. They do not own theirs.
inline std::shared_ptr<Communicator> borrowedCommunicator(const AlgorithmCall& call) {
  static std::mutex mutex;
  static std::map<goccl_object, std::shared_ptr<Communicator>> known;
  std::lock_guard<std::mutex> hold(mutex);
  auto& c = known[call.communicator];
  if (!c)
    c = std::make_shared<Communicator>(TcpBootstrap::borrow(call.bootstrap), Context::borrow(call.context),
                                       call.communicator);
  return c;
}

template <class F>
int32_t withoutThrowing(char* text, uint64_t size, F f) {
  try {
    return static_cast<int32_t>(f());
  } catch (const std::exception& e) {
    std::snprintf(text, size, "%s", e.what());
  } catch (...) {
    std::snprintf(text, size, "an exception that is no std::exception");
  }
  return -1;
}

inline const AlgorithmTable* algorithmTable() {
  static const AlgorithmTable table = {algorithmMagic,
                                       [](const Algorithm* a) { return a->name().c_str(); },
                                       [](const Algorithm* a) { return a->collective().c_str(); },
                                       [](const Algorithm* a, uint64_t* range) {
                                         range[0] = a->messageRange().first;
                                         range[1] = a->messageRange().second;
                                       },
                                       [](Algorithm* a, const AlgorithmCall* c, char* text, uint64_t size) {
                                         return withoutThrowing(text, size, [&] {
                                           std::unordered_map<std::string, uintptr_t> extras;
                                           for (int32_t i = 0; i < c->extras; ++i) extras[c->names[i]] = c->values[i];
                                           return a->execute(borrowedCommunicator(*c), c->input, c->output,
                                                             c->inputSize, c->outputSize, dataTypeOf(c->type),
                                                             static_cast<ReduceOp>(c->op),
                                                             reinterpret_cast<cudaStream_t>(c->stream), nullptr,
                                                             c->blocks, c->threads, c->symmetric != 0, extras);
                                         });
                                       },
                                       [](Algorithm* a, char* text, uint64_t size) {
                                         return withoutThrowing(text, size, [&] {
                                           a->reset();
                                           return CommResult::CommSuccess;
                                         });
                                       }};
  return &table;
}

}  // namespace detail
}  // namespace goccl
