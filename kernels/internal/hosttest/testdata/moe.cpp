// The kernels of experts on ranks that drift apart, against a plain reference:
// moe [MUTATION...]. A mutation is a line of the kernels that moe_test.go has made breakable.
#include "bulk.hpp"
#include "ranks.hpp"

#include <moe/adder.cuh>
#include <moe/local.cuh>
#include <moe/notify.cuh>
#include <moe/receive.cuh>
#include <moe/stage.cuh>

#include <algorithm>
#include <barrier>
#include <random>

using namespace ranks;
using namespace goccl::moe;

constexpr uint32_t size = 3, most = 11, packets = 5, senders = 2, receivers = 2, local = 3, stages = 4;

// The layout of an arena.
constexpr uint64_t endedAt[3] = {0, 1024, 2048};
constexpr Region notes{4096, 16384}, weights{4096 + 2 * size * 16384, 2048};
constexpr uint64_t afterWeights = weights.base + size * weights.stride;
constexpr Region region(uint32_t kind, uint32_t part, uint64_t stride) {
  return {afterWeights + (kind * 3 + part) * size * 16384, stride};
}
constexpr uint64_t arenaBytes = afterWeights + 6 * size * 16384;

void jitter(uint32_t seed) { std::this_thread::sleep_for(std::chrono::microseconds(seed * 2654435761u % 500)); }

// Case is what all ranks do in a round.
struct Case {
  bool byExpert, eight, lists, zeroCopy;
  uint32_t topK, hidden, tokens[size], gone;
  std::vector<int64_t> given[size], index[size];  // experts, and those that serve them
  std::vector<int32_t> replicas;
  std::vector<float> weights[size];
  std::vector<uint8_t> x[size];

  // gone is a set of masked ranks.
  Case(uint32_t seed, uint32_t masked, bool zero = false) : zeroCopy(zero), gone(masked) {
    std::mt19937 random(seed);
    for (uint32_t x = 0; gone != 0 && x < size * local; ++x) {
      uint32_t y = random() % (size * local);
      while (isGone(y / local)) y = random() % (size * local);
      replicas.push_back(random() % 4 == 0 ? -1 : static_cast<int32_t>(y));
    }
    byExpert = seed % 2 == 1;
    eight = seed / 2 % 2 == 1;
    topK = 1 + random() % 3;
    lists = !byExpert;
    hidden = eight ? 128 : 8 * (1 + random() % 12);
    for (uint32_t s = 0; s < size; ++s) {
      tokens[s] = random() % (seed % 3 == 0 ? packets + 1 : most + 1);
      if ((seed % 7 == 6 && s == 1) || isGone(s)) tokens[s] = 0;
      for (uint32_t t = 0; t < tokens[s]; ++t)
        for (uint32_t k = 0; k < topK; ++k) {
          int64_t x = random() % (size * local);
          if (seed % 5 == 1) x = local + 1;           // all to one expert
          if (seed % 5 == 2) x = -1;                  // none
          if (seed % 5 == 3 && random() % 2) x = -1;  // some
          given[s].push_back(x);
          index[s].push_back(x >= 0 && isGone(static_cast<uint32_t>(x / local)) ? replicas[x] : x);
          weights[s].push_back(static_cast<float>(random() % 1000) / 333.0f - 1.0f);
        }
      for (uint32_t i = 0; i < tokens[s] * bytes(); ++i) x[s].push_back(static_cast<uint8_t>(random()));
    }
  }
  bool isGone(uint32_t rank) const { return (gone >> rank & 1) != 0; }
  uint32_t data() const { return eight ? hidden : hidden * 2; }
  uint32_t groups() const { return eight ? 1 : 0; }
  uint32_t scales() const { return eight ? 8 : 0; }
  uint32_t bytes() const { return data() + 4 * groups(); }

  bool has(uint32_t s, uint32_t t, int64_t expert) const {
    for (uint32_t k = 0; k < topK; ++k)
      if (index[s][t * topK + k] == expert) return true;
    return false;
  }
  std::vector<uint32_t> on(uint32_t s, uint32_t t) const {
    std::vector<uint32_t> ranks;
    for (uint32_t k = 0; k < topK; ++k) {
      const int64_t x = index[s][t * topK + k];
      bool known = x < 0;
      for (uint32_t p : ranks) known |= p == x / local;
      if (!known) ranks.push_back(static_cast<uint32_t>(x / local));
    }
    return ranks;
  }
  bool goes(uint32_t s, uint32_t t, uint32_t p) const {
    for (uint32_t q : on(s, t))
      if (q == p) return true;
    return false;
  }
  struct Copy {
    uint32_t s, t;
  };
  // got are the rows of a rank, or of one of its experts.
  std::vector<Copy> got(uint32_t rank, int expert) const {
    std::vector<Copy> rows;
    for (uint32_t s = 0; s < size; ++s)
      for (uint32_t t = 0; t < tokens[s]; ++t)
        if (expert < 0 ? goes(s, t, rank) : has(s, t, rank * local + expert)) rows.push_back({s, t});
    return rows;
  }
  // result is what an expert makes of element j of a token. Large values cancel each other, so that the order of a sum
  // can be seen in its result.
  uint16_t result(uint32_t rank, int expert, Copy c, uint32_t j) const {
    const uint32_t h = (rank * 131 + (expert + 1) * 37 + c.s * 17 + c.t * 7 + j * 3) * 2654435761u >> 16;
    Bfloat16 b;
    fromFloat(h % 3 == 0 ? 0x1p30f : h % 3 == 1 ? -0x1p30f : static_cast<float>(h % 251) / 16.0f - 7.0f, b);
    return b.bits;
  }
  static float wide(uint16_t b) { return toFloat(Bfloat16{b}); }
  static uint16_t narrow(float f) {
    Bfloat16 b;
    fromFloat(f, b);
    return b.bits;
  }
};

constexpr uint32_t before = 0xfffffffc;      // launches of each kind: their numbers wrap
constexpr uint32_t stagedThreads = 5 * 32;  // two pipelines that add, and a warp for lists

struct World {
  std::vector<std::unique_ptr<Memory>> arenas;
  std::vector<std::vector<uint32_t>> state;  // by rank: eight words of each kind
  std::vector<std::unique_ptr<bulk::Device>> devices;  // that make bulk copies
  std::barrier<> meet{size};
  World() {
    for (uint32_t r = 0; r < size; ++r) {
      devices.push_back(std::make_unique<bulk::Device>(2, stagedThreads, r, size * 2));
      arenas.push_back(std::make_unique<Memory>(arenaBytes));
      state.emplace_back(24);
      for (uint32_t kind = 0; kind < 3; ++kind) {
        state[r][8 * kind] = before;
        for (uint32_t p = 0; p < size; ++p)
          for (uint32_t which = 0; which < 2; ++which)
            reinterpret_cast<uint32_t*>(arenas[r]->data + endedAt[kind] + p * 64)[which] = before;
      }
    }
  }
};

// setMask is what the host does between operations, on all ranks together.
void setMask(World& w, uint32_t rank, const Case& c, uint32_t number) {
  w.meet.arrive_and_wait();
  uint32_t latest = 0;
  for (auto& s : w.state)
    for (uint32_t kind = 0; kind < 3; ++kind) latest = std::max(latest, s[8 * kind]);
  w.meet.arrive_and_wait();
  for (uint32_t kind = 0; kind < 3; ++kind) {
    const uint32_t all[] = {latest + 1, 0, c.gone | number << maxRanks, static_cast<uint32_t>(c.replicas.size()), 0};
    std::copy_n(all, 5, w.state[rank].begin() + 8 * kind);
    for (uint32_t p = 0; p < size; ++p)
      *reinterpret_cast<uint32_t*>(w.arenas[rank]->data + endedAt[kind] + p * 64) = latest + 1;
  }
  w.meet.arrive_and_wait();
}

// Rank is a rank's round.
struct Rank {
  World& w;
  const Case& c;
  const uint32_t rank;
  const bool staged;  // rows go by stages; ranks choose by themselves
  Memory handle{32768};

  // launch runs a kernel, with bulk copies by one sender and one receiver where rows go by stages.
  template <class Args, class Kernel>
  void launch(bool byStages, bool sends, Args& a, Kernel kernel) {
    a.senders = !sends ? 0 : byStages ? 1 : senders;
    if (byStages)
      w.devices[rank]->run(2, stagedThreads, kernel);
    else
      Launch(senders + receivers, 32, kernel).join();
    ended();
  }

  Head head(uint32_t kind) {
    Head a{};
    a.abort = abortBlock();
    for (uint32_t r = 0; r < size; ++r) a.arena[r] = w.arenas[r]->data;
    a.state = w.state[rank].data() + 8 * kind;
    a.rank = rank, a.nranks = size, a.tokens = c.tokens[rank], a.places = most;
    a.byExpert = c.byExpert, a.zeroCopy = c.zeroCopy, a.entries = c.topK, a.topK = c.topK, a.local = local;
    uint8_t* h = handle.data;
    a.sourceTokens = reinterpret_cast<int32_t*>(h);
    a.counts = a.sourceTokens + 16, a.total = a.sourceTokens + 32, a.prefix = a.sourceTokens + 48;
    a.totals = a.sourceTokens + 320;
    a.ranges = reinterpret_cast<int64_t*>(h + 2048);
    a.routes = reinterpret_cast<Route*>(h + 4096);
    a.place = reinterpret_cast<int32_t*>(h + 8192);
    a.sent = reinterpret_cast<int32_t*>(h + 16384);
    a.ended = endedAt[kind];
    a.replicas = c.replicas.data();
    return a;
  }
  Row row(uint32_t kind, uint32_t data, uint32_t scales, uint32_t lists) {
    Row r{};
    r.data = data, r.scales = scales, r.lists = lists, r.bytes = data + scales + lists;
    r.rows = region(kind, 0, 16384), r.lines = region(kind, 1, 16384), r.flags = region(kind, 2, 256);
    r.slot = (r.bytes + 127) / 128 * 128;
    r.rests = {r.rows.base + size * most * data, most * (r.slot - data)};
    r.lineSlot = (r.bytes + 479) / 480 * 512;
    r.packets = packets;
    if (staged) r.stage = 384, r.stages = stages;  // the rows of three ranks do not fit a slot of the adders
    return r;
  }
  void ended() { CHECK(loadRelaxed<Scope::sys>(&abortBlock()->reported) == 0, "rank %u gave up", rank); }

  void run(uint32_t round) {
    NotifyArgs n{};
    static_cast<Head&>(n) = head(2);
    n.notes = notes, n.parityStride = size * notes.stride;
    n.index = c.given[rank].data(), n.signature = 77;
    for (uint32_t again = round % 3; again < 3; again += 2) {  // notes may follow each other
      Launch(size, round % 4 == 0 ? 64 : 32, [&n] { notify(n); }).join();
      ended();
    }
    checkNotify(n);
    jitter(rank * 31 + round);
    dispatch();
    if (round % 3 == 0) dispatch();  // a handle serves again
    jitter(rank * 17 + round);
    combine();
  }

  void checkNotify(const NotifyArgs& n) {
    CHECK(*n.total == static_cast<int32_t>(c.got(rank, -1).size()), "rank %u: %d rows", rank, *n.total);
    for (uint32_t x = 0; x < local; ++x)
      CHECK(n.totals[x] == static_cast<int32_t>(c.got(rank, static_cast<int>(x)).size()), "rank %u: %d rows of %u",
            rank, n.totals[x], x);
    for (uint32_t s = 0; s < size; ++s)
      for (uint32_t p = 0; p < size; ++p) {
        int32_t want = 0;
        for (auto& r : c.got(p, -1)) want += r.s <= s;
        CHECK(n.prefix[s * size + p] == want, "rank %u: prefix %u, %u is %d, not %d", rank, s, p,
              n.prefix[s * size + p], want);
      }
  }

  uint32_t room() const { return size * most; }

  void dispatch() {
    const uint32_t rows = (c.byExpert ? local : 1) * room(), stride = c.bytes();
    Memory x(rows * c.data() + 16), scales(rows * 4 + 4), index(rows * c.topK * 8), lists(rows * c.topK * 4),
        source(rows * 4);
    Memory in(c.tokens[rank] * c.data() + 16), inScales(c.tokens[rank] * 4 + 4);
    for (uint32_t t = 0; t < c.tokens[rank]; ++t) {
      std::memcpy(in.data + t * c.data(), c.x[rank].data() + t * stride, c.data());
      if (c.eight) std::memcpy(inScales.data + t * 4, c.x[rank].data() + t * stride + c.data(), 4);
    }
    DispatchArgs a{};
    static_cast<Head&>(a) = head(0);
    a.row = row(0, c.data(), c.scales(), c.lists ? c.topK * 8 : 0);
    a.x = in.data, a.scales = inScales.data, a.xStride = c.data(), a.scaleStride = 4;
    a.index = c.given[rank].data(), a.weights = c.weights[rank].data();
    a.recvX = c.zeroCopy ? w.arenas[rank]->data + a.row.rows.base : x.data;
    a.recvScales = reinterpret_cast<float*>(scales.data);
    a.recvIndex = reinterpret_cast<int64_t*>(index.data), a.recvWeights = reinterpret_cast<float*>(lists.data);
    a.recvSource = reinterpret_cast<int32_t*>(source.data);
    a.recvRows = room(), a.groups = c.groups();
    launch(staged, true, a, [&] { staged ? goccl::moe::dispatch<Stage>(a) : goccl::moe::dispatch<Plain>(a); });
    for (int g = 0; g < static_cast<int>(c.byExpert ? local : 1); ++g) {
      const auto got = c.got(rank, c.byExpert ? g : -1);
      for (uint32_t i = 0; i < got.size(); ++i) {
        const uint32_t at = g * room() + i;
        const uint8_t* want = c.x[got[i].s].data() + got[i].t * stride;
        CHECK(std::memcmp(a.recvX + at * c.data(), want, c.data()) == 0, "rank %u: row %u of %d", rank, i, g);
        CHECK(!c.eight || std::memcmp(scales.data + at * 4, want + c.data(), 4) == 0, "rank %u: scale %u", rank, i);
        CHECK(a.recvSource[at] == static_cast<int32_t>(got[i].t), "rank %u: source of %u", rank, i);
      }
      for (uint32_t i = 0; c.lists && i < room(); ++i)
        for (uint32_t k = 0; k < c.topK; ++k) {
          int64_t e = -1;
          float f = 0;
          if (i < got.size()) e = c.index[got[i].s][got[i].t * c.topK + k] - static_cast<int64_t>(rank) * local;
          if (e < 0 || e >= local) e = -1;
          if (e >= 0) f = c.weights[got[i].s][got[i].t * c.topK + k];
          CHECK(a.recvIndex[i * c.topK + k] == e && a.recvWeights[i * c.topK + k] == f, "rank %u: list of row %u",
                rank, i);
        }
    }
  }

  void combine() {
    const uint32_t rows = (c.byExpert ? local : 1) * room(), data = c.hidden * 2;
    Memory elsewhere(rows * data), lists(rows * c.topK * 4), out(c.tokens[rank] * data + 16),
        outWeights(c.tokens[rank] * c.topK * 4 + 4), bias(c.tokens[rank] * data + 16);
    uint8_t* const x = c.zeroCopy ? w.arenas[rank]->data + region(1, 0, 16384).base : elsewhere.data;
    const bool returns = !c.byExpert && !c.zeroCopy;  // weights
    for (int g = 0; g < static_cast<int>(c.byExpert ? local : 1); ++g) {
      const auto got = c.got(rank, c.byExpert ? g : -1);
      for (uint32_t i = 0; i < got.size(); ++i) {
        for (uint32_t j = 0; j < c.hidden; ++j)
          reinterpret_cast<uint16_t*>(x)[(g * room() + i) * c.hidden + j] =
              c.result(rank, c.byExpert ? g : -1, got[i], j);
        for (uint32_t k = 0; k < c.topK && !c.byExpert; ++k)
          reinterpret_cast<float*>(lists.data)[i * c.topK + k] =
              c.weights[got[i].s][got[i].t * c.topK + k] + 1.0f * rank;
      }
    }
    for (uint32_t i = 0; i < c.tokens[rank] * c.hidden; ++i)
      reinterpret_cast<uint16_t*>(bias.data)[i] = c.result(rank, 9, {0, 0}, i);
    CombineArgs a{};
    static_cast<Head&>(a) = head(1);
    a.row = row(1, data, 0, returns ? (c.topK * 4 + 7) / 8 * 8 : 0);
    a.x = x, a.rows = room(), a.bias[1] = bias.data, a.out = out.data, a.hidden = c.hidden;
    a.weights = c.byExpert ? c.weights[rank].data() : reinterpret_cast<float*>(lists.data);
    a.outWeights = returns ? reinterpret_cast<float*>(outWeights.data) : nullptr;
    a.weightWords = weights;
    const bool byExpert = c.byExpert;
    launch(staged && !byExpert, !c.zeroCopy, a, [&] {
      byExpert ? goccl::moe::combine<true, Plain>(a)
               : staged ? goccl::moe::combine<false, Stage>(a) : goccl::moe::combine<false, Plain>(a);
    });
    if (c.zeroCopy) std::memset(x, 0xa5, rows * data);  // as the caller's next work
    for (uint32_t t = 0; t < c.tokens[rank]; ++t) {
      for (uint32_t j = 0; j < c.hidden; ++j) {
        float sum = Case::wide(reinterpret_cast<uint16_t*>(bias.data)[t * c.hidden + j]);
        for (uint32_t p : c.on(rank, t)) {
          if (!c.byExpert) {
            sum += Case::wide(c.result(p, -1, {rank, t}, j));
            continue;
          }
          float part = 0;
          for (uint32_t k = 0; k < c.topK; ++k) {
            const int64_t e = c.index[rank][t * c.topK + k];
            if (e < 0 || e / local != p) continue;
            volatile float product = c.weights[rank][t * c.topK + k] *
                                     Case::wide(c.result(p, static_cast<int>(e % local), {rank, t}, j));
            part += product;
          }
          sum += Case::wide(Case::narrow(part));
        }
        const uint16_t got = reinterpret_cast<uint16_t*>(out.data)[t * c.hidden + j];
        CHECK(got == Case::narrow(sum), "rank %u: token %u, element %u: %#x, not %#x", rank, t, j, got,
              Case::narrow(sum));
      }
      for (uint32_t k = 0; k < c.topK && returns; ++k) {
        float sum = 0;
        for (uint32_t p : c.on(rank, t)) sum += c.weights[rank][t * c.topK + k] + 1.0f * p;
        CHECK(a.outWeights[t * c.topK + k] == sum, "rank %u: weight %u of token %u", rank, k, t);
      }
    }
  }
};

int main(int argc, char** argv) {
  const uint32_t first = 0, drawn = argc > 1 ? 11 : 7;  // seven have a case of every kind
  breakBy(argc, argv);
  World w;
  std::vector<Case> cases;
  for (uint32_t i = 0; i < drawn; ++i) cases.emplace_back(first + i, 0);
  // Of the layout ZeroCopy: two that follow each other, float8, packets beside rows.
  for (uint32_t seed : {4, 10, 24}) cases.emplace_back(seed, 0, true);
  const uint32_t rounds = static_cast<uint32_t>(cases.size());
  const uint32_t masks[] = {1 << 2, 1 << 2, 1 << 0 | 1 << 1, 0};
  for (uint32_t gone : masks) cases.emplace_back(first + drawn + static_cast<uint32_t>(cases.size()) - rounds, gone);
  cases.emplace_back(14, 1 << 1, true);
  std::vector<Thread> ranks;
  for (uint32_t n = 0; n < size; ++n)
    ranks.emplace_back([&w, &cases, rounds, n] {
      for (uint32_t round = 0; round < cases.size(); ++round) {
        if (round >= rounds) setMask(w, n, cases[round], round);
        if (!cases[round].isGone(n)) Rank{w, cases[round], n, round % 3 == 1 || (round + n) % 3 == 1}.run(round);
      }
    });
  for (auto& t : ranks) t.join();
  Rank old{w, cases[0], 0, false};  // whose handle has no mask
  const Head h = old.head(0);
  bool taken = true;
  Launch(1, 1, [&] { taken = current(h); }).join();
  CHECK(!taken && loadRelaxed<Scope::sys>(&abortBlock()->reported) == statusMismatch, "an old handle is taken");
}
