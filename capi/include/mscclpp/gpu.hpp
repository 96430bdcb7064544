// CUDA's runtime, where its headers are there.
#pragma once

#include <goccl/stream.hpp>
#include <mscclpp/device.hpp>

#if GOCCL_CUDA_RUNTIME
#include <cuda.h>
#include <cuda_runtime.h>
#endif
