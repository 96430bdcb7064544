// The fused all-reduces.
//
//   oneShot   every rank sends its rows to all others and finishes all rows: (n-1)·N bytes out, one hop
//   twoShot   rows to their owners, the results back: 2·(n-1)/n·N bytes out, two hops. The results are sums, and every
//             rank finishes all rows. With a divided residual they are norms, and every rank only writes them
//   finish    no communication: the steps after an all-reduce
//   reduce    an all-reduce without rows, any size and alignment
//
// A block's flow in a launch:
//
//  1. send     all its rows to the peers
//  2. keep     the number of its passes, for the next one
//  3. receive  row by row, all packets of a thread at once, while the row's operands are loaded; fold in rank order;
//              clear; finish
#pragma once

#include <fused/packets.cuh>
#include <fused/row.cuh>
#include <goccl/word.cuh>

namespace goccl {
namespace fused {

template <Type T>
GOCCL_DEVICE uint64_t rowBytes(const Args& a) {
  return static_cast<uint64_t>(a.hidden) * Element<T>::size;
}

// Places holds the positions in a slot of the packets that this thread waits for: the packets of the index-th row that
// carry G of the thread's groups, beginning with group `first`.
template <Type T, uint32_t G>
struct Places {
  uint32_t at[G * Group<T>::vectors];

  GOCCL_DEVICE Places(const Args& a, uint32_t index, uint32_t first) {
    constexpr uint32_t V = Group<T>::vectors;
    const uint32_t offset = index * static_cast<uint32_t>(rowBytes<T>(a) / 16);
#pragma unroll
    for (uint32_t k = 0; k < G * V; ++k) at[k] = noPacket;
    forGroups<G>(a, first, [&](uint32_t i, uint32_t g) {
#pragma unroll
      for (uint32_t k = 0; k < V; ++k) at[i * V + k] = offset + g * V + k;
    });
  }
};

// sumGroups receives G groups of a row, from the first-th on, of all ranks, and folds them in rank order with the own
// ones at input.
template <Type T, uint32_t G>
GOCCL_DEVICE Status sumGroups(const Args& a, uint32_t area, uint32_t index, const uint8_t* input, uint32_t first,
                              Group<T>* z) {
  constexpr uint32_t V = Group<T>::vectors, N = G * V;
  const Places<T, G> places(a, index, first);
  Group<T> own[G];
  forGroups<G>(a, first, [&](uint32_t i, uint32_t g) { own[i].load(input, g); });
  Accumulator<T, Op::sum> sum[N];
  auto add = [&](uint32_t rank, uint32_t k, const uint4& packet) {
    if (rank == 0)
      sum[k].load(complementOf(packet));
    else
      sum[k].add(complementOf(packet));
  };
  auto addOwn = [&] {
#pragma unroll
    for (uint32_t k = 0; k < N; ++k)
      if (places.at[k] != noPacket) add(a.rank, k, packetOf(own[k / V].v[k % V]));
  };
  for (uint32_t first = 0; first + 1 < a.nranks; first += batch(N)) {
    const Status status = receive<N>(a, area, first, places.at, [&](uint32_t peer, const uint4* v) {
      if (peer == a.rank) addOwn();
#pragma unroll
      for (uint32_t k = 0; k < N; ++k)
        if (places.at[k] != noPacket) add(peer + (peer >= a.rank), k, v[k]);
    });
    if (status != statusOk) return status;
  }
  if (a.rank + 1 == a.nranks) addOwn();
#pragma unroll
  for (uint32_t k = 0; k < N; ++k)
    if (places.at[k] != noPacket) z[k / V].v[k % V] = sum[k].result();
  return statusOk;
}

// atOnce is how many of its K groups a thread receives at once: all, or two packets of a long row, as there are no
// registers for more.
template <Type T, uint32_t K>
constexpr uint32_t atOnce = K == 4 ? 2 / Group<T>::vectors : K;

// sumRow receives a row, the index-th of this block's slots. A thread that gives up returns the reason; its sum is then
// undefined.
template <Type T, uint32_t K>
GOCCL_DEVICE Status sumRow(const Args& a, uint32_t area, uint32_t index, const uint8_t* input, Row<T, K>& row) {
  Status status = statusOk;
#pragma unroll
  for (uint32_t first = 0; first < K; first += atOnce<T, K>)
    if (status == statusOk) status = sumGroups<T, atOnce<T, K>>(a, area, index, input, first, row.z + first);
  return status;
}

// sendGroup sends a group of a row as part of the index-th row of a slot.
template <Type T>
GOCCL_DEVICE void sendGroup(const Args& a, uint8_t* slot, uint32_t index, uint32_t g, const Group<T>& group) {
  constexpr uint32_t V = Group<T>::vectors;
  const uint32_t offset = index * static_cast<uint32_t>(rowBytes<T>(a) / 16);
#pragma unroll
  for (uint32_t k = 0; k < V; ++k) send(slot, offset + g * V + k, packetOf(group.v[k]));
}

template <Type T, uint32_t K>
GOCCL_DEVICE void oneShot(const Args& a, uint32_t* shared) {
  const Pass pass(a);
  Folds folds{shared, 0};
  uint32_t rows = 0;
  for (uint32_t t = a.first + blockIdx.x; t < a.end; t += gridDim.x, ++rows)
    forGroups<K>(a, [&](uint32_t, uint32_t g) {
      Group<T> own;
      own.load(a.input + t * rowBytes<T>(a), g);
      for (uint32_t k = 1; k < a.nranks; ++k)
        sendGroup(a, targetSlot(a, pass.area, 0, peerAt(a, k)), rows, g, own);
    });
  Operands<T, K> operands;
  operands.loadWeight(a);
  pass.keep();
  for (uint32_t i = 0; i < rows; ++i) {
    const uint32_t t = a.first + blockIdx.x + i * gridDim.x;
    Row<T, K> row;
    operands.loadResidual(a, t);
    const Status s = sumRow(a, pass.area, i, a.input + t * rowBytes<T>(a), row);
    if (__syncthreads_or(s != statusOk)) return;
    row.finish(a, a.stage, t, operands, folds);
  }
}

// twoShot: rank r owns the rows from r·slice to r·slice + slice. Block b takes the same rows of every slice: its i-th
// is a.first + b + i·gridDim.x.
template <Type T, uint32_t K>
GOCCL_DEVICE void twoShot(const Args& a, uint32_t* shared) {
  const Pass pass(a);
  Folds folds{shared, 0};
  uint32_t rows = 0;
  auto rowOf = [&](uint32_t owner, uint32_t i) { return owner * a.slice + a.first + blockIdx.x + i * gridDim.x; };
  for (; a.first + blockIdx.x + rows * gridDim.x < a.end; ++rows)
    for (uint32_t k = 1; k < a.nranks; ++k) {
      const uint32_t p = peerAt(a, k), t = rowOf(p, rows);
      if (t < a.tokens)
        forGroups<K>(a, [&](uint32_t, uint32_t g) {
          Group<T> own;
          own.load(a.input + t * rowBytes<T>(a), g);
          sendGroup(a, targetSlot(a, pass.area, 0, p), rows, g, own);
        });
    }
  Operands<T, K> operands;
  operands.loadWeight(a);
  pass.keep();
  for (uint32_t i = 0; i < rows; ++i) {
    const uint32_t t = rowOf(a.rank, i);
    if (t >= a.tokens) break;
    Row<T, K> row;
    operands.loadResidual(a, t);
    const Status s = sumRow(a, pass.area, i, a.input + t * rowBytes<T>(a), row);
    if (__syncthreads_or(s != statusOk)) return;
    if (a.divided) row.finish(a, normalising, t, operands, folds);
    forGroups<K>(a, [&](uint32_t j, uint32_t g) {
      for (uint32_t k = 1; k < a.nranks; ++k)
        sendGroup(a, targetSlot(a, pass.area, 1, peerAt(a, k)), i, g, row.z[j]);
    });
    row.finish(a, a.divided ? writing : a.stage, t, operands, folds);
  }
  for (uint32_t i = 0; i < rows; ++i)
    for (uint32_t k = 1; k < a.nranks; ++k) {
      const uint32_t owner = peerAt(a, k), t = rowOf(owner, i);
      if (t >= a.tokens) continue;
      Row<T, K> row;
      if (!a.divided) operands.loadResidual(a, t);
      Status s = statusOk;
#pragma unroll
      for (uint32_t first = 0; first < K; first += atOnce<T, K>) {
        const Places<T, atOnce<T, K>> places(a, i, first);
        uint4 v[atOnce<T, K> * Group<T>::vectors];
        if (s == statusOk) s = receiveFrom(a, pass.area, owner, places.at, v);
        row.template take<atOnce<T, K>>(first, v);
      }
      if (__syncthreads_or(s != statusOk)) return;
      row.finish(a, a.divided ? writing : a.stage, t, operands, folds);
    }
}

// finishRows: the sums, or norms, are at input.
template <Type T, uint32_t K>
GOCCL_DEVICE void finishRows(const Args& a, uint32_t* shared) {
  Folds folds{shared, 0};
  Operands<T, K> operands;
  operands.loadWeight(a);
  for (uint32_t t = a.first + blockIdx.x; t < a.end; t += gridDim.x) {
    uint8_t* in = const_cast<uint8_t*>(a.input) + t * rowBytes<T>(a);
    Row<T, K> row;
    row.load(a, in);
    if (a.stage & normalising) operands.loadResidual(a, t);
    row.finish(a, a.stage, t, operands, folds);
    if (a.stage == normalising && (a.norm != nullptr || a.quantisation != quantNone)) row.store(a, in);
  }
}

}  // namespace fused
}  // namespace goccl
