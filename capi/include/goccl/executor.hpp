// Executor: runs plans, which list what each thread block of each rank does. Programs of MSCCL++'s language are plans
// too.
#pragma once

#include <fstream>
#include <goccl/core.hpp>
#include <goccl/data_type.hpp>
#include <goccl/stream.hpp>
#include <iterator>
#include <map>

namespace goccl {

namespace detail {

inline uint32_t typeOf(DataType t) {
  static const int types[] = {GOCCL_INT32,      GOCCL_UINT32, GOCCL_FLOAT16,    GOCCL_FLOAT32, GOCCL_BFLOAT16,
                              GOCCL_FLOAT8E4M3, -1,           GOCCL_FLOAT8E5M2, -1,            GOCCL_UINT8};
  const auto i = static_cast<size_t>(t);
  if (i >= sizeof types / sizeof *types || types[i] < 0)
    misuse("data type " + std::to_string(static_cast<int>(t)) +
           ": goccl has the OCP forms of 8-bit floats, E4M3FN and E5M2, and no AUTO here");
  return static_cast<uint32_t>(types[i]);
}

// member is a value of a flat JSON object, without quotes: goccl_plan_check's report.
inline std::string member(const std::string& json, const std::string& key) {
  const auto at = json.find("\"" + key + "\":");
  if (at == std::string::npos) throw Error("the library's report of a plan has no " + key, ErrorCode::InternalError);
  auto from = at + key.size() + 3;
  std::string out;
  if (json[from] != '"') {
    while (from < json.size() && json[from] != ',' && json[from] != '}') out += json[from++];
    return out;
  }
  for (++from; from < json.size() && json[from] != '"'; ++from) {
    if (json[from] == '\\') ++from;
    out += json[from];
  }
  return out;
}

}  // namespace detail

// ExecutionPlan is a plan file, verified when it is read: a plan that is wrong throws an Error with the reason.
class ExecutionPlan {
 public:
  ExecutionPlan(const std::string& path, int rank) : rank_(rank) {
    std::ifstream in(path, std::ios::binary);
    if (!in) throw SysError("plan " + path + " cannot be read", errno);
    auto text = std::make_shared<std::string>(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    void* data = nullptr;
    uint64_t size = 0;
    const goccl_result r = goccl_plan_check(text->data(), text->size(), &data, &size);
    if (r != GOCCL_SUCCESS) throw Error("plan " + path + ": " + goccl_last_error(), ErrorCode::ExecutorError, r);
    const std::string report(static_cast<char*>(data), size);
    goccl_release(data);
    name_ = detail::member(report, "name");
    collective_ = detail::member(report, "collective");
    min_ = std::stoull(detail::member(report, "min_message_size"));
    max_ = std::stoull(detail::member(report, "max_message_size"));
    inPlace_ = detail::member(report, "inplace") == "true";
    text_ = std::move(text);
  }
  const std::string& name() const { return name_; }
  const std::string& collective() const { return collective_; }
  size_t minMessageSize() const { return min_; }
  size_t maxMessageSize() const { return max_; }
  bool isInPlace() const { return inPlace_; }
  int rank() const { return rank_; }
  const std::shared_ptr<const std::string>& text() const { return text_; }

 private:
  int rank_;
  std::shared_ptr<const std::string> text_;
  std::string name_, collective_;
  size_t min_ = 0, max_ = 0;
  bool inPlace_ = false;
};

// Executor is made by all ranks of a communicator together, for the current device; so is the first execution of each
// plan.
class Executor {
 public:
  // Scratch memory is the executor's own.
  explicit Executor(std::shared_ptr<Communicator> communicator,
                    [[maybe_unused]] std::shared_ptr<char> defaultScratchBuffer = nullptr)
      : communicator_(std::move(communicator)), device_(detail::currentDevice()) {
    reset();
  }
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // A stream of 0 is the default stream. On the host device the call then waits.
  void execute(int rank, void* send, void* recv, size_t sendSize, size_t recvSize, DataType type,
               const ExecutionPlan& plan, cudaStream_t stream, [[maybe_unused]] PacketType packets = PacketType::LL16) {
    if (rank != communicator_->bootstrap()->getRank())
      detail::misuse("rank " + std::to_string(rank) + ": this is the executor of rank " +
                     std::to_string(communicator_->bootstrap()->getRank()));
    auto& loaded = plans_[*plan.text()];
    if (!loaded)
      loaded = detail::make("load a plan", {object_}, goccl_executor_load, object_->handle, plan.text()->data(),
                            plan.text()->size(), uint64_t{0});
    const size_t message = plan.collective() == "allgather" ? recvSize : sendSize;
    auto on = reinterpret_cast<uintptr_t>(stream);
    int32_t kind = 0, index = 0;
    detail::check(goccl_device_id(device_, &kind, &index), "device");
    const bool own = !on && kind == GOCCL_DEVICE_HOST;
    if (own && !stream_) detail::check(goccl_stream_create(device_, &stream_), "create a stream");
    if (own) on = stream_;
    detail::check(
        goccl_executor_launch(loaded->handle, reinterpret_cast<uintptr_t>(send), reinterpret_cast<uintptr_t>(recv),
                              message, on, detail::typeOf(type), GOCCL_SUM, 0),
        "execute a plan");
    if (!own) return;
    detail::check(goccl_stream_synchronize(device_, on, 0), "execute a plan");
    detail::check(goccl_executor_error(object_->handle), "execute a plan");
  }
  // reset forgets all plans. All ranks do it together.
  void reset() {
    plans_.clear();
    object_ = nullptr;
    object_ = detail::make("create an executor", {communicator_}, goccl_executor_create,
                           communicator_->bootstrapHandle(), device_, int64_t{0});
  }
  ~Executor() {
    plans_.clear();
    object_ = nullptr;
    if (stream_) (void)goccl_stream_destroy(device_, stream_);
  }

 private:
  std::shared_ptr<Communicator> communicator_;
  goccl_device device_;
  uintptr_t stream_ = 0;  // for calls without one on the host device
  detail::ObjectPtr object_;
  std::map<std::string, detail::ObjectPtr> plans_;  // by text
};

}  // namespace goccl
