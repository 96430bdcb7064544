// MSCCL++'s names for goccl/algorithm.hpp.
#pragma once

#include <goccl/algorithm_collection.hpp>
#include <mscclpp/executor.hpp>
#include <mscclpp/memory_channel.hpp>
#include <mscclpp/port_channel.hpp>
#include <mscclpp/switch_channel.hpp>
#include <mscclpp/utils.hpp>

namespace mscclpp {
using goccl::Algorithm;
using goccl::ALGORITHM_NATIVE_CAPSULE_NAME;
using goccl::AlgorithmBuilder;
using goccl::AlgorithmCollection;
using goccl::AlgorithmCtxKey;
using goccl::AlgorithmType;
using goccl::AlgoSelectFunc;
using goccl::CollectiveBufferMode;
using goccl::CollectiveRequest;
using goccl::CommResult;
using goccl::DslAlgorithm;
using goccl::MIN;
using goccl::NativeAlgorithm;
using goccl::NOP;
using goccl::ReduceOp;
using goccl::SUM;
}  // namespace mscclpp
