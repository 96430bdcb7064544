// Algorithms: a native one of four functions, a plan, a collection of both, and the table by which other languages
// call.
#include <cstring>
#include <mscclpp/algorithm.hpp>
#include <mscclpp/ext/collectives/algorithm_collection_builder.hpp>
#include <vector>

#include "gather.hpp"

static void gather(mscclpp::Algorithm& a, const std::shared_ptr<mscclpp::Communicator>& comm, int rank, int n) {
  constexpr size_t size = 4096;
  mscclpp::GpuBuffer<char> input(size), output(size * static_cast<size_t>(n));
  for (int pass = 0; pass < 2; ++pass) {
    std::memset(input.data(), rank + 10 * pass + 1, size);
    CHECK(a.execute(comm, input.data(), output.data(), size, output.bytes(), mscclpp::DataType::UINT8,
                    mscclpp::ReduceOp::NOP, nullptr, nullptr) == mscclpp::CommResult::CommSuccess);
    for (size_t i = 0; i < output.bytes(); ++i) CHECK(output.data()[i] == static_cast<char>(i / size) + 10 * pass + 1);
    comm->bootstrap()->barrier();
  }
}

// table calls an algorithm as Python does: through the address that follows the virtual table's.
static void table(mscclpp::Algorithm& a, mscclpp::TcpBootstrap& bootstrap, mscclpp::Communicator& comm, int rank,
                  int n) {
  goccl::detail::AlgorithmTable* t;
  std::memcpy(&t, reinterpret_cast<char*>(&a) + sizeof(void*), sizeof t);
  CHECK(t->magic == goccl::detail::algorithmMagic && std::string(t->name(&a)) == "gather" &&
        std::string(t->collective(&a)) == "allgather");
  uint64_t range[2];
  t->range(&a, range);
  CHECK(range[0] == 0 && range[1] == UINT64_MAX);
  constexpr size_t size = 64;
  mscclpp::GpuBuffer<char> input(size), output(size * static_cast<size_t>(n));
  std::memset(input.data(), rank + 1, size);
  goccl::detail::AlgorithmCall call{};
  call.bootstrap = bootstrap.handle(), call.context = comm.context()->object()->handle,
  call.communicator = comm.object()->handle;
  call.input = input.data(), call.output = output.data(), call.inputSize = size, call.outputSize = output.bytes();
  call.type = GOCCL_UINT8, call.op = mscclpp::NOP;
  char text[200] = "";
  CHECK(t->execute(&a, &call, text, sizeof text) == 0);
  for (size_t i = 0; i < output.bytes(); ++i) CHECK(output.data()[i] == static_cast<char>(i / size) + 1);
  const char* name = "fail";
  const uintptr_t value = 1;
  call.extras = 1, call.names = &name, call.values = &value;
  CHECK(t->execute(&a, &call, text, sizeof text) == -1 && std::string(text) == "told to fail");
  comm.bootstrap()->barrier();
}

int main(int, char** argv) {
  const std::string where = argv[1], file = argv[2];
  constexpr int n = 2;
  if (ranks(n, [&](int rank) {
        auto bootstrap = std::make_shared<mscclpp::TcpBootstrap>(rank, n);
        bootstrap->initialize(where);
        auto comm = std::make_shared<mscclpp::Communicator>(bootstrap);
        auto builder = mscclpp::collective::AlgorithmCollectionBuilder::getInstance();
        builder->addAlgorithmBuilder(std::make_shared<Gather>());
        mscclpp::ExecutionPlan plan(file, rank);
        builder->addAlgorithmBuilder(std::make_shared<mscclpp::DslAlgorithm>("plan", plan));
        builder->setAlgorithmSelector([](const auto& all, const mscclpp::CollectiveRequest& request) {
          const auto found = all.find(request.collective);
          return found == all.end() ? nullptr : found->second.begin()->second;
        });
        auto collection = builder->build();
        CHECK(collection.getAllAlgorithms().size() == 2);

        gather(*collection.getAlgorithmsByCollective("allgather").at("gather"), comm, rank, n);
        Gather again;
        auto other = again.build();
        table(*other, *bootstrap, *comm, rank, n);

        const std::string reduce = plan.collective(), unknown = "broadcast";
        const std::unordered_map<std::string, std::vector<uint64_t>> hints;
        mscclpp::GpuBuffer<int32_t> numbers(1024);
        for (int i = 0; i < 1024; ++i) numbers.data()[i] = i + rank;
        auto chosen = collection.selectAlgorithm({n, n, rank, numbers.data(), numbers.data(), numbers.bytes(), nullptr,
                                                  reduce, mscclpp::DataType::INT32, hints});
        CHECK(chosen && chosen->type() == mscclpp::AlgorithmType::DSL &&
              chosen->bufferMode() == mscclpp::CollectiveBufferMode::InPlace);
        CHECK(!collection.selectAlgorithm(
            {n, n, rank, nullptr, nullptr, 0, nullptr, unknown, mscclpp::DataType::INT32, hints}));
        auto execute = [&](std::shared_ptr<mscclpp::Executor> executor) {
          chosen->execute(comm, numbers.data(), numbers.data(), numbers.bytes(), numbers.bytes(),
                          mscclpp::DataType::INT32, mscclpp::SUM, nullptr, executor);
        };
        CHECK(throws<mscclpp::Error>([&] { execute(nullptr); }).find("Executor") != std::string::npos);
        execute(std::make_shared<mscclpp::Executor>(comm));
        for (int i = 0; i < 1024; ++i) CHECK(numbers.data()[i] == 2 * i + 1);
        bootstrap->barrier();
        mscclpp::collective::AlgorithmCollectionBuilder::reset();
      }))
    return 1;
  std::puts("Succeed!");
}
