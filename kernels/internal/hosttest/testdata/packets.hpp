// Collectives by packets.
#pragma once

#include "cases.hpp"

namespace ranks {

using Sum4 = Reducer<Type::float32, Op::sum, false>;
using Any1 = AnyReducer<Type::int8>;  // for uint8

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
const Case eightRanks[] = {
    {"one-shot ll128 n8", What::allReduce, reduceSlices<LineWords, Sum4, 8, true>, 4, 8},
    {"two-shot ll n8", What::twoShot, twoShot<PacketWords, Sum4, 8>, 4, 8},
};

// Epochs start fresh, just before the last odd one, and at the last. Packets of 16 bytes need no warps.
inline void runAll(const Case* cases, size_t count) {
  for (const Case* c = cases; c != cases + count; ++c) {
    const bool lines = std::strstr(c->name, "ll128") != nullptr;
    runCase(*c, 2, lines ? 64 : 12, 0, lines ? 2 : 6);
    runCase(*c, 3, lines ? 32 : 8, 0xfffffffd, lines ? 3 : 6);
    if (!lines) runCase(*c, 4, 8, 0xffffffff, 3);
  }
}
inline void reduceAll() {
  runAll(reductions, std::size(reductions));
  for (const Case& c : fixedRanks) runCase(c, 2, 32, 0xfffffffe, 4);
}
inline void moveAll() { runAll(moves, std::size(moves)); }

}  // namespace ranks
