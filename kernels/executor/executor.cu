// Entry points: execute_<type> runs a plan whose reductions are of that type, quick_<type> the sums of one of packets alone; scale_<type> is what
// averages and pre-multiplied sums need around it.
#include <collective/entry.cuh>
#include <executor/executor.cuh>
#include <executor/quick.cuh>

using namespace goccl;

#define EXECUTE(type)                                                                                                          \
  extern "C" __global__ void __launch_bounds__(512, 1) GOCCL_ENTRY(execute_##type)(const __grid_constant__ executor::Args a) {              \
    executor::Block<Type::type>(a).run();                                                                                      \
  }                                                                                                                            \
  extern "C" __global__ void __launch_bounds__(512, 1) GOCCL_ENTRY(quick_##type)(const __grid_constant__ executor::QuickArgs a) {           \
    executor::Quick<Type::type>(a).run();                                                                                      \
  }                                                                                                                            \
  extern "C" __global__ void __launch_bounds__(512, 1) GOCCL_ENTRY(scale_##type)(uint8_t* dst, const uint8_t* src, uint64_t bytes, uint64_t factor, const uint8_t* factorPtr, uint32_t n) { \
    executor::scale<Type::type>(dst, src, bytes, factor, factorPtr, n);                                                        \
  }
GOCCL_FOR_EACH_TYPE(EXECUTE)
#undef EXECUTE
