// Packets: data that carries its own readiness flag, so that no fence and no trailing barrier is needed.
//
//   LL8    {u32 data, u32 flag}                       4 of 8 bytes are payload
//   LL16   {u32 data1, u32 flag1, u32 data2, u32 flag2}  8 of 16
//   LL128  a line of 128 bytes: 15 x 8 bytes of data and an 8-byte flag in the last word, moved by 8 lanes x 16 bytes: 120 of 128
//
// The flag is an epoch that the caller raises by one for each use of a buffer; it is never 0, and a flag must not be reused on memory that still holds
// it. LL8 and LL16 need 8-byte atomicity only. LL128 needs a line to arrive as a whole, which NVLink gives and PCIe does not; and only where the line is always
// read and written as a whole: in memory that also holds LL8 or LL16 packets an H200 now and then shows half of a line as it was before, with the new flag.
#pragma once

#include <goccl/abort.cuh>

namespace goccl {

struct alignas(16) LL16Packet {
  uint32_t data1, flag1, data2, flag2;
  using Payload = uint2;

  GOCCL_DEVICE void write(uint32_t v1, uint32_t v2, uint32_t flag) { storePacket(reinterpret_cast<uint4*>(this), make_uint4(v1, flag, v2, flag)); }
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

  GOCCL_DEVICE void write(uint32_t v, uint32_t epoch) { storePacket(reinterpret_cast<uint2*>(this), make_uint2(v, epoch)); }

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

// gatherBytes assembles up to 8 bytes at p, which need no alignment, into two words; missing bytes are zero.
GOCCL_DEVICE uint2 gatherBytes(const uint8_t* p, uint64_t n) {
  if (n >= 8 && (reinterpret_cast<uintptr_t>(p) & 3) == 0) {
    const uint32_t* w = reinterpret_cast<const uint32_t*>(p);
    return make_uint2(w[0], w[1]);
  }
  uint64_t v = 0;
  for (uint32_t i = 0; i < 8 && i < n; ++i) v |= static_cast<uint64_t>(p[i]) << (8 * i);
  return make_uint2(static_cast<uint32_t>(v), static_cast<uint32_t>(v >> 32));
}

// scatterBytes is the inverse of gatherBytes: it writes exactly min(n, 8) bytes.
GOCCL_DEVICE void scatterBytes(uint8_t* p, uint2 v, uint64_t n) {
  if (n >= 8 && (reinterpret_cast<uintptr_t>(p) & 3) == 0) {
    uint32_t* w = reinterpret_cast<uint32_t*>(p);
    w[0] = v.x;
    w[1] = v.y;
    return;
  }
  for (uint32_t i = 0; i < 8 && i < n; ++i) p[i] = static_cast<uint8_t>((i < 4 ? v.x : v.y) >> (8 * (i & 3)));
}

// packetCount is the number of packets that carry bytes of payload; the last one may be part empty.
template <class Packet>
GOCCL_HOST_DEVICE uint64_t packetCount(uint64_t bytes) {
  return (bytes + sizeof(Packet) / 2 - 1) / (sizeof(Packet) / 2);
}

// copyToPackets writes bytes of src, of any alignment, as packets. tid of nthreads threads; no synchronisation among them is implied.
template <class Packet = LL16Packet>
GOCCL_DEVICE void copyToPackets(void* packets, const void* src, uint64_t bytes, uint32_t tid, uint32_t nthreads, uint32_t flag) {
  constexpr uint64_t step = sizeof(Packet) / 2;
  Packet* out = static_cast<Packet*>(packets);
  const uint8_t* in = static_cast<const uint8_t*>(src);
  uint64_t count = packetCount<Packet>(bytes);
  for (uint64_t i = tid; i < count; i += nthreads) {
    uint64_t left = bytes - i * step;
    uint2 v = gatherBytes(in + i * step, left < step ? left : step);
    if constexpr (step == 8)
      out[i].write(v, flag);
    else
      out[i].write(v.x, flag);
  }
}

// copyFromPackets waits for the packets of epoch flag and writes their payload to dst: exactly bytes, of any alignment.
template <class Packet = LL16Packet>
GOCCL_DEVICE Status copyFromPackets(void* dst, const void* packets, uint64_t bytes, uint32_t tid, uint32_t nthreads, uint32_t flag, AbortBlock* abort,
                                    int64_t maxSpin = -1) {
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
    scatterBytes(out + i * step, v, left < step ? left : step);
  }
  return statusOk;
}

// LL128 line access by a group of 8 consecutive lanes; lane & 7 is the lane's 16 bytes of the line. Lanes 0..6 carry 16 bytes, lane 7 carries 8
// bytes of payload in (x, y) and the flag in (z, w). All 32 lanes of the warp must be active and converged.
constexpr uint32_t ll128Line = 128;
constexpr uint32_t ll128Payload = 120;

#if GOCCL_CUDA
// ll128Store writes this lane's 16 bytes of a line; on lane 7 the words z and w are replaced by the flag.
GOCCL_DEVICE void ll128Store(void* line, uint4 v, uint64_t flag) {
  uint32_t lane = threadIdx.x & 7;
  if (lane == 7) {
    v.z = static_cast<uint32_t>(flag);
    v.w = static_cast<uint32_t>(flag >> 32);
  }
  storePacket(static_cast<uint4*>(line) + lane, v);
}

// ll128TryLoad fetches this lane's 16 bytes and says, to every lane of the warp, whether all four lines of the warp carry flag.
GOCCL_DEVICE bool ll128TryLoad(const void* line, uint4& v, uint64_t flag) {
  uint32_t lane = threadIdx.x & 7;
  v = loadPacket(static_cast<const uint4*>(line) + lane);
  bool miss = lane == 7 && (v.z != static_cast<uint32_t>(flag) || v.w != static_cast<uint32_t>(flag >> 32));
  return !__any_sync(0xffffffffu, miss);
}
#else
// A line that arrives as a whole, on a machine that promises 8 bytes: the flag is written last and read first.
inline void ll128Store(void* line, uint4 v, uint64_t flag) {
  uint32_t lane = threadIdx.x & 7;
  uint4* mine = static_cast<uint4*>(line) + lane;
  if (lane != 7) storePacket(mine, v);
  if (lane == 7) storePacket(reinterpret_cast<uint2*>(mine), make_uint2(v.x, v.y));
  __syncwarp();
  if (lane == 7) storeRelease<Scope::sys>(reinterpret_cast<uint64_t*>(mine) + 1, flag);
}
inline bool ll128TryLoad(const void* line, uint4& v, uint64_t flag) {
  uint32_t lane = threadIdx.x & 7;
  const uint4* mine = static_cast<const uint4*>(line) + lane;
  bool miss = lane == 7 && loadAcquire<Scope::sys>(reinterpret_cast<const uint64_t*>(mine) + 1) != flag;
  if (__any_sync(0xffffffffu, miss)) return false;
  v = loadPacket(mine);
  return true;
}
#endif

// ll128Load waits for the lines of epoch flag. The status is uniform over the warp: lanes look at the abort block together, because a lane that
// left alone would strand the others in the vote.
GOCCL_DEVICE Status ll128Load(const void* line, uint4& v, uint64_t flag, AbortBlock* abort) {
  uint64_t start = 0;
  for (;;) {
#pragma unroll 1
    for (uint32_t i = 0; i < spinsPerCheck; ++i)
      if (ll128TryLoad(line, v, flag)) return statusOk;
    Status s = checkAbort(abort, start, line, waitPacket, unknownPeer);
    s = __reduce_max_sync(0xffffffffu, s);
    if (s != statusOk) return s;
  }
}

}  // namespace goccl
