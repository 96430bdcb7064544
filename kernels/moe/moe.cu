// Entry points of the kernels of experts.
#include <moe/local.cuh>
#include <moe/notify.cuh>
#include <moe/staged.cuh>

using namespace goccl;
using namespace goccl::moe;

// Threads of a block that moves rows: sixteen warps of workers, and the signaler's.
constexpr uint32_t threads = 512 + pipeSignalers;

GOCCL_KERNEL(moe_notify, 512, 1, NotifyArgs) { notify(a); }
GOCCL_KERNEL(moe_dispatch, threads, 1, DispatchArgs) { dispatch(a); }
GOCCL_KERNEL(moe_combine_rows, threads, 1, CombineArgs) { combine<false>(a); }
GOCCL_KERNEL(moe_combine_experts, threads, 1, CombineArgs) { combine<true>(a); }
#if GOCCL_STAGES
GOCCL_KERNEL(moe_dispatch_staged, threads, 1, DispatchArgs) { dispatchStaged(a); }
GOCCL_KERNEL(moe_combine_staged, threads, 1, CombineArgs) { combineStaged(a); }
#else  // every image has the same kernels
GOCCL_KERNEL(moe_dispatch_staged, threads, 1, DispatchArgs) { dispatch(a); }
GOCCL_KERNEL(moe_combine_staged, threads, 1, CombineArgs) { combine<false>(a); }
#endif
GOCCL_KERNEL(moe_quantize, 512, 1, QuantizeArgs) { quantize(a); }
GOCCL_KERNEL(moe_count, 512, 1, CountArgs) { count(a); }
