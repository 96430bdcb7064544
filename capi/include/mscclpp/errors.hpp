#pragma once

#include <goccl/errors.hpp>

namespace mscclpp {
using goccl::BaseError;
using goccl::CudaError;
using goccl::CuError;
using goccl::Error;
using goccl::ErrorCode;
using goccl::errorToString;
using goccl::IbError;
using goccl::SysError;
}  // namespace mscclpp
