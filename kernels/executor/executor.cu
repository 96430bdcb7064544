// Entry points: execute_<type> runs a plan whose reductions are of that type, quick_<type> the sums of a plan of
// packets alone; scale_<type> does what averages and pre-multiplied sums need before and after a plan.
#include <collective/entry.cuh>
#include <executor/executor.cuh>
#include <executor/quick.cuh>
#include <executor/scale.cuh>

using namespace goccl;

#define KERNEL(name) extern "C" __global__ void __launch_bounds__(512, 1) GOCCL_ENTRY(name)
// clang-format off
#define EXECUTE(type)                                                                                                 \
  KERNEL(execute_##type)(const __grid_constant__ executor::Args a) { executor::execute<Type::type>(a); }              \
  KERNEL(quick_##type)(const __grid_constant__ executor::QuickArgs a) { executor::Quick<Type::type>(a).run(); }
GOCCL_FOR_EACH_KERNEL_TYPE(EXECUTE)
#undef EXECUTE

#define SCALE(type)                                                                                                   \
  KERNEL(scale_##type)(uint8_t* dst, const uint8_t* src, uint64_t bytes, uint64_t factor, const uint8_t* factorPtr,   \
                       uint32_t n) {                                                                                  \
    executor::scale<Type::type>(dst, src, bytes, factor, factorPtr, n);                                               \
  }
GOCCL_FOR_EACH_TYPE(SCALE)
#undef SCALE
