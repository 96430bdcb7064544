// What the programs with kernels share. With "launch" as their first argument they look at no result of a kernel: so
// they run on the mock driver, which launches kernels and does not run them.
#pragma once

#include <cstring>
#include <mscclpp/core.hpp>
#include <mscclpp/gpu_utils.hpp>

#include "test.hpp"

inline bool kernelsRun = true;

inline void begin(int argc, char** argv) { kernelsRun = argc < 2 || std::strcmp(argv[1], "launch") != 0; }

// upload copies a kernel's handle to the current device.
template <class Handle>
Handle* upload(const Handle& handle) {
  void* p = nullptr;
  MSCCLPP_CUDATHROW(cudaMalloc(&p, sizeof handle));
  MSCCLPP_CUDATHROW(cudaMemcpy(p, &handle, sizeof handle, cudaMemcpyHostToDevice));
  return static_cast<Handle*>(p);
}
