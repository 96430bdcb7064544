// Entry points. Names: <what>_<protocol>_<type>[_sum_n<ranks>]; those with a rank count are for that count and the operators sum, avg and
// pre-multiplied sum; the others take every count up to 16 and every operator.
#include <collective/kernels.cuh>
#include <collective/p2p.cuh>

using namespace goccl;
using namespace goccl::collective;

#define KERNEL(name) extern "C" __global__ void __launch_bounds__(512) name(const __grid_constant__ Args a)

#define ANY(type)                                                                       \
  KERNEL(all_reduce_one_shot_ll128_##type) { reduceSlices<LL128, AnyReducer<Type::type>, 0, true>(a); }            \
  KERNEL(all_reduce_two_shot_ll128_##type) { twoShot<LL128, AnyReducer<Type::type>, 0>(a); }            \
  KERNEL(reduce_scatter_ll128_##type) { reduceSlices<LL128, AnyReducer<Type::type>, 0, false>(a); }
GOCCL_FOR_EACH_TYPE(ANY)
#undef ANY

#define SUM(type, n)                                                                                                                  \
  KERNEL(all_reduce_one_shot_ll_##type##_sum_n##n) { reduceSlices<LL, Reducer<Type::type, Op::sum>, n, true>(a); }                    \
  KERNEL(all_reduce_one_shot_ll128_##type##_sum_n##n) { reduceSlices<LL128, Reducer<Type::type, Op::sum>, n, true>(a); }              \
  KERNEL(all_reduce_two_shot_ll_##type##_sum_n##n) { twoShot<LL, Reducer<Type::type, Op::sum>, n>(a); }                               \
  KERNEL(all_reduce_two_shot_ll128_##type##_sum_n##n) { twoShot<LL128, Reducer<Type::type, Op::sum>, n>(a); }                         \
  KERNEL(reduce_scatter_ll_##type##_sum_n##n) { reduceSlices<LL, Reducer<Type::type, Op::sum>, n, false>(a); }                        \
  KERNEL(reduce_scatter_ll128_##type##_sum_n##n) { reduceSlices<LL128, Reducer<Type::type, Op::sum>, n, false>(a); }
#define SUM_ALL(type) SUM(type, 2) SUM(type, 4) SUM(type, 8)
SUM_ALL(float32) SUM_ALL(float16) SUM_ALL(bfloat16)
#undef SUM_ALL
#undef SUM

KERNEL(exchange_ll) { exchange<LL, 0>(a); }
KERNEL(exchange_ll128) { exchange<LL128, 0>(a); }
#define EXCHANGE(n)                                     \
  KERNEL(exchange_ll_n##n) { exchange<LL, n>(a); }      \
  KERNEL(exchange_ll128_n##n) { exchange<LL128, n>(a); }
EXCHANGE(2) EXCHANGE(4) EXCHANGE(8)
#undef EXCHANGE

extern "C" __global__ void __launch_bounds__(512) point_to_point(const __grid_constant__ P2PArgs a) { pointToPoint(a); }
