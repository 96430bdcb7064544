// Entry points of collective/simple.cuh, in a group of their own: few of these kernels are ever run, and packets need none of them.
//
//   <job>_simple_<type>                   any number of ranks up to 16, operator, address and size
//   <job>_simple_<type>_sum_n<ranks>      that many ranks; operators sum and avg; addresses and sizes are multiples of 16
//   <job>_simple, <job>_simple_n<ranks>   the same for jobs that reduce nothing
#include <collective/simple.cuh>

using namespace goccl;
using namespace goccl::collective;

#define KERNEL(name) GOCCL_KERNEL(name, 512, SimpleArgs)

#define ANY(type)                                                                                       \
  KERNEL(all_reduce_simple_##type) { simple<Job::allReduce, AnyReducer<Type::type>, 0, Access::bytes>(a); }            \
  KERNEL(reduce_scatter_simple_##type) { simple<Job::reduceScatter, AnyReducer<Type::type>, 0, Access::bytes>(a); }    \
  KERNEL(reduce_simple_##type) { simple<Job::reduce, AnyReducer<Type::type>, 0, Access::bytes>(a); }
GOCCL_FOR_EACH_TYPE(ANY)
#undef ANY

#define SUM(type, n)                                                                                                              \
  KERNEL(all_reduce_simple_##type##_sum_n##n) { simple<Job::allReduce, Reducer<Type::type, Op::sum, false>, n, Access::words>(a); }              \
  KERNEL(reduce_scatter_simple_##type##_sum_n##n) { simple<Job::reduceScatter, Reducer<Type::type, Op::sum, false>, n, Access::words>(a); }      \
  KERNEL(reduce_simple_##type##_sum_n##n) { simple<Job::reduce, Reducer<Type::type, Op::sum, false>, n, Access::words>(a); }
#define SUM_ALL(type) SUM(type, 2) SUM(type, 4) SUM(type, 8)
SUM_ALL(float32) SUM_ALL(float16) SUM_ALL(bfloat16)
#undef SUM_ALL
#undef SUM

#define MOVE(suffix, n, access)                                                                     \
  KERNEL(all_gather_simple##suffix) { simple<Job::allGather, Nothing, n, Access::access>(a); }              \
  KERNEL(all_to_all_simple##suffix) { simple<Job::allToAll, Nothing, n, Access::access>(a); }               \
  KERNEL(broadcast_simple##suffix) { simple<Job::broadcast, Nothing, n, Access::access>(a); }
MOVE(, 0, bytes) MOVE(_n2, 2, words) MOVE(_n4, 4, words) MOVE(_n8, 8, words)
#undef MOVE
