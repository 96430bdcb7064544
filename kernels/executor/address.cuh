// Where the operands of an op lie.
#pragma once

#include <executor/program.cuh>

namespace goccl {
namespace executor {

// locate is where byte x of the chunk j after the operand's first lies, and how much of that chunk exists from there
// on.
GOCCL_DEVICE uint64_t locate(const Args& a, const Operand& o, uint32_t j, uint64_t x, uint64_t& avail) {
  uint32_t i = o.within + j, b = o.block;
  if (i >= a.period) {
    b += i / a.period;
    i %= a.period;
  }
  uint64_t pos = static_cast<uint64_t>(i) * a.chunk + x;
  if (pos >= a.block) {
    avail = 0;
    return static_cast<uint64_t>(b) * a.block + a.block;
  }
  avail = a.block - pos < a.chunk - x ? a.block - pos : a.chunk - x;
  return static_cast<uint64_t>(b) * a.block + pos;
}

// offset is where a span begins in an operand, in bytes of payload; false when it does not lie in the buffer.
GOCCL_DEVICE bool offset(const Args& a, const Operand& o, uint64_t at, uint64_t n, uint64_t real, uint32_t j,
                         uint64_t x, uint64_t& off) {
  const Rank& r = a.rank[o.rank];
  uint64_t size = r.planeBytes;
  off = static_cast<uint64_t>(o.index) * a.chunk + at;
  if (o.plane <= planeOutput) {
    uint64_t avail;
    size = r.size[o.plane];
    if (!a.linear) off = locate(a, o, j, x, avail);
  }
  if (o.plane == planePackets) real = n;
  return real == 0 || (off <= size && real <= size - off);
}

// address is where a span begins in an operand, or null when it does not lie in the buffer.
GOCCL_DEVICE uint8_t* address(const Args& a, const Operand& o, uint64_t at, uint64_t n, uint64_t real, uint32_t j,
                              uint64_t x, uint32_t parity) {
  const Rank& r = a.rank[o.rank];
  uint64_t off;
  const bool inside = offset(a, o, at, n, real, j, x, off);
  uint8_t* p;
  if (o.plane <= planeOutput)
    p = o.rank == a.self ? a.buffer[o.plane]
                         : reinterpret_cast<uint8_t*>(
                               static_cast<uintptr_t>(a.peers[(blockIdx.x * maxRanks + o.rank) * 2 + o.plane]));
  else
    p = r.scratch + (o.plane == planeScratch ? r.plain[parity] : r.packets[parity]);
  if (o.plane == planePackets) real = n;
  if (real == 0) return r.control;  // of nothing, any address will do
  if (!inside || p == nullptr) return nullptr;
  return p + (o.plane == planePackets ? 2 * off : off);
}

}  // namespace executor
}  // namespace goccl
