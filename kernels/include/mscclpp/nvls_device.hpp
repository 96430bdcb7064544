// The older name of switch_channel_device.hpp.
#pragma once

#include <mscclpp/switch_channel_device.hpp>
