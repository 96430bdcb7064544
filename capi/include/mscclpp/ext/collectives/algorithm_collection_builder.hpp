#pragma once

#include <mscclpp/algorithm.hpp>

namespace mscclpp {
namespace collective {
using goccl::AlgorithmCollectionBuilder;
}
}  // namespace mscclpp
