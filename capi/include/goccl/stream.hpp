// cudaStream_t, with CUDA's headers or without. On the host device it is a stream of goccl_stream_create.
#pragma once

#if defined(__CUDACC__) || (__has_include(<cuda_runtime_api.h>) && __has_include(<crt/host_config.h>))
#define GOCCL_CUDA_RUNTIME 1
#include <cuda_runtime_api.h>
#else
#define GOCCL_CUDA_RUNTIME 0
struct CUstream_st;
typedef struct CUstream_st* cudaStream_t;
#endif
