// A proxy whose triggers the program handles.
#pragma once

#include <mscclpp/fifo.hpp>

namespace mscclpp {
using goccl::ProxyHandlerResult;
using Proxy = goccl::ProxyOf<Fifo, ProxyTrigger>;
using ProxyHandler = Proxy::Handler;
}  // namespace mscclpp
