// MSCCL++'s names for goccl/core.hpp.
#pragma once

#include <goccl/core.hpp>
#include <mscclpp/errors.hpp>
#include <mscclpp/gpu_data_types.hpp>

namespace mscclpp {
using goccl::AllIBTransports;
using goccl::AllTransports;
using goccl::Bootstrap;
using goccl::Communicator;
using goccl::Connection;
using goccl::Context;
using goccl::Device;
using goccl::deviceHandle;
using goccl::DeviceType;
using goccl::Endpoint;
using goccl::EndpointConfig;
using goccl::NonblockingFuture;
using goccl::NoTransports;
using goccl::PacketPayload;
using goccl::RegisteredMemory;
using goccl::Semaphore;
using goccl::SemaphoreStub;
using goccl::TcpBootstrap;
using goccl::Transport;
using goccl::TransportFlags;
using goccl::UniqueId;
using goccl::UniqueIdBytes;
using goccl::version;
using goccl::operator|;
using goccl::operator&;
using goccl::operator^;
}  // namespace mscclpp
