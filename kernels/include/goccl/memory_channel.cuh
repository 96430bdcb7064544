// Memory channels: the GPU itself reads and writes the peer's memory, which is mapped here.
#pragma once

#include <goccl/copy.cuh>
#include <goccl/packet.cuh>
#include <goccl/semaphore.cuh>

namespace goccl {

// BaseMemoryChannelHandle is a semaphore between two devices and no memory.
struct BaseMemoryChannelHandle {
  SemaphoreHandle semaphore;

  GOCCL_DEVICE void signal() { semaphore.signal(); }
  GOCCL_DEVICE void relaxedSignal() { semaphore.relaxedSignal(); }
  GOCCL_DEVICE bool poll() { return semaphore.poll(); }
  GOCCL_DEVICE Status wait(int64_t maxSpin = -1) { return semaphore.wait(maxSpin); }
  GOCCL_DEVICE Status relaxedWait(int64_t maxSpin = -1) { return semaphore.relaxedWait(maxSpin); }
};

// MemoryChannelHandle adds a destination (peer memory mapped here), a source (my memory) and my packet buffer, which
// the peer writes packets to. Offsets and sizes are bytes, of any alignment. Calls that take (tid, nthreads) are
// cooperative: every thread of 0..nthreads-1 makes the call; none of them synchronises the threads or orders memory by
// itself.
struct MemoryChannelHandle : BaseMemoryChannelHandle {
  uint8_t* dst;
  uint8_t* src;
  uint8_t* packetBuffer;

  // read and write access element index of the peer's memory.
  template <class T>
  GOCCL_DEVICE T read(uint64_t index) {
    return reinterpret_cast<const T*>(dst)[index];
  }
  template <class T>
  GOCCL_DEVICE void write(uint64_t index, const T& v) {
    reinterpret_cast<T*>(dst)[index] = v;
  }

  // put copies src[originOffset, +bytes) to the peer's dst[targetOffset, +bytes).
  GOCCL_DEVICE void put(uint64_t targetOffset, uint64_t originOffset, uint64_t bytes, uint32_t tid, uint32_t nthreads) {
    move(dst + targetOffset, src + originOffset, bytes, tid, nthreads);
  }
  GOCCL_DEVICE void put(uint64_t offset, uint64_t bytes, uint32_t tid, uint32_t nthreads) {
    put(offset, offset, bytes, tid, nthreads);
  }

  // get copies the peer's dst[targetOffset, +bytes) to src[originOffset, +bytes).
  GOCCL_DEVICE void get(uint64_t targetOffset, uint64_t originOffset, uint64_t bytes, uint32_t tid, uint32_t nthreads) {
    move(src + originOffset, dst + targetOffset, bytes, tid, nthreads);
  }
  GOCCL_DEVICE void get(uint64_t offset, uint64_t bytes, uint32_t tid, uint32_t nthreads) {
    get(offset, offset, bytes, tid, nthreads);
  }

  // move has two loads of a thread in flight where there are not eight for each: without, the second load would come
  // after the first store, and so wait for the first load.
  static GOCCL_DEVICE void move(void* to, const void* from, uint64_t bytes, uint32_t tid, uint32_t nthreads) {
    if (bytes / (8 * sizeof(uint4)) < nthreads)
      copyBytes<2>(to, from, bytes, tid, nthreads);
    else
      copyBytes(to, from, bytes, tid, nthreads);
  }

  // putWithSignal is a put by one whole thread block followed by a signal that publishes it. Every thread of the block
  // must call it.
  GOCCL_DEVICE void putWithSignal(uint64_t targetOffset, uint64_t originOffset, uint64_t bytes, uint32_t tid,
                                  uint32_t nthreads) {
    put(targetOffset, originOffset, bytes, tid, nthreads);
    __syncthreads();
    if (tid == 0) signal();
  }

  // putPackets writes src[originOffset, +bytes) as packets of epoch flag to the peer's dst at byte targetOffset of
  // packet memory.
  template <class Packet = LL16Packet>
  GOCCL_DEVICE void putPackets(uint64_t targetOffset, uint64_t originOffset, uint64_t bytes, uint32_t tid,
                               uint32_t nthreads, uint32_t flag) {
    copyToPackets<Packet>(dst + targetOffset, src + originOffset, bytes, tid, nthreads, flag);
  }

  // unpackPackets waits for the packets of epoch flag at byte targetOffset of packetBuffer and writes their payload to
  // src[originOffset, +bytes).
  template <class Packet = LL16Packet>
  GOCCL_DEVICE Status unpackPackets(uint64_t targetOffset, uint64_t originOffset, uint64_t bytes, uint32_t tid,
                                    uint32_t nthreads, uint32_t flag, int64_t maxSpin = -1) {
    return copyFromPackets<Packet>(src + originOffset, packetBuffer + targetOffset, bytes, tid, nthreads, flag,
                                   semaphore.abort, maxSpin);
  }

  // unpackPacket waits for packet index of packetBuffer and returns its payload in data.
  template <class Packet = LL16Packet>
  GOCCL_DEVICE Status unpackPacket(uint64_t index, uint32_t flag, typename Packet::Payload& data,
                                   int64_t maxSpin = -1) {
    return reinterpret_cast<const Packet*>(packetBuffer)[index].read(flag, data, semaphore.abort, maxSpin);
  }
};

}  // namespace goccl
