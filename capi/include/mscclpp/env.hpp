#pragma once

#include <goccl/env.hpp>

namespace mscclpp {
using goccl::Env;
using goccl::env;
}  // namespace mscclpp
