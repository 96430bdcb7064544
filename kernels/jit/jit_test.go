package jit

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/goccl/goccl/internal/driver/nvrtc"
	"github.com/goccl/goccl/kernels"
)

const tools = "../../.tools/nvrtc"

func compiler(t *testing.T) *Compiler {
	t.Helper()
	t.Setenv("GOCCL_CACHE_DIR", t.TempDir())
	c, err := New(tools)
	if errors.Is(err, ErrUnavailable) {
		t.Skipf("no compiler here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if c.disk == nil {
		t.Fatal("the cache folder of the test was refused")
	}
	return c
}

// meshKernel is a kernel with MSCCL++'s names: each thread exchanges a slice with one rank.
const meshKernel = `
#include <assert.h>
#include <cstdint>
#include <mscclpp/assert_device.hpp>
#include <mscclpp/packet_device.hpp>
#include <mscclpp/proxy_channel_device.hpp>
#include <mscclpp/memory_channel_device.hpp>
#include <mscclpp/concurrency_device.hpp>
#include <mscclpp/switch_channel_device.hpp>

template <class T> using DeviceHandle = mscclpp::DeviceHandle<T>;
__constant__ DeviceHandle<mscclpp::SimpleProxyChannel> constProxyChans[8];
__device__ mscclpp::DeviceSyncer syncer;

extern "C" __global__ void __launch_bounds__(1024, 1)
    mesh(mscclpp::SimpleProxyChannelDeviceHandle* channels, int rank, int nranks, int count) {
  int tid = threadIdx.x;
  std::uint64_t size = (count * sizeof(int)) / nranks;
  uint64_t offset = size * rank;
  if (tid < nranks && tid != rank) {
    channels[tid].putWithSignalAndFlush(offset, offset, size);
    channels[tid].wait();
    constProxyChans[tid].put(0, 16);
  }
  syncer.sync(gridDim.x);
}

extern "C" __global__ void packets(mscclpp::MemoryChannelDeviceHandle* channel,
                                   mscclpp::SwitchChannelDeviceHandle* nvls, uint32_t flag, float* out) {
  channel->put<16, false>(0, 0, 1024, threadIdx.x, blockDim.x);
  channel->putPackets(0, 0, 1024, threadIdx.x, blockDim.x, flag);
  channel->unpackPackets<mscclpp::LL8Packet>(0, 0, 1024, threadIdx.x, blockDim.x, flag);
  mscclpp::LLPacket p(make_uint2(1, 2), flag);
  uint2 data = channel->unpackPacket(threadIdx.x, flag);
  out[threadIdx.x] = nvls->reduce<float>(threadIdx.x) + data.x + p.read(flag).y;
  channel->relaxedSignal();
  channel->wait(1000);
}

extern "C" __global__ void vectors(mscclpp::SwitchChannelDeviceHandle* nvls, mscclpp::FifoDeviceHandle* fifo,
                                   mscclpp::DeviceHandle<mscclpp::BasePortChannel>* port) {
  assert(blockDim.x <= 1024);
  MSCCLPP_ASSERT_DEVICE(nvls != nullptr, "no channel");
  mscclpp::f32x4 sum = nvls->reduce<mscclpp::f32x4>(threadIdx.x);
  sum.data[0] += static_cast<float*>(nvls->devicePtr)[threadIdx.x];
  nvls->broadcast(threadIdx.x, sum);
  nvls->broadcast(threadIdx.x, nvls->reduce<mscclpp::f16x8>(threadIdx.x));
  nvls->broadcast(threadIdx.x, nvls->reduce<mscclpp::bf16x2>(threadIdx.x));
  mscclpp::ProxyTrigger trigger;
  trigger.fst = 7, trigger.snd = threadIdx.x;
  fifo->push(trigger);
  port->put(0, 1, 16, 32);
}
`

func TestCompileMSCCLPPNames(t *testing.T) {
	c := compiler(t)
	img, err := c.Compile(Request{Source: meshKernel, Name: "mesh.cu", Major: 9})
	if err != nil {
		t.Fatalf("%+v", err)
	}
	if img.PTX || !bytes.Contains(img.Data, []byte("mesh")) || !bytes.Contains(img.Data, []byte("constProxyChans")) {
		t.Errorf("PTX %v, %d bytes: want a cubin with kernel mesh and constant constProxyChans", img.PTX, len(img.Data))
	}
	if strings.Contains(img.Log, "warning") {
		t.Errorf("warnings:\n%s", img.Log)
	}
}

// bulkKernel streams tiles through shared memory and adds them to a peer's, with MSCCL++'s names for bulk copies.
const bulkKernel = `
#include <mscclpp/bulk_device.hpp>
extern "C" __global__ void bulk(float* to, const float* from, mscclpp::Bfloat16* half, uint32_t* count, int tiles) {
#if MSCCLPP_BULK_AVAILABLE
  __shared__ mscclpp::BulkBarrier barrier;
  __shared__ alignas(128) float tile[1024];
  uint32_t phase = 0;
  if (threadIdx.x == 0) barrier.init();
  __syncthreads();
  for (int i = 0; i < tiles && threadIdx.x == 0; ++i) {
    barrier.expect(2048);
    barrier.arriveAndExpect(2048);
    mscclpp::bulkLoad(tile, from + i * 1024, sizeof(tile), barrier);
    barrier.wait(phase);
    mscclpp::bulkFence();
    mscclpp::bulkStore(to + i * 1024, tile, sizeof(tile));
    mscclpp::bulkReduceStore<float>(to, tile, sizeof(tile));
    mscclpp::bulkReduceStore<mscclpp::Bfloat16>(half, tile, sizeof(tile));
    mscclpp::bulkReduceStore<uint32_t, mscclpp::BulkRedOp::Add>(count, tile, sizeof(tile));
    mscclpp::bulkStoreCommit();
    mscclpp::bulkStoreWaitSource<0>();
  }
  mscclpp::bulkStoreWait();
  if (threadIdx.x == 0) barrier.invalidate();
#endif
}
`

func TestBulkCopies(t *testing.T) {
	c := compiler(t)
	for _, major := range []int{8, 9} {
		img, err := c.Compile(Request{Source: bulkKernel, Major: major})
		if err != nil || strings.Contains(img.Log, "warning") {
			t.Errorf("for %d.0: %+v\n%s", major, err, img.Log)
		}
	}
}

// Each header must stand alone, for every architecture family.
func TestEveryHeaderCompilesAlone(t *testing.T) {
	c := compiler(t)
	for name := range kernels.Headers() {
		for _, major := range []int{8, 9} {
			src := fmt.Sprintf("#include <%s>\nextern \"C\" __global__ void k() {}\n", name)
			img, err := c.Compile(Request{Source: src, Major: major})
			if err != nil {
				t.Errorf("%s for %d.0: %+v", name, major, err)
			} else if strings.Contains(img.Log, "warning") {
				t.Errorf("%s for %d.0: %s", name, major, img.Log)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	c := compiler(t)
	var ce *nvrtc.CompileError
	_, err := c.Compile(Request{Source: "nonsense", Name: "mine.cu", Major: 9})
	if !errors.As(err, &ce) || !strings.Contains(err.Error(), "mine.cu") {
		t.Errorf("nonsense: %v: want a CompileError that names mine.cu", err)
	}
	for what, r := range map[string]Request{
		"empty source":     {Major: 9},
		"replaced header":  {Source: "int x;", Major: 9, Headers: map[string]string{"goccl/sync.cuh": ""}},
		"arch option":      {Source: "int x;", Major: 9, Options: []string{"--gpu-architecture=sm_70"}},
		"too old a device": {Source: "int x;", Major: 1},
	} {
		if _, err := c.Compile(r); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

func TestChooseArch(t *testing.T) {
	known := []int{50, 75, 80, 86, 90, 100, 120}
	for _, c := range []struct {
		cc   int
		arch string
		ptx  bool
	}{
		{80, "sm_80", false}, {89, "sm_86", false}, {90, "sm_90", false}, {103, "sm_100", false},
		{110, "compute_100", true}, {130, "compute_120", true},
	} {
		arch, ptx, err := chooseArch(known, c.cc)
		if err != nil || arch != c.arch || ptx != c.ptx {
			t.Errorf("chooseArch(%d) = %s, %v, %v: want %s, %v", c.cc, arch, ptx, err, c.arch, c.ptx)
		}
	}
	if _, _, err := chooseArch(known, 35); err == nil {
		t.Error("chooseArch(35) succeeded")
	}
}

// cudaSource needs CUDA's headers, and the C library's that kernels written for nvcc include.
const cudaSource = `
#include <assert.h>
#include <cassert>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <goccl/memory_channel.cuh>

static_assert(LLONG_MIN < 0 && INT_MAX > 0 && UINT_MAX == ~0u && CHAR_BIT == 8, "limits");
extern "C" __global__ void k(__half* h, __nv_bfloat16* b, float* f) {
  assert(h != nullptr);
  h[1] = __hadd(h[0], h[0]);
  b[1] = __hadd(b[0], b[0]);
  f[1] = std::sqrt(std::fabs(f[0])) + sqrtf(f[2]);
  std::memcpy(f + 4, f + 3, 4);
  if (f[0] > 1) printf("%f\n", f[0]);
}`

func TestCUDAHeaders(t *testing.T) {
	c := compiler(t)
	if len(c.cuda) == 0 {
		t.Fatalf("no CUDA headers beside %s: make tools installs them", c.lib.Path())
	}
	if _, err := c.Compile(Request{Source: cudaSource, Major: 9}); err != nil {
		t.Errorf("%+v", err)
	}
	c.cuda = nil
	_, err := c.Compile(Request{Source: "#include <cuda_fp16.h>", Major: 9})
	text := fmt.Sprintf("%+v", err)
	if !strings.Contains(text, "nvidia-cuda-runtime") || !strings.Contains(text, "CUDA_HOME") {
		t.Errorf("%s: want the package that has the headers", text)
	}
}

// Each stand-in must compile alone, and beside CUDA's own headers.
func TestEveryStandInCompilesAlone(t *testing.T) {
	c := compiler(t)
	for name := range libc() {
		img, err := c.Compile(Request{Source: fmt.Sprintf("#include <%s>\n#include <cuda_runtime.h>\n", name), Major: 9})
		if err != nil {
			t.Errorf("%s: %+v", name, err)
		} else if strings.Contains(img.Log, "warning") {
			t.Errorf("%s: %s", name, img.Log)
		}
	}
}
