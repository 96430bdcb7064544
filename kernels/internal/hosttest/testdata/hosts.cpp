// The kernels of hosts/wire.cuh on three ranks, with a network between them that delivers slots in random order:
// hosts [MUTATION...]. A mutation is a line of the kernels that hosts_test.go has made breakable.
#include "network.hpp"
#include "ranks.hpp"

#include <hosts/wire.cuh>

using namespace ranks;
using namespace goccl::hosts;

constexpr uint32_t size = 3, lanes = 2, slots = 4, slotBytes = 80, threads = 4;

// Rank is one rank's device memory.
struct Rank {
  uint32_t number;
  Link links[size];
  Args a{};

  Rank(uint32_t number, Network& net) : number(number) {
    for (uint32_t p = 0; p < size; ++p) {
      links[p] = net.link(number, p);
    }
    static_cast<Head&>(a) = Head{nullptr, abortBlock(), links, number, lanes, slots, slotBytes, 16,
                                lanes,   7,            {},    {},     {}};
  }

  uint32_t items = 0, tasks = 0;
  void clear() { items = tasks = 0; }
  void add(Kind kind, uint8_t* at, uint64_t bytes, uint32_t peer, bool alone, uint16_t leading = 0) {
    if (alone) a.task[tasks++] = Task{static_cast<uint16_t>(items), 0};
    ++a.task[tasks - 1].count;
    a.item[items++] = Item{at, bytes, peer, kind, leading};
  }
  template <Type T = Type::int32>
  void run() {
    const Args copy = a;
    Launch(tasks * copy.width, threads, [&copy] { goccl::hosts::run<T, true>(copy); }).join();
  }
};

int32_t value(uint32_t rank, uint32_t round, size_t i) {
  return static_cast<int32_t>(rank * 1000 + round * 17 + i * 3);
}

void jitter(uint32_t seed) { std::this_thread::sleep_for(std::chrono::microseconds(seed * 2654435761u % 300)); }

// exchange: every rank sends to every other, two messages each, and gets theirs.
void exchange(Rank& r, uint32_t round) {
  const size_t bytes[2] = {round % 5 == 0 ? 0 : 500 + round, 40};
  Memory in(1024), out(size * 2 * 1024);
  for (size_t i = 0; i < in.bytes; ++i) in.data[i] = pattern(r.number, round, i);
  r.clear();
  for (uint32_t k = 1; k < size; ++k)
    for (uint32_t m = 0; m < 2; ++m) r.add(sends, in.data + m, bytes[m], (r.number + k) % size, m == 0);
  for (uint32_t k = 1; k < size; ++k)
    for (uint32_t m = 0; m < 2; ++m) {
      const uint32_t p = (r.number + k) % size;
      r.add(receives, out.data + (p * 2 + m) * 1024 + m, bytes[m], p, m == 0);
    }
  r.run();
  CHECK(loadRelaxed<Scope::sys>(&abortBlock()->reported) == 0, "rank %u gave up in round %u", r.number, round);
  for (uint32_t p = 0; p < size; ++p)
    for (uint32_t m = 0; m < 2 && p != r.number; ++m)
      for (size_t i = 0; i < bytes[m]; ++i)
        CHECK(out.data[(p * 2 + m) * 1024 + m + i] == pattern(p, round, i + m), "round %u: byte %zu of %u", round, i,
              p);
}

// reduce: an all-reduce in place; own data goes by the reduction itself, or by tasks that it follows.
void reduce(Rank& r, uint32_t round, bool follow) {
  const size_t count = follow ? 150 : 1 + round % 32;  // up to one chunk for each lane
  Memory data(1024);
  int32_t* v = reinterpret_cast<int32_t*>(data.data);
  for (size_t i = 0; i < count; ++i) v[i] = value(r.number, round, i);
  r.clear();
  if (follow)
    for (uint32_t k = 1; k < size; ++k) r.add(sends, data.data, count * 4, (r.number + k) % size, true, leads);
  r.a.reduction[0] = Reduction{data.data, 0, size, 0, size, follow ? leads : sent, 0};
  for (uint16_t p = 0; p < size; ++p) r.a.peers[p] = p == r.number ? local : p;
  r.add(reduces, data.data, count * 4, 0, true);
  r.run();
  CHECK(loadRelaxed<Scope::sys>(&abortBlock()->reported) == 0, "rank %u gave up in round %u", r.number, round);
  for (size_t i = 0; i < count; ++i) {
    const int32_t want = value(0, round, i) + value(1, round, i) + value(2, round, i);
    CHECK(v[i] == want, "round %u: element %zu is %d, not %d", round, i, v[i], want);
  }
}

// inRankOrder: ranks 0 and 2 are on one host and have each other's floats, whose sum depends on the order.
void inRankOrder(Rank& r, uint32_t round) {
  const size_t count = 1 + round * 29;
  const size_t stride = (count * 4 + 15) / 16 * 16;
  auto term = [&](uint32_t rank, size_t i) {
    return (rank == 1 ? -1.0f : 1.0f) * static_cast<float>(1u << (24 - 8 * rank)) / static_cast<float>(3 + i + round);
  };
  const bool apart = r.number == 1;
  Memory data(2 * stride), out(1024);
  uint16_t here = 0;
  r.clear();
  for (uint16_t p = 0; p < size; ++p) {
    const bool mine = p == r.number || !(apart || p == 1);
    r.a.peers[p] = mine ? local | here : p;
    for (size_t i = 0; mine && i < count; ++i) {
      const float x = term(p, i);
      std::memcpy(data.data + here * stride + 4 * i, &x, 4);
    }
    here += mine;
  }
  for (uint32_t p = 0; p < size; ++p)
    if (p != r.number && (apart || p == 1)) r.add(sends, data.data + (r.number == 2) * stride, count * 4, p, true);
  r.a.reduction[0] = Reduction{data.data, 0, size, 0, size, stays, 0};
  r.add(reduces, out.data, count * 4, 0, true);
  r.run<Type::float32>();
  CHECK(loadRelaxed<Scope::sys>(&abortBlock()->reported) == 0, "rank %u gave up in round %u", r.number, round);
  for (size_t i = 0; i < count; ++i) {
    float got;
    std::memcpy(&got, out.data + 4 * i, 4);
    const float want = (term(0, i) + term(1, i)) + term(2, i);
    CHECK(got == want, "round %u: element %zu is %a, not %a", round, i, got, want);
  }
}

// silence: a launch behind one that has failed posts no slot, and does not judge what the failed one has left.
void silence(Network& net) {
  Rank r(0, net);
  Memory data(1024);
  uint64_t before[lanes * slots];
  for (uint32_t i = 0; i < lanes * slots; ++i) before[i] = loadRelaxed<Scope::sys>(r.links[1].post + i);
  storeRelaxed<Scope::sys>(&abortBlock()->reported, statusTimeout);
  r.clear();
  r.add(sends, data.data, 40, 1, true);
  r.run();
  r.clear();
  r.a.reduction[0] = Reduction{data.data, 0, size, 0, 2, sent, 0};
  r.a.peers[0] = local, r.a.peers[1] = 1;
  r.add(reduces, data.data, 40, 0, true);
  r.run();
  for (uint32_t i = 0; i < lanes * slots; ++i)
    CHECK(loadRelaxed<Scope::sys>(r.links[1].post + i) == before[i], "a failed rank posts slot %u", i);
  const Link& from = r.links[2];
  const uint64_t k = from.counters[0].received;
  storeVec(from.recv + k % slots * slotBytes, make_uint4(39, 0, 7, 0));
  storeRelease<Scope::sys>(from.flag + k % slots, k / slots + 1);
  r.clear();
  r.add(receives, data.data, 40, 2, true);
  r.run();
  CHECK(loadRelaxed<Scope::sys>(&abortBlock()->reported) == statusTimeout, "a deadline is called a mismatch");
}

int main(int argc, char** argv) {
  breakBy(argc, argv);
  Network net(size, lanes, slots, slotBytes);
  std::vector<Thread> ranks;
  for (uint32_t n = 0; n < size; ++n)
    ranks.emplace_back([&net, n] {
      Rank r(n, net);
      for (uint32_t round = 0; round < 4; ++round) {
        jitter(n * 31 + round);
        exchange(r, round);
        reduce(r, round, false);
        reduce(r, round, true);
        inRankOrder(r, round);
      }
    });
  for (auto& t : ranks) t.join();
  silence(net);
}
