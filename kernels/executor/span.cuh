// What a block moves of an op.
#pragma once

#include <executor/address.cuh>

namespace goccl {
namespace executor {

// Span is the part of a movement that is contiguous in every operand: n bytes from byte x of the j-th chunk on, of
// which real exist in all of them.
struct Span {
  uint64_t at, n, real;
  uint32_t j;
  uint64_t x;
};

// slice computes the range [lo, hi) of bytes of its operands that an op moves, for chunks of the given size and units
// of 1 << shift bytes.
GOCCL_DEVICE void slice(const Op& o, uint64_t chunk, uint32_t shift, uint64_t& lo, uint64_t& hi) {
  lo = 0, hi = o.count * chunk;
  if (o.slices <= 1) return;
  const uint64_t units = hi >> shift, t = o.slice;
  uint64_t each, more;
  if (units >> 32 == 0) {  // a division of 64 bits takes a tenth of a microsecond
    each = static_cast<uint32_t>(units) / o.slices, more = static_cast<uint32_t>(units) % o.slices;
  } else {
    each = units / o.slices, more = units % o.slices;
  }
  lo = (t * each + (t < more ? t : more)) << shift;
  hi = ((t + 1) * each + (t + 1 < more ? t + 1 : more)) << shift;
}

// firstSpan is where an op begins, in an iteration of a loop if it is in one, and hi where it ends.
GOCCL_DEVICE Span firstSpan(const Args& a, const Op& o, uint64_t iteration, uint64_t unit, uint64_t& hi) {
  uint64_t lo;
  slice(o, a.chunk, a.shift, lo, hi);
  if (o.flags & flagInner) {
    uint64_t skip = iteration * unit;
    lo = skip > hi - lo ? hi : lo + skip;
    if (hi - lo > unit) hi = lo + unit;
  }
  Span s{lo, 0, 0, 0, 0};
  if (!a.linear && lo < hi) {
    s.j = static_cast<uint32_t>(lo / a.chunk);
    s.x = lo % a.chunk;
  }
  return s;
}

// clip ends a span with its chunk, and finds what exists of it in the chunks of all operands.
GOCCL_DEVICE void clip(const Args& a, const Op& o, const Item* items, Span& s) {
  if (s.n > a.chunk - s.x) s.n = a.chunk - s.x;
  s.real = s.n;
#pragma unroll 1
  for (uint32_t i = 0; i < uint32_t{o.sources} + o.destinations; ++i) {
    const Operand& p = items[i].operand;
    if (p.plane > planeOutput) continue;
    uint64_t avail;
    locate(a, p, s.j, s.x, avail);
    if (avail < s.real) s.real = avail;
  }
}

// extend finds the size of a span that begins at s.at.
GOCCL_DEVICE void extend(const Args& a, const Op& o, const Item* items, uint64_t hi, Span& s) {
  s.n = s.real = hi - s.at;
  if (!a.linear) clip(a, o, items, s);
  if ((o.flags & flagCounted) && a.counts != nullptr) {
    const uint64_t from = o.unit * a.chunk + s.at, count = a.counts[o.pair];
    const uint64_t left = count > from ? count - from : 0;
    if (left < s.real) s.real = left;
  }
}

}  // namespace executor
}  // namespace goccl
