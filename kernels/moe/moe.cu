// Entry points of the kernels of experts.
#include <moe/adder.cuh>
#include <moe/local.cuh>
#include <moe/notify.cuh>
#include <moe/receive.cuh>
#include <moe/stage.cuh>

using namespace goccl;
using namespace goccl::moe;

constexpr uint32_t threads = 512;

GOCCL_KERNEL(moe_notify, threads, 1, NotifyArgs) { notify(a); }
GOCCL_KERNEL(moe_dispatch, threads, 1, DispatchArgs) { dispatch<Plain>(a); }
GOCCL_KERNEL(moe_combine_rows, threads, 1, CombineArgs) { combine<false, Plain>(a); }
GOCCL_KERNEL(moe_combine_experts, threads, 1, CombineArgs) { combine<true, Plain>(a); }
#if GOCCL_BULK
GOCCL_KERNEL(moe_dispatch_staged, threads, 1, DispatchArgs) { dispatch<Stage>(a); }
GOCCL_KERNEL(moe_combine_staged, threads, 1, CombineArgs) { combine<false, Stage>(a); }
#else  // every image has the same kernels
GOCCL_KERNEL(moe_dispatch_staged, threads, 1, DispatchArgs) { dispatch<Plain>(a); }
GOCCL_KERNEL(moe_combine_staged, threads, 1, CombineArgs) { combine<false, Plain>(a); }
#endif
GOCCL_KERNEL(moe_quantize, threads, 1, QuantizeArgs) { quantize(a); }
GOCCL_KERNEL(moe_count, threads, 1, CountArgs) { count(a); }
