// lsa [ITERATIONS]: kernels compiled from NVIDIA's headers of NCCL's device API on the libnccl.so.2 that is loaded.
// A process per GPU (fork before CUDA is used). Each test checks every element:
//
//   barrier     counters in a window, between LSA barriers
//   all_reduce  out[i] = sum over the ranks of in[i], by loads from all peers
//   find        ncclFindWindow, which walks the table of windows (not a part of the headers of 2.28.3)
//   ll_a2a      values by LL slots, over many epochs
//   pointers    the host's pointers are the kernels'
//   abort       a barrier that nobody joins ends with ncclCommAbort (headers from 2.29.7 on, and goccl)
//
// Then times of the barrier and of the all-reduce.
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <nccl.h>
#include <nccl_device.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#define FAIL(...)                \
  do {                           \
    printf("rank %d: ", g_rank); \
    printf(__VA_ARGS__);         \
    printf("\n");                \
    fflush(stdout);              \
    _exit(1);                    \
  } while (0)
#define CUDA(x)                                                                                  \
  do {                                                                                           \
    cudaError_t e_ = (x);                                                                        \
    if (e_ != cudaSuccess) FAIL("%s:%d %s: %s", __FILE__, __LINE__, #x, cudaGetErrorString(e_)); \
  } while (0)
#define NCCL(x)                                                                                               \
  do {                                                                                                        \
    ncclResult_t r_ = (x);                                                                                    \
    if (r_ != ncclSuccess) FAIL("%s:%d %s is %d: %s", __FILE__, __LINE__, #x, r_, ncclGetLastError(nullptr)); \
  } while (0)

static int g_rank;
enum { CTAS = 16, THREADS = 512, SLOTS = 64 };

// Each CTA writes the round into every peer's cell and, after the barrier, reads what the peers have written.
__global__ void barrier_kernel(ncclWindow_t win, ncclDevComm comm, int rounds, int* bad) {
  ncclLsaBarrierSession<ncclCoopCta> bar(ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x);
  int n = comm.lsaSize, me = comm.lsaRank;
  for (int round = 1; round <= rounds; round++) {
    if (threadIdx.x < n) {
      int* cell = (int*)ncclGetLsaPointer(win, 0, threadIdx.x) + blockIdx.x * n + me;
      *(volatile int*)cell = round;
    }
    bar.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
    if (threadIdx.x < n) {
      int* cell = (int*)ncclGetLocalPointer(win, 0) + blockIdx.x * n + threadIdx.x;
      if (*(volatile int*)cell != round) atomicAdd(bad, 1);
    }
    bar.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  }
}

__global__ void all_reduce_kernel(ncclWindow_t in, ncclWindow_t out, size_t count, ncclDevComm comm) {
  ncclLsaBarrierSession<ncclCoopCta> bar(ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x);
  bar.sync(ncclCoopCta(), cuda::memory_order_relaxed);
  int n = comm.lsaSize, me = comm.lsaRank;
  size_t four = count / 4, share = (four + n - 1) / n, first = me * share,
         last = first + share < four ? first + share : four;
  for (size_t i = first + blockIdx.x * blockDim.x + threadIdx.x; i < last; i += (size_t)gridDim.x * blockDim.x) {
    float4 v = {0, 0, 0, 0};
    for (int p = 0; p < n; p++) {
      float4 w = ((float4*)ncclGetLsaPointer(in, 0, p))[i];
      v.x += w.x, v.y += w.y, v.z += w.z, v.w += w.w;
    }
    for (int p = 0; p < n; p++) ((float4*)ncclGetPeerPointer(out, 0, comm.rank + p - me))[i] = v;
  }
  bar.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

__global__ void a2a_kernel(ncclDevComm comm, ncclLLA2AHandle handle, int epochs, int* bad) {
  int n = comm.lsaSize, me = comm.lsaRank;
  ncclLLA2ASession<ncclCoopCta> a2a(ncclCoopCta(), comm, ncclTeamLsa(comm), handle, blockIdx.x, SLOTS);
  for (int e = 0; e < epochs; e++) {
    for (int i = threadIdx.x; i < SLOTS; i += blockDim.x) {
      int peer = i % n, slot = i / n * n + me;  // slot s of a rank is written by rank s mod n
      if (slot < SLOTS) a2a.send(peer, slot, (uint64_t)e << 32 | (uint64_t)(me * 1000 + peer * 100 + slot % 100));
    }
    for (int i = threadIdx.x; i < SLOTS / n * n; i += blockDim.x) {
      uint64_t got = a2a.template recv<uint64_t>(i);
      if (got != ((uint64_t)e << 32 | (uint64_t)(i % n * 1000 + me * 100 + i % 100))) atomicAdd(bad, 1);
    }
    a2a.endEpoch(ncclCoopCta());
  }
}

#if NCCL_VERSION_CODE >= 22807
__global__ void find_kernel(ncclDevComm comm, void const* p, ncclWindow_t* found) {
  ncclWindow_t w = ncclFindWindow(ncclCoopCta(), comm, p);
  if (threadIdx.x == 0) *found = w;
}
#endif

__global__ void lonely_kernel(ncclDevComm comm) {
  ncclLsaBarrierSession<ncclCoopCta> bar(ncclCoopCta(), comm, ncclTeamTagLsa(), 0);
  bar.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

__global__ void fill(float* p, size_t n, float v) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
    p[i] = v + (float)(i % 1000);
}
__global__ void verify(const float* p, size_t n, float sum, float times, int* bad) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
    if (p[i] != sum + times * (float)(i % 1000)) atomicAdd(bad, 1);
}

static float timed(cudaStream_t s, int times, void (*f)(void*), void* x) {
  cudaEvent_t a, b;
  CUDA(cudaEventCreate(&a));
  CUDA(cudaEventCreate(&b));
  for (int i = 0; i < 3; i++) f(x);
  CUDA(cudaEventRecord(a, s));
  for (int i = 0; i < times; i++) f(x);
  CUDA(cudaEventRecord(b, s));
  CUDA(cudaEventSynchronize(b));
  float ms = 0;
  CUDA(cudaEventElapsedTime(&ms, a, b));
  return ms * 1000 / times;
}

struct job {
  ncclWindow_t in, out;
  ncclDevComm dev;
  cudaStream_t s;
  size_t count;
  int rounds;
  int* bad;
};

static void run_rank(int rank, int n, ncclUniqueId id, int iterations) {
  g_rank = rank;
  CUDA(cudaSetDevice(rank));
  ncclComm_t comm;
  NCCL(ncclCommInitRank(&comm, n, id, rank));
  const size_t most = 64 << 20;
#if NCCL_VERSION_CODE >= 23000
  const size_t more = rank * 4096;  // sizes may differ
#else
  const size_t more = 0;
#endif
  float *in, *out;
  NCCL(ncclMemAlloc((void**)&in, most));
  NCCL(ncclMemAlloc((void**)&out, most + more));
  ncclWindow_t win, wout, small;
  NCCL(ncclCommWindowRegister(comm, in, most, &win, NCCL_WIN_COLL_SYMMETRIC));
  NCCL(ncclCommWindowRegister(comm, out, most + more, &wout, 0));
  NCCL(ncclCommWindowRegister(comm, (char*)in + (1 << 20), 8192, &small, 0));

  ncclDevCommRequirements reqs;
#ifdef NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER
  reqs = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
#else
  memset(&reqs, 0, sizeof reqs);
#endif
  ncclDevResourceRequirements list;
  ncclLLA2AHandle a2a;
  reqs.lsaBarrierCount = CTAS;
  NCCL(ncclLLA2ACreateRequirement(CTAS, ncclLLA2ACalcSlots(SLOTS, 8), &a2a, &list));
  reqs.resourceRequirementsList = &list;
  struct {
    ncclDevComm dev;
    unsigned guard;
  } boxed;
  boxed.guard = 0xfeedface;
  NCCL(ncclDevCommCreate(comm, &reqs, &boxed.dev));
  if (boxed.guard != 0xfeedface) FAIL("ncclDevCommCreate wrote behind the structure");
  ncclDevComm dev = boxed.dev;
  if (dev.lsaSize != n || dev.lsaRank != rank || dev.rank != rank)
    FAIL("rank %d of %d, LSA %d of %d", dev.rank, dev.nRanks, dev.lsaRank, dev.lsaSize);
  cudaStream_t s;
  CUDA(cudaStreamCreate(&s));
  int *bad, host = 0;
  CUDA(cudaMallocManaged(&bad, 4096));
  *bad = 0;
  auto check = [&](const char* what) {
    CUDA(cudaStreamSynchronize(s));
    CUDA(cudaMemcpy(&host, bad, sizeof host, cudaMemcpyDefault));
    if (host) FAIL("%s: %d wrong", what, host);
    if (rank == 0) printf("  %-10s right\n", what), fflush(stdout);
  };

  CUDA(cudaMemsetAsync(in, 0, CTAS * n * sizeof(int), s));
  NCCL(ncclAllReduce(out, out, 1, ncclFloat, ncclSum, comm, s));  // all are here, and in is zero
  barrier_kernel<<<CTAS, THREADS, 0, s>>>(win, dev, 200, bad);
  check("barrier");

  for (size_t count : {(size_t)4, (size_t)1024, (size_t)1 << 20, most / 4}) {
    NCCL(ncclAllReduce(out, out, 1, ncclFloat, ncclSum, comm, s));  // nobody reads in any more
    fill<<<64, 256, 0, s>>>(in, count, (float)(rank + 1));
    all_reduce_kernel<<<CTAS, THREADS, 0, s>>>(win, wout, count, dev);
    verify<<<64, 256, 0, s>>>(out, count, n * (n + 1) / 2, n, bad);
  }
  check("all_reduce");

#if NCCL_VERSION_CODE >= 22807
  ncclWindow_t* found = (ncclWindow_t*)(bad + 64);
  find_kernel<<<1, 32, 0, s>>>(dev, (char*)out + most - 5, found);
  CUDA(cudaStreamSynchronize(s));
  if (*found != wout) FAIL("ncclFindWindow: %p, want %p", (void*)*found, (void*)wout);
  check("find");
#endif

  a2a_kernel<<<CTAS, 64, 0, s>>>(dev, a2a, 100, bad);
  a2a_kernel<<<CTAS, 64, 0, s>>>(dev, a2a, 33, bad);
  check("ll_a2a");

  auto peer_pointer =
      (ncclResult_t (*)(ncclWindow_t, size_t, int, void**))dlsym(RTLD_DEFAULT, "ncclGetPeerDevicePointer");
  if (peer_pointer) {
    NCCL(ncclAllReduce(out, out, 1, ncclFloat, ncclSum, comm, s));
    CUDA(cudaStreamSynchronize(s));
    void* p;
    float mark = (float)(100 + rank), got;
    NCCL(peer_pointer(small, 64, (rank + 1) % n, &p));
    CUDA(cudaMemcpy(p, &mark, sizeof mark, cudaMemcpyDefault));
    NCCL(ncclAllReduce(out, out, 1, ncclFloat, ncclSum, comm, s));
    CUDA(cudaStreamSynchronize(s));
    CUDA(cudaMemcpy(&got, (char*)in + (1 << 20) + 64, sizeof got, cudaMemcpyDefault));
    if (got != (float)(100 + (rank + n - 1) % n)) FAIL("pointers: %g", got);
    check("pointers");
  }

  job j = {win, wout, dev, s, 0, 1, bad};
  j.rounds = 50;
  float us = timed(
      s, iterations,
      [](void* p) {
        job* j = (job*)p;
        barrier_kernel<<<CTAS, THREADS, 0, j->s>>>(j->in, j->dev, j->rounds, j->bad);
      },
      &j);
  if (rank == 0) printf("  barrier    %.2f us each (%d in a kernel)\n", us / (2 * j.rounds), 2 * j.rounds);
  for (size_t bytes = 1024; bytes <= most; bytes *= 8) {
    j.count = bytes / 4;
    us = timed(
        s, iterations,
        [](void* p) {
          job* j = (job*)p;
          all_reduce_kernel<<<CTAS, THREADS, 0, j->s>>>(j->in, j->out, j->count, j->dev);
        },
        &j);
    if (rank == 0) printf("  all_reduce %9zu bytes %9.2f us\n", bytes, us);
  }
  CUDA(cudaStreamSynchronize(s));
  NCCL(ncclDevCommDestroy(comm, &dev));
  NCCL(ncclCommWindowDeregister(comm, small));
  NCCL(ncclCommWindowDeregister(comm, wout));
  NCCL(ncclCommWindowDeregister(comm, win));

#if NCCL_VERSION_CODE >= 22907
  if (getenv("LSA_ABORT")) {
    NCCL(ncclDevCommCreate(comm, &reqs, &boxed.dev));
    if (rank == 0) {
      lonely_kernel<<<1, 64, 0, s>>>(boxed.dev);
      usleep(300000);
      if (cudaStreamQuery(s) != cudaErrorNotReady) FAIL("abort: the barrier has ended alone");
    }
    NCCL(ncclCommAbort(comm));
    CUDA(cudaStreamSynchronize(s));
    check("abort");
    return;
  }
#endif
  NCCL(ncclMemFree(in));
  NCCL(ncclMemFree(out));
  NCCL(ncclCommDestroy(comm));
}

int main(int argc, char** argv) {
  int n = getenv("LSA_RANKS") ? atoi(getenv("LSA_RANKS")) : 2, iterations = argc > 1 ? atoi(argv[1]) : 50, status = 0;
  auto* box = (volatile ncclUniqueId*)mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* ready = (volatile int*)(box + 1);
  for (int r = 0; r < n; r++)
    if (fork() == 0) {
      ncclUniqueId id;
      if (r == 0) {
        int v = 0;
        ncclGetVersion(&v);
        printf("compiled with %d, runs with %d, %d ranks\n", NCCL_VERSION_CODE, v, n);
        g_rank = 0;
        NCCL(ncclGetUniqueId(&id));
        memcpy((void*)box, &id, sizeof id);
        __sync_synchronize();
        *ready = 1;
      }
      while (!*ready) usleep(1000);
      __sync_synchronize();
      memcpy(&id, (void*)box, sizeof id);
      run_rank(r, n, id, iterations);
      fflush(stdout);
      _exit(0);
    }
  for (int r = 0; r < n; r++) {
    int one;
    wait(&one);
    if (one) status = 1;
  }
  printf(status ? "FAILED\n" : "all right\n");
  return status;
}
