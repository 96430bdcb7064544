// The host side of primitives: bootstraps, contexts, connections, memory and communicators.
#pragma once

#include <goccl/communicator.hpp>
