// Entry points of collective/ring.cuh and ring_fold.cuh, a separate group: packets need none of these kernels.
//
//   <job>_ring_<type>                any operator, address and size
//   <job>_ring_<type>_sum            operators sum and avg; addresses and sizes are multiples of 16
//   <job>_ring, <job>_ring_words     the same for jobs that reduce nothing
#include <collective/ring_fold.cuh>

using namespace goccl;
using namespace goccl::collective;

// clang-format off
#define KERNEL(name) GOCCL_KERNEL(name, ringWorkers + pipeSignalers, 1, Args)

template <Type T>
using Sum = Reducer<T, Op::sum, false>;

// Types whose partial sums travel from rank to rank.
#define REDUCE(suffix, reducer, access)                                                   \
  KERNEL(all_reduce_ring_##suffix) { ringAllReduce<reducer, Access::access>(a); }         \
  KERNEL(reduce_scatter_ring_##suffix) { ringReduceScatter<reducer, Access::access>(a); } \
  KERNEL(reduce_ring_##suffix) { ringReduce<reducer, Access::access>(a); }
#define ANY(type) REDUCE(type, AnyReducer<Type::type>, bytes)
ANY(int32) ANY(int64) ANY(float32) ANY(float64)
#undef ANY
REDUCE(float32_sum, Sum<Type::float32>, words)
#undef REDUCE

// Types that the owner of a slice sums up.
#define FOLD(suffix, reducer, access)                                             \
  KERNEL(all_reduce_ring_##suffix) { foldAllReduce<reducer, Access::access>(a); } \
  KERNEL(reduce_scatter_ring_##suffix) { foldReduceScatter<reducer, Access::access>(a); }
#define ANY(type) FOLD(type, AnyReducer<Type::type>, bytes)
ANY(float16) ANY(bfloat16)
#undef ANY
FOLD(float16_sum, Sum<Type::float16>, words)
FOLD(bfloat16_sum, Sum<Type::bfloat16>, words)
#undef FOLD

#define MOVE(suffix, access)                                                        \
  KERNEL(all_gather_ring##suffix) { ringAllGather<NoReducer, Access::access>(a); }  \
  KERNEL(broadcast_ring##suffix) { ringBroadcast<NoReducer, Access::access>(a); }
MOVE(, bytes) MOVE(_words, words)
#undef MOVE
