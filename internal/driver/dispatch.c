//go:build cgo && linux

// All operations except goccl_driver_launch (order.c) enter through goccl_driver_call:
//  1. save the thread's current context and set ctx, if it differs;
//  2. exchange the thread's capture mode for relaxed, if the operation is not stream-ordered;
//  3. run the operation (results go back into a[]);
//  4. restore the capture mode;
//  5. restore the context.
// It all runs on one thread, so nothing interferes between 1 and 5. No lock is taken.
#include "call.h"
#include "order.h"

#include <string.h>

static void prop_for(CUmemAllocationProp *p, int device, int rdma) {
	memset(p, 0, sizeof *p);
	p->type = GOCCL_MEM_PINNED;
	p->requestedHandleTypes = GOCCL_HANDLE_POSIX_FD;
	p->location.type = GOCCL_LOCATION_DEVICE;
	p->location.id = device;
	p->allocFlags.gpuDirectRDMACapable = rdma;
}

// Gives every device of the mask read and write access.
static uint64_t set_access(CUdeviceptr va, size_t size, uint64_t mask) {
	CUmemAccessDesc d[64];
	size_t n = 0;
	for (int i = 0; i < 64; i++)
		if (mask >> i & 1) d[n++] = (CUmemAccessDesc){{GOCCL_LOCATION_DEVICE, i}, GOCCL_PROT_RW};
	if (n) TRY(cuMemSetAccess, va, size, d, n);
	return 0;
}

// a: device, size, stream, access mask, rdma -> address, size, handle. The memory is zero when the call returns.
static uint64_t vmm_alloc(uint64_t *a) {
	CUmemAllocationProp prop;
	prop_for(&prop, (int)a[0], (int)a[4]);
	size_t gran = 0, size;
	uint64_t bad;
	CUmemHandle h = 0;
	CUdeviceptr va = 0;
	CUstream s = PTR(CUstream, a[2]);
	TRY(cuMemGetAllocationGranularity, &gran, &prop, 0);
	size = (a[1] + gran - 1) / gran * gran;
	if (size < a[1] || size == 0) return FAIL(cuMemCreate, GOCCL_INVALID_VALUE);
	TRY(cuMemCreate, &h, size, &prop, 0);
	ELSE(release, cuMemAddressReserve, &va, size, gran, 0, 0);
	ELSE(unreserve, cuMemMap, va, size, 0, h, 0);
	if ((bad = set_access(va, size, a[3]))) goto unmap;
	ELSE(unmap, cuMemsetD8Async, va, 0, size, s);
	ELSE(unmap, cuStreamSynchronize, s);
	a[0] = va, a[1] = size, a[2] = h;
	return 0;
unmap:
	goccl_cu.cuMemUnmap(va, size);
unreserve:
	goccl_cu.cuMemAddressFree(va, size);
release:
	goccl_cu.cuMemRelease(h);
	return bad;
}

// a: fd, size, access mask, address in a reservation -> handle. The caller keeps the descriptor.
static uint64_t vmm_import(uint64_t *a) {
	uint64_t bad;
	CUmemHandle h = 0;
	TRY(cuMemImportFromShareableHandle, &h, PTR(void *, a[0]), GOCCL_HANDLE_POSIX_FD);
	ELSE(release, cuMemMap, a[3], a[1], 0, h, 0);
	if ((bad = set_access(a[3], a[1], a[2]))) goto unmap;
	a[0] = h;
	return 0;
unmap:
	goccl_cu.cuMemUnmap(a[3], a[1]);
release:
	goccl_cu.cuMemRelease(h);
	return bad;
}

// a: address -> descriptor. Works for any VMM mapping of this process that was created exportable, by goccl or not.
static uint64_t vmm_export(uint64_t *a) {
	CUmemHandle h = 0;
	int fd = -1;
	uint64_t bad = 0;
	TRY(cuMemRetainAllocationHandle, &h, PTR(void *, a[0]));
	ELSE(done, cuMemExportToShareableHandle, &fd, h, GOCCL_HANDLE_POSIX_FD, 0);
	a[0] = (uint32_t)fd;
done:
	goccl_cu.cuMemRelease(h);
	return bad;
}

// a: address, size, handle, whether the address is in a reservation. All steps run even if one fails; the first failure
// is reported.
static uint64_t vmm_free(uint64_t *a) {
	CUresult u = goccl_cu.cuMemUnmap(a[0], a[1]);
	CUresult f = a[3] ? 0 : goccl_cu.cuMemAddressFree(a[0], a[1]);
	CUresult r = goccl_cu.cuMemRelease(a[2]);
	if (u) return FAIL(cuMemUnmap, u);
	if (f) return FAIL(cuMemAddressFree, f);
	return r ? FAIL(cuMemRelease, r) : 0;
}

// a: pointer -> memory type, device ordinal, legacy IPC capable, buffer id, pool, allowed handle types, managed,
// mapped. A pointer unknown to the driver has memory type 0.
static uint64_t pointer_info(uint64_t *a) {
	enum { N = 8 };
	int attr[N] = {2, 9, 10, 7, 17, 14, 8, 13};
	CUdeviceptr ptr = a[0];
	unsigned type = 0, mapped = 0;
	int ordinal = -1, legacy = 0, managed = 0;
	unsigned long long id = 0, kinds = 0;
	void *pool = NULL;
	void *data[N] = {&type, &ordinal, &legacy, &id, &pool, &kinds, &managed, &mapped};
	TRY(cuPointerGetAttributes, N, attr, data, ptr);
	a[0] = type, a[1] = (uint64_t)(int64_t)ordinal, a[2] = legacy & 1, a[3] = id, a[4] = (uintptr_t)pool,
	a[5] = kinds & 0xffffffff, a[6] = managed & 1, a[7] = mapped & 1;
	return 0;
}

// p: image, q: log buffer (info, then errors: a[0] bytes each) -> module.
static uint64_t module_load(uint64_t *a, void *p, void *q) {
	CUmodule m = NULL;
	int opt[4] = {3, 4, 5, 6};
	void *val[4] = {q, PTR(void *, a[0]), (char *)q + a[0], PTR(void *, a[0])};
	TRY(cuModuleLoadDataEx, &m, p, a[0] ? 4 : 0, opt, val);
	a[0] = (uintptr_t)m;
	return 0;
}

// p: name; a: module -> function. The function is loaded now: lazy loading at the first launch may wait for spinning
// kernels. Drivers without cuFuncLoad load it when they are asked for an attribute.
static uint64_t module_function(uint64_t *a, void *p) {
	CUfunction f = NULL;
	TRY(cuModuleGetFunction, &f, PTR(CUmodule, a[0]), p);
	int threads = 0;
	if (goccl_cu.cuFuncLoad) TRY(cuFuncLoad, f);
	else TRY(cuFuncGetAttribute, &threads, 0, f);
	a[0] = (uintptr_t)f;
	return 0;
}

// a: process, step, milliseconds for a lock -> state.
static uint64_t checkpoint(uint64_t *a) {
	int pid = (int)a[0], state = 0;
	CUcheckpointLockArgs lock = {.timeoutMs = (unsigned)a[2]};
	switch (a[1]) {
	case 0: TRY(cuCheckpointProcessGetState, pid, &state); break;
	case 1: TRY(cuCheckpointProcessLock, pid, &lock); break;
	case 2: TRY(cuCheckpointProcessCheckpoint, pid, NULL); break;
	case 3: TRY(cuCheckpointProcessRestore, pid, NULL); break;
	case 4: TRY(cuCheckpointProcessUnlock, pid, NULL); break;
	}
	a[0] = state;
	return 0;
}

static uint64_t enable_peer(uint64_t *a) {
	CUresult r = goccl_cu.cuCtxEnablePeerAccess(PTR(CUcontext, a[0]), 0);
	return r && r != GOCCL_PEER_ALREADY ? FAIL(cuCtxEnablePeerAccess, r) : 0;
}

static uint64_t host_alloc(uint64_t *a) {
	void *h = NULL;
	CUdeviceptr d = 0;
	uint64_t bad;
	TRY(cuMemHostAlloc, &h, a[0], (unsigned)a[1]);
	ELSE(fail, cuMemHostGetDevicePointer_v2, &d, h, 0);
	a[0] = (uintptr_t)h, a[1] = d;
	return 0;
fail:
	goccl_cu.cuMemFreeHost(h);
	return bad;
}

static uint64_t host_register(uint64_t *a) {
	CUdeviceptr d = 0;
	uint64_t bad;
	void *h = PTR(void *, a[0]);
	TRY(cuMemHostRegister_v2, h, a[1], (unsigned)a[2]);
	ELSE(fail, cuMemHostGetDevicePointer_v2, &d, h, 0);
	a[0] = d;
	return 0;
fail:
	goccl_cu.cuMemHostUnregister(h);
	return bad;
}

// a: ordinal -> context.
static uint64_t retain_primary(uint64_t *a) {
	CUdevice device = 0;
	CUcontext context = NULL;
	TRY(cuDeviceGet, &device, (int)a[0]);
	TRY(cuDevicePrimaryCtxRetain, &context, device);
	a[0] = (uintptr_t)context;
	return 0;
}

// a: address, size, stream; p: Go memory. The copies wait.
static uint64_t copy_in(uint64_t *a, void *p) {
	TRY(cuMemcpyHtoDAsync_v2, a[0], p, a[1], PTR(CUstream, a[2]));
	TRY(cuStreamSynchronize, PTR(CUstream, a[2]));
	return 0;
}

static uint64_t copy_out(uint64_t *a, void *p) {
	TRY(cuMemcpyDtoHAsync_v2, p, a[0], a[1], PTR(CUstream, a[2]));
	TRY(cuStreamSynchronize, PTR(CUstream, a[2]));
	return 0;
}

static uint64_t ipc_open(uint64_t *a, void *p) {
	CUipcMemHandle h;
	CUdeviceptr d = 0;
	memcpy(&h, p, sizeof h);
	TRY(cuIpcOpenMemHandle_v2, &d, h, 1);
	a[0] = d;
	return 0;
}

// a: address, size -> descriptor.
static uint64_t dma_buf(uint64_t *a) {
	int fd = -1;
	TRY(cuMemGetHandleForAddressRange, &fd, a[0], a[1], GOCCL_RANGE_DMA_BUF, 0);
	a[0] = (uint64_t)(int64_t)fd;
	return 0;
}

// a: two events -> the milliseconds between them, a float's bits.
static uint64_t elapsed(uint64_t *a) {
	float ms = 0;
	TRY(cuEventElapsedTime, &ms, PTR(CUevent, a[0]), PTR(CUevent, a[1]));
	a[0] = 0;
	memcpy(a, &ms, sizeof ms);
	return 0;
}

#include "zz_calls.h"

uint64_t goccl_driver_call(uint32_t op, uint64_t context, uint64_t *a, uint8_t *p, uint8_t *q) {
	struct current cur;
	int mode = GOCCL_CAPTURE_RELAXED, relaxed = 0;
	uint64_t r = use_context(context, &cur);
	if (r) return r;
	if (op >= OP_immediate) relaxed = goccl_cu.cuThreadExchangeStreamCaptureMode(&mode) == 0;
	r = run(op, a, p, q);
	if (relaxed) goccl_cu.cuThreadExchangeStreamCaptureMode(&mode);
	restore_context(&cur);
	return r;
}
