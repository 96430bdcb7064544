// Entry points of hosts/wire.cuh: phases of collectives across hosts.
//
//   wire_move               messages only
//   wire_reduce_<type>      messages, and reductions of them
//   wire_few_…              few of them, for the usual types: small parameters launch faster
#include <hosts/wire.cuh>

using namespace goccl;
using namespace goccl::hosts;

// clang-format off
GOCCL_KERNEL(wire_move, 256, 2, Args) { run<Type::int8, false>(a); }
GOCCL_KERNEL(wire_few_move, 256, 2, FewArgs) { run<Type::int8, false>(a); }
#define REDUCE(type) GOCCL_KERNEL(wire_reduce_##type, 256, 2, Args) { run<Type::type, true>(a); }
GOCCL_FOR_EACH_KERNEL_TYPE(REDUCE)
#undef REDUCE
#define FEW(type) GOCCL_KERNEL(wire_few_reduce_##type, 256, 2, FewArgs) { run<Type::type, true>(a); }
FEW(float32) FEW(float16) FEW(bfloat16)
#undef FEW
