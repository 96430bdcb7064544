// Polling loops in MSCCL++'s spelling: they end with the condition, after maxSpinCount polls, or after goccl's default
// deadline.
#pragma once

#include <mscclpp/device.hpp>

#if GOCCL_HANDLES

#define POLL_MAYBE_JAILBREAK(condition, maxSpinCount) \
  (void)goccl::waitUntil([&] { return !(condition); }, nullptr, nullptr, goccl::waitNone, (maxSpinCount))

#define OR_POLL_MAYBE_JAILBREAK(condition1, condition2, maxSpinCount) \
  POLL_MAYBE_JAILBREAK((condition1) && (condition2), maxSpinCount)

#endif
