// Entry points for large messages on few SMs: collective/slices.cuh, slices_bulk.cuh, stream_bulk.cuh.
//
//   slices_<type>, slices_move             any operator and address
//   slices_bulk_<type>, slices_bulk_move   addresses and strides are multiples of 16; no pre-multiplied sums
//   slices_bulk_<type>_sum                 operators sum and avg only
//   stream_bulk                            messages whose addresses are multiples of 16
#include <collective/slices_bulk.cuh>
#include <collective/stream_bulk.cuh>

using namespace goccl;
using namespace goccl::collective;

// clang-format off
#define WORKERS(name) GOCCL_LARGE_KERNEL(slices_##name, sliceWorkers + pipeSignalers, SliceArgs)
#if GOCCL_BULK
#define BULK(name) GOCCL_LARGE_KERNEL(slices_bulk_##name, bulkThreads, SliceArgs)
#else
#define BULK(name) GOCCL_LARGE_KERNEL(slices_bulk_##name, sliceWorkers + pipeSignalers, SliceArgs)
#endif

#define ANY(type)                                                        \
  WORKERS(type) { slicesByWorkers<AnyReducer<Type::type>, Access::bytes>(a); } \
  BULK(type) { slicesBulk<AnyReducer<Type::type>>(a); }
GOCCL_FOR_EACH_KERNEL_TYPE(ANY)
#undef ANY

#define SUM(type) BULK(type##_sum) { slicesBulk<Reducer<Type::type, Op::sum, false>>(a); }
SUM(float32) SUM(float16) SUM(bfloat16)
#undef SUM

WORKERS(move) { slicesByWorkers<MoveReducer, Access::bytes>(a); }
BULK(move) { slicesBulk<MoveReducer>(a); }

GOCCL_LARGE_KERNEL(stream_bulk, streamWorkers + pipeSignalers, P2PArgs) { streamBulk(a); }
