// A CUDA runtime for tests, over the mock libcuda that GOCCL_CUDA_LIB names: programs that nvcc built run without a
// GPU. Memory, streams, events, graphs and launches are the mock's; a kernel is launched and does nothing. The
// environment variable MOCKCUDART_LAUNCHES names a file to which every launch or captured launch adds the kernel's
// name.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../internal/driver/api.h"

typedef int cudaError_t;
typedef struct {
  unsigned x, y, z;
} dim3;
enum { success = 0, invalidValue = 1, invalidSymbol = 13, symbolNotFound = 500, MAXDEV = 16, MAXNAMES = 256 };

#define FUNCTIONS(F)                                                                                                  \
  F(cuInit)                                                                                                           \
  F(cuDeviceGetCount) F(cuDeviceGetAttribute) F(cuDeviceCanAccessPeer) F(cuDevicePrimaryCtxRetain) F(cuCtxGetCurrent) \
      F(cuCtxSetCurrent) F(cuCtxGetDevice) F(cuCtxSynchronize) F(cuThreadExchangeStreamCaptureMode) F(cuMemAlloc_v2)  \
          F(cuMemFree_v2) F(cuMemHostAlloc) F(cuMemFreeHost) F(cuMemcpyAsync) F(cuMemsetD8Async)                      \
              F(cuStreamCreateWithPriority) F(cuStreamDestroy_v2) F(cuStreamSynchronize) F(cuStreamBeginCapture_v2)   \
                  F(cuStreamEndCapture) F(cuEventCreate) F(cuEventRecord) F(cuEventQuery) F(cuEventElapsedTime)       \
                      F(cuEventDestroy_v2) F(cuGraphInstantiateWithFlags) F(cuGraphLaunch) F(cuGraphExecDestroy)      \
                          F(cuGraphDestroy) F(cuModuleLoadDataEx) F(cuModuleGetFunction) F(cuLaunchKernel)
#define DECLARE(name) static CUresult (*name)();
FUNCTIONS(DECLARE)

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static __thread cudaError_t last;
static struct {
  const void* host;
  char* name;
  CUfunction function[MAXDEV];
} kernels[MAXNAMES];
static struct {
  const void* host;
  size_t size;
  CUdeviceptr at[MAXDEV];
} variables[MAXNAMES];
static int nkernels, nvariables;

static void load(void) {
  const char* path = getenv("GOCCL_CUDA_LIB");
  void* lib = path ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
  if (!lib) {
    fprintf(stderr, "mockcudart: GOCCL_CUDA_LIB must name the mock libcuda: %s\n", path ? dlerror() : "it is not set");
    abort();
  }
#define FIND(name) \
  if (!(name = (CUresult (*)())dlsym(lib, #name))) fprintf(stderr, "mockcudart: the mock has no " #name "\n"), abort();
  FUNCTIONS(FIND)
  cuInit(0);
}

static cudaError_t keep(int r) { return last = r ? r : last, r; }
cudaError_t cudaSetDevice(int d);

// current is the current device; the first use makes it 0.
static int current(void) {
  pthread_once(&once, load);
  CUcontext c = NULL;
  CUdevice d = 0;
  cuCtxGetCurrent(&c);
  if (!c) cudaSetDevice(0);
  cuCtxGetDevice(&d);
  return d;
}
#define RUN(call) (current(), keep(call))

cudaError_t cudaSetDevice(int d) {
  pthread_once(&once, load);
  static CUcontext contexts[MAXDEV];
  int n = 0;
  cuDeviceGetCount(&n);
  if (d < 0 || d >= n) return keep(101);
  pthread_mutex_lock(&mu);
  CUresult r = contexts[d] ? 0 : cuDevicePrimaryCtxRetain(&contexts[d], d);
  pthread_mutex_unlock(&mu);
  return keep(r ? r : cuCtxSetCurrent(contexts[d]));
}
cudaError_t cudaGetDevice(int* d) { return *d = current(), success; }
cudaError_t cudaGetDeviceCount(int* n) { return pthread_once(&once, load), keep(cuDeviceGetCount(n)); }
cudaError_t cudaDeviceGetAttribute(int* v, int a, int d) { return RUN(cuDeviceGetAttribute(v, a, d)); }
cudaError_t cudaDeviceCanAccessPeer(int* v, int a, int b) { return RUN(cuDeviceCanAccessPeer(v, a, b)); }
cudaError_t cudaDeviceSynchronize(void) { return RUN(cuCtxSynchronize()); }
cudaError_t cudaGetLastError(void) {
  cudaError_t r = last;
  return last = 0, r;
}
const char* cudaGetErrorString(cudaError_t e) {
  static __thread char text[32];
  return snprintf(text, sizeof text, "error %d of the mock", e), text;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(int* mode) { return RUN(cuThreadExchangeStreamCaptureMode(mode)); }

cudaError_t cudaMalloc(void** p, size_t n) { return RUN(cuMemAlloc_v2((CUdeviceptr*)p, n)); }
cudaError_t cudaFree(void* p) { return p ? RUN(cuMemFree_v2((CUdeviceptr)(uintptr_t)p)) : success; }
cudaError_t cudaHostAlloc(void** p, size_t n, unsigned flags) { return RUN(cuMemHostAlloc(p, n, flags)); }
cudaError_t cudaFreeHost(void* p) { return RUN(cuMemFreeHost(p)); }
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t n, int kind, CUstream s) {
  return (void)kind, RUN(cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, n, s));
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t n, int kind) {
  cudaError_t r = cudaMemcpyAsync(to, from, n, kind, NULL);
  return r ? r : keep(cuStreamSynchronize(NULL));
}
cudaError_t cudaMemsetAsync(void* p, int v, size_t n, CUstream s) {
  return RUN(cuMemsetD8Async((CUdeviceptr)(uintptr_t)p, (unsigned char)v, n, s));
}
cudaError_t cudaMemset(void* p, int v, size_t n) { return cudaMemsetAsync(p, v, n, NULL); }
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t n, size_t offset, int kind) {
  int d = current();
  for (int i = 0; i < nvariables; i++) {
    if (variables[i].host != symbol) continue;
    if (offset + n > variables[i].size) return keep(invalidValue);
    if (!variables[i].at[d] && cuMemAlloc_v2(&variables[i].at[d], variables[i].size)) return keep(2);
    return cudaMemcpy((char*)(uintptr_t)variables[i].at[d] + offset, from, n, kind);
  }
  return keep(invalidSymbol);
}

cudaError_t cudaStreamCreateWithFlags(CUstream* s, unsigned flags) {
  return RUN(cuStreamCreateWithPriority(s, flags, 0));
}
cudaError_t cudaStreamDestroy(CUstream s) { return RUN(cuStreamDestroy_v2(s)); }
cudaError_t cudaStreamSynchronize(CUstream s) { return RUN(cuStreamSynchronize(s)); }
cudaError_t cudaStreamBeginCapture(CUstream s, int mode) { return RUN(cuStreamBeginCapture_v2(s, mode)); }
cudaError_t cudaStreamEndCapture(CUstream s, CUgraph* g) { return RUN(cuStreamEndCapture(s, g)); }
cudaError_t cudaEventCreate(CUevent* e) { return RUN(cuEventCreate(e, 0)); }
cudaError_t cudaEventDestroy(CUevent e) { return RUN(cuEventDestroy_v2(e)); }
cudaError_t cudaEventRecord(CUevent e, CUstream s) { return RUN(cuEventRecord(e, s)); }
cudaError_t cudaEventSynchronize(CUevent e) { return (void)e, RUN(cuCtxSynchronize()); }
cudaError_t cudaEventElapsedTime(float* ms, CUevent a, CUevent b) { return RUN(cuEventElapsedTime(ms, a, b)); }
// An empty graph is what a capture of nothing gives.
cudaError_t cudaGraphCreate(CUgraph* g, unsigned flags) {
  CUstream s;
  (void)flags;
  cudaError_t r = cudaStreamCreateWithFlags(&s, 1);
  if (!r) r = cudaStreamBeginCapture(s, 2);
  if (!r) r = cudaStreamEndCapture(s, g);
  return r ? r : cudaStreamDestroy(s);
}
cudaError_t cudaGraphInstantiate(CUgraphExec* x, CUgraph g, unsigned long long flags) {
  return RUN(cuGraphInstantiateWithFlags(x, g, flags));
}
cudaError_t cudaGraphLaunch(CUgraphExec x, CUstream s) { return RUN(cuGraphLaunch(x, s)); }
cudaError_t cudaGraphExecDestroy(CUgraphExec x) { return RUN(cuGraphExecDestroy(x)); }
cudaError_t cudaGraphDestroy(CUgraph g) { return RUN(cuGraphDestroy(g)); }

// What nvcc's host code calls.
void** __cudaRegisterFatBinary(void* image) {
  static void* handle;
  return (void)image, &handle;
}
void __cudaRegisterFatBinaryEnd(void** h) { (void)h; }
void __cudaUnregisterFatBinary(void** h) { (void)h; }
char __cudaInitModule(void** h) { return (void)h, 1; }
void __cudaRegisterFunction(void** h, const char* host, char* fun, const char* name, int limit, ...) {
  (void)h, (void)fun, (void)limit;
  if (nkernels == MAXNAMES) abort();
  kernels[nkernels].host = host, kernels[nkernels++].name = strdup(name);
}
void __cudaRegisterVar(void** h, char* host, char* address, const char* name, int ext, size_t size, int constant,
                       int global) {
  (void)h, (void)address, (void)name, (void)ext, (void)constant, (void)global;
  if (nvariables == MAXNAMES) abort();
  variables[nvariables].host = host, variables[nvariables++].size = size;
}
static __thread struct {
  dim3 grid, block;
  size_t shared;
  CUstream stream;
} configured;
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream stream) {
  configured.grid = grid, configured.block = block, configured.shared = shared, configured.stream = stream;
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  *grid = configured.grid, *block = configured.block, *shared = configured.shared,
  *(CUstream*)stream = configured.stream;
  return success;
}
// A kernel's handle is its place in the table, plus one.
cudaError_t __cudaGetKernel(void** kernel, const void* host) {
  for (intptr_t i = 0; i < nkernels; i++)
    if (kernels[i].host == host) return *kernel = (void*)(i + 1), success;
  return keep(symbolNotFound);
}
cudaError_t __cudaLaunchKernel(void* kernel, dim3 grid, dim3 block, void** args, size_t shared, CUstream stream) {
  int k = (int)(intptr_t)kernel - 1, d = current();
  (void)args;
  if (!kernels[k].function[d]) {  // a module of that name alone: the mock reads PTX's entries and nothing else
    char text[1024];
    CUmodule m;
    snprintf(text, sizeof text, ".version 8.0\n.visible .entry %s()\n", kernels[k].name);
    int mode = 2;
    cuThreadExchangeStreamCaptureMode(&mode);
    CUresult r = cuModuleLoadDataEx(&m, text, 0, NULL, NULL);
    char name[64] = {0};  // as the mock shortens it
    strncpy(name, kernels[k].name, sizeof name - 1);
    if (!r) r = cuModuleGetFunction(&kernels[k].function[d], m, name);
    cuThreadExchangeStreamCaptureMode(&mode);
    if (r) return keep(r);
  }
  cudaError_t r = keep(cuLaunchKernel(kernels[k].function[d], grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                      (unsigned)shared, stream, NULL, NULL));
  const char* path = getenv("MOCKCUDART_LAUNCHES");
  FILE* f = !r && path ? fopen(path, "a") : NULL;
  if (f) fprintf(f, "%s\n", kernels[k].name), fclose(f);
  return r;
}
