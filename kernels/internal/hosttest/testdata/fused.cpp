// The fused all-reduces, several launches in a row on ranks that drift apart: fused NAME [MUTATION...]. A mutation is a
// line of the kernels that fused_test.go has made breakable.
#include "ranks.hpp"

#include <fused/all_reduce.cuh>

#include <algorithm>
#include <cmath>
#include <functional>
#include <mutex>
#include <random>
#include <string>

using namespace ranks;
namespace f = goccl::fused;

constexpr uint32_t slotBytes = 2048, blocksAtMost = 3;

// World is what outlives launches.
struct World {
  const uint32_t n;
  std::vector<std::unique_ptr<Memory>> windows;
  std::vector<std::vector<uint32_t>> passes;

  explicit World(uint32_t ranksN) : n(ranksN) {
    for (uint32_t r = 0; r < n; ++r) {
      windows.push_back(std::make_unique<Memory>(blocksAtMost * f::areas * 2 * n * slotBytes));
      std::memset(windows[r]->data, 0, windows[r]->bytes);
      passes.emplace_back(blocksAtMost * f::passStride, 0xfffffffb);
    }
  }
  f::Args args(uint32_t rank) {
    f::Args a{};
    for (uint32_t r = 0; r < n; ++r) a.window[r] = windows[r]->data;
    a.abort = abortBlock();
    a.passes = passes[rank].data();
    a.slotBytes = slotBytes;
    a.rank = rank;
    a.nranks = n;
    return a;
  }
};

void checkStatus(uint32_t rank, uint32_t launch) {
  const AbortBlock* b = abortBlock();
  const uint32_t s = loadAcquire<Scope::sys>(&b->reported);
  CHECK(s == 0, "rank %u, launch %u: a wait gave up with %x for rank %u", rank, launch, s, b->peer);
}

// Case is one launch, the same on all ranks.
struct Case {
  Type type;
  uint32_t tokens, hidden, blocks;
  bool twoShot, divided, residual, weight, inPlace, sum, special;
  uint32_t quantisation;
  Type quantType;
  uint32_t threads() const { return few ? 32 : std::min(512u, (hidden / 8 + 31) / 32 * 32); }
  bool few;  // threads: they have four groups of a row each, as of the longest rows on a GPU
};

template <Type T>
using Storage = typename Element<T>::Storage;

template <Type T>
float valueOf(const uint8_t* p, size_t i) {
  Storage<T> v;
  std::memcpy(&v, p + i * sizeof v, sizeof v);
  return widen<T>(v);
}
template <Type T>
void setValue(uint8_t* p, size_t i, float x) {
  const Storage<T> v = narrow<T>(x);
  std::memcpy(p + i * sizeof v, &v, sizeof v);
}

// Data of a case, of all ranks, and what comes out: a plain twin of the kernels, row by row and element by element.
template <Type T>
struct Twin {
  const Case& c;
  const uint32_t n;
  std::vector<std::vector<uint8_t>> inputs;
  std::vector<uint8_t> residual, weight, sum, residualOut, norm, quant;
  std::vector<float> scales;
  float scale = 0.0625f;

  size_t count() const { return size_t(c.tokens) * c.hidden; }

  Twin(const Case& cc, uint32_t ranks, std::mt19937& random) : c(cc), n(ranks) {
    std::normal_distribution<float> normal;
    auto fill = [&](std::vector<uint8_t>& v, size_t k) {
      v.resize(k * sizeof(Storage<T>) + 16);
      for (size_t i = 0; i < k; ++i) setValue<T>(v.data(), i, normal(random));
    };
    inputs.resize(n);
    for (auto& v : inputs) {
      fill(v, count());
      // Words that look like no packet, zeros of both signs, infinities.
      for (size_t i = 0; c.special && i + 16 <= count() * sizeof(Storage<T>); i += 4) {
        const uint32_t words[] = {0xffffffffu, 0xfffffffeu, 0x80008000u, 0u, 0xff80ff80u};
        const uint32_t dice = random();
        if (dice % 8 < std::size(words)) std::memcpy(v.data() + i, &words[dice % 8], 4);
      }
    }
    fill(residual, count()), fill(weight, c.hidden);
    sum = residualOut = norm = residual;
    quant.resize(count()), scales.resize(c.tokens);
    for (uint32_t t = 0; t < c.tokens; ++t) row(t);
  }

  void row(uint32_t t) {
    const size_t at = size_t(t) * c.hidden;
    std::vector<float> z(c.hidden);
    for (uint32_t i = 0; i < c.hidden; ++i) {
      float y = 0;
      for (uint32_t r = 0; r < n; ++r) {
        const float x = valueOf<T>(inputs[r].data(), at + i);
        y = r == 0 ? x : y + x;
      }
      setValue<T>(sum.data(), at + i, y);
      z[i] = valueOf<T>(sum.data(), at + i);
      if (c.residual) z[i] = z[i] + valueOf<T>(residual.data(), at + i);
      setValue<T>(residualOut.data(), at + i, z[i]);
      z[i] = valueOf<T>(residualOut.data(), at + i);
    }
    const uint32_t groups = c.hidden / 8, threads = c.threads();
    std::vector<float> lane(threads, 0.0f);
    for (uint32_t g = 0; g < groups; ++g) {
      const float* v = &z[g * 8];
      const float s = ((v[0] * v[0] + v[1] * v[1]) + (v[2] * v[2] + v[3] * v[3])) +
                      ((v[4] * v[4] + v[5] * v[5]) + (v[6] * v[6] + v[7] * v[7]));
      lane[g % threads] += s;
    }
    float squares = 0;
    for (uint32_t w = 0; w < threads; w += 32) {
      for (uint32_t apart = 16; apart > 0; apart /= 2)
        for (uint32_t i = 0; i < apart; ++i) lane[w + i] += lane[w + i + apart];
      squares += lane[w];
    }
    const float factor = 1.0f / std::sqrt(squares / static_cast<float>(c.hidden) + 1e-5f);
    float largest = 0;
    for (uint32_t i = 0; i < c.hidden; ++i) {
      float v = z[i] * factor;
      if (c.weight) v = v * valueOf<T>(weight.data(), i);
      setValue<T>(norm.data(), at + i, v);
      z[i] = valueOf<T>(norm.data(), at + i);
      if (std::fabs(z[i]) > largest) largest = std::fabs(z[i]);
    }
    const float most = c.quantType == Type::int8 ? 127.0f : 448.0f;
    scales[t] = largest == 0 ? 1.0f : largest / most;
    const float inverse = 1.0f / (c.quantisation == f::quantDynamic ? scales[t] : scale);
    for (uint32_t i = 0; i < c.hidden; ++i) {
      const float v = z[i] * inverse;
      if (c.quantType == Type::int8) {
        quant[at + i] = static_cast<uint8_t>(
            static_cast<int>(v != v ? 0.0f : std::nearbyint(std::min(std::max(v, -128.0f), 127.0f))));
      } else {
        Float8E4M3 q;
        fromFloat(v, q);
        quant[at + i] = q.bits;
      }
    }
  }
};

// same compares elements; NaNs are equal to each other.
template <Type T>
void same(const char* what, const uint8_t* got, const uint8_t* want, size_t from, size_t to, uint32_t rank,
          uint32_t launch) {
  for (size_t i = from; i < to; ++i) {
    const float x = valueOf<T>(got, i), y = valueOf<T>(want, i);
    CHECK((x != x && y != y) || std::memcmp(got + i * sizeof(Storage<T>), want + i * sizeof(Storage<T>),
                                            sizeof(Storage<T>)) == 0,
          "%s: rank %u, launch %u: element %zu is %g: want %g", what, rank, launch, i, x, y);
  }
}

// jitter lets ranks drift apart.
void jitter(std::mt19937& random) {
  if (random() % 4 == 0) sleepNs(random() % 400000);
}

template <Type T>
void runRank(World& w, uint32_t rank, const Case& c, const Twin<T>& twin, uint32_t launch) {
  const size_t bytes = twin.count() * sizeof(Storage<T>);
  Memory input(bytes + 16), residual(bytes + 16), weight(c.hidden * sizeof(Storage<T>)), sum(bytes + 16),
      residualOut(bytes + 16), norm(bytes + 16), quant(twin.count() + 16), scales(c.tokens * 4 + 16);
  std::memcpy(input.data, twin.inputs[rank].data(), bytes);
  std::memcpy(residual.data, twin.residual.data(), bytes);
  std::memcpy(weight.data, twin.weight.data(), weight.bytes);
  f::Args a = w.args(rank);
  a.input = input.data;
  a.tokens = c.tokens, a.hidden = c.hidden, a.epsilon = 1e-5f;
  a.sum = c.sum ? sum.data : nullptr;
  a.residual = c.residual ? residual.data : nullptr;
  a.residualOut = c.inPlace ? residual.data : residualOut.data;
  a.weight = c.weight ? weight.data : nullptr;
  a.norm = c.inPlace ? input.data : norm.data;
  a.quantisation = c.quantisation, a.quantType = static_cast<uint32_t>(c.quantType);
  a.quant = quant.data;
  a.scale = &twin.scale;
  a.scaleOut = reinterpret_cast<float*>(scales.data);
  a.stage = f::normalising | f::writing;
  a.divided = c.divided;
  a.slice = (c.tokens + w.n - 1) / w.n;
  const uint32_t threads = c.threads(), all = c.twoShot ? a.slice : c.tokens;
  const uint32_t rowsOfLaunch = slotBytes / (c.hidden * sizeof(Storage<T>)) * c.blocks;
  for (uint32_t first = 0; first < all; first += rowsOfLaunch) {
    a.first = first, a.end = std::min(all, first + rowsOfLaunch);
    Launch(std::min(c.blocks, a.end - a.first), threads, [&] {
      uint32_t* words = static_cast<uint32_t*>(sharedMemory(f::foldWords * 4));
      if (c.few)
        c.twoShot ? f::twoShot<T, 4>(a, words) : f::oneShot<T, 4>(a, words);
      else if (c.twoShot)
        f::twoShot<T, 2>(a, words);
      else
        f::oneShot<T, 2>(a, words);
    }).join();
    checkStatus(rank, launch);
  }
  const uint32_t from = c.divided ? std::min(c.tokens, rank * a.slice) : 0,
                 to = c.divided ? std::min(c.tokens, (rank + 1) * a.slice) : c.tokens;
  if (c.sum) same<T>("sum", a.sum, twin.sum.data(), from * c.hidden, to * c.hidden, rank, launch);
  same<T>("residual", a.residualOut, twin.residualOut.data(), from * c.hidden, to * c.hidden, rank, launch);
  same<T>("norm", a.norm, twin.norm.data(), 0, twin.count(), rank, launch);
  if (c.quantisation == f::quantNone) return;
  for (size_t i = 0; i < twin.count(); ++i)
    CHECK(quant.data[i] == twin.quant[i] || (c.quantType == Type::float8e4m3 && (quant.data[i] & 0x7f) == 0x7f &&
                                             (twin.quant[i] & 0x7f) == 0x7f),
          "rank %u, launch %u: quantised element %zu is %x: want %x", rank, launch, i, quant.data[i], twin.quant[i]);
  if (c.quantisation == f::quantDynamic)
    for (uint32_t t = 0; t < c.tokens; ++t)
      CHECK(a.scaleOut[t] == twin.scales[t], "rank %u, launch %u: the scale of row %u is %g: want %g", rank, launch, t,
            a.scaleOut[t], twin.scales[t]);
}

template <Type T>
void launchAll(World& w, const Case& c, uint32_t launch, uint32_t seed) {
  std::mt19937 random(seed);
  const Twin<T> twin(c, w.n, random);
  std::vector<Thread> hosts;
  for (uint32_t r = 0; r < w.n; ++r)
    hosts.emplace_back([&, r] {
      std::mt19937 own(seed * 31 + r);
      jitter(own);
      runRank<T>(w, r, c, twin, launch);
    });
  for (auto& h : hosts) h.join();
}

Case draw(std::mt19937& random) {
  Case c{};
  c.type = std::array{Type::float16, Type::bfloat16, Type::float32}[random() % 3];
  c.tokens = 1 + random() % 7;
  c.hidden = 8 * (1 + random() % 40);
  c.blocks = 1 + random() % blocksAtMost;
  c.twoShot = random() % 2, c.divided = c.twoShot && random() % 2;
  c.residual = random() % 4, c.weight = random() % 4, c.inPlace = random() % 2, c.sum = random() % 2;
  c.special = random() % 2;
  c.quantisation = random() % 3;
  c.quantType = random() % 2 ? Type::int8 : Type::float8e4m3;
  return c;
}

// several launches one after the other, of all kinds. The twin waits for all ranks between two launches, so ranks drift
// apart within one only; drifting runs launches without a wait.
void mixed(uint32_t launches) {
  for (uint32_t n : {2u, 3u, 6u}) {
    World w(n);
    std::mt19937 random(static_cast<uint32_t>(n * 977 + launches));
    for (uint32_t l = 0; l < launches; ++l) {
      const Case c = draw(random);
      const uint32_t seed = random();
      if (c.type == Type::float16)
        launchAll<Type::float16>(w, c, l, seed);
      else if (c.type == Type::bfloat16)
        launchAll<Type::bfloat16>(w, c, l, seed);
      else
        launchAll<Type::float32>(w, c, l, seed);
    }
  }
}

// drifting: ranks launch one after the other without waiting for each other.
void drifting() {
  constexpr uint32_t n = 3, launches = 12;
  World w(n);
  std::mt19937 random(5);
  std::vector<Case> cases;
  std::vector<std::unique_ptr<Twin<Type::bfloat16>>> twins;
  for (uint32_t l = 0; l < launches; ++l) {
    cases.push_back(draw(random));
    cases[l].type = Type::bfloat16;
    cases[l].hidden = std::min(cases[l].hidden, 64u);
    cases[l].tokens = std::min(cases[l].tokens, 3u);
  }
  for (uint32_t l = 0; l < launches; ++l)
    twins.push_back(std::make_unique<Twin<Type::bfloat16>>(cases[l], n, random));
  std::vector<Thread> hosts;
  for (uint32_t r = 0; r < n; ++r)
    hosts.emplace_back([&, r] {
      std::mt19937 own(r);
      for (uint32_t l = 0; l < launches; ++l) {
        if (r == l % n) sleepNs(own() % 4000000);
        runRank<Type::bfloat16>(w, r, cases[l], *twins[l], l);
      }
    });
  for (auto& h : hosts) h.join();
}

// late: two of eight ranks come when the others have long taken, and cleared, what others sent.
void late() {
  constexpr uint32_t n = 8;
  World w(n);
  std::mt19937 random(3);
  Case c = draw(random);
  c.tokens = 2, c.blocks = 1;  // few threads wait, and so often
  for (uint32_t l = 0; l < 4; ++l) {
    c.twoShot = l % 2;
    c.few = l / 2;
    c.hidden = c.few ? 1024 : 8;
    const Twin<Type::bfloat16> twin(c, n, random);
    std::vector<Thread> hosts;
    for (uint32_t r = 0; r < n; ++r)
      hosts.emplace_back([&, r] {
        if (r == n - 1 || r == l) sleepNs(r == l ? 50000000 : 100000000);
        runRank<Type::bfloat16>(w, r, c, twin, l);
      });
    for (auto& h : hosts) h.join();
  }
}

// aborted: a rank does not come, and the others' kernels end, with that rank's number.
void aborted() {
  abortBlock()->spinLimitNs = 200000000;
  World w(3);
  std::mt19937 random(1);
  Case c = draw(random);
  c.tokens = 4;
  for (bool two : {false, true}) {
    c.twoShot = two;
    const Twin<Type::float32> twin(c, 3, random);
    std::vector<Thread> hosts;
    for (uint32_t r : {0u, 2u})
      hosts.emplace_back([&, r] {
        f::Args a = w.args(r);
        Memory norm(twin.count() * 4 + 16);
        a.input = twin.inputs[r].data(), a.norm = norm.data;
        a.tokens = c.tokens, a.hidden = c.hidden, a.stage = 3, a.slice = 2, a.end = two ? 2 : 4;
        Launch(2, (c.hidden / 8 + 31) / 32 * 32, [&] {
          uint32_t* words = static_cast<uint32_t*>(sharedMemory(f::foldWords * 4));
          if (two)
            f::twoShot<Type::float32, 2>(a, words);
          else
            f::oneShot<Type::float32, 2>(a, words);
        }).join();
      });
    for (auto& h : hosts) h.join();
    const AbortBlock* b = abortBlock();
    CHECK(loadAcquire<Scope::sys>(&b->reported) == statusTimeout && (b->peer == 1 || two), "status %x, rank %u",
          b->reported, b->peer);
    storeRelease<Scope::sys>(&abortBlock()->reported, 0u);
  }
}

int main(int argc, char** argv) {
  for (int i = 2; i < argc; ++i) mutation = argv[i], bug = true;
  const std::string name = argc > 1 ? argv[1] : "";
  if (name == "mixed")
    mixed(10);
  else if (name == "drifting")
    drifting();
  else if (name == "late")
    late();
  else if (name == "aborted")
    aborted();
  else
    return 2;
  return 0;
}
