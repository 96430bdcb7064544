// Rings, folds, work in place, and their end when a rank does not come.
#pragma once

#include "messages.hpp"
#include "packets.hpp"

namespace ranks {

// Large messages around a ring: all jobs in turns, each launch with FIFOs of another layout, and streams in between,
// whose rings lie in the same place.
using Any4 = AnyReducer<Type::float32>;
constexpr Access whole = Access::words, any = Access::bytes;
const Case rings[] = {
    {"all-reduce", What::twoShot, ringAllReduce<Any1, any>, 1, 1},
    {"broadcast of words", What::broadcast, ringBroadcast<NoReducer, whole>, 4, 16},
    {"reduce", What::reduce, ringReduce<Any1, any>, 1, 1},
    {"all-gather of words", What::allGather, ringAllGather<NoReducer, whole>, 4, 16},
    {"reduce-scatter", What::reduceScatter, ringReduceScatter<Any4, any>, 4, 4},
    {"all-reduce of words", What::twoShot, ringAllReduce<Sum4, whole>, 4, 16},
    {"broadcast", What::broadcast, ringBroadcast<NoReducer, any>, 1, 1},
    {"reduce of words", What::reduce, ringReduce<Sum4, whole>, 4, 16},
    {"all-gather", What::allGather, ringAllGather<NoReducer, any>, 1, 1},
    {"reduce-scatter of words", What::reduceScatter, ringReduceScatter<Sum4, whole>, 4, 16},
};
// Sums that stay with their owners, and others in between.
using Sum2 = Reducer<Type::bfloat16, Op::sum, false>;
using Any2 = AnyReducer<Type::bfloat16>;
const Case folds[] = {
    {"all-reduce of sums", What::twoShot, foldAllReduce<Any2, any>, 2, 2},
    {"reduce-scatter of sums", What::reduceScatter, foldReduceScatter<Any2, any>, 2, 2},
    {"all-gather", What::allGather, ringAllGather<NoReducer, any>, 1, 1},
    {"reduce-scatter of sums of words", What::reduceScatter, foldReduceScatter<Sum2, whole>, 2, 16},
    {"all-reduce of sums of words", What::twoShot, foldAllReduce<Sum2, whole>, 2, 16},
};

// Large messages by few blocks, in the ranks' buffers, or by the windows where a rank's buffers are not mapped:
// flagsOffset says it, in its highest bit.
constexpr uint32_t unmapped = 0x80000000;
template <class Work>
void direct(const Args& args, bool mappable) {
  DirectArgs a{};
  static_cast<Args&>(a) = args;
  a.flagsOffset &= ~unmapped;
  const bool unused = a.root != everyone && a.root != a.rank && a.recvStride != 0;  // the receive buffer
  for (uint32_t r = 0; r < a.nranks && (args.flagsOffset & unmapped) == 0 && mappable; ++r)
    a.in[r] = const_cast<uint8_t*>(a.send), a.out[r] = unused ? reinterpret_cast<uint8_t*>(1) : a.recv;
  Work(a).run();
}
template <class R, uint32_t Job>
void directReduce(const Args& args) {
  Args a = args;
  if (Job == anyJob && a.root != everyone)
    a.sendStride = a.recvStride = (a.bytes + 16 * a.nranks - 1) / (16 * a.nranks) * 16;
  const uintptr_t all = reinterpret_cast<uintptr_t>(a.send) | reinterpret_cast<uintptr_t>(a.recv);
  direct<DirectReduce<R, Job>>(a, (all | a.sendStride) % 16 == 0);
}
void directMove(const Args& a) { direct<DirectMove>(a, a.send != a.recv || a.sendStride != a.recvStride); }
void directBroadcast(const Args& args) {
  Args a = args;
  a.sendStride = a.recvStride = 0;
  direct<DirectMove>(a, true);
}
constexpr auto ringBetween = ringAllGather<NoReducer, any>;
const Case directs[] = {
    {"all-reduce", What::twoShot, directReduce<Sum4, gathers>, 4, 16, 4},
    {"reduce-scatter of 2 bytes", What::reduceScatter, directReduce<Sum2, scatters>, 2, 16},
    {"all-gather", What::allGather, directMove, 4, 16},
    {"any all-reduce", What::twoShot, directReduce<Any1, anyJob>, 1, 16, 1},
    {"all-to-all", What::allToAll, directMove, 4, 16},
    {"ring between", What::allGather, ringBetween, 1, 1},
    {"gather", What::gather, directMove, 1, 16},
    {"all-reduce of 2 bytes", What::twoShot, directReduce<Sum2, gathers>, 2, 2},
    {"any reduce", What::reduce, directReduce<Any4, anyJob>, 4, 16, 4},
    {"scatter", What::scatter, directMove, 4, 16},
    {"broadcast", What::broadcast, directBroadcast, 1, 16, 1},
    {"reduce-scatter", What::reduceScatter, directReduce<Sum4, scatters>, 4, 4},
    {"all-to-all of bytes", What::allToAll, directMove, 1, 1},
    {"any reduce-scatter", What::reduceScatter, directReduce<Any2, anyJob>, 2, 16},
    {"all-gather of bytes", What::allGather, directMove, 1, 16, 1},
    {"any reduce of bytes", What::reduce, directReduce<Any1, anyJob>, 1, 1},
};

struct RingWorld : World {
  static constexpr uint8_t untouched = 0x55;
  static constexpr uint32_t region = 1536, depth = 4;  // bytes of all FIFOs of a window, and their slots, at most
  const Case* cases;
  uint32_t count;
  std::vector<uint32_t> launched;  // by rank
  Exchange streams;  // their rings are smaller here, and lie where the last FIFOs do

  template <size_t N>
  RingWorld(const Case (&list)[N], uint32_t ranksN, uint32_t workers, uint64_t first)
      : World(ranksN, workers + pipeSignalers, 0), cases(list), count(N), launched(ranksN),
        streams(ranksN, 4, 1, 0, ranksN * 2 * streamChannels * 32, 0) {
    for (uint32_t r = 0; r < n; ++r) {
      windows[r] = std::make_unique<Memory>(flags() + ringChannels * ringLine * (1 + 2 * n));
      std::memset(windows[r]->data, untouched, region);
      streams.window[r] = windows[r]->data + region - streamRing(streamChannels);
      epochs[r].assign(ringChannels * epochStride, 0);
      for (uint32_t c = 0; c < ringChannels; ++c) {
        const uint64_t numbers[] = {first + 3 * r + c, first + 3 * ((r + n - 1) % n) + c,
                                    first + c};  // sent to the next, received from the one before, folded
        std::memcpy(&epochs[r][c * epochStride], numbers, sizeof numbers);
      }
    }
  }
  uint32_t flags() const { return region + n * streamChannels * 2 * 128; }  // behind the words of the streams
  bool anyOperator(const Case& c) const { return works(c) ? std::strstr(c.name, "any") == c.name : c.align < 16; }
  bool works(const Case& c) const { return cases == directs && c.kernel != ringBetween; }
  Args args(uint32_t rank) {
    Args a = World::args(rank);
    a.flagsOffset = flags();
    if (works(cases[launched[rank] % count]))
      a.flagsOffset += ringChannels * ringLine * (1 + n) | (launched[rank] % 5 == rank ? unmapped : 0);
    return a;
  }

  // once is launch i of a round: several chunks with a rest, less than a line, whole chunks, one of which the last
  // parts are empty, one with a short part.
  void once(uint32_t rank, uint32_t launch, uint32_t i, uint32_t round) {
    const Case& c = cases[i];
    launched[rank] = launch;
    struct {
      uint32_t channels, slotBytes;
    } const layouts[] = {{1, 128}, {2, 256}, {1, 384}, {3, 128}, {2, 128}, {4, 128}},
            layout = layouts[launch % 6];  // the second and the last have 3 slots, others 4
    static_assert(ringParts + 1 == region / (2 * 256) && ringParts + 1 == region / (4 * 128) && depth == 4,
                  "and that is the least");
    const uint32_t slots = std::min(depth, region / (layout.channels * layout.slotBytes));
    const uint64_t all = layout.channels * ringParts * layout.slotBytes,
                   sizes[] = {3 * all - 37, 3, 2 * all, 200, all - 130};
    uint64_t bytes = sizes[(i + round) % 5] * (c.what == What::twoShot ? n : 1);
    const uint32_t unit = c.unit != 0 ? c.unit : c.align;
    bytes = bytes < unit ? unit : bytes / unit * unit;
    const uint32_t ops[] = {opSum, opAvg, opPreMulSum, opMax}, op = ops[round % (anyOperator(c) ? 4 : 2)],
                   root = (i + round) % n;
    const bool inPlace = (i + round / 2) % 2 == 1;
    uint32_t slot = layout.slotBytes + slots;
    if (works(c)) slot = region / (2 * n) & ~63u;
    auto once = c.element == 4   ? launchOnce<float, RingWorld>
                : c.element == 2 ? launchOnce<Brain, RingWorld>
                                 : launchOnce<uint8_t, RingWorld>;
    once(*this, c, rank, launch, layout.channels, bytes, inPlace, root, op, slot);
  }
  void run(uint32_t rounds) {
    each([=, this](uint32_t rank) {
      uint32_t launch = 0, streamed = 0;
      for (uint32_t round = 0; round < rounds; ++round)
        for (uint32_t i = 0; i < count; ++i, ++launch) {
          once(rank, launch, i, round);
          if (launch % 4 == 1) streams.once(rank, streamed, streamed % 2 == 0 ? 1 : 16, stream), ++streamed;
        }
    });
  }
};

// A rank does not come: the others give up, and signal nothing that has not happened.
template <class Gone>
inline void aborted(void (*kernel)(const Args&), Gone gone) {
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
  auto word = [&](uint32_t at, uint32_t line) {
    return loadAcquire<Scope::sys>(reinterpret_cast<uint64_t*>(w.windows[at]->data + w.flags() + line * ringLine));
  };
  auto wait = [&](auto done) {
    while (!done()) {
      CHECK(loadAcquire<Scope::sys>(&aborts[0].reported) == 0, "rank 0 has given up");
      sleepNs(20000);
    }
    for (AbortBlock& b : aborts) storeRelease<Scope::sys>(&b.abort, uint32_t{statusAborted});
    for (Launch& l : launches) l.join();
  };
  gone(w, aborts, word, wait);
  for (uint32_t i = 0; i < RingWorld::region; ++i)
    CHECK(w.windows[2]->data[i] == RingWorld::untouched, "byte %u of the rank that has not come was written", i);
}

// The rank before it finds no room there, the one behind gets no signal from it.
inline void ringAborted() {
  aborted(ringAllReduce<Any1, any>, [](RingWorld&, std::vector<AbortBlock>& aborts, auto word, auto wait) {
    const uint64_t first = word(2, 0);
    wait([&] { return word(1, 0) >= ringParts; });  // then rank 0 wants what rank 2 has
    for (uint32_t rank : {0u, 1u})
      CHECK(aborts[rank].reported == statusAborted && aborts[rank].peer == 2, "rank %u: status %x, peer %u", rank,
            aborts[rank].reported, aborts[rank].peer);
    CHECK(word(1, 0) == ringParts && word(2, 0) == first, "flags %lu, %lu", static_cast<unsigned long>(word(1, 0)),
          static_cast<unsigned long>(word(2, 0)));
  });
}

// Rank 0 sends to rank 1 in step 0, and in step 1 finds no room at rank 2. Rank 1 finds none in step 0.
inline void foldAborted() {
  aborted(foldAllReduce<Any2, any>, [](RingWorld& w, std::vector<AbortBlock>& aborts, auto word, auto wait) {
    auto flag = [&](uint32_t at, uint32_t by) { return word(at, ringChannels + by); };
    wait([&] { return flag(1, 0) == 1; });
    for (uint32_t rank : {0u, 1u})
      CHECK(aborts[rank].reported == statusAborted && aborts[rank].peer == 2, "rank %u: status %x, peer %u", rank,
            aborts[rank].reported, aborts[rank].peer);
    CHECK(flag(1, 0) == 1 && flag(0, 1) == 0 && flag(2, 0) == 0 && flag(2, 1) == 0 && w.epochs[0][4] == 0,
          "a signal was given too early");
  });
}

inline void ringAll() {
  RingWorld(rings, 2, 5, 0).run(4);
  RingWorld(rings, 3, 3, 0xffffffa0).run(4);
  RingWorld(rings, 4, 3, 0xfffffff0).run(4);
}
inline void directAll() {
  RingWorld(directs, 2, 5, 0).run(4);
  RingWorld(directs, 3, 3, 0xffffffa0).run(4);
  RingWorld(directs, 4, 4, 0xfffffff0).run(2);
}
// The rank that has not come is named.
inline void directAborted() {
  aborted(directReduce<Sum4, gathers>, [](RingWorld&, std::vector<AbortBlock>& aborts, auto, auto wait) {
    sleepNs(5000000);
    wait([] { return true; });
    for (uint32_t rank : {0u, 1u})
      CHECK(aborts[rank].reported == statusAborted && aborts[rank].peer == 2, "rank %u: status %x, peer %u", rank,
            aborts[rank].reported, aborts[rank].peer);
  });
}
inline void foldAll() {
  RingWorld(folds, 2, 5, 0).run(8);
  RingWorld(folds, 3, 3, 0xffffffa0).run(6);
  RingWorld(folds, 4, 3, 0xfffffff0).run(6);
}

}  // namespace ranks
