// Entry points of probe.cuh: a grid of a block for each rank.
#include <probe/probe.cuh>

using namespace goccl::probe;

extern "C" __global__ void __launch_bounds__(256, 1) probe_store(const __grid_constant__ Args a) { store(a); }
extern "C" __global__ void __launch_bounds__(256, 1) probe_check(const __grid_constant__ Args a) { check(a); }
