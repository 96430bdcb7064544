// Prints the layout of every structure that the host shares with the device, in the form of goccl/layout.txt.
#include <goccl/handle.cuh>

#include <cstdio>

using namespace goccl;

#define SIZE(s) std::printf("%s - 0 %zu\n", #s, sizeof(s))
#define FIELD(s, f) std::printf("%s %s %zu %zu\n", #s, #f, __builtin_offsetof(s, f), sizeof(s::f))

int main() {
  SIZE(AbortBlock);
  FIELD(AbortBlock, abort);
  FIELD(AbortBlock, reported);
  FIELD(AbortBlock, spinLimitNs);
  FIELD(AbortBlock, detail);
  FIELD(AbortBlock, peer);
  FIELD(AbortBlock, op);
  SIZE(SemaphoreHandle);
  FIELD(SemaphoreHandle, inbound);
  FIELD(SemaphoreHandle, remoteInbound);
  FIELD(SemaphoreHandle, expected);
  FIELD(SemaphoreHandle, abort);
  SIZE(BaseMemoryChannelHandle);
  FIELD(BaseMemoryChannelHandle, semaphore);
  SIZE(MemoryChannelHandle);
  FIELD(MemoryChannelHandle, semaphore);
  FIELD(MemoryChannelHandle, dst);
  FIELD(MemoryChannelHandle, src);
  FIELD(MemoryChannelHandle, packetBuffer);
  SIZE(FifoHandle);
  FIELD(FifoHandle, ring);
  FIELD(FifoHandle, head);
  FIELD(FifoHandle, tail);
  FIELD(FifoHandle, tailCache);
  FIELD(FifoHandle, size);
  FIELD(FifoHandle, pad);
  FIELD(FifoHandle, abort);
  SIZE(BasePortChannelHandle);
  FIELD(BasePortChannelHandle, semaphore);
  FIELD(BasePortChannelHandle, fifo);
  FIELD(BasePortChannelHandle, flushDone);
  FIELD(BasePortChannelHandle, semaphoreId);
  FIELD(BasePortChannelHandle, pad);
  FIELD(BasePortChannelHandle, order);
  SIZE(PortChannelHandle);
  FIELD(PortChannelHandle, dst);
  FIELD(PortChannelHandle, src);
  FIELD(PortChannelHandle, dstData);
  FIELD(PortChannelHandle, srcData);
  FIELD(PortChannelHandle, dstSize);
  FIELD(PortChannelHandle, srcSize);
  SIZE(PortOrder);
  FIELD(PortOrder, asked);
  FIELD(PortOrder, flushed);
  SIZE(SwitchChannelHandle);
  FIELD(SwitchChannelHandle, peers);
  FIELD(SwitchChannelHandle, nranks);
  FIELD(SwitchChannelHandle, rank);
  FIELD(SwitchChannelHandle, size);
  FIELD(SwitchChannelHandle, abort);
  SIZE(Trigger);
  FIELD(Trigger, sizeAndType);
  FIELD(Trigger, srcOffsetAndId);
  FIELD(Trigger, dstOffsetAndId);
  FIELD(Trigger, semaphoreAndLap);
  SIZE(DeviceSyncer);
  FIELD(DeviceSyncer, arrived);
  FIELD(DeviceSyncer, failed);
  return 0;
}
