// Entry points: fused_<what>_<type>_g<groups>, for any number of ranks up to 16 and rows of at most that many groups a
// thread.
//
//   one_shot, two_shot   fused all-reduces by packets
//   finish               the steps after an all-reduce
#include <fused/all_reduce.cuh>

using namespace goccl;

// A block is at most 512 threads and one must fit on an SM; the host launches fewer blocks than there are SMs, so that
// kernels of other communicators, for which a peer may wait, find room (collective/packet.cu).
#define ROWS(name, type, groups, body)                                    \
  GOCCL_KERNEL(fused_##name##_##type##_g##groups, 512, 1, fused::Args) { \
    __shared__ uint32_t words[fused::foldWords];                        \
    fused::body<Type::type, groups>(a, words);                          \
  }
#define GROUPS(type, groups)                \
  ROWS(one_shot, type, groups, oneShot)     \
  ROWS(two_shot, type, groups, twoShot)     \
  ROWS(finish, type, groups, finishRows)
#define KERNELS(type) GROUPS(type, 1) GROUPS(type, 2) GROUPS(type, 4)
KERNELS(float16)
KERNELS(bfloat16)
KERNELS(float32)
