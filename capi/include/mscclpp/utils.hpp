#pragma once

#include <goccl/utils.hpp>
#include <mscclpp/core.hpp>

namespace mscclpp {
using goccl::getHostName;
using goccl::getIBDeviceCount;
using goccl::getIBDeviceName;
using goccl::getIBTransportByDeviceName;
using goccl::isFabricMemHandleAvailable;
namespace detail {
using goccl::detail::hashCombine;
}
}  // namespace mscclpp
