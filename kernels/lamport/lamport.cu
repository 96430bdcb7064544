// Entry points: all_reduce_<one_shot, two_shot>_lamport_<type>_sum_n<ranks>, any address and size.
#include <collective/lamport.cuh>

using namespace goccl;
using namespace goccl::collective;

// Two blocks fit on an SM, as of all kernels made for a number of ranks (collective/packet.cu).
#define KERNEL(name, n) GOCCL_KERNEL(name##_sum_n##n, n == 8 ? 256 : 512, 2, Args)
#define SUM(type, n)                                                                          \
  KERNEL(all_reduce_one_shot_lamport_##type, n) { pushOneShot<Type::type, n>(a); } \
  KERNEL(all_reduce_two_shot_lamport_##type, n) { pushTwoShot<Type::type, n>(a); }
#define SUM_ALL(type) SUM(type, 2) SUM(type, 4) SUM(type, 8)
SUM_ALL(float32) SUM_ALL(float16) SUM_ALL(bfloat16)
