// Runs the executor kernel's source on CPU threads: a job as emulate_test.go writes it comes in, every rank's output
// goes out. Ranks run their launches independently; between two, each rank overwrites its buffers as a caller would.
#include <executor/executor.cuh>

#ifdef EMULATE_FLOAT32  // quicker to build
#undef GOCCL_FOR_EACH_TYPE
#define GOCCL_FOR_EACH_TYPE(M) M(float32)
#undef GOCCL_FOR_EACH_KERNEL_TYPE
#define GOCCL_FOR_EACH_KERNEL_TYPE(M) M(float32)
#define BY_TYPE(M) M(float32)
#else  // by the number of the type: unsigned integers use the kernels of signed ones
#define BY_TYPE(M) \
  M(int8) M(int8) M(int32) M(int32) M(int64) M(int64) \
  M(float16) M(float32) M(float64) M(bfloat16) M(float8e4m3) M(float8e5m2)
#endif
#include <executor/executor.cu>

#include <internal/hosttest/testdata/network.hpp>

#include <cstring>
#include <string>

using executor::Args;

static FILE* file;

template <class T>
T get() {
  T v;
  CHECK(std::fread(&v, sizeof v, 1, file) == 1, "short job");
  return v;
}

struct Memory {
  std::unique_ptr<uint8_t[]> owner;
  uint8_t* data;
  uint64_t bytes;
  explicit Memory(uint64_t n) : owner(new uint8_t[n + 512]()), bytes(n) {
    data = owner.get() + (256 - reinterpret_cast<uintptr_t>(owner.get()) % 256);
  }
  void read() { CHECK(bytes == 0 || std::fread(data, bytes, 1, file) == 1, "short job"); }
};

// A hook of the plan: where its counter is, and the bytes that it guards. The caller writes those of the input, and
// reads those of the output, while the launch runs.
struct Hook {
  uint64_t* counter;
  bool takes;
  uint64_t at, bytes;
};

struct Rank {
  std::vector<Hook> hooks;
  uint32_t blocks = 0;
  uint64_t in = 0, out = 0, inAt = 0, outAt = 0;
  std::vector<std::unique_ptr<Memory>> memory;
  Memory* add(uint64_t n) {
    memory.push_back(std::make_unique<Memory>(n));
    return memory.back().get();
  }
  std::vector<hosts::Link> links;  // by rank, if there are other hosts
  executor::Far far{};
  Memory *buffers = nullptr, *input = nullptr, *result = nullptr;
  uint64_t* counts = nullptr;  // what the launch reads; the caller changes it between launches
  Args args{};
  bool quick = false;
  executor::QuickArgs quickArgs{};
};

using Kernel = void (*)(Args);
#define ENTRY(type) [](Args a) { GOCCL_ENTRY(execute_##type)(a); },
static const Kernel kernels[] = {BY_TYPE(ENTRY)};
using QuickKernel = void (*)(executor::QuickArgs);
#define QUICK(type) [](executor::QuickArgs a) { GOCCL_ENTRY(quick_##type)(a); },
static const QuickKernel quickKernels[] = {BY_TYPE(QUICK)};

#ifdef EMULATE_FLOAT32
constexpr uint32_t firstType = 7;
#else
constexpr uint32_t firstType = 0;
#endif

// meet is the caller's part of the n-th launch.
static void meet(Rank& k, Launch launch, uint64_t n, AbortBlock* abort) {
  for (const Hook& h : k.hooks) {
    if (!h.takes) continue;
    std::memcpy(k.buffers->data + k.inAt + h.at, k.input->data + h.at, h.bytes);
    addRelease<Scope::sys>(h.counter, uint64_t{1});
  }
  for (const Hook& h : k.hooks) {
    if (h.takes) continue;
    Status s = waitUntil([&] { return loadAcquire<Scope::sys>(h.counter) >= n; }, abort, nullptr, waitNone, -1, 0);
    if (s == statusOk) std::memcpy(k.result->data + h.at, k.buffers->data + k.outAt + h.at, h.bytes);
  }
  launch.join();
  for (const Hook& h : k.hooks)
    CHECK(h.takes || std::memcmp(k.result->data + h.at, k.buffers->data + k.outAt + h.at, h.bytes) == 0,
          "launch %llu: what the caller has read at %llu is not what is there", static_cast<unsigned long long>(n),
          static_cast<unsigned long long>(h.at));
}

int main(int argc, char** argv) {
  CHECK(argc == 3, "usage: emulate job result");
  file = std::fopen(argv[1], "rb");
  CHECK(file != nullptr, "%s", argv[1]);
  uint32_t n = get<uint32_t>(), threads = get<uint32_t>(), launches = get<uint32_t>(), type = get<uint32_t>(),
           first = get<uint32_t>();
  std::vector<uint32_t> host(n);
  for (uint32_t& h : host) h = get<uint32_t>();
  std::vector<std::vector<uint64_t>> counts(get<uint32_t>());  // by launch
  for (auto& table : counts)
    for (uint32_t i = 0; i < n * n; ++i) table.push_back(get<uint64_t>());
  constexpr uint32_t lanes = 2, slots = 4, slotBytes = executor::bodyAt + 64;
  ranks::Network network(host.back() > 0 ? n : 0, lanes, slots, slotBytes);
  AbortBlock abort{};
  abort.spinLimitNs = 20000000000;
  std::vector<Rank> ranks(n);
  for (uint32_t r = 0; r < n; ++r) {
    Rank& k = ranks[r];
    Args& a = k.args;
    k.blocks = get<uint32_t>();
    a.stride = get<uint32_t>();
    uint32_t links = get<uint32_t>(), barriers = get<uint32_t>(), semaphores = get<uint32_t>(),
             ownLinks = get<uint32_t>(), distant = get<uint32_t>();
    for (uint32_t i = 0; i < distant; ++i) k.far.peer[i] = static_cast<uint16_t>(get<uint32_t>());
    a.op = get<uint32_t>(), a.linear = get<uint32_t>(), a.period = get<uint32_t>(), a.shift = get<uint32_t>(),
    a.publish = get<uint32_t>();
    if (type == 1 || type == 3 || type == 5) a.op |= unsignedBit;
    k.quick = get<uint32_t>() != 0;
    a.block = get<uint64_t>(), a.chunk = get<uint64_t>();
    uint64_t scratch = get<uint64_t>();
    executor::Rank own{};
    for (auto& v : own.plain) v = get<uint64_t>();
    for (auto& v : own.packets) v = get<uint64_t>();
    own.planeBytes = get<uint64_t>();
    uint64_t total = get<uint64_t>();
    k.in = get<uint64_t>(), k.inAt = get<uint64_t>(), k.out = get<uint64_t>(), k.outAt = get<uint64_t>();
    own.size[0] = k.in, own.size[1] = k.out;
    own.control = k.add(executor::controlInbound + executor::inboundStride * uint64_t{links})->data;
    own.scratch = k.add(scratch)->data;
    for (uint32_t o = 0; o < n; ++o) {  // a rank of another host has no address here
      ranks[o].args.rank[r] = own;
      if (host[o] != host[r]) ranks[o].args.rank[r].control = ranks[o].args.rank[r].scratch = nullptr;
    }
    a.barriers = reinterpret_cast<DeviceSyncer*>(k.add(16 * uint64_t{barriers})->data);
    a.semaphores = reinterpret_cast<DeviceSemaphore*>(k.add(8 * uint64_t{semaphores})->data);
    for (uint32_t i = 0; i < semaphores; ++i) a.semaphores[i].set(get<uint32_t>());
    a.expected = reinterpret_cast<uint64_t*>(k.add(8 * uint64_t{links})->data);
    a.peers = reinterpret_cast<uint64_t*>(k.add(uint64_t{k.blocks} * executor::maxRanks * 16)->data);
    a.abort = &abort;
    a.self = r, a.nranks = n, a.signature = 77;
    if (distant > 0) {
      for (uint32_t p = 0; p < n; ++p) k.links.push_back(network.link(r, p));
      DeviceSemaphore* locks = reinterpret_cast<DeviceSemaphore*>(k.add(8 * uint64_t{n} * lanes)->data);
      for (uint32_t i = 0; i < n * lanes; ++i) locks[i].set(1);
      uint32_t* words = reinterpret_cast<uint32_t*>(k.add(4 * uint64_t{n} + 4)->data);
      executor::Far& f = k.far;
      f.abort = &abort, f.links = k.links.data(), f.lanes = lanes, f.slots = slots, f.slotBytes = slotBytes,
      f.blocks = k.blocks, f.locks = locks, f.turns = words + 1, f.left = words, f.plan = 5, f.count = ownLinks,
      f.peers = distant;
      a.far = &f;
    }
    Memory* program = k.add(uint64_t{k.blocks} * a.stride);
    program->read();
    a.program = program->data;
    for (uint32_t b = 0; b < k.blocks; ++b)
      reinterpret_cast<executor::Header*>(a.program + uint64_t{b} * a.stride)->epoch = first;
    a.shared = a.stride <= sizeof(Group::shared);
    for (uint32_t h = get<uint32_t>(); h > 0; --h) {
      uint32_t link = get<uint32_t>(), takes = get<uint32_t>();
      uint64_t at = get<uint64_t>(), bytes = get<uint64_t>();
      k.hooks.push_back(Hook{reinterpret_cast<uint64_t*>(own.control + executor::controlInbound +
                                                         executor::inboundStride * uint64_t{link}),
                             takes != 0, at, bytes});
    }
    a.bulk = 128;  // there are no pipes here, but their copies
    k.buffers = k.add(total);
    k.input = k.add(k.in);
    k.input->read();
    k.result = k.add(k.out);
    if (!counts.empty()) k.counts = reinterpret_cast<uint64_t*>(k.add(8 * uint64_t{n} * n)->data);
    a.counts = k.counts;
    a.buffer[0] = k.buffers->data + k.inAt, a.buffer[1] = k.buffers->data + k.outAt;
    a.offset[0] = k.inAt, a.offset[1] = k.outAt;
  }
  for (Rank& k : ranks) {
    uint64_t* regions =
        reinterpret_cast<uint64_t*>(k.add(uint64_t{executor::maxRanks} * executor::maxRegions * 8)->data);
    for (uint32_t r = 0; r < n; ++r)
      regions[r * executor::maxRegions] = reinterpret_cast<uint64_t>(ranks[r].buffers->data);
    k.args.regions = regions;
  }
  for (uint32_t r = 0; r < n; ++r) {
    const Args& a = ranks[r].args;
    executor::QuickArgs& q = ranks[r].quickArgs;
    for (uint32_t p = 0; p < n; ++p) {
      for (uint32_t h = 0; h < 2; ++h) q.packets[p][h] = a.rank[p].scratch + a.rank[p].packets[h];
      q.room[p] = a.rank[p].planeBytes;
    }
    for (uint32_t h = 0; h < 2; ++h)
      q.buffer[h] = a.buffer[h], q.size[h] = a.rank[r].size[h], q.plain[h] = a.rank[r].scratch + a.rank[r].plain[h];
    q.program = a.program, q.abort = a.abort, q.chunk = a.chunk, q.self = r, q.shift = a.shift, q.stride = a.stride;
    CHECK(!ranks[r].quick || a.shared, "%u bytes of program", a.stride);
  }
  std::vector<std::thread> all;
  for (Rank& k : ranks)
    all.emplace_back([&k, &abort, &counts, threads, launches, type] {
      for (uint32_t i = 0; i < launches; ++i) {
        std::memset(k.buffers->data, 0xA5, k.buffers->bytes);
        if (k.counts != nullptr) std::memcpy(k.counts, counts[i].data(), 8 * counts[i].size());
        if (k.in) std::memcpy(k.buffers->data + k.inAt, k.input->data, k.in);
        for (const Hook& h : k.hooks)
          if (h.takes) std::memset(k.buffers->data + k.inAt + h.at, 0x5A, h.bytes);
        if (k.quick)
          Launch(k.blocks, threads, quickKernels[type - firstType], k.quickArgs).join();
        else
          meet(k, Launch(k.blocks + (k.args.far != nullptr ? lanes : 0), threads, kernels[type - firstType], k.args),
               i + 1, &abort);
        if (k.out) std::memcpy(k.result->data, k.buffers->data + k.outAt, k.out);
      }
    });
  for (auto& t : all) t.join();
  CHECK(abort.reported == 0, "status %x at block %u op %u, wait %u for %u", abort.reported,
        static_cast<uint32_t>(abort.detail >> 32), static_cast<uint32_t>(abort.detail), abort.op, abort.peer);
  file = std::fopen(argv[2], "wb");
  CHECK(file != nullptr, "%s", argv[2]);
  for (Rank& k : ranks) CHECK(k.out == 0 || std::fwrite(k.result->data, k.out, 1, file) == 1, "cannot write");
  std::fclose(file);
}
