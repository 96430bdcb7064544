// Packets: data that carries its own readiness flag, so that no fence and no trailing barrier is needed.
//
//   LL8    {u32 data, u32 flag}                       4 of 8 bytes are payload
//   LL16   {u32 data1, u32 flag1, u32 data2, u32 flag2}  8 of 16
//   LL128  a line of 128 bytes, moved by 8 lanes x 16 bytes: 15 x 8 bytes of data and a flag of 8 bytes at the end
//
// The flag is an epoch that the caller raises by one for each use of a buffer; it is never 0, and a flag must not be
// reused on memory that still holds it. LL8 and LL16 need 8-byte atomicity only. LL128 needs a line to arrive as a
// whole, which NVLink gives and PCIe does not; and only where the line is always read and written as a whole: in memory
// that also holds LL8 or LL16 packets an H200 now and then shows half of a line as it was before, with the new flag.
#pragma once

#include <goccl/abort.cuh>
#include <goccl/word.cuh>

namespace goccl {

struct alignas(16) LL16Packet {
  uint32_t data1, flag1, data2, flag2;
  using Payload = uint2;

  GOCCL_DEVICE void write(uint32_t v1, uint32_t v2, uint32_t flag) {
    storePacket(reinterpret_cast<uint4*>(this), make_uint4(v1, flag, v2, flag));
  }
  GOCCL_DEVICE void write(uint2 v, uint32_t flag) { write(v.x, v.y, flag); }

  // tryRead fetches the payload and says whether it carries flag.
  GOCCL_DEVICE bool tryRead(uint32_t flag, uint2& data) const {
    uint4 v = loadPacket(reinterpret_cast<const uint4*>(this));
    data = make_uint2(v.x, v.z);
    return v.y == flag && v.w == flag;
  }

  // read waits for the packet of epoch flag.
  GOCCL_DEVICE Status read(uint32_t flag, uint2& data, AbortBlock* abort, int64_t maxSpin = -1) const {
    return waitUntil([&] { return tryRead(flag, data); }, abort, this, waitPacket, maxSpin);
  }

  GOCCL_DEVICE void clear() { write(0, 0, 0); }
};

struct alignas(8) LL8Packet {
  uint32_t data, flag;
  using Payload = uint32_t;

  GOCCL_DEVICE void write(uint32_t v, uint32_t epoch) {
    storePacket(reinterpret_cast<uint2*>(this), make_uint2(v, epoch));
  }

  // tryRead fetches the payload and says whether it carries epoch.
  GOCCL_DEVICE bool tryRead(uint32_t epoch, uint32_t& out) const {
    uint2 v = loadPacket(reinterpret_cast<const uint2*>(this));
    out = v.x;
    return v.y == epoch;
  }

  // read waits for the packet of that epoch.
  GOCCL_DEVICE Status read(uint32_t epoch, uint32_t& out, AbortBlock* abort, int64_t maxSpin = -1) const {
    return waitUntil([&] { return tryRead(epoch, out); }, abort, this, waitPacket, maxSpin);
  }

  GOCCL_DEVICE void clear() { write(0, 0); }
};

static_assert(sizeof(LL16Packet) == 16 && sizeof(LL8Packet) == 8, "packets are wire formats");

// nextEpoch returns the flag that follows e. It skips 0, which fresh memory holds, and keeps the parity alternating
// when the count wraps.
GOCCL_DEVICE uint32_t nextEpoch(uint32_t e) { return e == 0xffffffffu ? 2u : e + 1u; }

// packetCount is the number of packets that carry bytes of payload; the last one may be part empty.
template <class Packet>
GOCCL_HOST_DEVICE uint64_t packetCount(uint64_t bytes) {
  return (bytes + sizeof(Packet) / 2 - 1) / (sizeof(Packet) / 2);
}

// copyToPackets writes bytes of src, of any alignment, as packets. tid of nthreads threads; no synchronisation among
// them is implied.
template <class Packet = LL16Packet>
GOCCL_DEVICE void copyToPackets(void* packets, const void* src, uint64_t bytes, uint32_t tid, uint32_t nthreads,
                                uint32_t flag) {
  constexpr uint64_t step = sizeof(Packet) / 2;
  Packet* out = static_cast<Packet*>(packets);
  const uint8_t* in = static_cast<const uint8_t*>(src);
  uint64_t count = packetCount<Packet>(bytes);
  for (uint64_t i = tid; i < count; i += nthreads) {
    uint64_t left = bytes - i * step;
    uint2 v = loadWord(in + i * step, left < step ? left : step);
    if constexpr (step == 8)
      out[i].write(v, flag);
    else
      out[i].write(v.x, flag);
  }
}

// copyFromPackets waits for the packets of epoch flag and writes their payload to dst: exactly bytes, of any alignment.
template <class Packet = LL16Packet>
GOCCL_DEVICE Status copyFromPackets(void* dst, const void* packets, uint64_t bytes, uint32_t tid, uint32_t nthreads,
                                    uint32_t flag, AbortBlock* abort, int64_t maxSpin = -1) {
  constexpr uint64_t step = sizeof(Packet) / 2;
  const Packet* in = static_cast<const Packet*>(packets);
  uint8_t* out = static_cast<uint8_t*>(dst);
  uint64_t count = packetCount<Packet>(bytes);
  for (uint64_t i = tid; i < count; i += nthreads) {
    uint64_t left = bytes - i * step;
    uint2 v = make_uint2(0, 0);
    Status s;
    if constexpr (step == 8)
      s = in[i].read(flag, v, abort, maxSpin);
    else
      s = in[i].read(flag, v.x, abort, maxSpin);
    if (s != statusOk) return s;
    storeWord(out + i * step, left < step ? left : step, v);
  }
  return statusOk;
}

// LL128 lines are accessed by groups of 8 consecutive lanes: lane k & 7 moves unit k, 16 bytes. The last unit of a line
// carries 8 bytes of payload in (x, y) and the flag in (z, w). All 32 lanes of the warp must be active and converged.
constexpr uint32_t ll128Line = 128;
constexpr uint32_t ll128Payload = 120;

GOCCL_DEVICE bool ll128HasFlag(uint32_t unit) { return (unit & 7) == 7; }

#if GOCCL_CUDA
// ll128Put stores a unit; where the flag belongs it replaces the words z and w.
GOCCL_DEVICE void ll128Put(void* lines, uint32_t unit, uint4 v, uint64_t flag) {
  const bool last = ll128HasFlag(unit);
  v.z = last ? static_cast<uint32_t>(flag) : v.z;
  v.w = last ? static_cast<uint32_t>(flag >> 32) : v.w;
  storePacket(static_cast<uint4*>(lines) + unit, v);
}

// ll128Get loads a unit and clears fresh if it should hold the flag and does not. The warp's lines are there if fresh
// is still set on all lanes.
GOCCL_DEVICE uint4 ll128Get(const void* lines, uint32_t unit, uint64_t flag, bool& fresh) {
  const uint4 v = loadPacket(static_cast<const uint4*>(lines) + unit);
  if (ll128HasFlag(unit))
    fresh = fresh && v.z == static_cast<uint32_t>(flag) && v.w == static_cast<uint32_t>(flag >> 32);
  return v;
}
#else
// A line that arrives as a whole, on a machine that promises 8 bytes: the flag is stored last and read first.
inline void ll128Put(void* lines, uint32_t unit, uint4 v, uint64_t flag) {
  const bool last = ll128HasFlag(unit);
  uint2* half = reinterpret_cast<uint2*>(static_cast<uint4*>(lines) + unit);
  storePacket(half, make_uint2(v.x, v.y));
  if (!last) storePacket(half + 1, make_uint2(v.z, v.w));
  __syncwarp();
  if (last) storeRelease<Scope::sys>(reinterpret_cast<uint64_t*>(half + 1), flag);
}
inline uint4 ll128Get(const void* lines, uint32_t unit, uint64_t flag, bool& fresh) {
  const uint4* mine = static_cast<const uint4*>(lines) + unit;
  const bool here = !ll128HasFlag(unit) || loadAcquire<Scope::sys>(reinterpret_cast<const uint64_t*>(mine) + 1) == flag;
  if (__all_sync(0xffffffffu, here)) return loadPacket(mine);
  fresh = false;
  return make_uint4(0, 0, 0, 0);
}
#endif

// ll128Store writes this lane's 16 bytes of a line.
GOCCL_DEVICE void ll128Store(void* line, uint4 v, uint64_t flag) { ll128Put(line, threadIdx.x & 7, v, flag); }

// ll128TryLoad fetches this lane's 16 bytes and says, to every lane of the warp, whether all four lines of the warp
// carry flag.
GOCCL_DEVICE bool ll128TryLoad(const void* line, uint4& v, uint64_t flag) {
  bool fresh = true;
  v = ll128Get(line, threadIdx.x & 7, flag, fresh);
  return __all_sync(0xffffffffu, fresh);
}

// ll128Load waits for the lines of epoch flag. The status is uniform over the warp: lanes look at the abort block
// together, because a lane that left alone would strand the others in the vote.
GOCCL_DEVICE Status ll128Load(const void* line, uint4& v, uint64_t flag, AbortBlock* abort) {
  uint64_t start = 0;
  return spin([&] { return ll128TryLoad(line, v, flag); },
              [&] { return __reduce_max_sync(0xffffffffu, checkAbort(abort, start, line, waitPacket, unknownPeer)); });
}

}  // namespace goccl
