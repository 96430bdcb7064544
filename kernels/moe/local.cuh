// Kernels of one rank: quantization and counts.
#pragma once

#include <moe/memory.cuh>

namespace goccl {
namespace moe {

struct QuantizeArgs {
  uint64_t* ticket;
  const uint8_t* x;  // [tokens][groups·128] bfloat16
  uint8_t* out;      // rows of elements and then scales
  uint64_t stride;   // of out
  uint32_t tokens, groups, powerOfTwo, unused;
};
static_assert(sizeof(QuantizeArgs) == 48, "QuantizeArgs is filled by the host");

// quantize: a warp takes a group of 128 elements. The scale is the largest magnitude / 448, at least 1e-4 / 448; an
// element is multiplied by the inverse. With powerOfTwo the scale is the least power of two that is not below.
GOCCL_DEVICE void quantize(const QuantizeArgs& a) {
  const uint32_t lane = threadIdx.x & 31, warps = gridDim.x * (blockDim.x / 32);
  const uint64_t all = static_cast<uint64_t>(a.tokens) * a.groups;
  for (uint64_t g = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; g < all; g += warps) {
    const uint2 in = loadVec2(a.x + (g * group + lane * 4) * 2);
    const float v[4] = {bitsFloat(in.x << 16), bitsFloat(in.x & 0xffff0000u), bitsFloat(in.y << 16),
                        bitsFloat(in.y & 0xffff0000u)};
    uint32_t most = floatBits(1e-4f);  // magnitudes compare like their bits
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t m = floatBits(v[i]) & 0x7fffffffu;
      if (m <= 0x7f800000u && m > most) most = m;
    }
    most = __reduce_max_sync(0xffffffffu, most);
    float inverse = 448.0f / bitsFloat(most), scale = bitsFloat(most) / 448.0f;
    if (a.powerOfTwo != 0) {
      const uint32_t e = (floatBits(scale) + 0x7fffff) >> 23;
      scale = bitsFloat(e << 23), inverse = bitsFloat((254 - e) << 23);
    }
    Float8E4M3 b[4];
    fromFloat2(v[0] * inverse, v[1] * inverse, b[0], b[1]);
    fromFloat2(v[2] * inverse, v[3] * inverse, b[2], b[3]);
    const uint64_t token = g / a.groups, k = g % a.groups;
    uint8_t* row = a.out + token * a.stride;
    reinterpret_cast<uint32_t*>(row + k * group)[lane] =
        b[0].bits | b[1].bits << 8 | b[2].bits << 16 | static_cast<uint32_t>(b[3].bits) << 24;
    if (lane == 0) reinterpret_cast<float*>(row + static_cast<uint64_t>(a.groups) * group)[k] = scale;
  }
}

struct CountArgs {
  uint64_t* ticket;
  const int64_t* index;
  uint32_t* ranks;    // or null
  uint32_t* experts;  // or null
  uint8_t* inRank;    // or null
  const uint32_t* state;
  const int32_t* replicas;
  uint32_t tokens, topK, nranks, local;
};
static_assert(sizeof(CountArgs) == 72, "CountArgs is filled by the host");

// count: one block.
GOCCL_DEVICE void count(const CountArgs& a) {
  if (a.ranks != nullptr && threadIdx.x < a.nranks) a.ranks[threadIdx.x] = 0;
  if (a.experts != nullptr)
    for (uint32_t x = threadIdx.x; x < a.nranks * a.local; x += blockDim.x) a.experts[x] = 0;
  __syncthreads();
  for (uint32_t token = threadIdx.x; token < a.tokens; token += blockDim.x) {
    const int64_t* list = a.index + static_cast<uint64_t>(token) * a.topK;
    uint32_t mask = 0;
    for (uint32_t k = 0; k < a.topK; ++k) {
      const int64_t x = expertOf(a, list[k]);
      if (x < 0) continue;
      mask |= 1u << (static_cast<uint32_t>(x) / a.local);
      bool first = true;
      for (uint32_t j = 0; j < k; ++j) first = first && expertOf(a, list[j]) != x;
      if (first && a.experts != nullptr) addRelaxed<Scope::gpu>(a.experts + x, uint32_t{1});
    }
    for (uint32_t p = 0; p < a.nranks; ++p) {
      const uint32_t here = mask >> p & 1;
      if (here != 0 && a.ranks != nullptr) addRelaxed<Scope::gpu>(a.ranks + p, uint32_t{1});
      if (a.inRank != nullptr) a.inRank[static_cast<uint64_t>(token) * a.nranks + p] = static_cast<uint8_t>(here);
    }
  }
}

}  // namespace moe
}  // namespace goccl
