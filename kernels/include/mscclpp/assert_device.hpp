// Assertions in kernels, which cost nothing without DEBUG_BUILD.
#pragma once

#include <mscclpp/device.hpp>

#if defined(DEBUG_BUILD)
#include <assert.h>
#define MSCCLPP_ASSERT_DEVICE(condition, message) assert((condition) && (message))
#else
#define MSCCLPP_ASSERT_DEVICE(condition, message)
#endif
