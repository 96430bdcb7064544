// Entry points of collective/ring.cuh, ring_fold.cuh and direct.cuh, a separate group: packets need none of these
// kernels.
//
//   <job>_ring_<type>                any operator, address and size
//   <job>_ring_<type>_sum            operators sum and avg; addresses and sizes are multiples of 16
//   <job>_ring, <job>_ring_words     the same for jobs that reduce nothing
#include <collective/direct.cuh>
#include <collective/ring_fold.cuh>

using namespace goccl;
using namespace goccl::collective;

// clang-format off
#define KERNEL(name) GOCCL_KERNEL(name, ringWorkers + pipeSignalers, 1, DirectArgs)

template <Type T>
using Sum = Reducer<T, Op::sum, false>;

// Types whose partial sums travel from rank to rank.
#define REDUCE(suffix, reducer, access, allReduce, reduceScatter)                                          \
  KERNEL(all_reduce_ring_##suffix) { if (allReduce(a)) ringAllReduce<reducer, Access::access>(a); }         \
  KERNEL(reduce_scatter_ring_##suffix) { if (reduceScatter(a)) ringReduceScatter<reducer, Access::access>(a); } \
  KERNEL(reduce_ring_##suffix) { ringReduce<reducer, Access::access>(a); }
#define ANY(type) REDUCE(type, AnyReducer<Type::type>, bytes, elsewhere, elsewhere)
ANY(int32) ANY(int64) ANY(float32) ANY(float64)
#undef ANY
REDUCE(float32_sum, Sum<Type::float32>, words, (directAllReduce<Sum<Type::float32>, false>),
       (directReduceScatter<Sum<Type::float32>, false>))
#undef REDUCE

// Types that the owner of a slice sums up.
#define FOLD(suffix, reducer, access, allReduce, reduceScatter)                                     \
  KERNEL(all_reduce_ring_##suffix) { if (allReduce(a)) foldAllReduce<reducer, Access::access>(a); } \
  KERNEL(reduce_scatter_ring_##suffix) { if (reduceScatter(a)) foldReduceScatter<reducer, Access::access>(a); }
#define ANY(type) FOLD(type, AnyReducer<Type::type>, bytes, elsewhere, elsewhere)
ANY(float16) ANY(bfloat16)
#undef ANY
#define SUM(type)                                                                                       \
  FOLD(type##_sum, Sum<Type::type>, words, (directAllReduce<Sum<Type::type>, true>),                    \
       (directReduceScatter<Sum<Type::type>, true>))
SUM(float16) SUM(bfloat16)
#undef SUM
#undef FOLD

#define MOVE(suffix, access, allGather)                                                              \
  KERNEL(all_gather_ring##suffix) { if (allGather(a)) ringAllGather<NoReducer, Access::access>(a); } \
  KERNEL(broadcast_ring##suffix) { ringBroadcast<NoReducer, Access::access>(a); }
MOVE(, bytes, elsewhere) MOVE(_words, words, directAllGather)
#undef MOVE
