// Work in place by bulk copies, on ranks that drift apart: direct NAME SEED LAUNCHES [MUTATION...], and what orders the
// copies: direct litmus NUMBER. NAME pipe is BulkPipe, and streams are messages between pairs. Every other launch has
// random inputs, sizes, roots, places and layouts. Memory that holds no result must be as it was, bit for bit.
#include "pipes.hpp"

#include "exchange.hpp"

namespace ranks {

using namespace goccl::collective;

enum class What { allReduce, reduceScatter, reduce, allGather, allToAll, gather, scatter, broadcast };

// Job is a kernel and what it does. A sum is bits of a vector of results, from a vector of each rank.
struct Job {
  const char* name;
  What what;
  void (*kernel)(const DirectArgs&);
  uint4 (*sum)(const std::vector<Args>& args, uint32_t rank, const std::vector<uint4>& v);
  uint4 (*element)(uint64_t random);  // a vector of sane numbers
  uint32_t size, unit;                // bytes of an element, of a message
  std::vector<uint32_t> ops;
};

inline uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}
template <class... N>
inline uint64_t mix(uint64_t x, uint64_t y, N... more) {
  return mix(mix(x) ^ y, more...);
}

template <Type T>
uint4 vectorOf(uint64_t random) {
  using A = typename Element<T>::Accumulator;
  A all[Element<T>::perVector];
  for (A& v : all) {
    random = mix(random);
    if constexpr (std::is_integral_v<A>)
      v = static_cast<A>(random);
    else
      v = static_cast<A>(static_cast<double>(static_cast<int64_t>(random)) * 0x1p-61);
  }
  return pack<T>(all);
}

// The sum of one vector in rank order: the arithmetic is tested elsewhere.
template <class R>
uint4 sumOf(const std::vector<Args>& args, uint32_t rank, const std::vector<uint4>& v) {
  const R own(args[rank]);
  typename R::Sum s;
  own.begin(s, R(args[0]).scaled(v[0]));
  for (uint32_t q = 1; q < v.size(); ++q) own.add(s, R(args[q]).scaled(v[q]));
  return own.end(s);
}
template <class R, uint32_t J>
void reduceKernel(const DirectArgs& a) {
  DirectReduce<R, J>(a).run();
}
void moveKernel(const DirectArgs& a) { DirectMove(a).run(); }

template <Type T>
Job sums(const char* name, bool scatter) {
  using R = Reducer<T, Op::sum, false>;
  return {name,
          scatter ? What::reduceScatter : What::allReduce,
          scatter ? reduceKernel<R, scatters> : reduceKernel<R, gathers>,
          sumOf<R>,
          vectorOf<T>,
          Element<T>::size,
          16,
          {opSum, opAvg}};
}
template <Type T>
Job any(const char* name, What what) {
  using R = AnyReducer<T>;
  return {name,
          what,
          reduceKernel<R, anyJob>,
          sumOf<R>,
          vectorOf<T>,
          Element<T>::size,
          what == What::reduceScatter ? 16 : Element<T>::size,
          {opSum, opProd, opMax, opMin, opAvg, opPreMulSum}};
}
Job move(const char* name, What what, uint32_t unit) {
  return {name, what, moveKernel, nullptr, vectorOf<Type::int8>, 1, unit, {opSum}};
}

// The long form has all types, for which the compiler needs twice the time.
const std::vector<Job> reductions = {
    sums<Type::float32>("sums of float32", false),
    any<Type::int8>("all-reduce of int8", What::allReduce),
    any<Type::float32>("reduce of float32", What::reduce),
    sums<Type::bfloat16>("sums of bfloat16", false),
    any<Type::float16>("reduce of float16", What::reduce),
    any<Type::int8>("reduce of int8", What::reduce),
#if GOCCL_FULL
    any<Type::float8e4m3>("all-reduce of float8e4m3", What::allReduce),
    any<Type::float64>("reduce of float64", What::reduce),
    any<Type::int64>("all-reduce of int64", What::allReduce),
    any<Type::bfloat16>("reduce of bfloat16", What::reduce),
    sums<Type::float16>("sums of float16", false),
    any<Type::int32>("all-reduce of int32", What::allReduce),
    any<Type::float8e5m2>("reduce of float8e5m2", What::reduce),
#endif
};
const std::vector<Job> scatterings = {
    sums<Type::float32>("scattered sums of float32", true),
    any<Type::int8>("reduce-scatter of int8", What::reduceScatter),
#if GOCCL_FULL
    sums<Type::bfloat16>("scattered sums of bfloat16", true),
    any<Type::float16>("reduce-scatter of float16", What::reduceScatter),
    sums<Type::float16>("scattered sums of float16", true),
    any<Type::int32>("reduce-scatter of int32", What::reduceScatter),
#endif
};
const std::vector<Job> moves = {
    move("all-gather", What::allGather, 16),
    move("all-to-all of bytes", What::allToAll, 1),
    move("all-gather of bytes", What::allGather, 1),
    move("broadcast", What::broadcast, 1),
    move("all-to-all", What::allToAll, 16),
    move("gather", What::gather, 1),
    move("scatter", What::scatter, 16),
};

constexpr uint32_t blocksAtMost = 2, workersOfBlock = 2 * warpSize, threadsOfBlock = workersOfBlock + directHelpers,
                   slot = 2 * pullBytes;

// Fleet is what outlives launches: a window and the blocks' counts for each rank. Devices serve one fleet after
// another.
struct Fleet {
  const uint32_t n;
  const uint64_t seed;
  const std::vector<Job>& jobs;
  std::vector<std::unique_ptr<Memory>> windows;
  std::vector<std::vector<uint32_t>> epochs;
  std::vector<std::unique_ptr<bulk::Device>>& devices;

  Fleet(uint32_t ranksN, uint64_t randomSeed, const std::vector<Job>& all,
        std::vector<std::unique_ptr<bulk::Device>>& ranksDevices)
      : n(ranksN), seed(randomSeed), jobs(all), devices(ranksDevices) {
    for (uint32_t r = 0; r < n; ++r) {
      windows.push_back(std::make_unique<Memory>(2 * n * slot + blocksAtMost * n * directLine));
      epochs.emplace_back(blocksAtMost * epochStride, 0);
    }
    while (devices.size() < n)
      devices.push_back(
          std::make_unique<bulk::Device>(blocksAtMost, threadsOfBlock, static_cast<uint32_t>(seed + devices.size())));
  }

  uint64_t random(uint32_t launch, uint32_t what, uint64_t i = 0) const { return mix(seed, n, launch, what, i); }
  // input writes what rank r puts in.
  std::vector<uint8_t> input(const Job& job, uint32_t launch, uint32_t r, uint64_t bytes) const {
    std::vector<uint8_t> v((bytes + 15) / 16 * 16);
    for (uint64_t i = 0; i < v.size(); i += 16) {
      const uint4 x = job.element(random(launch, 100 + r, i));
      std::memcpy(&v[i], &x, 16);
    }
    v.resize(bytes);
    return v;
  }

  void once(uint32_t rank, uint32_t launch);
  void run(uint32_t launches) {
    std::vector<Thread> hosts;
    for (uint32_t r = 0; r < n; ++r)
      hosts.emplace_back([this, r, launches] {
        for (uint32_t l = 0; l < launches; ++l) once(r, l);
      });
    for (auto& h : hosts) h.join();
  }
};

void Fleet::once(uint32_t rank, uint32_t launch) {
  const Job& job = jobs[(seed + launch) % jobs.size()];
  auto dice = [&](uint32_t what, uint64_t below) { return random(launch, what) % below; };
  // Sizes: an element, less than a chunk, many chunks of each block. Pieces are for buffers that are not mapped, which
  // every fourth launch has.
  const bool whole = job.what == What::allReduce || job.what == What::reduce;
  const uint64_t most[] = {4000, 60, 4000, 600, 1}, some = most[launch % 5], spread = some - dice(0, (some + 1) / 2);
  const uint64_t bytes = (1 + (spread - 1) * (whole ? n : 1) / job.unit) * job.unit;
  const uint32_t blocks = static_cast<uint32_t>(1 + dice(2, blocksAtMost)), root = static_cast<uint32_t>(dice(3, n)),
                 op = job.ops[dice(4, job.ops.size())];
  const bool inPlace = dice(5, 2) == 0, isMapped = launch % 4 != 2, isMove = job.sum == nullptr,
             rooted = job.what == What::reduce || job.what >= What::gather;
  const uint64_t shift = dice(7, 3) == 0 ? job.size * dice(8, 16 / job.size) : 0;
  const bool isRoot = rank == root, slicedIn = job.what == What::reduceScatter || job.what == What::allToAll,
             slicedOut = job.what == What::allGather || job.what == What::allToAll;
  uint64_t in = slicedIn ? n * bytes : bytes, out = slicedOut ? n * bytes : bytes, inAt = 0, outAt = 0;
  if (job.what == What::scatter) in = isRoot ? n * bytes : 0;
  if (job.what == What::gather) out = isRoot ? n * bytes : 0;
  if (job.what == What::reduce && !isRoot) out = 0;
  if (job.what == What::broadcast && !isRoot && !inPlace) in = 0;
  if (job.what == What::allGather || job.what == What::gather) inAt = rank * bytes;
  if (job.what == What::reduceScatter || job.what == What::scatter) outAt = rank * bytes;

  // An arena holds both buffers; in place, one lies in the other.
  const uint64_t gap = 64, first = gap + shift, second = (first + n * bytes + gap + 63) / 64 * 64 + shift,
                 end = second + n * bytes + gap;
  Memory arena(end);
  for (uint64_t i = 0; i < end; ++i) arena.data[i] = static_cast<uint8_t>(random(launch, 200 + rank, i));
  const uint64_t sendAt = first + (inPlace ? inAt : 0), recvAt = inPlace ? first + outAt : second;
  const std::vector<uint8_t> own = input(job, launch, rank, in);
  if (in != 0) std::memcpy(arena.data + sendAt, own.data(), in);
  std::vector<uint8_t> want(arena.data, arena.data + end);

  std::vector<Args> args(n);
  for (uint32_t r = 0; r < n; ++r) {
    args[r].rank = r, args[r].nranks = n, args[r].op = op;
    const uint4 factor = job.element(random(launch, 300 + r));
    std::memcpy(&args[r].scalar, &factor, sizeof args[r].scalar);
  }
  DirectArgs a{};
  static_cast<Args&>(a) = args[rank];
  for (uint32_t r = 0; r < n; ++r) a.window[r] = windows[r]->data;
  a.abort = abortBlock();
  a.epochs = epochs[rank].data();
  a.send = in != 0 ? arena.data + sendAt : nullptr;
  a.recv = out != 0 ? arena.data + recvAt : nullptr;
  a.bytes = bytes;
  a.root = rooted ? root : everyone;
  a.slotBytes = slot;
  a.flagsOffset = 2 * n * slot;
  if (whole) a.sendStride = a.recvStride = ((bytes + n - 1) / n + 15) / 16 * 16;
  if (slicedIn || job.what == What::scatter) a.sendStride = bytes;
  if (slicedOut || job.what == What::gather) a.recvStride = bytes;
  const uint64_t addresses = reinterpret_cast<uint64_t>(a.send) | reinterpret_cast<uint64_t>(a.recv);
  const bool allowed = isMove ? job.what != What::allToAll || !inPlace : addresses % 16 == 0;
  for (uint32_t r = 0; r < n && allowed && (isMapped || rank != root); ++r) {
    a.in[r] = isMove || in == 0 ? reinterpret_cast<uint8_t*>(1) : const_cast<uint8_t*>(a.send);
    a.out[r] = out == 0 || job.what == What::reduceScatter ? reinterpret_cast<uint8_t*>(1) : a.recv;
  }
  devices[rank]->run(blocks, threadsOfBlock, [&] { job.kernel(a); });
  const AbortBlock* const gone = abortBlock();
  CHECK(loadAcquire<Scope::sys>(&gone->reported) == 0, "%s: rank %u of %u, launch %u: a wait gave up for rank %u",
        job.name, rank, n, launch, gone->peer);

  uint8_t* const to = want.data() + recvAt;
  if (!isMove && out != 0) {
    std::vector<std::vector<uint8_t>> all;
    for (uint32_t r = 0; r < n; ++r) {
      all.push_back(input(job, launch, r, in));
      all[r].resize((in + 15) / 16 * 16);
    }
    std::vector<uint4> v(n);
    for (uint64_t i = 0; i < out; i += 16) {
      for (uint32_t r = 0; r < n; ++r)
        std::memcpy(&v[r], &all[r][i + (job.what == What::reduceScatter ? rank * bytes : 0)], 16);
      const uint4 sum = job.sum(args, rank, v);
      std::memcpy(to + i, &sum, std::min<uint64_t>(16, out - i));
    }
  }
  for (uint32_t r = 0; r < n && isMove && out != 0; ++r) {
    const bool comes = job.what == What::broadcast || job.what == What::scatter ? r == root : true;
    if (!comes) continue;
    const uint64_t sent = job.what == What::scatter || job.what == What::allToAll ? n * bytes : bytes;
    const std::vector<uint8_t> from = r == rank ? own : input(job, launch, r, sent);
    std::memcpy(to + r * a.recvStride, from.data() + rank * a.sendStride, bytes);
  }
  for (uint64_t i = 0; i < end; ++i)
    CHECK(arena.data[i] == want[i],
          "%s, operator %u: rank %u of %u, launch %u, %u blocks, %lu bytes, root %u, in place %d, shift %lu: byte %ld "
          "of the results is %02x, not %02x",
          job.name, op, rank, n, launch, blocks, static_cast<unsigned long>(bytes), root, inPlace,
          static_cast<unsigned long>(shift), static_cast<long>(i - recvAt), arena.data[i], want[i]);
}

// Messages whose addresses are aligned, and others, into mapped buffers and through rings.
void streamBulk(uint32_t seed, uint32_t launches) {
  constexpr uint32_t threads = 2 * warpSize + pipeSignalers;
  std::vector<std::unique_ptr<bulk::Device>> devices;
  for (uint32_t r = 0; r < 3; ++r)
    devices.push_back(std::make_unique<bulk::Device>(2 * streamChannels, threads, seed + r));
  for (uint32_t n : {2u, 3u})
    for (uint64_t align : {16, 1, 4}) {
      Streams s(n, threads);
      s.stages = 4;
      s.launch = [&](uint32_t rank, uint32_t blocks, const std::function<void()>& kernel) {
        devices[rank]->run(blocks, threads, kernel);
      };
      s.run(launches, align, stream);
    }
}

}  // namespace ranks

int main(int argc, char** argv) {
  using namespace ranks;
  if (argc == 3 && std::string(argv[1]) == "litmus") return litmus::run(static_cast<uint32_t>(std::atoi(argv[2])));
  if (argc < 4) return 2;
  for (int i = 4; i < argc; ++i) {
    hostWeakAcquire |= std::strcmp(argv[i], "acquire") == 0;
    hostWeakRelease |= std::strcmp(argv[i], "release") == 0;
    mutation = argv[i];
  }
  const std::string name = argv[1];
  const uint64_t seed = std::strtoull(argv[2], nullptr, 10);
  const uint32_t launches = static_cast<uint32_t>(std::atoi(argv[3]));
  if (name == "pipe") {
    litmus::pipes(static_cast<uint32_t>(seed), launches);
    return 0;
  }
  if (name == "streams") {
    streamBulk(static_cast<uint32_t>(seed), launches);
    return 0;
  }
  const std::vector<Job>* jobs = name == "reduce" ? &reductions : name == "scatter" ? &scatterings : &moves;
  if (jobs == &moves && name != "move") return 2;
  std::vector<std::unique_ptr<bulk::Device>> devices;
  for (uint32_t n : {2u, 3u, 4u}) Fleet(n, seed, *jobs, devices).run(launches);
}
