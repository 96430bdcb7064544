// Where a span begins in all operands of an op.
#pragma once

#include <executor/address.cuh>
#include <executor/move.cuh>
#include <executor/span.cuh>

namespace goccl {
namespace executor {

// Pointers are where a span begins in each operand of an op.
struct Pointers {
  uint8_t *src[batch], *dst[batch];
  uint32_t srcPackets, dstPackets;  // which of them are packets, a bit each
};

// point computes the addresses, a thread of a warp one, and hands them round. It returns false when one is outside of
// its buffer.
GOCCL_DEVICE bool point(const Args& a, Pointers& p, const Item* operands, uint32_t ns, uint32_t nd, const Span& s,
                        uint32_t parity) {
#if GOCCL_CUDA
  const uint32_t lane = threadIdx.x % 32;
  uint64_t mine = 1;
  bool packets = false;
  if (lane < ns + nd) {
    const Operand& q = operands[lane].operand;
    packets = q.plane == planePackets;
    mine = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(address(a, q, s.at, s.n, s.real, s.j, s.x, parity)));
  }
  const uint32_t all = __ballot_sync(0xffffffffu, packets);
  p.srcPackets = all & ((1u << ns) - 1);
  p.dstPackets = all >> ns;
#pragma unroll
  for (uint32_t i = 0; i < batch; ++i) {
    p.src[i] = reinterpret_cast<uint8_t*>(
        static_cast<uintptr_t>(__shfl_sync(0xffffffffu, static_cast<unsigned long long>(mine), static_cast<int>(i))));
    p.dst[i] = reinterpret_cast<uint8_t*>(static_cast<uintptr_t>(
        __shfl_sync(0xffffffffu, static_cast<unsigned long long>(mine), static_cast<int>((ns + i) % 32))));
  }
  return __all_sync(0xffffffffu, mine != 0);
#else
  bool inside = true;
  p.srcPackets = p.dstPackets = 0;
  for (uint32_t i = 0; i < ns + nd; ++i) {
    const Operand& q = operands[i].operand;
    uint8_t* at = address(a, q, s.at, s.n, s.real, s.j, s.x, parity);
    inside = inside && at != nullptr;
    (i < ns ? p.src[i] : p.dst[i - ns]) = at;
    if (q.plane == planePackets) (i < ns ? p.srcPackets : p.dstPackets) |= 1u << (i < ns ? i : i - ns);
  }
  return inside;
#endif
}

}  // namespace executor
}  // namespace goccl
