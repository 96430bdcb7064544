// Every device handle and the layout it shares with the host. layout.txt beside this file is the same table for tests
// in any language.
#pragma once

#include <goccl/device_syncer.cuh>
#include <goccl/fifo.cuh>
#include <goccl/memory_channel.cuh>
#include <goccl/port_channel.cuh>
#include <goccl/switch_channel.cuh>

namespace goccl {

static_assert(sizeof(SemaphoreHandle) == 32, "layout of SemaphoreHandle");
static_assert(sizeof(BaseMemoryChannelHandle) == 32, "layout of BaseMemoryChannelHandle");
static_assert(sizeof(MemoryChannelHandle) == 56, "layout of MemoryChannelHandle");
static_assert(sizeof(FifoHandle) == 48, "layout of FifoHandle");
static_assert(sizeof(BasePortChannelHandle) == 104, "layout of BasePortChannelHandle");
static_assert(sizeof(PortChannelHandle) == 144, "layout of PortChannelHandle");
static_assert(sizeof(SwitchChannelHandle) == 32, "layout of SwitchChannelHandle");

}  // namespace goccl
