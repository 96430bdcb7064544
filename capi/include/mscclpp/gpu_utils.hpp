// Memory of the current device, and CUDA's errors as exceptions.
#pragma once

#include <mscclpp/env.hpp>
#include <mscclpp/errors.hpp>
#include <mscclpp/gpu.hpp>
#include <mscclpp/gpu_buffer.hpp>
#include <mscclpp/utils.hpp>

#define MSCCLPP_CUDATHROW(call)                                                                      \
  do {                                                                                               \
    const cudaError_t mscclppError = call;                                                           \
    if (mscclppError != cudaSuccess)                                                                 \
      throw ::mscclpp::CudaError(std::string(#call " in " __FILE__ ":") + std::to_string(__LINE__) + \
                                     " failed: " + cudaGetErrorString(mscclppError),                 \
                                 mscclppError);                                                      \
  } while (false)

#define MSCCLPP_CUTHROW(call)                                                                                 \
  do {                                                                                                        \
    const CUresult mscclppError = call;                                                                       \
    if (mscclppError != CUDA_SUCCESS)                                                                         \
      throw ::mscclpp::CuError(std::string(#call " in " __FILE__ ":") + std::to_string(__LINE__) + " failed", \
                               mscclppError);                                                                 \
  } while (false)

namespace mscclpp {

// In-switch reductions are not used: switch channels have their unicast form.
inline bool isNvlsSupported() { return false; }

#if GOCCL_CUDA_RUNTIME

inline bool isBulkSupported() {
  int device = 0, major = 0;
  MSCCLPP_CUDATHROW(cudaGetDevice(&device));
  MSCCLPP_CUDATHROW(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  return major >= 9;
}

// AvoidCudaGraphCaptureGuard lets the calling thread allocate while another stream is captured.
struct AvoidCudaGraphCaptureGuard {
  AvoidCudaGraphCaptureGuard() { MSCCLPP_CUDATHROW(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  ~AvoidCudaGraphCaptureGuard() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  AvoidCudaGraphCaptureGuard(const AvoidCudaGraphCaptureGuard&) = delete;
  AvoidCudaGraphCaptureGuard& operator=(const AvoidCudaGraphCaptureGuard&) = delete;
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

// CudaDeviceGuard makes a device current for its scope; a negative one changes nothing.
struct CudaDeviceGuard {
  explicit CudaDeviceGuard(int device) : deviceId_(device) {
    if (device < 0) return;
    MSCCLPP_CUDATHROW(cudaGetDevice(&origDeviceId_));
    if (origDeviceId_ != device) MSCCLPP_CUDATHROW(cudaSetDevice(device));
  }
  ~CudaDeviceGuard() {
    if (deviceId_ >= 0 && deviceId_ != origDeviceId_) (void)cudaSetDevice(origDeviceId_);
  }
  CudaDeviceGuard(const CudaDeviceGuard&) = delete;
  CudaDeviceGuard& operator=(const CudaDeviceGuard&) = delete;
  int deviceId_, origDeviceId_ = -1;
};

// CudaStreamWithFlags owns a stream.
struct CudaStreamWithFlags {
  CudaStreamWithFlags() = default;
  explicit CudaStreamWithFlags(unsigned int flags) { set(flags); }
  ~CudaStreamWithFlags() {
    if (stream_) (void)cudaStreamDestroy(stream_);
  }
  CudaStreamWithFlags(const CudaStreamWithFlags&) = delete;
  CudaStreamWithFlags& operator=(const CudaStreamWithFlags&) = delete;
  void set(unsigned int flags) {
    if (stream_) goccl::detail::misuse("CudaStreamWithFlags: the stream is there already");
    MSCCLPP_CUDATHROW(cudaGetDevice(&deviceId_));
    MSCCLPP_CUDATHROW(cudaStreamCreateWithFlags(&stream_, flags));
  }
  bool empty() const { return stream_ == nullptr; }
  operator cudaStream_t() const { return stream_; }
  int deviceId() const { return deviceId_; }
  cudaStream_t stream_ = nullptr;
  int deviceId_ = -1;
};

namespace detail {
inline void* gpuCallocHost(size_t bytes, unsigned int flags) {
  void* p = nullptr;
  MSCCLPP_CUDATHROW(cudaHostAlloc(&p, bytes, flags));
  std::memset(p, 0, bytes);
  return p;
}
template <class T>
std::shared_ptr<T> gpuCallocHostShared(size_t nelems = 1, unsigned int flags = cudaHostAllocMapped) {
  return std::shared_ptr<T>(static_cast<T*>(gpuCallocHost(nelems * sizeof(T), flags)),
                            [](T* p) { (void)cudaFreeHost(p); });
}
}  // namespace detail

template <class T = char>
void gpuMemcpyAsync(T* dst, const T* src, size_t nelems, cudaStream_t stream, cudaMemcpyKind kind = cudaMemcpyDefault) {
  MSCCLPP_CUDATHROW(cudaMemcpyAsync(dst, src, nelems * sizeof(T), kind, stream));
}
// gpuMemcpy also works while another stream is captured.
template <class T = char>
void gpuMemcpy(T* dst, const T* src, size_t nelems, cudaMemcpyKind kind = cudaMemcpyDefault) {
  AvoidCudaGraphCaptureGuard guard;
  CudaStreamWithFlags stream(cudaStreamNonBlocking);
  gpuMemcpyAsync(dst, src, nelems, stream, kind);
  MSCCLPP_CUDATHROW(cudaStreamSynchronize(stream));
}
inline void gpuMemset(void* ptr, int value, size_t bytes) {
  AvoidCudaGraphCaptureGuard guard;
  CudaStreamWithFlags stream(cudaStreamNonBlocking);
  MSCCLPP_CUDATHROW(cudaMemsetAsync(ptr, value, bytes, stream));
  MSCCLPP_CUDATHROW(cudaStreamSynchronize(stream));
}

#else

// Without CUDA there is the host device, whose memory is the process's own.
inline bool isBulkSupported() { return false; }
template <class T = char>
void gpuMemcpy(T* dst, const T* src, size_t nelems) {
  std::memcpy(dst, src, nelems * sizeof(T));
}
inline void gpuMemset(void* ptr, int value, size_t bytes) { std::memset(ptr, value, bytes); }

#endif

}  // namespace mscclpp
