// The quick kernel: runs plans that only send packets, as plans for small messages do. Everything else goes to the
// executor (executor.cuh): uneven messages, operators other than sum, sizes and addresses that are no multiples of 8,
// ops other than static ones and nops.
//
//   1. fetch     the block's program, and its epoch
//   2. prepare   the address of every operand and the slice of every op, a thread each
//   3. ops       a thread moves units of 8 bytes; several units of a copy, or all sources of a reduction, are in flight
//
// Between blocks and ranks the packets' flags are the only order. Units go to the same threads as in the executor (unit
// u of an op to thread u modulo the block's size), because a plan may rely on a thread reading its own earlier writes.
#pragma once

#include <executor/fetch.cuh>
#include <executor/move.cuh>
#include <executor/span.cuh>

namespace goccl {
namespace executor {

struct QuickArgs {
  uint8_t* packets[maxRanks][2];  // where the packets of each rank are, by parity
  uint64_t room[maxRanks];        // payload of that
  uint8_t* program;               // of block b at b·stride
  AbortBlock* abort;
  uint8_t* buffer[2];  // own input and output
  uint64_t size[2];    // of them
  uint8_t* plain[2];   // own scratch, by parity
  uint64_t chunk;
  uint32_t self, shift, stride, pad;
};
static_assert(sizeof(QuickArgs) == 16 * 24 + 9 * 8 + 4 * 4, "the host writes it");

template <Type T>
class Quick {
 public:
  GOCCL_DEVICE explicit Quick(const QuickArgs& args) : a(args) {}

  GOCCL_DEVICE void run() {
    program = a.program + static_cast<uint64_t>(blockIdx.x) * a.stride;
    epoch = fetchProgram(program, a.stride, true);
    items = reinterpret_cast<Item*>(program + header().items);
    prepare();
    __syncthreads();
#pragma unroll 1
    for (const uint32_t n = header().ops; pc < n; ++pc) {
      const Op& o = list()[pc];
      if (o.code == codeNop) {
        if (__syncthreads_or(failed != statusOk)) return;
      } else if (failed == statusOk) {
        move(o);
      }
    }
  }

 private:
  const QuickArgs& a;
  uint8_t* program;
  Item* items;
  uint32_t epoch;
  uint32_t pc = 0;
  Status failed = statusOk;

  GOCCL_DEVICE const Header& header() const { return *reinterpret_cast<const Header*>(program); }
  GOCCL_DEVICE Op* list() const { return reinterpret_cast<Op*>(program + sizeof(Header)); }
  GOCCL_DEVICE uint8_t* at(uint32_t i) const { return items[i].place.at; }
  GOCCL_DEVICE const void* position() const {
    return reinterpret_cast<const void*>(static_cast<uintptr_t>(static_cast<uint64_t>(blockIdx.x) << 32 | pc));
  }

  // prepare writes into the block's copy of the program: the address of an operand in its place, or null where it does
  // not lie in its buffer; and an op's slice. An address is the start of the whole operand, not of the slice.
  GOCCL_DEVICE void prepare() {
    const uint32_t parity = epoch & 1, n = header().count, m = header().ops;
    for (uint32_t i = threadIdx.x; i < n + m; i += blockDim.x) {
      if (i < n) {
        const Operand q = items[i].operand;
        const bool packets = q.plane == planePackets;
        uint8_t* p = packets                   ? a.packets[q.rank][parity]
                     : q.plane == planeScratch ? a.plain[parity]
                                               : a.buffer[q.plane];
        const uint64_t size = q.plane <= planeOutput ? a.size[q.plane] : a.room[q.rank];
        const uint64_t off = q.index * a.chunk;
        const bool inside =
            p != nullptr && (packets || q.rank == a.self) && off <= size && q.chunks * a.chunk <= size - off;
        items[i].place = Place{inside ? p + (packets ? 2 * off : off) : nullptr, 0};
      } else {
        Op& o = list()[i - n];
        uint64_t lo, hi;
        slice(o, a.chunk, a.shift, lo, hi);
        o.unit = lo;
        o.bytes = hi - lo;
      }
    }
  }

  GOCCL_DEVICE void move(const Op& o) {
    const uint32_t ns = o.sources, nd = o.destinations, first = o.first;
    const uint32_t srcPackets = o.chunks & 0xffffu, dstPackets = o.chunks >> 16;
    const uint64_t lo = o.unit;
    const uint32_t units = static_cast<uint32_t>(o.bytes / 8);
    bool inside = ns <= batch;
#pragma unroll 1
    for (uint32_t i = 0; i < ns + nd; ++i) inside = inside && at(first + i) != nullptr;
    if (!inside) {
      report(a.abort, statusInvalid, position(), waitNone, unknownPeer);
      failed = statusInvalid;
    } else if (ns == 1 && srcPackets == 0) {
      spread(at(first) + lo, first + 1, nd, dstPackets, lo, units);
    } else if (ns == 1) {
      unpack(reinterpret_cast<const LL16Packet*>(at(first) + 2 * lo), first + 1, nd, dstPackets, lo, units);
    } else {
      switch (ns) {
        case 2:
          reduce<2>(ns, first, srcPackets, nd, dstPackets, lo, units);
          break;
        case 4:
          reduce<4>(ns, first, srcPackets, nd, dstPackets, lo, units);
          break;
        default:
          reduce<0>(ns, first, srcPackets, nd, dstPackets, lo, units);
          break;
      }
    }
  }

  // ahead is how many units of a copy a thread has on their way.
  static constexpr uint32_t ahead = 4;

  // put stores the units of a thread to nd operands.
  template <uint32_t Units>
  GOCCL_DEVICE void put(const uint2 (&v)[Units], uint32_t u, uint32_t first, uint32_t nd, uint32_t dstPackets,
                        uint64_t lo, uint32_t units) const {
#pragma unroll 1
    for (uint32_t d = 0; d < nd; ++d) {
      uint8_t* dst = at(first + d);
      if (dstPackets >> d & 1) {
        LL16Packet* p = reinterpret_cast<LL16Packet*>(dst + 2 * lo) + u;
#pragma unroll
        for (uint32_t k = 0; k < Units; ++k)
          if (u + k * blockDim.x < units) p[k * blockDim.x].write(v[k], epoch);
      } else {
#pragma unroll
        for (uint32_t k = 0; k < Units; ++k)
          if (u + k * blockDim.x < units) storeVec2(dst + lo + uint64_t{8} * (u + k * blockDim.x), v[k]);
      }
    }
  }

  GOCCL_DEVICE void spread(const uint8_t* src, uint32_t first, uint32_t nd, uint32_t dstPackets, uint64_t lo,
                           uint32_t units) const {
#pragma unroll 1
    for (uint32_t u = threadIdx.x; u < units; u += ahead * blockDim.x) {
      uint2 v[ahead];
#pragma unroll
      for (uint32_t k = 0; k < ahead; ++k)
        if (u + k * blockDim.x < units) v[k] = loadVec2(src + uint64_t{8} * (u + k * blockDim.x));
      put(v, u, first, nd, dstPackets, lo, units);
    }
  }

  GOCCL_DEVICE void unpack(const LL16Packet* src, uint32_t first, uint32_t nd, uint32_t dstPackets, uint64_t lo,
                           uint32_t units) {
#pragma unroll 1
    for (uint32_t u = threadIdx.x; u < units; u += ahead * blockDim.x) {
      uint2 v[ahead];
      uint64_t start = 0;
      failed = spin(
          [&] {
            bool fresh = true;
#pragma unroll
            for (uint32_t k = 0; k < ahead; ++k) {
              if (u + k * blockDim.x >= units) continue;
              const bool here = src[u + k * blockDim.x].tryRead(epoch, v[k]);
              fresh = fresh && here;
            }
            return fresh;
          },
          [&] { return checkAbort(a.abort, start, position(), waitPacket, 0); });
      if (failed != statusOk) return;
      put(v, u, first, nd, dstPackets, lo, units);
    }
  }

  // reduce adds the sources in their order. N is their number, or 0 for any up to batch.
  template <uint32_t N>
  GOCCL_DEVICE void reduce(uint32_t ns, uint32_t first, uint32_t srcPackets, uint32_t nd, uint32_t dstPackets,
                           uint64_t lo, uint32_t units) {
    constexpr uint32_t width = N == 0 ? batch : N;
    const uint32_t n = N == 0 ? ns : N;
    // Addresses stay in shared memory: in registers, the addresses of many sources would cause spills.
    auto source = [&](uint32_t i) -> const uint8_t* { return at(first + i) + (srcPackets >> i & 1 ? 2 * lo : lo); };
#pragma unroll 1
    for (uint32_t u = threadIdx.x; u < units; u += blockDim.x) {
      uint2 x[width];
#pragma unroll
      for (uint32_t i = 0; i < width; ++i)
        if (i < n && !(srcPackets >> i & 1)) x[i] = loadVec2(source(i) + uint64_t{8} * u);
      uint64_t start = 0;
      uint32_t late;
      failed = spin(
          [&] {
            late = batch;
#pragma unroll
            for (uint32_t i = 0; i < width; ++i) {
              if (i >= n || !(srcPackets >> i & 1)) continue;
              if (!reinterpret_cast<const LL16Packet*>(source(i))[u].tryRead(epoch, x[i])) late = i;
            }
            return late == batch;
          },
          [&] { return checkAbort(a.abort, start, position(), waitPacket, late); });
      if (failed != statusOk) return;
      Accumulator<T, goccl::Op::sum> sum;
      sum.load(make_uint4(x[0].x, x[0].y, 0, 0));
#pragma unroll
      for (uint32_t i = 1; i < width; ++i)
        if (i < n) sum.add(make_uint4(x[i].x, x[i].y, 0, 0));
      const uint4 all = sum.result();
      const uint2 out[1] = {make_uint2(all.x, all.y)};
      put(out, u, first + ns, nd, dstPackets, lo, units);
    }
  }
};

}  // namespace executor
}  // namespace goccl
