// A row in the registers of a block, and the operations on it: residual, norm, quantisation.
//
// A row is divided into groups of 8 elements; group g belongs to thread g mod blockDim.x. Every operation is rounded by
// itself and in one order, which depends on hidden alone (Go: fused.threadsOf, fused.sumOfSquares), so that the host
// device gives the same bits.
#pragma once

#include <collective/lamport.cuh>
#include <fused/args.cuh>
#include <goccl/reduce.cuh>

namespace goccl {
namespace fused {

constexpr uint32_t groupElements = 8;
constexpr uint32_t maxThreads = 512;

#if GOCCL_CUDA
// These are never contracted to FMA.
GOCCL_DEVICE float multiply(float a, float b) { return __fmul_rn(a, b); }
GOCCL_DEVICE float add(float a, float b) { return __fadd_rn(a, b); }
GOCCL_DEVICE float divide(float a, float b) { return __fdiv_rn(a, b); }
GOCCL_DEVICE float squareRoot(float a) { return __fsqrt_rn(a); }
GOCCL_DEVICE int32_t nearest(float a) { return __float2int_rn(a); }
#else
inline float multiply(float a, float b) { return a * b; }
inline float add(float a, float b) { return a + b; }
inline float divide(float a, float b) { return a / b; }
inline float squareRoot(float a) { return __builtin_sqrtf(a); }
inline int32_t nearest(float a) { return static_cast<int32_t>(__builtin_nearbyintf(a)); }
#endif

// Group is 8 elements.
template <Type T>
struct Group {
  static constexpr uint32_t vectors = groupElements * Element<T>::size / 16;
  uint4 v[vectors];

  GOCCL_DEVICE void load(const uint8_t* row, uint32_t group) {
#pragma unroll
    for (uint32_t i = 0; i < vectors; ++i) v[i] = loadVec(row + (group * vectors + i) * 16);
  }
  GOCCL_DEVICE void store(uint8_t* row, uint32_t group) const {
#pragma unroll
    for (uint32_t i = 0; i < vectors; ++i) storeVec(row + (group * vectors + i) * 16, v[i]);
  }
  GOCCL_DEVICE void widen(float* f) const {
#pragma unroll
    for (uint32_t i = 0; i < vectors; ++i) unpack<T>(v[i], f + i * Element<T>::perVector);
  }
  GOCCL_DEVICE void round(const float* f) {
#pragma unroll
    for (uint32_t i = 0; i < vectors; ++i) v[i] = pack<T>(f + i * Element<T>::perVector);
  }
};

// forGroups calls body(i, group) for at most K groups of this thread, from the first-th on. Unrolled, so that a row
// stays in registers: kernels are made for K of 1, 2 and 4, which is 16384 / 8 / 512.
template <uint32_t K, class Body>
GOCCL_DEVICE void forGroups(const Args& a, uint32_t first, Body body) {
#pragma unroll
  for (uint32_t i = 0; i < K; ++i) {
    const uint32_t g = (first + i) * blockDim.x + threadIdx.x;
    if (g < a.hidden / groupElements) body(i, g);
  }
}
template <uint32_t K, class Body>
GOCCL_DEVICE void forGroups(const Args& a, Body body) {
  forGroups<K>(a, 0, body);
}

// Folds is the shared memory of a block for folds over its threads. Two that follow each other use different halves,
// and each has a barrier: when a half is used again, all threads have read it.
struct Folds {
  uint32_t* words;
  uint32_t number;

  template <class Fold>
  GOCCL_DEVICE float operator()(float v, Fold fold) {
#pragma unroll
    for (uint32_t apart = warpSize / 2; apart > 0; apart /= 2)
      v = fold(v, bitsFloat(__shfl_xor_sync(0xffffffffu, floatBits(v), apart)));
    uint32_t* half = words + (number++ & 1) * (maxThreads / 32);
    if (threadIdx.x % warpSize == 0) half[threadIdx.x / warpSize] = floatBits(v);
    __syncthreads();
    float all = bitsFloat(half[0]);
    for (uint32_t w = 1; w < blockDim.x / warpSize; ++w) all = fold(all, bitsFloat(half[w]));
    return all;
  }
};
constexpr uint32_t foldWords = 2 * maxThreads / 32;

// Operands are the thread's groups of the residual of a row, and of the weight, which all rows share. Kernels load them
// before they wait for packets, so that they are in registers when the row is. A thread with more than two vectors of
// a row has no registers for that: it loads them where it uses them.
template <Type T, uint32_t K>
struct Operands {
  static constexpr bool early = K * Group<T>::vectors <= 2;
  Group<T> residual[early ? K : 1], weight[early ? K : 1];

  GOCCL_DEVICE void loadWeight(const Args& a) {
    if (early && a.weight != nullptr)
      forGroups<K>(a, [&](uint32_t i, uint32_t g) { weight[early ? i : 0].load(a.weight, g); });
  }
  GOCCL_DEVICE void loadResidual(const Args& a, uint32_t row) {
    if (early && a.residual != nullptr)
      forGroups<K>(a, [&](uint32_t i, uint32_t g) { residual[early ? i : 0].load(residualOf(a, row), g); });
  }
  GOCCL_DEVICE Group<T> weightAt(const Args& a, uint32_t i, uint32_t g) const {
    if (early) return weight[early ? i : 0];
    Group<T> w;
    w.load(a.weight, g);
    return w;
  }
  GOCCL_DEVICE Group<T> residualAt(const Args& a, uint32_t row, uint32_t i, uint32_t g) const {
    if (early) return residual[early ? i : 0];
    Group<T> r;
    r.load(residualOf(a, row), g);
    return r;
  }

 private:
  static GOCCL_DEVICE const uint8_t* residualOf(const Args& a, uint32_t row) {
    return a.residual + static_cast<uint64_t>(row) * a.hidden * Element<T>::size;
  }
};

// Row is one row: the thread's groups of it. First of the sums, then with the residual, then of the norm.
template <Type T, uint32_t K>
struct Row {
  Group<T> z[K];

  GOCCL_DEVICE void load(const Args& a, const uint8_t* row) {
    forGroups<K>(a, [&](uint32_t i, uint32_t g) { z[i].load(row, g); });
  }
  GOCCL_DEVICE void store(const Args& a, uint8_t* row) const {
    forGroups<K>(a, [&](uint32_t i, uint32_t g) { z[i].store(row, g); });
  }

  // take takes G groups, from the first-th on, from packets.
  template <uint32_t G>
  GOCCL_DEVICE void take(uint32_t first, const uint4* packets) {
    constexpr uint32_t V = Group<T>::vectors;
#pragma unroll
    for (uint32_t k = 0; k < G * V; ++k) z[first + k / V].v[k % V] = collective::complementOf(packets[k]);
  }

  // addResidual stores the sum and adds the residual.
  GOCCL_DEVICE void addResidual(const Args& a, uint32_t row, const Operands<T, K>& operands) {
    const uint64_t at = static_cast<uint64_t>(row) * a.hidden * Element<T>::size;
    if (a.sum != nullptr) store(a, a.sum + at);
    if (a.residual != nullptr) {
      forGroups<K>(a, [&](uint32_t i, uint32_t g) {
        float x[groupElements], y[groupElements];
        z[i].widen(x);
        operands.residualAt(a, row, i, g).widen(y);
#pragma unroll
        for (uint32_t k = 0; k < groupElements; ++k) x[k] = add(x[k], y[k]);
        z[i].round(x);
      });
    }
    if (a.residualOut != nullptr) store(a, a.residualOut + at);
  }

  // normalise is called by all threads of the block.
  GOCCL_DEVICE void normalise(const Args& a, const Operands<T, K>& operands, Folds& folds) {
    float squares = 0;
    forGroups<K>(a, [&](uint32_t i, uint32_t) {
      float x[groupElements];
      z[i].widen(x);
#pragma unroll
      for (uint32_t k = 0; k < groupElements; ++k) x[k] = multiply(x[k], x[k]);
      squares = add(squares, add(add(add(x[0], x[1]), add(x[2], x[3])), add(add(x[4], x[5]), add(x[6], x[7]))));
    });
    squares = folds(squares, [](float x, float y) { return add(x, y); });
    const float mean = divide(squares, static_cast<float>(a.hidden));
    const float factor = divide(1.0f, squareRoot(add(mean, a.epsilon)));
    forGroups<K>(a, [&](uint32_t i, uint32_t g) {
      float x[groupElements], w[groupElements];
      z[i].widen(x);
#pragma unroll
      for (uint32_t k = 0; k < groupElements; ++k) x[k] = multiply(x[k], factor);
      if (a.weight != nullptr) {
        operands.weightAt(a, i, g).widen(w);
#pragma unroll
        for (uint32_t k = 0; k < groupElements; ++k) x[k] = multiply(x[k], w[k]);
      }
      z[i].round(x);
    });
  }

  // write stores the norm and its quantised form. All threads of the block call it.
  GOCCL_DEVICE void write(const Args& a, uint32_t row, Folds& folds) const {
    if (a.norm != nullptr) store(a, a.norm + static_cast<uint64_t>(row) * a.hidden * Element<T>::size);
    if (a.quantisation == quantNone) return;
    float scale = 0;
    if (a.quantisation == quantDynamic) {
      forGroups<K>(a, [&](uint32_t i, uint32_t) {
        float x[groupElements];
        z[i].widen(x);
#pragma unroll
        for (uint32_t k = 0; k < groupElements; ++k) {
          const float magnitude = x[k] < 0 ? -x[k] : x[k];
          scale = magnitude > scale ? magnitude : scale;  // not for NaN
        }
      });
      scale = folds(scale, [](float x, float y) { return y > x ? y : x; });
      scale = scale == 0 ? 1.0f : divide(scale, a.quantType == static_cast<uint32_t>(Type::int8) ? 127.0f : 448.0f);
      if (threadIdx.x == 0) a.scaleOut[row] = scale;
    } else {
      scale = *a.scale;
    }
    const float inverse = divide(1.0f, scale);
    uint8_t* out = a.quant + static_cast<uint64_t>(row) * a.hidden;
    forGroups<K>(a, [&](uint32_t i, uint32_t g) {
      float x[groupElements];
      z[i].widen(x);
      uint32_t w[2];
#pragma unroll
      for (uint32_t k = 0; k < groupElements; ++k) x[k] = multiply(x[k], inverse);
#pragma unroll
      for (uint32_t k = 0; k < 2; ++k)
        w[k] = a.quantType == static_cast<uint32_t>(Type::int8) ? quantiseInt8(x + 4 * k) : quantiseE4M3(x + 4 * k);
      storeVec2(out + g * groupElements, make_uint2(w[0], w[1]));
    });
  }

  // quantiseInt8 rounds four values and saturates; NaN becomes 0.
  static GOCCL_DEVICE uint32_t quantiseInt8(const float* x) {
    uint32_t w = 0;
#pragma unroll
    for (uint32_t k = 0; k < 4; ++k) {
      const float v = x[k] != x[k] ? 0.0f : x[k] < -128.0f ? -128.0f : x[k] > 127.0f ? 127.0f : x[k];
      w |= (static_cast<uint32_t>(nearest(v)) & 0xff) << (8 * k);
    }
    return w;
  }
  static GOCCL_DEVICE uint32_t quantiseE4M3(const float* x) {
    Float8E4M3 q[4];
    fromFloat2(x[0], x[1], q[0], q[1]);
    fromFloat2(x[2], x[3], q[2], q[3]);
    return q[0].bits | q[1].bits << 8 | q[2].bits << 16 | static_cast<uint32_t>(q[3].bits) << 24;
  }

  // finish does what the stage says to a row of sums, or of norms.
  GOCCL_DEVICE void finish(const Args& a, uint32_t stage, uint32_t row, const Operands<T, K>& operands, Folds& folds) {
    const bool norms = a.norm != nullptr || a.quantisation != quantNone;
    if (stage & normalising) {
      addResidual(a, row, operands);
      if (norms) normalise(a, operands, folds);
    }
    if (norms && (stage & writing)) write(a, row, folds);
  }
};

}  // namespace fused
}  // namespace goccl
