// The collective kernels, several launches in a row on ranks that drift apart: collective NAME [MUTATION...]. A mutation is a line of the kernels that
// hosttest_test.go has made breakable.
#include "collective.hpp"

using namespace ranks;

enum class What { allReduce, twoShot, reduceScatter, allGather, allToAll, broadcast, reduce };

struct Case {
  const char* name;
  What what;
  void (*kernel)(const Args&);
  uint32_t element;  // bytes: 4 float, 2 bfloat16, 1 uint8
  uint32_t align;    // of sizes and addresses
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

template <class E>
void put(uint8_t* p, uint64_t i, uint8_t v) {
  E e = static_cast<E>(v);
  std::memcpy(p + i * sizeof(E), &e, sizeof e);
}
template <class E>
double get(const uint8_t* p, uint64_t i) {
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
    to = inPlace ? send.data + fromShift + outAt * sizeof(E) : recv.data + toShift;  // in place, the larger one holds the smaller one
  }
};

// reduced is what comes of element i of all ranks.
template <class E>
double reduced(uint32_t op, uint32_t n, uint32_t launch, uint64_t i) {
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
  if (op == opAvg) all = static_cast<W>(W(1) / W(2) != W(0) ? all * (W(1) / static_cast<W>(n)) : all / static_cast<W>(n));
  return static_cast<double>(static_cast<W>(static_cast<E>(all)));
}

template <class E, class W>
void launchOnce(W& w, const Case& c, uint32_t rank, uint32_t launch, uint32_t blocks, uint64_t bytes, bool inPlace, uint32_t root, uint32_t op = opSum,
                uint32_t slotBytes = 0) {
  const uint64_t n = w.n, count = bytes / sizeof(E);
  const uint64_t fromShift = (launch * 5 + rank * 3) % 16 / c.align * c.align, toShift = (launch * 7 + rank) % 16 / c.align * c.align;
  const bool slicedIn = c.what == What::reduceScatter || c.what == What::allToAll, slicedOut = c.what == What::allGather || c.what == What::allToAll;
  Buffers<E> b(slicedIn ? n * count : count, slicedOut ? n * count : count, fromShift, toShift, inPlace, c.what == What::allGather ? rank * count : 0,
               c.what == What::reduceScatter ? rank * count : 0);
  std::memset(b.to, 0xee, b.out * sizeof(E) + 16);
  for (uint64_t i = 0; i < b.in; ++i) put<E>(b.from, i, value(rank, launch, i));

  Args a = w.args(rank);
  if (slotBytes != 0) a.slotBytes = slotBytes;
  a.send = b.from;
  a.recv = b.to;
  a.bytes = bytes;
  a.op = op;
  const E factor = static_cast<E>(static_cast<Wide<E>>(rank + 2));
  std::memcpy(&a.scalar, &factor, sizeof factor);
  auto slices = [&](uint64_t k) { return ((bytes + k - 1) / k + 15) / 16 * 16; };
  switch (c.what) {
    case What::allReduce: break;
    case What::twoShot: a.sendStride = a.recvStride = slices(n); break;
    case What::reduceScatter: a.sendStride = bytes; break;
    case What::allGather: a.recvStride = bytes; break;
    case What::allToAll: a.sendStride = a.recvStride = bytes; break;
    case What::broadcast:
    case What::reduce: a.sendStride = a.recvStride = slices(n - 1), a.root = root; break;
  }
  Launch(blocks, w.threads, [&c, a] { c.kernel(a); }).join();
  checkStatus(c.name, rank, launch);

  if (c.what == What::reduce && rank != root) return;
  for (uint64_t i = 0; i < b.out; ++i) {
    double want = 0;
    switch (c.what) {
      case What::allReduce:
      case What::twoShot:
      case What::reduce: want = reduced<E>(op, n, launch, i); break;
      case What::reduceScatter: want = reduced<E>(op, n, launch, rank * count + i); break;
      case What::allGather: want = value(static_cast<uint32_t>(i / count), launch, i % count); break;
      case What::allToAll: want = value(static_cast<uint32_t>(i / count), launch, rank * count + i % count); break;
      case What::broadcast: want = value(root, launch, i); break;
    }
    CHECK(get<E>(b.to, i) == want, "%s: rank %u of %u, launch %u, %lu bytes, operator %u: element %lu is %g, not %g", c.name, rank, w.n, launch,
          static_cast<unsigned long>(bytes), op, static_cast<unsigned long>(i), get<E>(b.to, i), want);
  }
  for (uint64_t i = 0; i < 16 && !inPlace; ++i) CHECK(b.to[b.out * sizeof(E) + i] == 0xee, "%s: rank %u wrote past its buffer", c.name, rank);
}

// Grid sizes change from launch to launch; sizes are less than a pass, several passes with a rest, and one pass.
void runCase(const Case& c, uint32_t n, uint32_t threads, uint32_t firstEpoch, uint32_t launches) {
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

using Sum4 = Reducer<Type::float32, Op::sum, false>;
using Any1 = AnyReducer<Type::uint8>;

const Case reductions[] = {
    {"one-shot ll", What::allReduce, reduceSlices<PacketWords, Sum4, 0, true>, 4, 8},
    {"one-shot ll128", What::allReduce, reduceSlices<LineBytes, Any1, 0, true>, 1, 1},
    {"two-shot ll", What::twoShot, twoShot<PacketWords, Sum4, 0>, 4, 8},
    {"two-shot ll128", What::twoShot, twoShot<LineBytes, Any1, 0>, 1, 1},
    {"reduce-scatter ll", What::reduceScatter, reduceSlices<PacketWords, Sum4, 0, false>, 4, 8},
    {"reduce ll128", What::reduce, reduceToRoot<LineBytes, Any1, 0>, 1, 1},
    {"reduce ll", What::reduce, reduceToRoot<PacketWords, Sum4, 0>, 4, 8},
};
const Case moves[] = {
    {"all-gather ll", What::allGather, exchange<PacketWords, 0>, 4, 8},
    {"all-gather ll128", What::allGather, exchange<LineBytes, 0>, 1, 1},
    {"all-to-all ll", What::allToAll, exchange<PacketWords, 0>, 4, 8},
    {"broadcast ll", What::broadcast, broadcast<PacketWords, 0>, 4, 8},
    {"broadcast ll128", What::broadcast, broadcast<LineBytes, 0>, 1, 1},
};
// Kernels for a number of ranks that is known when they are compiled.
const Case fixedRanks[] = {
    {"one-shot ll128 n2", What::allReduce, reduceSlices<LineWords, Sum4, 2, true>, 4, 8},
    {"two-shot ll n2", What::twoShot, twoShot<PacketWords, Sum4, 2>, 4, 8},
};

// Epochs start fresh, just before the last odd one, and at the last. Packets of 16 bytes need no warps.
void runAll(const Case* cases, size_t count) {
  for (const Case* c = cases; c != cases + count; ++c) {
    const bool lines = std::strstr(c->name, "ll128") != nullptr;
    runCase(*c, 2, lines ? 64 : 12, 0, lines ? 2 : 6);
    runCase(*c, 3, lines ? 32 : 8, 0xfffffffd, lines ? 3 : 6);
    if (!lines) runCase(*c, 4, 8, 0xffffffff, 3);
  }
}
void reduceAll() {
  runAll(reductions, std::size(reductions));
  for (const Case& c : fixedRanks) runCase(c, 2, 32, 0xfffffffe, 4);
}
void moveAll() { runAll(moves, std::size(moves)); }

// Messages from everyone to everyone in one launch, several to a pair, and again: pieces go round the rings many times.
struct Exchange {
  uint32_t n, threads, channels;
  std::vector<std::unique_ptr<Memory>> windows;
  std::vector<uint8_t*> window;  // where the region begins in each: its own, unless somebody else's is shared
  std::vector<std::vector<uint32_t>> counters;
  std::vector<uint64_t> maps = std::vector<uint64_t>(maxRanks * registrySlots);  // all ranks see the same memory at the same addresses

  Exchange(uint32_t ranksN, uint32_t threadsN, uint32_t channelsN, uint64_t bytes, uint32_t counted, uint32_t first)
      : n(ranksN), threads(threadsN), channels(channelsN), counters(n, std::vector<uint32_t>(counted, first)) {
    for (uint32_t r = 0; r < n; ++r) {
      windows.push_back(std::make_unique<Memory>(bytes));
      window.push_back(windows[r]->data);
      if (first == 0) continue;
      // What a long past has left: other flags everywhere, and all credit given back.
      std::memset(windows[r]->data, 0x55, ringOffset(n, 0));
      for (uint64_t at = ringOffset(n, 0); at < bytes; at += 128) std::memcpy(windows[r]->data + at, &first, sizeof first);
    }
  }

  static uint64_t bytesOf(uint32_t from, uint32_t to, uint32_t i, uint64_t align) {
    const uint64_t sizes[] = {1, p2pPieceBytes * 5 + 17, 7, p2pPieceBytes, 33, p2pPieceBytes * 2 + 9};
    return (sizes[(from + 2 * to + i) % 6] + align - 1) / align * align;
  }

  // offer lets the sender store message m straight to its place, where that is possible; not every one.
  void offer(StreamArgs& a, uint32_t m, uint32_t launch) {
    const Message& to = a.message[m];
    if (((to.address | to.bytes) & 15) != 0 || (m + launch) % 3 == 0) return;
    const uint64_t before = 32;
    maps[a.rank * registrySlots + m] = to.address - before;
    a.direct[m] = static_cast<uint64_t>(m + 1) << 48 | before;
  }
  template <class Lists>
  void offer(Lists&, uint32_t, uint32_t) {}

  template <class Lists>
  void run(uint32_t launches, uint64_t align, bool steps, void (*kernel)(const Lists&)) {
    each([=, this](uint32_t rank) {
      for (uint32_t l = 0; l < launches; ++l) once(rank, l, align, steps, kernel);
    });
  }

  // each runs body(rank) as every rank's host does.
  void each(const std::function<void(uint32_t)>& body) {
    std::vector<std::thread> hosts;
    for (uint32_t rank = 0; rank < n; ++rank) hosts.emplace_back(body, rank);
    for (auto& h : hosts) h.join();
  }

  // once is one launch of one rank. Lists is P2PArgs, P2PFewArgs or StreamArgs. Every rank also sends itself two messages.
  template <class Lists>
  void once(uint32_t rank, uint32_t l, uint64_t align, bool steps, void (*kernel)(const Lists&)) {
    constexpr uint32_t messages = 3, own = 2;
    Lists a{};
    a.abort = abortBlock();
    for (uint32_t r = 0; r < n; ++r) a.window[r] = window[r];
    a.counters = counters[rank].data();
    a.rank = rank;
    a.nranks = n;
    a.streams = channels;
    std::vector<std::unique_ptr<Memory>> buffers;
    uint32_t m = 0;
    for (uint32_t k = 1; k < n; ++k)
      for (bool send : {true, false}) {
        const uint32_t peer = send ? (rank + k) % n : (rank + n - k) % n, from = send ? rank : peer, to = send ? peer : rank;
        a.lane[a.lanes++] = Lane{static_cast<uint16_t>(peer), send, static_cast<uint8_t>(channels), static_cast<uint16_t>(m), messages};
        for (uint32_t i = 0; i < messages; ++i, ++m) {
          const uint64_t bytes = bytesOf(from, to, i + l, align);
          buffers.push_back(std::make_unique<Memory>(bytes + 64));
          uint8_t* p = buffers.back()->data + (align == 1 ? 3 : 0);
          std::memset(p, 0xee, bytes + 16);
          if (send)
            for (uint64_t j = 0; j < bytes; ++j) p[j] = pattern(from * 5 + to, l * 3 + i, j);
          a.message[m] = Message{reinterpret_cast<uint64_t>(p), bytes};
          if (!send) offer(a, m, l);
        }
      }
    if constexpr (std::is_same_v<Lists, StreamArgs>) a.maps = maps.data();
    const uint32_t lanes = a.lanes, first = m;
    a.lane[a.lanes++] = Lane{static_cast<uint16_t>(rank), 0, static_cast<uint8_t>(channels), static_cast<uint16_t>(m), 2 * own};
    for (uint32_t i = 0; i < 2 * own; ++i, ++m) {
      const uint64_t bytes = bytesOf(rank, rank, i / 2 + l, align);
      buffers.push_back(std::make_unique<Memory>(bytes + 64));
      uint8_t* p = buffers.back()->data + (align == 1 ? 5 * i : 0);
      std::memset(p, 0xee, bytes + 16);
      for (uint64_t j = 0; i % 2 == 0 && j < bytes; ++j) p[j] = pattern(rank, l * own + i, j);
      a.message[m] = Message{reinterpret_cast<uint64_t>(p), bytes};
    }
    Launch(steps ? 3 * channels : a.lanes * channels, threads, [kernel, a] { kernel(a); }).join();
    checkStatus("messages", rank, l);
    for (uint32_t i = first; i < m; i += 2) {
      const uint8_t *from = reinterpret_cast<const uint8_t*>(a.message[i].address), *to = reinterpret_cast<const uint8_t*>(a.message[i + 1].address);
      CHECK(std::memcmp(from, to, a.message[i].bytes + 16) == 0, "rank %u to itself, launch %u, %lu bytes", rank, l, static_cast<unsigned long>(a.message[i].bytes));
    }
    for (uint32_t x = 0; x < lanes; ++x) {
      const Lane& lane = a.lane[x];
      for (uint32_t i = 0; i < messages && !lane.send; ++i) {
        const Message& got = a.message[lane.first + i];
        const uint8_t* p = reinterpret_cast<const uint8_t*>(got.address);
        for (uint64_t j = 0; j < got.bytes; ++j)
          CHECK(p[j] == pattern(lane.peer * 5u + rank, l * 3 + i, j), "message %u of rank %u to %u, launch %u, %lu bytes: byte %lu", i, lane.peer, rank, l,
                static_cast<unsigned long>(got.bytes), static_cast<unsigned long>(j));
        for (uint64_t j = 0; j < 16; ++j) CHECK(p[got.bytes + j] == 0xee, "wrote past a message");
      }
    }
  }
};

void messages() {
  auto make = [](uint32_t n, uint32_t threads, uint32_t first) {
    return Exchange(n, threads, p2pChannels, ringOffset(n, 0) + n * p2pChannels * 128, n * 2 * p2pChannels * 32, first);
  };
  make(2, 64, 0).run(2, 1, false, pointToPoint<LineBytes, P2PArgs>);
  make(2, 32, 0xfffffff0).run(3, 8, false, pointToPoint<LineWords, P2PFewArgs>);
  make(3, 32, 0).run(1, 1, false, pointToPoint<LineBytes, P2PFewArgs>);
}

// Device counts: what the ranks exchange is drawn anew for every launch, and ordinary messages go by the same rings in between.
struct Counted : Exchange {
  static constexpr uint32_t quiet = 1000;  // from this launch on nobody sends anything
  const uint32_t blocks;                   // of a lane
  std::vector<AbortBlock> aborts;

  Counted(uint32_t ranksN, uint32_t threadsN, uint32_t first, uint32_t blocksN)
      : Exchange(ranksN, threadsN, p2pChannels, ringOffset(ranksN, 0) + ranksN * p2pChannels * 128, ranksN * 2 * p2pChannels * 32, first), blocks(blocksN), aborts(ranksN, *abortBlock()) {}

  // draw is what from sends to in a launch, in elements: both sides draw the same. Some messages are more than a ring.
  static int64_t draw(uint32_t from, uint32_t to, uint32_t launch, uint32_t element) {
    if (launch >= quiet) return 0;
    uint32_t h = (from * 40503u + to * 9176u + launch * 7919u + 12345u) * 2654435761u;
    h ^= h >> 15;
    const int64_t some[] = {0, -3, 1, 100, p2pPieceBytes / 8, p2pPieceBytes, p2pPieceBytes * 11 + 5, 33};
    const int64_t bytes = some[h % 8];
    return bytes > 0 ? (bytes + h / 8 % 9) / element : bytes;
  }

  // counted is one launch of one rank: dense, with all messages at multiples of 8, or with gaps between them. wrong is added to what rank 0 sends rank 1.
  // Rank 0's recv (side 0) or send (side 1) is cut[side] elements too short for its last message.
  void counted(uint32_t rank, uint32_t l, uint32_t element, bool dense, int64_t wrong, std::array<uint64_t, 2> cut = {}) {
    std::vector<int64_t> counts[2], displs[2];
    uint64_t total[2];
    for (uint32_t send : {0u, 1u}) {
      int64_t at = dense ? 0 : 1;
      for (uint32_t p = 0; p < n; ++p) {
        int64_t count = send ? draw(rank, p, l, element) : draw(p, rank, l, element);
        if (send && rank == 0 && p == 1) count += wrong;
        counts[send].push_back(count);
        displs[send].push_back(count > 0 ? at : -1000000);  // not used
        if (count > 0) at = dense ? ((at + count) * element + 7) / 8 * 8 / element : at + count + 3;
      }
      total[send] = static_cast<uint64_t>(at) * element;
    }
    Memory send(total[1] + 64), recv(total[0] + 64);
    std::memset(recv.data, 0xee, total[0] + 64);
    auto at = [&](uint32_t side, uint32_t p) { return (side ? send : recv).data + displs[side][p] * element; };
    auto bytes = [&](uint32_t side, uint32_t p) { return counts[side][p] > 0 ? static_cast<uint64_t>(counts[side][p]) * element : 0; };
    for (uint32_t p = 0; p < n; ++p)
      for (uint64_t j = 0; j < bytes(1, p); ++j) at(1, p)[j] = pattern(rank * 5 + p, l, j);

    AllToAllVArgs a{};
    const bool isCut = cut[0] + cut[1] != 0;
    a.abort = wrong != 0 || isCut ? &aborts[rank] : abortBlock();
    for (uint32_t r = 0; r < n; ++r) a.window[r] = window[r];
    a.counters = counters[rank].data();
    a.rank = rank;
    a.nranks = n;
    a.send = send.data;
    a.recv = recv.data;
    for (uint32_t side : {0u, 1u}) a.counts[side] = counts[side].data(), a.displs[side] = displs[side].data(), a.elements[side] = total[side] / element - (rank == 0 ? std::min(cut[side], total[side] / element) : 0);
    a.elementBytes = element;
    a.channels = blocks;
    Launch((2 * n - 1) * blocks, threads, [a] { allToAllV<LineWords, LineBytes>(a); }).join();
    if (wrong != 0) {
      const AbortBlock& b = aborts[rank];
      const uint64_t sent = draw(0, 1, l, element) + wrong, expected = draw(0, 1, l, element);
      CHECK(b.reported == statusMismatch && b.peer == 1 - rank && b.op == (rank == 0 ? peerExpects : peerSends) && b.detail == (rank == 0 ? expected : sent) * element,
            "rank %u, %ld too many: status %x, peer %u, op %u, %lu bytes", rank, static_cast<long>(wrong), b.reported, b.peer, b.op, static_cast<unsigned long>(b.detail));
      return;
    }
    if (isCut) {
      const AbortBlock& b = aborts[rank];
      const uint32_t side = cut[1] != 0;
      if (rank == 0)
        CHECK(b.reported == statusInvalid && b.peer == 1 && b.op == side && b.detail == static_cast<uint64_t>(counts[side][1]), "side %u: status %x, peer %u, op %u, %lu elements",
              side, b.reported, b.peer, b.op, static_cast<unsigned long>(b.detail));
      else
        CHECK(b.reported == statusMismatch && b.peer == 0 && b.op == (side ? peerSends : peerExpects) && b.detail == 0, "rank %u, side %u: status %x, peer %u, op %u, %lu bytes", rank, side,
              b.reported, b.peer, b.op, static_cast<unsigned long>(b.detail));
      if (rank == 0 && side == 0)
        for (uint64_t j = 0; j < bytes(0, 1); ++j) CHECK(at(0, 1)[j] == 0xee, "byte %lu of a message that does not fit was written", static_cast<unsigned long>(j));
      return;
    }
    checkStatus("device counts", rank, l);
    for (uint32_t p = 0; p < n; ++p) {
      for (uint64_t j = 0; j < bytes(0, p); ++j)
        CHECK(at(0, p)[j] == pattern(p * 5 + rank, l, j), "rank %u to %u, launch %u, %lu bytes: byte %lu", p, rank, l, static_cast<unsigned long>(bytes(0, p)),
              static_cast<unsigned long>(j));
      if (bytes(0, p) > 0) std::memset(at(0, p), 0xee, bytes(0, p));
    }
    for (uint64_t j = 0; j < total[0] + 64; ++j) CHECK(recv.data[j] == 0xee, "rank %u, launch %u: byte %lu is nobody's and was written", rank, l, static_cast<unsigned long>(j));
  }

  // alternate makes launches of both kinds, one after the other.
  void alternate(uint32_t launches) {
    each([=, this](uint32_t rank) {
      const uint32_t elements[] = {1, 8, 2, 4};
      for (uint32_t l = 0; l < launches; ++l) {
        for (uint32_t k = 0; k < 3; ++k) counted(rank, 3 * l + k, elements[(l + k) % 4], k % 2 == 1, 0);
        if (l % 2 == 0)
          once(rank, l, 1, false, pointToPoint<LineBytes, P2PArgs>);
        else
          once(rank, l, 8, false, pointToPoint<LineWords, P2PFewArgs>);
      }
    });
  }
};

// Nothing to send: a launch of few threads, held up by the counts alone.
void noCounts() {
  Counted idle(3, 4, 0, 1);
  idle.each([&](uint32_t rank) {
    for (uint32_t l = Counted::quiet; l < Counted::quiet + 8; ++l) idle.counted(rank, l, 1, false, 0);
  });
}

void deviceCounts() {
  Counted(2, 32, 0, 2).alternate(2);
  Counted(2, 32, 0xfffffffe, 1).alternate(1);  // a block serves both channels
  Counted(3, 32, 0, 2).alternate(1);
}

// Both ranks that disagree say so and name the other. Where more is expected than sent, the receiver's other blocks wait in vain until then.
void wrongCounts() {
  uint32_t l = 0;
  while (Counted::draw(0, 1, l, 1) < 2 * static_cast<int64_t>(p2pPieceBytes)) ++l;
  for (int64_t wrong : {-1, 1, -1500, 1500}) {
    Counted c(2, 32, 0, 2);
    c.each([&](uint32_t rank) { c.counted(rank, l, 1, false, wrong); });
  }
}

// A message that does not fit is not moved. Its rank says so, and the other one that the counts differ.
void outsideCounts() {
  uint32_t l = 0;
  while (Counted::draw(0, 1, l, 1) <= 0 || Counted::draw(1, 0, l, 1) <= 0 || Counted::draw(0, 0, l, 1) > 0) ++l;
  for (uint64_t cut : {uint64_t{4}, ~uint64_t{0}})  // there are 3 elements after the last message; or the buffer has none at all
    for (uint32_t side : {0u, 1u}) {
      Counted c(2, 32, 0, 2);
      c.each([&](uint32_t rank) { c.counted(rank, l, 1, false, 0, side ? std::array<uint64_t, 2>{0, cut} : std::array<uint64_t, 2>{cut, 0}); });
    }
}

void streams() {
  auto make = [](uint32_t n, uint32_t threads) {
    return Exchange(n, threads, streamChannels, streamRing(streamChannels) + n * streamChannels * 2 * 128, n * 2 * streamChannels * 32, 0);
  };
  make(2, 32).run(4, 1, true, stream);
  make(3, 9).run(4, 16, true, stream);
}

// Large messages around a ring: all jobs in turns, each launch with FIFOs of another layout, and streams in between, whose rings lie in the same place.
using Any4 = AnyReducer<Type::float32>;
constexpr Access whole = Access::words, any = Access::bytes;
const Case rings[] = {
    {"all-reduce", What::twoShot, ringAllReduce<Any1, any>, 1, 1},
    {"broadcast of words", What::broadcast, ringBroadcast<Nothing, whole>, 4, 16},
    {"reduce", What::reduce, ringReduce<Any1, any>, 1, 1},
    {"all-gather of words", What::allGather, ringAllGather<Nothing, whole>, 4, 16},
    {"reduce-scatter", What::reduceScatter, ringReduceScatter<Any4, any>, 4, 4},
    {"all-reduce of words", What::twoShot, ringAllReduce<Sum4, whole>, 4, 16},
    {"broadcast", What::broadcast, ringBroadcast<Nothing, any>, 1, 1},
    {"reduce of words", What::reduce, ringReduce<Sum4, whole>, 4, 16},
    {"all-gather", What::allGather, ringAllGather<Nothing, any>, 1, 1},
    {"reduce-scatter of words", What::reduceScatter, ringReduceScatter<Sum4, whole>, 4, 16},
};
// Sums that stay with their owners, and others in between.
using Sum2 = Reducer<Type::bfloat16, Op::sum, false>;
using Any2 = AnyReducer<Type::bfloat16>;
const Case folds[] = {
    {"all-reduce of sums", What::twoShot, foldAllReduce<Any2, any>, 2, 2},
    {"reduce-scatter of sums", What::reduceScatter, foldReduceScatter<Any2, any>, 2, 2},
    {"all-gather", What::allGather, ringAllGather<Nothing, any>, 1, 1},
    {"reduce-scatter of sums of words", What::reduceScatter, foldReduceScatter<Sum2, whole>, 2, 16},
    {"all-reduce of sums of words", What::twoShot, foldAllReduce<Sum2, whole>, 2, 16},
};

struct RingWorld : World {
  static constexpr uint8_t untouched = 0x55;
  static constexpr uint32_t region = 1536, depth = 4;  // bytes of all FIFOs of a window, and their slots, at most
  const Case* cases;
  uint32_t count;
  Exchange streams;  // their rings are smaller here, and lie where the last FIFOs do

  template <size_t N>
  RingWorld(const Case (&list)[N], uint32_t ranksN, uint32_t workers, uint64_t first)
      : World(ranksN, workers + ringTellers, 0), cases(list), count(N), streams(ranksN, 4, 1, 0, ranksN * 2 * streamChannels * 32, 0) {
    for (uint32_t r = 0; r < n; ++r) {
      windows[r] = std::make_unique<Memory>(flags() + ringChannels * ringLine * (1 + n));
      std::memset(windows[r]->data, untouched, region);
      streams.window[r] = windows[r]->data + region - streamRing(streamChannels);
      epochs[r].assign(ringChannels * epochStride, 0);
      for (uint32_t c = 0; c < ringChannels; ++c) {
        const uint64_t numbers[] = {first + 3 * r + c, first + 3 * ((r + n - 1) % n) + c, first + c};  // sent to the next, received from the one before, folded
        std::memcpy(&epochs[r][c * epochStride], numbers, sizeof numbers);
      }
    }
  }
  uint32_t flags() const { return region + n * streamChannels * 2 * 128; }  // behind the words of the streams
  Args args(uint32_t rank) {
    Args a = World::args(rank);
    a.flagsOffset = flags();
    return a;
  }

  // once is launch i of a round: several chunks with a rest, less than a line, whole chunks, one of which the last parts are empty, one with a short part.
  void once(uint32_t rank, uint32_t launch, uint32_t i, uint32_t round) {
    const Case& c = cases[i];
    struct {
      uint32_t channels, slotBytes;
    } const layouts[] = {{1, 128}, {2, 256}, {1, 384}, {3, 128}, {2, 128}, {4, 128}}, layout = layouts[launch % 6];  // the second and the last have 3 slots, others 4
    static_assert(ringParts + 1 == region / (2 * 256) && ringParts + 1 == region / (4 * 128) && depth == 4, "and that is the least");
    const uint32_t slots = std::min(depth, region / (layout.channels * layout.slotBytes));
    const uint64_t all = layout.channels * ringParts * layout.slotBytes, sizes[] = {3 * all - 37, 3, 2 * all, 200, all - 130};
    uint64_t bytes = sizes[(i + round) % 5] * (c.what == What::twoShot ? n : 1);
    bytes = bytes < c.align ? c.align : bytes / c.align * c.align;
    const uint32_t ops[] = {opSum, opAvg, opPreMulSum, opMax}, op = ops[round % (c.align < 16 ? 4 : 2)], root = (i + round) % n;
    const bool inPlace = (i + round / 2) % 2 == 1;
    auto once = c.element == 4 ? launchOnce<float, RingWorld> : c.element == 2 ? launchOnce<Brain, RingWorld> : launchOnce<uint8_t, RingWorld>;
    once(*this, c, rank, launch, layout.channels, bytes, inPlace, root, op, layout.slotBytes + slots);
  }
  void run(uint32_t rounds) {
    each([=, this](uint32_t rank) {
      uint32_t launch = 0, streamed = 0;
      for (uint32_t round = 0; round < rounds; ++round)
        for (uint32_t i = 0; i < count; ++i, ++launch) {
          once(rank, launch, i, round);
          if (launch % 4 == 1) streams.once(rank, streamed, streamed % 2 == 0 ? 1 : 16, true, stream), ++streamed;
        }
    });
  }
};

// A rank does not come: the others give up, and tell nobody of what is not there.
template <class Gone>
void aborted(void (*kernel)(const Args&), Gone gone) {
  RingWorld w(rings, 3, 3, 0);
  std::vector<AbortBlock> aborts(2, *abortBlock());
  const uint64_t slice = 512;
  std::vector<std::unique_ptr<Memory>> buffers;
  std::vector<Launch> launches;
  for (uint32_t rank : {0u, 1u}) {
    buffers.push_back(std::make_unique<Memory>(3 * slice));
    aborts[rank].spinLimitNs = 60000000000;
    Args a = w.args(rank);
    a.abort = &aborts[rank];
    a.send = a.recv = buffers[rank]->data;
    a.bytes = 3 * slice;
    a.sendStride = a.recvStride = slice;
    a.slotBytes = 128 + RingWorld::depth;
    launches.emplace_back(1, w.threads, [a, kernel] { kernel(a); });
  }
  auto word = [&](uint32_t at, uint32_t line) { return loadAcquire<Scope::sys>(reinterpret_cast<uint64_t*>(w.windows[at]->data + w.flags() + line * ringLine)); };
  auto wait = [&](auto done) {
    while (!done()) {
      CHECK(loadAcquire<Scope::sys>(&aborts[0].reported) == 0, "rank 0 has given up");
      sleepNs(20000);
    }
    for (AbortBlock& b : aborts) storeRelease<Scope::sys>(&b.abort, uint32_t{statusAborted});
    for (Launch& l : launches) l.join();
  };
  gone(w, aborts, word, wait);
  for (uint32_t i = 0; i < RingWorld::region; ++i) CHECK(w.windows[2]->data[i] == RingWorld::untouched, "byte %u of the rank that has not come was written", i);
}

// The rank before it finds no room there, the one behind hears nothing from it.
void ringAborted() {
  aborted(ringAllReduce<Any1, any>, [](RingWorld&, std::vector<AbortBlock>& aborts, auto word, auto wait) {
    const uint64_t first = word(2, 0);
    wait([&] { return word(1, 0) >= ringParts; });  // then rank 0 wants what rank 2 has
    for (uint32_t rank : {0u, 1u})
      CHECK(aborts[rank].reported == statusAborted && aborts[rank].peer == 2, "rank %u: status %x, peer %u", rank, aborts[rank].reported, aborts[rank].peer);
    CHECK(word(1, 0) == ringParts && word(2, 0) == first, "flags %lu, %lu", static_cast<unsigned long>(word(1, 0)), static_cast<unsigned long>(word(2, 0)));
  });
}

// Rank 0 sends to rank 1 in step 0, and in step 1 finds no room at rank 2. Rank 1 finds none in step 0.
void foldAborted() {
  aborted(foldAllReduce<Any2, any>, [](RingWorld& w, std::vector<AbortBlock>& aborts, auto word, auto wait) {
    auto flag = [&](uint32_t at, uint32_t by) { return word(at, ringChannels + by); };
    wait([&] { return flag(1, 0) == 1; });
    for (uint32_t rank : {0u, 1u})
      CHECK(aborts[rank].reported == statusAborted && aborts[rank].peer == 2, "rank %u: status %x, peer %u", rank, aborts[rank].reported, aborts[rank].peer);
    CHECK(flag(1, 0) == 1 && flag(0, 1) == 0 && flag(2, 0) == 0 && flag(2, 1) == 0 && w.epochs[0][4] == 0, "somebody was told of what is not there");
  });
}

void ringAll() {
  RingWorld(rings, 2, 5, 0).run(4);
  RingWorld(rings, 3, 3, 0xffffffa0).run(4);
  RingWorld(rings, 4, 3, 0xfffffff0).run(4);
}
void foldAll() {
  RingWorld(folds, 2, 5, 0).run(8);
  RingWorld(folds, 3, 3, 0xffffffa0).run(6);
  RingWorld(folds, 4, 3, 0xfffffff0).run(6);
}

// Launches of one owner on streams that know nothing of each other but the tickets: every cell is changed by another thread each time, and some have
// none.
struct TicketArgs {
  uint64_t* ticket;
  uint32_t *cell, cells, launch;
};
GOCCL_KERNEL(ticketed, 64, TicketArgs) {
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;; i += gridDim.x * blockDim.x) {
    if (i >= a.cells) return;
    CHECK(a.cell[i] == a.launch, "launch %u finds %u in cell %u", a.launch, a.cell[i], i);
    jitter();
    a.cell[i] = a.launch + 1;
  }
}

void tickets() {
  constexpr uint32_t streams = 3, launches = 24, cells = 40, threads = 12;
  uint64_t* word = newWord();
  *word = 0xffffffffffffffe8;  // it may wrap
  std::vector<uint32_t> cell(cells, 0);
  std::vector<uint64_t> before{*word};
  auto blocks = [](uint32_t l) { return 1 + l % 3; };
  for (uint32_t l = 0; l < launches; ++l) before.push_back(before[l] + blocks(l));
  std::vector<std::thread> hosts;
  for (uint32_t s = 0; s < streams; ++s)
    hosts.emplace_back([&, s] {
      for (uint32_t l = s; l < launches; l += streams) {
        while (static_cast<int64_t>(loadAcquire<Scope::gpu>(word) - before[l]) < 0) sleepNs(20000);
        Launch(blocks(l), threads, [&, l] { GOCCL_ENTRY(ticketed)(TicketArgs{word, cell.data(), cells, l}); }).join();
      }
    });
  for (auto& h : hosts) h.join();
  CHECK(*word == before[launches], "the word is %lx, not %lx", static_cast<unsigned long>(*word), static_cast<unsigned long>(before[launches]));
  Launch(2, threads, [&] { GOCCL_ENTRY(ticketed)(TicketArgs{nullptr, cell.data(), cells, launches}); }).join();
  CHECK(*word == before[launches] && cell[0] == launches + 1, "a launch without a ticket");
}

int main(int argc, char** argv) {
  for (int i = 2; i < argc; ++i) {
    hostWeakAcquire |= std::strcmp(argv[i], "acquire") == 0;
    hostWeakRelease |= std::strcmp(argv[i], "release") == 0;
    mutation = argv[i];
    bug = true;
  }
  const std::string name = argc > 1 ? argv[1] : "";
  if (name == "reduce") reduceAll();
  else if (name == "move") moveAll();
  else if (name == "messages") messages();
  else if (name == "device-counts") deviceCounts();
  else if (name == "no-counts") noCounts();
  else if (name == "wrong-counts") wrongCounts();
  else if (name == "outside-counts") outsideCounts();
  else if (name == "streams") streams();
  else if (name == "ring") ringAll();
  else if (name == "ring-aborted") ringAborted();
  else if (name == "fold") foldAll();
  else if (name == "fold-aborted") foldAborted();
  else if (name == "tickets") tickets();
  else return 2;
  return 0;
}
