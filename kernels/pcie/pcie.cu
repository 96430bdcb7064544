// Entry points of collective/kernels.cuh for ranks that lack NVLink between some pair. LL128 needs a line of 128 bytes
// to arrive as a whole, which PCIe does not give, so LL serves every type, operator, number of ranks, address and size.
//
//   <what>_ll_<type>          for the types whose kernels of that name are not in collective/packet.cu
//   point_to_point[_few]_ll   messages of any address and size
//   all_to_all_v_device_ll    counts and displacements in device memory
#include <collective/all_to_all_v.cuh>
#include <collective/kernels.cuh>
#include <collective/p2p.cuh>

using namespace goccl;
using namespace goccl::collective;

using Packet1 = LL<Access::bytes>;

// clang-format off
#define KERNEL(name) GOCCL_KERNEL(name, 512, 1, Args)
#define ANY(type)                                                                                      \
  KERNEL(all_reduce_one_shot_ll_##type) { reduceSlices<Packet1, AnyReducer<Type::type>, 0, true>(a); } \
  KERNEL(all_reduce_two_shot_ll_##type) { twoShot<Packet1, AnyReducer<Type::type>, 0>(a); }            \
  KERNEL(reduce_scatter_ll_##type) { reduceSlices<Packet1, AnyReducer<Type::type>, 0, false>(a); }
ANY(int8) ANY(int32) ANY(int64) ANY(float64) ANY(float8e4m3) ANY(float8e5m2)
#undef ANY

GOCCL_KERNEL(point_to_point_few_ll, 256, 3, P2PFewArgs) { pointToPoint<Packet1>(a); }
GOCCL_KERNEL(point_to_point_ll, 256, 3, P2PArgs) { pointToPoint<Packet1>(a); }
GOCCL_KERNEL(all_to_all_v_device_ll, 256, 3, AllToAllVArgs) { allToAllV<Packet1, Packet1>(a); }
