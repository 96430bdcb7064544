// Port channels: the GPU asks, a proxy thread on the host does the transfer (copy engine, network). Older name: proxy
// channel.
#pragma once

#include <goccl/fifo.cuh>
#include <goccl/semaphore.cuh>

namespace goccl {

// BasePortChannelHandle names memories by the ids that ProxyService.AddMemory gave. Calls are made by one thread each
// and are asynchronous; what one thread asks for is done in order. Writes of the calling thread (and of its block,
// after a __syncthreads) are visible to the transfer.
struct BasePortChannelHandle {
  SemaphoreHandle semaphore;  // remoteInbound is null: signals go through the proxy
  FifoHandle fifo;
  uint64_t* flushDone;  // mapped host memory: FIFO positions whose transfers are complete
  uint32_t semaphoreId;
  uint32_t pad;
  uint64_t reserved;

  // put copies size bytes of my memory src to the peer's memory dst.
  GOCCL_DEVICE Status put(uint32_t dst, uint64_t dstOffset, uint32_t src, uint64_t srcOffset, uint64_t size) {
    return push(triggerData, dst, dstOffset, src, srcOffset, size);
  }

  // signal adds one to the peer's semaphore, after every earlier put of this channel.
  GOCCL_DEVICE Status signal() { return push(triggerFlag, 0, 0, 0, 0, 0); }

  GOCCL_DEVICE Status putWithSignal(uint32_t dst, uint64_t dstOffset, uint32_t src, uint64_t srcOffset, uint64_t size) {
    return push(triggerData | triggerFlag, dst, dstOffset, src, srcOffset, size);
  }

  // putWithSignalAndFlush returns when the source may be reused.
  GOCCL_DEVICE Status putWithSignalAndFlush(uint32_t dst, uint64_t dstOffset, uint32_t src, uint64_t srcOffset,
                                            uint64_t size, int64_t maxSpin = -1) {
    return pushAndFlush(triggerData | triggerFlag | triggerSync, dst, dstOffset, src, srcOffset, size, maxSpin);
  }

  // flush returns when the sources of every earlier put of this channel may be reused.
  GOCCL_DEVICE Status flush(int64_t maxSpin = -1) { return pushAndFlush(triggerSync, 0, 0, 0, 0, 0, maxSpin); }

  // poll and wait consume one signal of the peer, with acquire order.
  GOCCL_DEVICE bool poll() { return semaphore.poll(); }
  GOCCL_DEVICE Status wait(int64_t maxSpin = -1) { return semaphore.wait(maxSpin); }

  GOCCL_DEVICE Status push(uint32_t type, uint32_t dst, uint64_t dstOffset, uint32_t src, uint64_t srcOffset,
                           uint64_t size) {
    uint64_t position;
    return pushAt(type, dst, dstOffset, src, srcOffset, size, position);
  }

  // pushAt refuses what a trigger cannot hold, rather than to truncate it.
  GOCCL_DEVICE Status pushAt(uint32_t type, uint32_t dst, uint64_t dstOffset, uint32_t src, uint64_t srcOffset,
                             uint64_t size, uint64_t& position) {
    if ((dst | src) > 0xffff || (dstOffset | srcOffset | size) > triggerMaxSize) return statusInvalid;
    return fifo.push(makeTrigger(type, dst, dstOffset, src, srcOffset, size, semaphoreId), position);
  }

  GOCCL_DEVICE Status pushAndFlush(uint32_t type, uint32_t dst, uint64_t dstOffset, uint32_t src, uint64_t srcOffset,
                                   uint64_t size, int64_t maxSpin) {
    uint64_t position;
    Status s = pushAt(type, dst, dstOffset, src, srcOffset, size, position);
    if (s != statusOk) return s;
    uint64_t* done = flushDone;
    return waitUntil([&] { return static_cast<int64_t>(loadAcquire<Scope::sys>(done) - position) > 0; }, fifo.abort,
                     done, waitFlush, maxSpin);
  }
};

// PortChannelHandle has one destination and one source memory.
struct PortChannelHandle : BasePortChannelHandle {
  uint32_t dst;
  uint32_t src;

  GOCCL_DEVICE Status put(uint64_t dstOffset, uint64_t srcOffset, uint64_t size) {
    return BasePortChannelHandle::put(dst, dstOffset, src, srcOffset, size);
  }
  GOCCL_DEVICE Status put(uint64_t offset, uint64_t size) { return put(offset, offset, size); }
  GOCCL_DEVICE Status putWithSignal(uint64_t dstOffset, uint64_t srcOffset, uint64_t size) {
    return BasePortChannelHandle::putWithSignal(dst, dstOffset, src, srcOffset, size);
  }
  GOCCL_DEVICE Status putWithSignal(uint64_t offset, uint64_t size) { return putWithSignal(offset, offset, size); }
  GOCCL_DEVICE Status putWithSignalAndFlush(uint64_t dstOffset, uint64_t srcOffset, uint64_t size) {
    return BasePortChannelHandle::putWithSignalAndFlush(dst, dstOffset, src, srcOffset, size);
  }
  GOCCL_DEVICE Status putWithSignalAndFlush(uint64_t offset, uint64_t size) {
    return putWithSignalAndFlush(offset, offset, size);
  }
};

}  // namespace goccl
