// A native algorithm without a kernel, for tests of C++ and of Python modules.
#pragma once

#include <cstring>
#include <mscclpp/algorithm.hpp>
#include <vector>

#include "test.hpp"

// Gather writes every rank's input into all outputs, from the host.
struct Gather : mscclpp::AlgorithmBuilder {
  struct Context {
    std::vector<mscclpp::RegisteredMemory> outputs;
    mscclpp::RegisteredMemory input;
  };
  std::vector<mscclpp::Connection> connections;  // one for each other rank, in order
  std::shared_ptr<mscclpp::Communicator> comm;
  int initialized = 0, contexts = 0;

  std::shared_ptr<mscclpp::Algorithm> build() override {
    auto self = std::make_shared<Gather>();
    return std::make_shared<mscclpp::NativeAlgorithm>(
        "gather", "allgather", [self](std::shared_ptr<mscclpp::Communicator> c) { self->initialize(c); },
        [self](const std::shared_ptr<void> ctx, const void* input, void* output, size_t inputSize, size_t,
               mscclpp::DataType, mscclpp::ReduceOp, cudaStream_t, int, int,
               const std::unordered_map<std::string, uintptr_t>& extras, mscclpp::DataType) {
          if (extras.count("fail")) throw std::runtime_error("told to fail");
          return self->run(*static_cast<Context*>(ctx.get()), input, output, inputSize);
        },
        [self](std::shared_ptr<mscclpp::Communicator> c, const void* input, void* output, size_t inputSize,
               size_t outputSize,
               mscclpp::DataType) { return self->context(*c, input, output, inputSize, outputSize); },
        [](const void* input, void* output, size_t inputSize, size_t outputSize, mscclpp::DataType, bool) {
          return mscclpp::AlgorithmCtxKey{const_cast<void*>(input), output, inputSize, outputSize, 0};
        });
  }

  void initialize(const std::shared_ptr<mscclpp::Communicator>& c) {
    comm = c;
    ++initialized;
    std::vector<std::shared_future<mscclpp::Connection>> futures;
    for (int r = 0; r < c->bootstrap()->getNranks(); ++r)
      if (r != c->bootstrap()->getRank()) futures.push_back(c->connect(mscclpp::Transport::CudaIpc, r));
    for (auto& f : futures) connections.push_back(f.get());
  }
  std::shared_ptr<void> context(mscclpp::Communicator& c, const void* input, void* output, size_t inputSize,
                                size_t outputSize) {
    CHECK(++contexts <= 2);
    auto ctx = std::make_shared<Context>();
    ctx->input = c.registerMemory(const_cast<void*>(input), inputSize, mscclpp::Transport::CudaIpc);
    auto mine = c.registerMemory(output, outputSize, mscclpp::Transport::CudaIpc);
    for (auto& conn : connections) {
      c.sendMemory(mine, c.remoteRankOf(conn));
      ctx->outputs.push_back(c.recvMemory(c.remoteRankOf(conn)).get());
    }
    return ctx;
  }
  mscclpp::CommResult run(Context& ctx, const void* input, void* output, size_t size) {
    CHECK(initialized == 1);
    const auto at = size * static_cast<size_t>(comm->bootstrap()->getRank());
    std::memcpy(static_cast<char*>(output) + at, input, size);
    for (size_t i = 0; i < connections.size(); ++i) {
      connections[i].write(ctx.outputs[i], at, ctx.input, 0, size);
      connections[i].flush();
    }
    comm->bootstrap()->barrier();
    return mscclpp::CommResult::CommSuccess;
  }
};
