// Entry points.
//
//   <what>_<protocol>_<type>_sum_n<ranks>   that many ranks; operators sum and avg; multiples of 8 bytes
//   <what>_ll128_<type>                     any number of ranks up to 16, operator, address and size
//   <what>_ll_<type>                        any address, for ranks whose buffers have different alignments
//   point_to_point_few_<access>             up to p2pFewMessages messages: small parameters launch faster
//   all_to_all_v_device                     counts and displacements in device memory
#define GOCCL_LATE_BLOCKS 0
#include <collective/all_to_all_v.cuh>
#include <collective/kernels.cuh>
#include <collective/p2p.cuh>
#include <collective/rooted.cuh>
#include <collective/stream.cuh>

using namespace goccl;
using namespace goccl::collective;

using Packet = LL<Access::words>;
using Packet1 = LL<Access::bytes>;
using Line8 = LL128<Access::words>;
using Line1 = LL128<Access::bytes>;

// A launch that waits for a peer must leave room for launches of other communicators: the peer may wait for those
// first. Two blocks of a kernel made for a number of ranks fit on an SM, so it has at most 64 registers; KERNEL2 tells
// the compiler so where it would take more. For eight ranks blocks have at most 256 threads. Of the other kernels one
// block fits on an SM, and the host launches fewer than there are SMs (Go: terms.packetBlocks). A test checks all.
// clang-format off
#define KERNEL(name) GOCCL_KERNEL(name, 512, 1, Args)
#define KERNEL2(name) GOCCL_KERNEL(name, 512, 2, Args)
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 900
#define KERNEL_N4(name) KERNEL2(name)
#else
#define KERNEL_N4(name) KERNEL(name)
#endif
#define KERNEL_N2(name) KERNEL_N4(name)
#define KERNEL_N8(name) GOCCL_KERNEL(name, 256, 2, Args)
#define KERNEL2_N2(name) KERNEL2(name)
#define KERNEL2_N4(name) KERNEL2(name)
#define KERNEL2_N8(name) KERNEL_N8(name)

#define ANY(type)                                                                                       \
  KERNEL(all_reduce_one_shot_ll128_##type) { reduceSlices<Line1, AnyReducer<Type::type>, 0, true>(a); } \
  KERNEL(all_reduce_two_shot_ll128_##type) { twoShot<Line1, AnyReducer<Type::type>, 0>(a); }            \
  KERNEL(reduce_scatter_ll128_##type) { reduceSlices<Line1, AnyReducer<Type::type>, 0, false>(a); }     \
  KERNEL(reduce_ll128_##type) { reduceToRoot<Line1, AnyReducer<Type::type>, 0>(a); }
GOCCL_FOR_EACH_KERNEL_TYPE(ANY)
#undef ANY

#define SHIFTED(type)                                                                                  \
  KERNEL(all_reduce_one_shot_ll_##type) { reduceSlices<Packet1, AnyReducer<Type::type>, 0, true>(a); } \
  KERNEL(all_reduce_two_shot_ll_##type) { twoShot<Packet1, AnyReducer<Type::type>, 0>(a); }            \
  KERNEL(reduce_scatter_ll_##type) { reduceSlices<Packet1, AnyReducer<Type::type>, 0, false>(a); }
SHIFTED(float32) SHIFTED(float16) SHIFTED(bfloat16)
#undef SHIFTED

template <Type T>
using Sum = Reducer<T, Op::sum, false>;
#define SUM(type, n)                                                                                                \
  KERNEL_N##n(all_reduce_one_shot_ll_##type##_sum_n##n) { reduceSlices<Packet, Sum<Type::type>, n, true>(a); } \
  KERNEL_N##n(all_reduce_one_shot_ll128_##type##_sum_n##n) { reduceSlices<Line8, Sum<Type::type>, n, true>(a); } \
  KERNEL2_N##n(all_reduce_two_shot_ll_##type##_sum_n##n) { twoShot<Packet, Sum<Type::type>, n>(a); } \
  KERNEL2_N##n(all_reduce_two_shot_ll128_##type##_sum_n##n) { twoShot<Line8, Sum<Type::type>, n>(a); } \
  KERNEL_N##n(reduce_scatter_ll_##type##_sum_n##n) { reduceSlices<Packet, Sum<Type::type>, n, false>(a); } \
  KERNEL2_N##n(reduce_scatter_ll128_##type##_sum_n##n) { reduceSlices<Line8, Sum<Type::type>, n, false>(a); } \
  KERNEL2_N##n(reduce_ll128_##type##_sum_n##n) { reduceToRoot<Line8, Sum<Type::type>, n>(a); }
#define SUM_ALL(type) SUM(type, 2) SUM(type, 4) SUM(type, 8)
SUM_ALL(float32) SUM_ALL(float16) SUM_ALL(bfloat16)
#undef SUM_ALL
#undef SUM

KERNEL(exchange_ll) { exchange<Packet1, 0>(a); }
KERNEL(exchange_ll128) { exchange<Line1, 0>(a); }
KERNEL(broadcast_ll128) { broadcast<Line1, 0>(a); }
#define EXCHANGE(n)                                      \
  KERNEL_N##n(exchange_ll_n##n) { exchange<Packet, n>(a); }   \
  KERNEL_N##n(exchange_ll128_n##n) { exchange<Line8, n>(a); } \
  KERNEL2_N##n(broadcast_ll128_n##n) { broadcast<Line8, n>(a); }
EXCHANGE(2) EXCHANGE(4) EXCHANGE(8)
#undef EXCHANGE

GOCCL_KERNEL(point_to_point_few_words, 256, 3, P2PFewArgs) { pointToPoint<Line8>(a); }
GOCCL_KERNEL(point_to_point_few_bytes, 256, 3, P2PFewArgs) { pointToPoint<Line1>(a); }
GOCCL_KERNEL(point_to_point_words, 256, 3, P2PArgs) { pointToPoint<Line8>(a); }
GOCCL_KERNEL(point_to_point_bytes, 256, 3, P2PArgs) { pointToPoint<Line1>(a); }
GOCCL_KERNEL(point_to_point_stream, streamWorkers + pipeSignalers, 2, StreamArgs) { stream(a); }

// Four instances of the message loops would take more registers than point_to_point, and fewer blocks would fit on the
// GPU: three of them must.
extern "C" __global__ void __launch_bounds__(256, 3)
GOCCL_ENTRY(all_to_all_v_device)(const __grid_constant__ AllToAllVArgs a) {
  begin();
  allToAllV<Line8, Line1>(a);
  finish(a.ticket);
}
