// MSCCL++'s names for goccl/executor.hpp.
#pragma once

#include <goccl/executor.hpp>
#include <mscclpp/core.hpp>
#include <mscclpp/gpu.hpp>

namespace mscclpp {
using goccl::ExecutionPlan;
using goccl::Executor;
using goccl::PacketType;
}  // namespace mscclpp
