// Entry points of collective/direct.cuh.
//
//   <job>_direct_<type>   sum and avg
//   move_direct           all-gather, all-to-all, gather, scatter, broadcast
#include <collective/direct.cuh>

using namespace goccl;
using namespace goccl::collective;

// clang-format off
#define KERNEL(name) GOCCL_KERNEL(name, ringWorkers + pipeSignalers, 1, DirectArgs)

#define REDUCE(type)                                                                                             \
  KERNEL(all_reduce_direct_##type) { Direct(a).reduce<Reducer<Type::type, Op::sum, false>, true>(); }      \
  KERNEL(reduce_scatter_direct_##type) { Direct(a).reduce<Reducer<Type::type, Op::sum, false>, false>(); }
REDUCE(float32) REDUCE(float16) REDUCE(bfloat16)

KERNEL(move_direct) { Direct(a).move(); }
