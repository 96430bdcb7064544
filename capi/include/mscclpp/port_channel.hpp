// MSCCL++'s names for goccl/port_channel.hpp, the older ones too.
#pragma once

#include <goccl/port_channel.hpp>
#include <mscclpp/port_channel_device.hpp>
#include <mscclpp/proxy.hpp>
#include <mscclpp/semaphore.hpp>

namespace mscclpp {
using goccl::BaseProxyService;
using BasePortChannel = goccl::BasePortChannelOf<BasePortChannelDeviceHandle>;
using PortChannel = goccl::PortChannelOf<PortChannelDeviceHandle>;
using ProxyService = goccl::ProxyServiceOf<BasePortChannel, PortChannel>;
using BaseProxyChannel = BasePortChannel;
using ProxyChannel = BasePortChannel;
using SimpleProxyChannel = PortChannel;
}  // namespace mscclpp
