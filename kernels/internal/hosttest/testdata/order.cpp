// The order in which kernels add: each sums numbers whose sums round, in messages of several sizes and places, twice.
// Prints a line for each kernel: its algorithm, and the furthest promise that its bits keep.
#include "rings.hpp"

#include <cmath>
#include <map>
#include <mutex>

using namespace ranks;

struct Kernel {
  const char* algorithm;
  Case c;
  enum { packets, ring, mapped, windows } kind;
};
const Kernel kernels[] = {
    {"one_shot_ll", {"", What::allReduce, reduceSlices<PacketWords, Sum4, 0, true>, 4, 8}, Kernel::packets},
    {"one_shot_ll", {"", What::reduceScatter, reduceSlices<PacketWords, Sum2, 0, false>, 2, 8}, Kernel::packets},
    {"one_shot_ll128", {"", What::allReduce, reduceSlices<LineBytes, Any4, 0, true>, 4, 4}, Kernel::packets},
    {"one_shot_ll128", {"", What::reduceScatter, reduceSlices<LineBytes, Any2, 0, false>, 2, 2}, Kernel::packets},
    {"two_shot_ll", {"", What::twoShot, twoShot<PacketWords, Sum4, 0>, 4, 8}, Kernel::packets},
    {"two_shot_ll", {"", What::reduce, reduceToRoot<PacketWords, Sum4, 0>, 4, 8}, Kernel::packets},
    {"two_shot_ll128", {"", What::twoShot, twoShot<LineBytes, Any2, 0>, 2, 2}, Kernel::packets},
    {"two_shot_ll128", {"", What::reduce, reduceToRoot<LineBytes, Any4, 0>, 4, 4}, Kernel::packets},
    {"ring", {"", What::twoShot, ringAllReduce<Sum4, whole>, 4, 16}, Kernel::ring},
    {"ring", {"", What::reduceScatter, ringReduceScatter<Any4, any>, 4, 4}, Kernel::ring},
    {"ring", {"", What::reduce, ringReduce<Sum4, whole>, 4, 16}, Kernel::ring},
    {"ring", {"", What::twoShot, foldAllReduce<Sum2, whole>, 2, 16}, Kernel::ring},
    {"ring", {"", What::reduceScatter, foldReduceScatter<Any2, any>, 2, 2}, Kernel::ring},
    {"direct", {"", What::twoShot, directReduce<Sum4, gathers>, 4, 16}, Kernel::mapped},
    {"direct", {"", What::twoShot, directReduce<Sum2, gathers>, 2, 16}, Kernel::windows},
    {"direct", {"", What::reduceScatter, directReduce<Sum4, scatters>, 4, 16}, Kernel::windows},
    {"direct", {"", What::reduceScatter, directReduce<Sum2, scatters>, 2, 16}, Kernel::mapped},
    {"direct", {"", What::reduce, directReduce<Any4, anyJob>, 4, 16}, Kernel::mapped},
    {"direct", {"", What::twoShot, directReduce<Any2, anyJob>, 2, 16}, Kernel::windows},
};

// rough is place k of rank r's sequence: either sign, magnitudes of 1/8 to 16, every bit of the mantissa.
float rough(uint32_t r, uint64_t k) {
  uint64_t h = (k * 64 + r + 1) * 0x9e3779b97f4a7c15u;
  h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9u;
  h ^= h >> 32;
  const float m = 1.0f + static_cast<float>(h & 0x7fffff) * 0x1p-23f;
  return std::ldexp(h >> 40 & 1 ? m : -m, static_cast<int>(h >> 41 & 0xffff) % 7 - 3);
}

// Observed is what was seen of one kernel with one operator.
struct Observed {
  bool repeats = true, batch = true, reference = true;
  std::mutex mutex;
  std::map<uint64_t, double> bits;  // by place
};

template <class E>
double summed(uint32_t op, uint32_t n, uint64_t k) {
  float sum = 0;
  for (uint32_t r = 0; r < n; ++r) {
    const float x = static_cast<float>(static_cast<E>(rough(r, k)));
    sum = r == 0 ? x : sum + x;
  }
  float result = op == opAvg ? sum * (1.0f / static_cast<float>(n)) : sum;
  return static_cast<double>(static_cast<float>(static_cast<E>(result)));
}

struct Call {
  uint64_t bytes, skip;
  bool inPlace;
  uint32_t shift, root;
};

template <class E>
void once(const Kernel& kernel, const Call& m, uint32_t op, uint32_t threads, Args a, Observed& o) {
  const uint64_t n = a.nranks, count = m.bytes / sizeof(E);
  const bool scatters = kernel.c.what == What::reduceScatter, rooted = kernel.c.what == What::reduce;
  Buffers<E> b(scatters ? n * count : count, count, m.shift, (m.shift + 16) % 32, m.inPlace, 0,
               scatters ? a.rank * count : 0);
  std::vector<E> in(b.in), first;
  for (uint64_t i = 0; i < b.in; ++i) in[i] = static_cast<E>(rough(a.rank, m.skip + i));
  a.send = b.from, a.recv = b.to, a.bytes = m.bytes, a.op = op;
  const uint64_t owners = rooted && kernel.kind == Kernel::packets ? n - 1 : n;
  if (scatters)
    a.sendStride = m.bytes;
  else if (kernel.c.what != What::allReduce)
    a.sendStride = a.recvStride = ((m.bytes + owners - 1) / owners + 15) / 16 * 16;
  if (rooted) a.root = m.root;
  if (kernel.kind == Kernel::ring && rooted) a.sendStride = a.recvStride = 0;
  for (uint32_t turn = 0; turn < 2; ++turn) {
    std::memcpy(b.from, in.data(), b.in * sizeof(E));
    Launch(1, threads, [&kernel, a] { kernel.c.kernel(a); }).join();
    checkStatus(kernel.algorithm, a.rank, turn);
    if (rooted && a.rank != m.root) continue;
    std::lock_guard lock(o.mutex);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t k = m.skip + (scatters ? a.rank * count : 0) + i;
      const double got = get<E>(b.to, i);
      E bits;
      std::memcpy(&bits, b.to + i * sizeof(E), sizeof(E));
      if (turn == 0) first.push_back(bits);
      o.repeats &= std::memcmp(&first[i], &bits, sizeof(E)) == 0;
      o.reference &= got == summed<E>(op, static_cast<uint32_t>(n), k);
      o.batch &= o.bits.try_emplace(k, got).first->second == got;
    }
  }
}

void observe(const Kernel& k, uint32_t n, uint32_t op, Observed& o) {
  const bool lines = std::strstr(k.algorithm, "ll128") != nullptr;
  RingWorld rings_(rings, n, 3, 0);
  World plain(n, lines ? 32 : 8, 0);
  World& w = k.kind == Kernel::packets ? plain : rings_;
  const Call messages[] = {{1232, 0, false, 0, 0}, {528, 5, true, 16, 1}, {96, 60, false, 0, 2}, {1808, 1, true, 0, 1}};
  w.each([&](uint32_t rank) {
    for (const Call& m : messages) {
      Args a = k.kind == Kernel::packets ? plain.args(rank) : rings_.args(rank);
      if (k.kind == Kernel::ring) a.slotBytes = 128 + RingWorld::depth;
      if (k.kind == Kernel::mapped || k.kind == Kernel::windows) {
        a.flagsOffset += ringChannels * ringLine * (1 + n) | (k.kind == Kernel::windows ? unmapped : 0);
        a.slotBytes = RingWorld::region / (2 * n) & ~63u;
      }
      (k.c.element == 4 ? once<float> : once<Brain>)(k, m, op, w.threads, a, o);
    }
  });
}

int main() {
  for (const Kernel& k : kernels)
    for (uint32_t n : {3u, 4u})
      for (uint32_t op : {uint32_t{opSum}, uint32_t{opAvg}}) {
        Observed o;
        observe(k, n, op, o);
        std::printf("%s %s\n", k.algorithm,
                    !o.repeats ? "none" : !o.batch ? "run" : !o.reference ? "batch" : "reference");
      }
  return 0;
}
