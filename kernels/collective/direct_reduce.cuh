// Reductions of large messages by few blocks: see direct.cuh.
//
// Buffers count as mapped only where addresses and strides are multiples of 16. With anyJob sizes are any, else they
// are multiples of 16. Where a slice does not end with a vector, loads read the whole vector, and its first bytes go by
// plain stores.
//
// # Roles
//
// Chunks go through stages of shared memory, and sums through places behind them. One thread loads the next chunk from
// all ranks, worker threads add, and one thread stores the sums: nobody waits for a barrier of the block.
//
//   full     a stage's loads are complete               empty    each worker warp has read a stage
//   summed   each worker warp has put its sums there    stored   stores have read a place
//
// Workers fence their sums for the asynchronous proxy before they arrive.
//
// Every rank of a pre-multiplied sum has a factor, which it tells the others: they load its data unscaled.
#pragma once

#include <collective/direct.cuh>
#include <collective/reducer.cuh>

namespace goccl {
namespace collective {

// Which reductions a kernel runs: with anyJob, recvStride is 0 for a reduce-scatter.
enum : uint32_t { scatters, gathers, anyJob };

// factorOf is this rank's factor, as an element. takeFactor makes r scale by another one.
template <Type T>
GOCCL_DEVICE uint64_t factorOf(const AnyReducer<T>& r) {
  typename AnyReducer<T>::A all[Element<T>::perVector] = {r.sum.factor};
  const uint4 v = pack<T>(all);
  return static_cast<uint64_t>(v.y) << 32 | v.x;
}
template <Type T>
GOCCL_DEVICE void takeFactor(AnyReducer<T>& r, uint64_t bits) {
  if (!r.sum.pre) return;
  typename AnyReducer<T>::A all[Element<T>::perVector];
  unpack<T>(make_uint4(static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32), 0, 0), all);
  r.sum.factor = all[0];
}
template <Type T>
GOCCL_DEVICE uint64_t factorOf(const Reducer<T, Op::sum, false>&) {
  return 0;
}
template <Type T>
GOCCL_DEVICE void takeFactor(Reducer<T, Op::sum, false>&, uint64_t) {}

// Cursor goes round places of shared memory.
struct Cursor {
  const uint32_t places;
  uint32_t place = 0, lap = 0;
  GOCCL_DEVICE void next() {
    if (++place == places) place = 0, ++lap;
  }
};

template <class R, uint32_t Job>
struct DirectReduce : Direct {
  GOCCL_DEVICE explicit DirectReduce(const DirectArgs& args) : Direct(args) {}

  static constexpr bool edges = Job == anyJob;

  // all says whether a sum goes to the ranks that want it, rather than to its owner.
  GOCCL_DEVICE bool all() const { return Job == anyJob ? a.recvStride != 0 : Job == gathers; }

  // locate makes in(r) and out(r) lead to this rank's slice, in the buffers or in the windows.
  GOCCL_DEVICE void locate(bool inPlace, uint64_t slice) const {
    const uint32_t r = threadIdx.x;
    if (r < a.nranks) {
      const uint64_t own = static_cast<uint64_t>(a.rank) * a.slotBytes;
      told[3 * r] = inPlace ? told[3 * r] + slice : reinterpret_cast<uint64_t>(inputs(r) + own);
      told[3 * r + 1] = inPlace ? told[3 * r + 1] + slice : reinterpret_cast<uint64_t>(results(r) + own);
    }
    __syncthreads();
  }

  GOCCL_DEVICE uint4 term(R& reducer, uint32_t r, const uint4& v) const {
    takeFactor(reducer, told[3 * r + 2]);
    return reducer.scaled(v);
  }
  // sum adds the vectors at(r) of all ranks: Ranks of them, or any number if that is 0.
  template <uint32_t Ranks, class At>
  GOCCL_DEVICE uint4 sum(R& reducer, At at) const {
    typename R::Sum s;
    if constexpr (Ranks == 0) {
      reducer.begin(s, term(reducer, 0, at(0)));
      for (uint32_t q = 1; q < a.nranks; ++q) reducer.add(s, term(reducer, q, at(q)));
    } else {
      uint4 v[Ranks];
#pragma unroll
      for (uint32_t q = 0; q < Ranks; ++q) v[q] = at(q);
      reducer.begin(s, term(reducer, 0, v[0]));
#pragma unroll
      for (uint32_t q = 1; q < Ranks; ++q) reducer.add(s, term(reducer, q, v[q]));
    }
    return reducer.end(s);
  }

  // pull adds bytes of the slices in(r) of all ranks, and stores the sums to `to`, or to out(r) of all ranks that want
  // them.
  GOCCL_DEVICE void pull(uint64_t bytes, uint8_t* to) {
    if constexpr (Job != anyJob) {
      if (a.nranks == 2) return pull<2>(bytes, to);
      if (a.nranks == 4) return pull<4>(bytes, to);
    }
    pull<0>(bytes, to);
  }
  template <uint32_t Ranks>
  GOCCL_DEVICE void pull(uint64_t bytes, uint8_t* to) {
    R reducer(a);
    const uint32_t size = pullChunk();
    const uint64_t first = static_cast<uint64_t>(blockIdx.x) * size, step = static_cast<uint64_t>(gridDim.x) * size;
    auto lengthAt = [&](uint64_t at) { return static_cast<uint32_t>(bytes - at < size ? bytes - at : size); };
#if GOCCL_BULK
    __shared__ BulkBarrier full[directStages], empty[directStages], summed[directSums], stored[directSums];
    uint32_t stages = (directShared - (all() ? directSums * size : 0)) / (a.nranks * size);
    stages = stages < directStages ? stages : directStages;
    const bool aligned = reinterpret_cast<uint64_t>(to) % 16 == 0;  // a reduce-scatter has whole vectors only
    uint8_t* const sums = directMemory + stages * a.nranks * size;
    auto wait = [](BulkBarrier& b, uint32_t lap) {
      spin([&] { return b.poll(lap & 1); }, [] { return statusOk; });  // copies end by themselves
    };
    __syncthreads();
    if (threadIdx.x == 0) {
      for (uint32_t i = 0; i < stages; ++i) full[i].init(), empty[i].init(workers / warpSize);
      for (uint32_t i = 0; i < directSums; ++i) summed[i].init(workers / warpSize), stored[i].init();
      fenceBarrierInit();
    }
    __syncthreads();
    Cursor load{stages}, store{directSums};
    if (threadIdx.x < workers) {
      for (uint64_t at = first; at < bytes; at += step, load.next(), store.next()) {
        const uint32_t length = lengthAt(at);
        const uint8_t* const from = directMemory + load.place * a.nranks * size;
        uint8_t* const here = sums + store.place * size;
        wait(full[load.place], load.lap);
        if (all() && store.lap > 0) wait(stored[store.place], store.lap - 1);
        for (uint32_t i = threadIdx.x * 16; i < length; i += workers * 16) {
          const uint4 v =
              sum<Ranks>(reducer, [&](uint32_t q) { return *reinterpret_cast<const uint4*>(from + q * size + i); });
          if (!all() && aligned)
            storeVec(to + at + i, v);
          else if (!all())
            storeAny(to + at + i, length - i, v);
          else if (!edges || length - i >= 16)
            *reinterpret_cast<uint4*>(here + i) = v;
          else
            storeEdge(at + i, length - i, v);
        }
        if (all()) fenceProxyAsyncShared();
        __syncwarp();
        if (threadIdx.x % warpSize != 0) continue;
        empty[load.place].arrive();
        if (all()) summed[store.place].arrive();
      }
    } else if (threadIdx.x == workers) {
      fenceProxyAsync();
      for (uint64_t at = first; at < bytes; at += step, load.next()) {
        const uint32_t length = edges ? (lengthAt(at) + 15) & ~15u : lengthAt(at);
        if (load.lap > 0) wait(empty[load.place], load.lap - 1);
        full[load.place].arriveAndExpect(a.nranks * length);
        for (uint32_t i = 1; i <= a.nranks; ++i) {
          const uint32_t q = peer(i);
          bulkLoad(directMemory + (load.place * a.nranks + q) * size, in(q) + at, length, &full[load.place]);
        }
      }
    } else if (threadIdx.x == workers + warpSize && all()) {
      constexpr uint32_t reading = directSums - 2;  // places that stores may still read when the next one is taken
      for (uint64_t at = first; at < bytes; at += step, store.next()) {
        const uint32_t whole = edges ? lengthAt(at) & ~15u : lengthAt(at);
        wait(summed[store.place], store.lap);
        for (uint32_t i = 1; (!edges || whole > 0) && i <= a.nranks; ++i)
          if (!edges || wants(a, peer(i))) bulkStore(out(peer(i)) + at, sums + store.place * size, whole);
        bulkCommit();
        bulkWaitSource<reading>();
        if (store.lap > 0 || store.place >= reading) stored[(store.place + directSums - reading) % directSums].arrive();
      }
      bulkWait<0>();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      for (uint32_t i = 0; i < stages; ++i) full[i].invalidate(), empty[i].invalidate();
      for (uint32_t i = 0; i < directSums; ++i) summed[i].invalidate(), stored[i].invalidate();
    }
#else
    if (threadIdx.x >= workers) return;
    for (uint64_t at = first; at < bytes; at += step)
      for (uint32_t i = threadIdx.x * 16; i < lengthAt(at); i += workers * 16) {
        const uint4 v = sum<Ranks>(reducer, [&](uint32_t q) { return loadVec(in(q) + at + i); });
        if (all())
          storeEdge(at + i, lengthAt(at) - i, v);
        else
          storeAny(to + at + i, lengthAt(at) - i, v);
      }
#endif
  }
  // storeEdge stores the first bytes of a vector to out(r) of all ranks that want them.
  GOCCL_DEVICE void storeEdge(uint64_t at, uint32_t bytes, const uint4& v) const {
    for (uint32_t k = 1; k <= a.nranks; ++k)
      if (wants(a, peer(k))) storeAny(out(peer(k)) + at, bytes, v);
  }

  // run sums slices that lie sendStride bytes apart.
  GOCCL_DEVICE void run() {
    // slice is how long rank r's slice is.
    auto slice = [&](uint32_t r) {
      const uint64_t first = r * a.sendStride, left = a.bytes > first ? a.bytes - first : 0;
      return !all() ? a.bytes : left < a.sendStride ? left : a.sendStride;
    };
    if (!meet(true, factorOf(R(a)))) return;
    const bool inPlace = mapped();
    locate(inPlace, a.rank * a.sendStride);
    for (uint64_t at = 0; at < slice(0); at += inPlace ? slice(0) : a.slotBytes) {
      auto bytes = [&](uint32_t r) { return part(slice(r), at); };
      auto slot = [&](uint8_t* first, uint32_t r) { return first + static_cast<uint64_t>(r) * a.slotBytes; };
      if (!inPlace) {
        copy(a.nranks, bytes, [&](uint32_t r) { return a.send + r * a.sendStride + at; },
             [&](uint32_t r) { return slot(inputs(a.rank), r); });
        if (!meet()) return;
      }
      pull(inPlace ? slice(a.rank) : bytes(a.rank), a.recv + at);
      if (!meet()) return;
      if (all() && !inPlace && wants(a, a.rank))
        copy(a.nranks, bytes, [&](uint32_t r) { return slot(results(a.rank), r); },
             [&](uint32_t r) { return a.recv + r * a.sendStride + at; });
    }
    keep();
  }
};

}  // namespace collective
}  // namespace goccl
