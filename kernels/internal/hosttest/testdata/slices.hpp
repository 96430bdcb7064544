// Slices of owners, and their end when a rank does not come.
#pragma once

#include "messages.hpp"
#include "packets.hpp"

namespace ranks {

// sliced makes the arguments of slices from what launchOnce fills in.
template <What W, class R, Access A>
inline void sliced(const Args& args) {
  SliceArgs a{};
  static_cast<Args&>(a) = args;
  const uint32_t all = (1u << a.nranks) - 1, root = W == What::reduce || W == What::broadcast ? 1u << a.root : 0;
  a.slice = a.sendStride, a.owners = a.sources = a.takers = all, a.keeps = 1;
  if (W == What::reduceScatter || W == What::allGather) a.slice = a.bytes, a.bytes *= a.nranks;
  if (W == What::reduceScatter) a.takers = 0;
  if (W == What::allGather) a.sources = 0, a.keeps = a.recv + a.rank * a.slice != a.send;
  if (W == What::reduce) a.owners = all & ~root, a.takers = root, a.keeps = 0;
  if (W == What::broadcast) {
    a.owners = a.takers = all & ~root, a.sources = root;
    if (a.rank == a.root && a.send != a.recv) a.mirror = a.recv;
  }
  slicesByWorkers<R, A>(a);
}

// All jobs in turns, each launch with FIFOs of another layout, and streams in between, whose rings lie in the same
// place.
using Any4 = AnyReducer<Type::float32>;
using Sum2 = Reducer<Type::bfloat16, Op::sum, false>;
using Any2 = AnyReducer<Type::bfloat16>;
constexpr Access whole = Access::words, any = Access::bytes;
const Case sliceCases[] = {
    {"all-reduce", What::twoShot, sliced<What::twoShot, Any1, any>, 1, 1},
    {"broadcast of words", What::broadcast, sliced<What::broadcast, MoveReducer, whole>, 4, 16},
    {"reduce", What::reduce, sliced<What::reduce, Any1, any>, 1, 1},
    {"all-gather of words", What::allGather, sliced<What::allGather, MoveReducer, whole>, 4, 16},
    {"reduce-scatter", What::reduceScatter, sliced<What::reduceScatter, Any2, any>, 2, 2},
    {"all-reduce of words", What::twoShot, sliced<What::twoShot, Sum4, whole>, 4, 16},
    {"broadcast", What::broadcast, sliced<What::broadcast, MoveReducer, any>, 1, 1},
    {"reduce of words", What::reduce, sliced<What::reduce, Sum2, whole>, 2, 16},
    {"all-gather", What::allGather, sliced<What::allGather, MoveReducer, any>, 1, 1},
    {"reduce-scatter of words", What::reduceScatter, sliced<What::reduceScatter, Sum4, whole>, 4, 16},
    {"all-reduce of floats", What::twoShot, sliced<What::twoShot, Any4, any>, 4, 4},
};

struct SliceWorld : World {
  static constexpr uint8_t untouched = 0x55;
  const uint32_t region;  // bytes of all FIFOs of a window
  Exchange streams;       // their rings are smaller here, and lie where the last FIFOs do

  SliceWorld(uint32_t ranksN, uint32_t workers, uint64_t first)
      : World(ranksN, workers + pipeSignalers, 0), region(2 * ranksN * 4 * 512),
        streams(ranksN, 4, 1, 0, ranksN * 2 * streamChannels * 32, 0) {
    for (uint32_t r = 0; r < n; ++r) {
      windows[r] = std::make_unique<Memory>(flags() + 2 * n * sliceChannels * sliceLine);
      std::memset(windows[r]->data, untouched, region);
      streams.window[r] = windows[r]->data + region - streamChannels * streamRingBytes;
      epochs[r].assign(sliceChannels * epochStride, 0);
      for (uint32_t c = 0; c < sliceChannels; ++c) {
        const uint64_t numbers[] = {first + c, first + 3 * c};
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

  // once is launch i of a round: several turns with a rest, less than a line, whole turns, a piece, and turns of which
  // the last slices are short or empty.
  void once(uint32_t rank, uint32_t launch, uint32_t i, uint32_t round) {
    const Case& c = sliceCases[i];
    struct {
      uint32_t channels, piece, depth;
    } const layouts[] = {{1, 128, 3}, {2, 256, 4}, {1, 384, 5}, {3, 128, 4}, {2, 128, 3}, {4, 128, 4}},
            layout = layouts[launch % std::size(layouts)];
    const uint64_t turn = layout.channels * layout.piece,
                   sizes[] = {5 * turn - 37, 3, 2 * turn, 200, 3 * turn - 130};
    const bool sliced = c.what == What::reduceScatter || c.what == What::allGather;
    uint64_t bytes = sizes[(i + round) % 5] * (sliced ? 1 : n - 1);
    bytes = bytes < c.align ? c.align : bytes / c.align * c.align;
    const uint32_t ops[] = {opSum, opAvg, opPreMulSum, opMax}, op = ops[round % (c.align < 16 ? 4 : 2)],
                   root = (i + round) % n;
    const bool inPlace = (i + round / 2) % 2 == 1;
    auto launchIt = c.element == 4   ? launchOnce<float, SliceWorld>
                    : c.element == 2 ? launchOnce<Brain, SliceWorld>
                                     : launchOnce<uint8_t, SliceWorld>;
    launchIt(*this, c, rank, launch, layout.channels, bytes, inPlace, root, op, layout.piece + layout.depth);
  }
  void run(uint32_t rounds) {
    each([=, this](uint32_t rank) {
      uint32_t launch = 0, streamed = 0;
      for (uint32_t round = 0; round < rounds; ++round)
        for (uint32_t i = 0; i < std::size(sliceCases); ++i, ++launch) {
          once(rank, launch, i, round);
          if (launch % 4 == 1) streams.once(rank, streamed, streamed % 2 == 0 ? 1 : 16, true, stream), ++streamed;
        }
    });
  }
};

// A rank does not come: the others give up, and signal nothing that has not happened. Ranks 0 and 1 exchange parts of
// their first turns, and no sum is passed on.
inline void slicesAborted() {
  SliceWorld w(3, 3, 0);
  std::vector<AbortBlock> aborts(2, *abortBlock());
  const uint64_t slice = 2048;
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
    a.slotBytes = 128 + 4;
    launches.emplace_back(1, w.threads, [a] { sliced<What::twoShot, Any1, any>(a); });
  }
  for (AbortBlock& b : aborts) sleepNs(50000000), storeRelease<Scope::sys>(&b.abort, uint32_t{statusAborted});
  for (Launch& l : launches) l.join();
  for (uint32_t rank : {0u, 1u}) {
    CHECK(aborts[rank].reported == statusAborted && aborts[rank].peer == 2, "rank %u: status %x, peer %u", rank,
          aborts[rank].reported, aborts[rank].peer);
    for (uint32_t line = 0; line < 2 * w.n * sliceChannels; ++line) {
      const uint64_t* flag = reinterpret_cast<uint64_t*>(w.windows[rank]->data + w.flags() + line * sliceLine);
      CHECK(loadAcquire<Scope::sys>(flag) == 0, "rank %u has flag %u", rank, line);
    }
    CHECK(w.epochs[rank][0] == 0, "rank %u counts turns that have not ended", rank);
  }
  for (uint32_t i = 0; i < w.region; ++i)
    CHECK(w.windows[2]->data[i] == SliceWorld::untouched, "byte %u of the rank that has not come was written", i);
}

inline void slicesAll() {
  SliceWorld(2, 5, 0).run(5);
  SliceWorld(3, 3, 0xffffffa0).run(5);
  SliceWorld(4, 3, 0xfffffff0).run(4);
}

}  // namespace ranks
