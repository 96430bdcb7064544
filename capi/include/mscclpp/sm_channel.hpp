// The older name of memory_channel.hpp.
#pragma once

#include <mscclpp/memory_channel.hpp>
