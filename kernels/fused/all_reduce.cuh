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
//  2. clear    what its previous pass has used
//  3. receive  row by row; fold in rank order; finish
//  4. keep     the area and its size, for its next pass
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

// sumRow receives a row of all ranks, the index-th of this block's slots, and folds it in rank order with the own one
// at input. A thread that gives up returns the reason; its sum is then undefined.
template <Type T, uint32_t K>
GOCCL_DEVICE Status sumRow(const Args& a, uint32_t area, uint32_t index, const uint8_t* input, Row<T, K>& row) {
  constexpr uint32_t V = Group<T>::vectors;
  const uint32_t offset = index * static_cast<uint32_t>(rowBytes<T>(a) / 16);
  Status status = statusOk;
  forGroups<K>(a, [&](uint32_t i, uint32_t g) {
    if (status != statusOk) return;
    Group<T> own;
    own.load(input, g);
    Accumulator<T, Op::sum> sum[V];
    for (uint32_t first = 0; first < a.nranks && status == statusOk; first += batch)
      status = receive<V>(a, area, first, offset + g * V, [&](uint32_t r, const uint4* v) {
#pragma unroll
        for (uint32_t k = 0; k < V; ++k) {
          const uint4 x = r == a.rank ? sendable(own.v[k]) : v[k];
          if (r == 0)
            sum[k].load(x);
          else
            sum[k].add(x);
        }
      });
#pragma unroll
    for (uint32_t k = 0; k < V; ++k) row.z[i].v[k] = sum[k].result();
  });
  return status;
}

// sendGroup sends a group of a row as part of the index-th row of a slot.
template <Type T>
GOCCL_DEVICE void sendGroup(const Args& a, uint8_t* slot, uint32_t index, uint32_t g, const Group<T>& group) {
  constexpr uint32_t V = Group<T>::vectors;
  const uint32_t offset = index * static_cast<uint32_t>(rowBytes<T>(a) / 16);
#pragma unroll
  for (uint32_t k = 0; k < V; ++k) send(slot, offset + g * V + k, sendable(group.v[k]));
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
  pass.clear();
  for (uint32_t i = 0; i < rows; ++i) {
    const uint32_t t = a.first + blockIdx.x + i * gridDim.x;
    Row<T, K> row;
    const Status s = sumRow(a, pass.area, i, a.input + t * rowBytes<T>(a), row);
    if (__syncthreads_or(s != statusOk)) return;
    row.finish(a, a.stage, t, folds);
  }
  pass.end(rows * static_cast<uint32_t>(rowBytes<T>(a) / 16), 0);
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
  pass.clear();
  for (uint32_t i = 0; i < rows; ++i) {
    const uint32_t t = rowOf(a.rank, i);
    if (t >= a.tokens) break;
    Row<T, K> row;
    const Status s = sumRow(a, pass.area, i, a.input + t * rowBytes<T>(a), row);
    if (__syncthreads_or(s != statusOk)) return;
    if (a.divided) row.finish(a, normalising, t, folds);
    forGroups<K>(a, [&](uint32_t j, uint32_t g) {
      for (uint32_t k = 1; k < a.nranks; ++k)
        sendGroup(a, targetSlot(a, pass.area, 1, peerAt(a, k)), i, g, row.z[j]);
    });
    row.finish(a, a.divided ? writing : a.stage, t, folds);
  }
  for (uint32_t i = 0; i < rows; ++i)
    for (uint32_t k = 1; k < a.nranks; ++k) {
      const uint32_t owner = peerAt(a, k), t = rowOf(owner, i);
      if (t >= a.tokens) continue;
      Row<T, K> row;
      Status s = statusOk;
      constexpr uint32_t V = Group<T>::vectors;
      const uint32_t offset = i * static_cast<uint32_t>(rowBytes<T>(a) / 16);
      forGroups<K>(a, [&](uint32_t j, uint32_t g) {
        if (s == statusOk) s = receiveFrom<V>(a, pass.area, owner, offset + g * V, row.z[j].v);
      });
      if (__syncthreads_or(s != statusOk)) return;
      row.finish(a, a.divided ? writing : a.stage, t, folds);
    }
  const uint32_t used = rows * static_cast<uint32_t>(rowBytes<T>(a) / 16);
  pass.end(used, used);
}

// finishRows: the sums, or norms, are at input.
template <Type T, uint32_t K>
GOCCL_DEVICE void finishRows(const Args& a, uint32_t* shared) {
  Folds folds{shared, 0};
  for (uint32_t t = a.first + blockIdx.x; t < a.end; t += gridDim.x) {
    uint8_t* in = const_cast<uint8_t*>(a.input) + t * rowBytes<T>(a);
    Row<T, K> row;
    row.load(a, in);
    row.finish(a, a.stage, t, folds);
    if (a.stage == normalising && (a.norm != nullptr || a.quantisation != quantNone)) row.store(a, in);
  }
}

// reduceFlat is an all-reduce of a.bytes at a.input, of any alignment, to a.sum: units of 16 bytes, of which the last
// may be short.
template <Type T>
GOCCL_DEVICE void reduceFlat(const Args& a) {
  const Pass pass(a);
  const uint64_t units = (a.bytes + 15) / 16;
  uint32_t used = 0;
  for (uint64_t base = static_cast<uint64_t>(blockIdx.x) * blockDim.x; base < units;
       base += static_cast<uint64_t>(gridDim.x) * blockDim.x, used += blockDim.x) {
    const uint64_t u = base + threadIdx.x;
    if (u >= units) continue;
    const uint4 own = sendable(loadVector(a.input + u * 16, a.bytes - u * 16));
    for (uint32_t k = 1; k < a.nranks; ++k)
      send(targetSlot(a, pass.area, 0, peerAt(a, k)), used + threadIdx.x, own);
  }
  pass.clear();
  Status s = statusOk;
  for (uint32_t i = 0; i < used && s == statusOk; i += blockDim.x) {
    const uint64_t u =
        static_cast<uint64_t>(blockIdx.x) * blockDim.x + static_cast<uint64_t>(i) * gridDim.x + threadIdx.x;
    if (u >= units) break;
    const uint4 own = sendable(loadVector(a.input + u * 16, a.bytes - u * 16));
    Accumulator<T, Op::sum> sum;
    for (uint32_t first = 0; first < a.nranks && s == statusOk; first += batch)
      s = receive<1>(a, pass.area, first, i + threadIdx.x, [&](uint32_t r, const uint4* v) {
        const uint4 x = r == a.rank ? own : v[0];
        if (r == 0)
          sum.load(x);
        else
          sum.add(x);
      });
    if (s != statusOk) break;
    if (a.average) sum.divide(a.nranks);
    storeVector(a.sum + u * 16, a.bytes - u * 16, sum.result());
  }
  if (__syncthreads_or(s != statusOk)) return;
  pass.end(used, 0);
}

}  // namespace fused
}  // namespace goccl
