// Port channels: the GPU asks, a proxy thread on the host does the transfer (copy engine, network); small transfers to
// a peer that the GPU can address are done by the asking thread. Older name: proxy channel.
#pragma once

#include <goccl/fifo.cuh>
#include <goccl/semaphore.cuh>

namespace goccl {

// Where a thread can address the peer's memory and counter, it stores small puts itself and adds the signals. One way
// through the proxy takes 12 us on H200s; a thread takes 2 us for 8 bytes and 3.5 us for 1 KiB. Eight loads are in
// flight because a kernel of 1024 threads has 64 registers. Puts that are not aligned to 16 bytes go byte by byte.
constexpr uint64_t directMaxSize = 4096, directMaxBytes = 256;

// PortOrder keeps direct operations in order with requests to the proxy. It lies in device memory. All channels of a
// service over one connection share it.
//
//   1. A push of data or a signal, once it has its position, raises asked above the position. A flush, once the proxy
//      has done it, sets flushed above its position. All earlier requests of the connection are then complete at the
//      peer: the proxy takes them in order of position, and a connection keeps the order of its operations. Racing
//      flushes may store an older value over a newer one: every value is a true lower bound.
//   2. A thread operates directly only if it reads asked <= flushed. A push that happens before is in the asked that it
//      reads, by coherence, so that request is complete. Its data are visible to the thread, and to a receiver that
//      acquires the thread's signal: the proxy's stores, flushDone and flushed are a chain of releases and acquires.
//      The loads may have either order, as asked only rises. A push in no order with the thread has none to break.
//   3. A push after direct operations releases them at system scope with its slot of the FIFO: their stores and signals
//      are at the peer before the proxy sees the request.
//
// Signals of both kinds add up: see SemaphoreHandle. After a hole in the FIFO asked stays above flushed. Checked in
// every state of two threads and four calls: no signal overtakes a put or is lost (test/models, port).
struct PortOrder {
  uint64_t asked;
  uint64_t flushed;

  GOCCL_DEVICE bool idle() const { return loadRelaxed<Scope::gpu>(&asked) <= loadAcquire<Scope::gpu>(&flushed); }
};

// copyRun copies n elements with eight loads in flight.
template <class T>
GOCCL_DEVICE void copyRun(uint8_t* dst, const uint8_t* src, uint64_t n) {
  T* d = reinterpret_cast<T*>(dst);
  const T* s = reinterpret_cast<const T*>(src);
#pragma unroll 1
  for (; n >= 8; n -= 8, d += 8, s += 8) {
    T v[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = s[j];
#pragma unroll
    for (int j = 0; j < 8; ++j) d[j] = v[j];
  }
#pragma unroll 1
  for (; n != 0; --n) *d++ = *s++;
}

// directCopy copies by one thread. It is out of line, and small, for the registers and the code of its callers.
GOCCL_COLD void directCopy(uint8_t* dst, const uint8_t* src, uint64_t size, bool aligned) {
  const uint64_t whole = aligned ? size & ~uint64_t{15} : 0;
  copyRun<uint4>(dst, src, whole / 16);
  copyRun<uint8_t>(dst + whole, src + whole, size - whole);
}

// BasePortChannelHandle names memories by the ids that ProxyService.AddMemory gave. Calls are made by one thread each
// and are asynchronous; what one thread asks for is done in order. Writes of the calling thread (and of its block,
// after a __syncthreads) are visible to the transfer.
struct BasePortChannelHandle {
  SemaphoreHandle semaphore;  // remoteInbound is null if order is
  FifoHandle fifo;
  uint64_t* flushDone;  // mapped host memory: FIFO positions whose transfers are complete
  uint32_t semaphoreId;
  uint32_t pad;
  PortOrder* order;  // null: the proxy does everything

  // put copies size bytes of my memory src to the peer's memory dst.
  GOCCL_DEVICE Status put(uint32_t dst, uint64_t dstOffset, uint32_t src, uint64_t srcOffset, uint64_t size) {
    return push(triggerData, dst, dstOffset, src, srcOffset, size);
  }

  // signal adds one to the peer's semaphore, after every earlier put of this channel.
  GOCCL_DEVICE Status signal() {
    if (!idle()) return push(triggerFlag, 0, 0, 0, 0, 0);
    semaphore.signal();
    return statusOk;
  }

  GOCCL_DEVICE Status putWithSignal(uint32_t dst, uint64_t dstOffset, uint32_t src, uint64_t srcOffset, uint64_t size) {
    return push(triggerData | triggerFlag, dst, dstOffset, src, srcOffset, size);
  }

  // putWithSignalAndFlush returns when the source may be reused.
  GOCCL_DEVICE Status putWithSignalAndFlush(uint32_t dst, uint64_t dstOffset, uint32_t src, uint64_t srcOffset,
                                            uint64_t size, int64_t maxSpin = -1) {
    return pushAndFlush(triggerData | triggerFlag | triggerSync, dst, dstOffset, src, srcOffset, size, maxSpin);
  }

  // flush returns when the sources of every earlier put of this channel may be reused.
  GOCCL_DEVICE Status flush(int64_t maxSpin = -1) {
    return idle() ? statusOk : pushAndFlush(triggerSync, 0, 0, 0, 0, 0, maxSpin);
  }

  // poll and wait consume one signal of the peer, with acquire order.
  GOCCL_DEVICE bool poll() { return semaphore.poll(); }
  GOCCL_DEVICE Status wait(int64_t maxSpin = -1) { return semaphore.wait(maxSpin); }

  // idle says whether this thread may operate directly.
  GOCCL_DEVICE bool idle() const { return order != nullptr && order->idle(); }

  GOCCL_DEVICE Status push(uint32_t type, uint32_t dst, uint64_t dstOffset, uint32_t src, uint64_t srcOffset,
                           uint64_t size) {
    uint64_t position;
    return pushAt(type, dst, dstOffset, src, srcOffset, size, position);
  }

  // pushAt refuses what a trigger cannot hold, rather than to truncate it.
  GOCCL_DEVICE Status pushAt(uint32_t type, uint32_t dst, uint64_t dstOffset, uint32_t src, uint64_t srcOffset,
                             uint64_t size, uint64_t& position) {
    if ((dst | src) > 0xffff || (dstOffset | srcOffset | size) > triggerMaxSize) return statusInvalid;
    Status s = fifo.push(makeTrigger(type, dst, dstOffset, src, srcOffset, size, semaphoreId), position);
    if (order != nullptr && type != triggerSync) maxRelaxed<Scope::gpu>(&order->asked, position + 1);
    return s;
  }

  GOCCL_DEVICE Status pushAndFlush(uint32_t type, uint32_t dst, uint64_t dstOffset, uint32_t src, uint64_t srcOffset,
                                   uint64_t size, int64_t maxSpin) {
    uint64_t position;
    Status s = pushAt(type, dst, dstOffset, src, srcOffset, size, position);
    if (s != statusOk) return s;
    uint64_t* done = flushDone;
    s = waitUntil([&] { return static_cast<int64_t>(loadAcquire<Scope::sys>(done) - position) > 0; }, fifo.abort, done,
                  waitFlush, maxSpin);
    if (s == statusOk && order != nullptr) storeRelease<Scope::gpu>(&order->flushed, position + 1);
    return s;
  }
};

// PortChannelHandle has one destination and one source memory.
struct PortChannelHandle : BasePortChannelHandle {
  uint32_t dst;
  uint32_t src;
  uint8_t* dstData;  // the addresses of the memories on this GPU, and their sizes; 0 if order is null
  uint8_t* srcData;
  uint64_t dstSize;
  uint64_t srcSize;

  GOCCL_DEVICE Status put(uint64_t dstOffset, uint64_t srcOffset, uint64_t size) {
    return request(triggerData, dstOffset, srcOffset, size);
  }
  GOCCL_DEVICE Status put(uint64_t offset, uint64_t size) { return put(offset, offset, size); }
  GOCCL_DEVICE Status putWithSignal(uint64_t dstOffset, uint64_t srcOffset, uint64_t size) {
    return request(triggerData | triggerFlag, dstOffset, srcOffset, size);
  }
  GOCCL_DEVICE Status putWithSignal(uint64_t offset, uint64_t size) { return putWithSignal(offset, offset, size); }
  GOCCL_DEVICE Status putWithSignalAndFlush(uint64_t dstOffset, uint64_t srcOffset, uint64_t size) {
    return request(triggerData | triggerFlag | triggerSync, dstOffset, srcOffset, size);
  }
  GOCCL_DEVICE Status putWithSignalAndFlush(uint64_t offset, uint64_t size) {
    return putWithSignalAndFlush(offset, offset, size);
  }

  // request does a put by this thread if it may. Ranges that are out of bounds are left to the proxy, which refuses
  // them. The source may be reused at once: its bytes are in registers before they are stored. Reading order also makes
  // the compiler write the thread's own earlier bytes before they are loaded, and drops stale lines of the L1 cache.
  GOCCL_DEVICE Status request(uint32_t type, uint64_t dstOffset, uint64_t srcOffset, uint64_t size) {
    uint8_t* to = dstData + dstOffset;
    const uint8_t* from = srcData + srcOffset;
    const bool aligned = ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) & 15) == 0;
    if (size <= (aligned ? directMaxSize : directMaxBytes) && dstOffset <= dstSize && size <= dstSize - dstOffset &&
        srcOffset <= srcSize && size <= srcSize - srcOffset && idle()) {
      directCopy(to, from, size, aligned);
      if ((type & triggerFlag) != 0) semaphore.signal();
      return statusOk;
    }
    if ((type & triggerSync) != 0) return pushAndFlush(type, dst, dstOffset, src, srcOffset, size, -1);
    return push(type, dst, dstOffset, src, srcOffset, size);
  }
};

}  // namespace goccl
