// Entry points of collective/ring.cuh and ring_fold.cuh, in a group of their own: packets need none of these kernels.
//
//   <job>_ring_<type>                any operator, address and size
//   <job>_ring_<type>_sum            operators sum and avg; addresses and sizes are multiples of 16
//   <job>_ring, <job>_ring_words     the same for jobs that reduce nothing
#include <collective/ring_fold.cuh>

using namespace goccl;
using namespace goccl::collective;

#define KERNEL(name) GOCCL_KERNEL(name, ringWorkers + ringTellers, Args)

// Types whose partial sums go round, and those that are summed by their owners.
#define REDUCE(suffix, reducer, access)                                              \
  KERNEL(all_reduce_ring_##suffix) { ringAllReduce<reducer, Access::access>(a); }         \
  KERNEL(reduce_scatter_ring_##suffix) { ringReduceScatter<reducer, Access::access>(a); } \
  KERNEL(reduce_ring_##suffix) { ringReduce<reducer, Access::access>(a); }
#define ANY(type) REDUCE(type, AnyReducer<Type::type>, bytes)
ANY(int32) ANY(uint32) ANY(int64) ANY(uint64) ANY(float32) ANY(float64)
#undef ANY
#define FOLD(suffix, reducer, access)                                                \
  KERNEL(all_reduce_ring_##suffix) { foldAllReduce<reducer, Access::access>(a); }         \
  KERNEL(reduce_scatter_ring_##suffix) { foldReduceScatter<reducer, Access::access>(a); }
#define ANY(type) FOLD(type, AnyReducer<Type::type>, bytes)
ANY(float16) ANY(bfloat16)
#undef ANY
using Float32Sum = Reducer<Type::float32, Op::sum, false>;
REDUCE(float32_sum, Float32Sum, words)
using Float16Sum = Reducer<Type::float16, Op::sum, false>;
using Bfloat16Sum = Reducer<Type::bfloat16, Op::sum, false>;
FOLD(float16_sum, Float16Sum, words)
FOLD(bfloat16_sum, Bfloat16Sum, words)
#undef REDUCE
#undef FOLD

#define MOVE(suffix, access)                                                      \
  KERNEL(all_gather_ring##suffix) { ringAllGather<Nothing, Access::access>(a); }  \
  KERNEL(broadcast_ring##suffix) { ringBroadcast<Nothing, Access::access>(a); }
MOVE(, bytes) MOVE(_words, words)
#undef MOVE
