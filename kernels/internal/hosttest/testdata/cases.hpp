// A collective of some kind on small ranks: what is launched, and what must come of it.
#pragma once

#include "collective.hpp"

namespace ranks {

enum class What { allReduce, twoShot, reduceScatter, allGather, allToAll, gather, scatter, broadcast, reduce };

struct Case {
  const char* name;
  What what;
  void (*kernel)(const Args&);
  uint32_t element;  // bytes: 4 float, 2 bfloat16, 1 uint8
  uint32_t align;    // of sizes and addresses
  uint32_t unit = 0;  // of sizes, where they have another one
};

// Brain is a bfloat16: sums of it are Wide, and rounded once.
struct Brain {
  Bfloat16 v;
  Brain() = default;
  template <class N>
  explicit Brain(N n) {
    fromFloat(static_cast<float>(n), v);
  }
  explicit operator float() const { return toFloat(v); }
};
template <class E>
using Wide = std::conditional_t<std::is_same_v<E, Brain>, float, E>;

// Every other average is one of numbers near the limit of the type, where their sum is infinite.
template <class E>
inline float lift(uint32_t op, uint32_t launch) {
  return op == opAvg && launch % 2 == 1 && !std::is_same_v<E, uint8_t> ? 0x1p120f : 1.0f;
}

template <class E>
inline void put(uint8_t* p, uint64_t i, uint8_t v, float lift = 1) {
  E e = static_cast<E>(static_cast<float>(v) * lift);
  std::memcpy(p + i * sizeof(E), &e, sizeof e);
}
template <class E>
inline double get(const uint8_t* p, uint64_t i) {
  E e;
  std::memcpy(&e, p + i * sizeof(E), sizeof e);
  return static_cast<double>(static_cast<Wide<E>>(e));
}

// Buffers of one rank in one launch, in and out elements of them. Each rank's lie elsewhere.
template <class E>
struct Buffers {
  uint64_t in, out;
  Memory send, recv;
  uint8_t *from, *to;
  Buffers(uint64_t i, uint64_t o, uint64_t fromShift, uint64_t toShift, bool inPlace, uint64_t inAt, uint64_t outAt)
      : in(i), out(o), send((i + o) * sizeof(E) + 64), recv(o * sizeof(E) + 64) {
    from = send.data + fromShift + (inPlace ? inAt * sizeof(E) : 0);
    to = inPlace ? send.data + fromShift + outAt * sizeof(E)
                 : recv.data + toShift;  // in place, the larger one holds the smaller one
  }
};

// reduced is what comes of element i of all ranks.
template <class E>
inline double reduced(uint32_t op, uint32_t n, uint32_t launch, uint64_t i) {
  using W = Wide<E>;
  W all = 0;
  for (uint32_t r = 0; r < n; ++r) {
    W v = static_cast<W>(value(r, launch, i));
    if (op == opPreMulSum) v = static_cast<W>(static_cast<E>(v * static_cast<W>(r + 2)));
    if (op == opMax)
      all = v > all ? v : all;
    else
      all = static_cast<W>(all + v);
  }
  if (op == opAvg)
    all = static_cast<W>(W(1) / W(2) != W(0) ? all * (W(1) / static_cast<W>(n)) : all / static_cast<W>(n));
  return static_cast<double>(static_cast<W>(static_cast<E>(all)));
}

template <class E, class W>
inline void launchOnce(W& w, const Case& c, uint32_t rank, uint32_t launch, uint32_t blocks, uint64_t bytes,
                       bool inPlace, uint32_t root, uint32_t op = opSum, uint32_t slotBytes = 0) {
  const uint64_t n = w.n, count = bytes / sizeof(E);
  const uint64_t fromShift = (launch * 5 + rank * 3) % 16 / c.align * c.align,
                 toShift = (launch * 7 + rank) % 16 / c.align * c.align;
  const bool slicedIn = c.what == What::reduceScatter || c.what == What::allToAll || c.what == What::scatter,
             slicedOut = c.what == What::allGather || c.what == What::allToAll || c.what == What::gather;
  const uint64_t own = (c.what == What::gather || c.what == What::scatter ? root : rank) * count;
  Buffers<E> b(slicedIn ? n * count : count, slicedOut ? n * count : count, fromShift, toShift, inPlace,
               slicedOut && !slicedIn ? own : 0, slicedIn && !slicedOut ? own : 0);
  std::memset(b.to, 0xee, b.out * sizeof(E) + 16);
  for (uint64_t i = 0; i < b.in; ++i) put<E>(b.from, i, value(rank, launch, i), lift<E>(op, launch));

  Args a = w.args(rank);
  if (slotBytes != 0) a.slotBytes = slotBytes;
  a.send = b.from;
  a.recv = b.to;
  a.bytes = bytes;
  a.op = op | (std::is_same_v<E, uint8_t> ? unsignedBit : 0);
  const E factor = static_cast<E>(static_cast<Wide<E>>(rank + 2));
  std::memcpy(&a.scalar, &factor, sizeof factor);
  auto slices = [&](uint64_t k) { return ((bytes + k - 1) / k + 15) / 16 * 16; };
  switch (c.what) {
    case What::allReduce:
      break;
    case What::twoShot:
      a.sendStride = a.recvStride = slices(n);
      break;
    case What::reduceScatter:
      a.sendStride = bytes;
      break;
    case What::allGather:
      a.recvStride = bytes;
      break;
    case What::allToAll:
      a.sendStride = a.recvStride = bytes;
      break;
    case What::gather:
      a.recvStride = bytes, a.root = root;
      break;
    case What::scatter:
      a.sendStride = bytes, a.root = root;
      break;
    case What::broadcast:
    case What::reduce:
      a.sendStride = a.recvStride = slices(n - 1), a.root = root;
      break;
  }
  Launch(blocks, w.threads, [&c, a] { c.kernel(a); }).join();
  checkStatus(c.name, rank, launch);

  if ((c.what == What::reduce || c.what == What::gather) && rank != root) return;
  for (uint64_t i = 0; i < b.out; ++i) {
    double want = 0;
    switch (c.what) {
      case What::allReduce:
      case What::twoShot:
      case What::reduce:
        want = reduced<E>(op, n, launch, i);
        break;
      case What::reduceScatter:
        want = reduced<E>(op, n, launch, rank * count + i);
        break;
      case What::allGather:
      case What::gather:
        want = value(static_cast<uint32_t>(i / count), launch, i % count);
        break;
      case What::allToAll:
        want = value(static_cast<uint32_t>(i / count), launch, rank * count + i % count);
        break;
      case What::scatter:
        want = value(root, launch, rank * count + i);
        break;
      case What::broadcast:
        want = value(root, launch, i);
        break;
    }
    want *= lift<E>(op, launch);
    CHECK(get<E>(b.to, i) == want, "%s: rank %u of %u, launch %u, %lu bytes, operator %u: element %lu is %g, not %g",
          c.name, rank, w.n, launch, static_cast<unsigned long>(bytes), op, static_cast<unsigned long>(i),
          get<E>(b.to, i), want);
  }
  for (uint64_t i = 0; i < 16 && !inPlace; ++i)
    CHECK(b.to[b.out * sizeof(E) + i] == 0xee, "%s: rank %u wrote past its buffer", c.name, rank);
}

// Grid sizes change from launch to launch; sizes are less than a pass, several passes with a rest, and one pass.
inline void runCase(const Case& c, uint32_t n, uint32_t threads, uint32_t firstEpoch, uint32_t launches) {
  World w(n, threads, firstEpoch);
  w.each([&](uint32_t rank) {
    for (uint32_t l = 0; l < launches; ++l) {
      const uint32_t blocks = l % 3 == 1 ? 1 : 1 + l % 2;  // no block is without a unit, as on the GPU
      const uint64_t pass = blocks * threads * (c.align == 8 ? 8 : 15);
      uint64_t bytes = l % 3 == 0 ? 2 * pass + 40 : l % 3 == 1 ? 24 : pass;
      if (c.what == What::twoShot || c.what == What::broadcast || c.what == What::reduce) bytes *= n - 1;
      bytes = c.align == 1 ? bytes + l : bytes / 8 * 8;
      if (c.element == 4)
        launchOnce<float>(w, c, rank, l, blocks, bytes, l % 4 >= 2, l % n);
      else
        launchOnce<uint8_t>(w, c, rank, l, blocks, bytes, l % 4 >= 2, l % n);
    }
  });
}

}  // namespace ranks
