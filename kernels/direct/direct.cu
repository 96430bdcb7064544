// Entry points of collective/direct_reduce.cuh and direct_move.cuh.
//
//   <job>_direct_<type>     sum and avg
//   reduce_direct_<type>    all-reduce, reduce-scatter and reduce by any operator
//   move_direct             all-gather, all-to-all, gather, scatter, broadcast
#include <collective/direct_move.cuh>
#include <collective/direct_reduce.cuh>

using namespace goccl;
using namespace goccl::collective;

// clang-format off
#define KERNEL(name) GOCCL_KERNEL(name, ringWorkers + directHelpers, 1, DirectArgs)

#define SUM(type)                                                                                                     \
  KERNEL(all_reduce_direct_##type) { DirectReduce<Reducer<Type::type, Op::sum, false>, gathers>(a).run(); }           \
  KERNEL(reduce_scatter_direct_##type) { DirectReduce<Reducer<Type::type, Op::sum, false>, scatters>(a).run(); }
SUM(float32) SUM(float16) SUM(bfloat16)

#define ANY(type) KERNEL(reduce_direct_##type) { DirectReduce<AnyReducer<Type::type>, anyJob>(a).run(); }
ANY(int8) ANY(int32) ANY(int64) ANY(float16) ANY(float32) ANY(float64) ANY(bfloat16) ANY(float8e4m3) ANY(float8e5m2)

KERNEL(move_direct) { DirectMove(a).run(); }
