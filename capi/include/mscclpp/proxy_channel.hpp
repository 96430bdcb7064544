// The older name of port_channel.hpp.
#pragma once

#include <mscclpp/port_channel.hpp>
