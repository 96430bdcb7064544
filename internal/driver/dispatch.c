//go:build cgo && linux

// All operations except goccl_driver_launch (order.c) enter through goccl_driver_call:
//  1. save the thread's current context and set ctx, if it differs;
//  2. exchange the thread's capture mode for relaxed, if the operation is not stream-ordered;
//  3. run the operation (results go back into a[]);
//  4. restore the capture mode;
//  5. restore the context.
// It all runs on one thread, so nothing interferes between 1 and 5. No lock is taken.
#include "call.h"
#include "op.h"
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

// A new object of the driver; n is its number.
union object {
	CUcontext context;
	CUstream stream;
	CUevent event;
	CUgraph graph;
	CUgraphExec exec;
	uintptr_t n;
};

static uint64_t ordered(uint32_t op, uint64_t *a, void *p) {
	union object o = {0};
	switch (op) {
	case OP_Launch: return goccl_launch(a, p);
	case OP_Enter: return goccl_order_enter(PTR(CUstream, a[0]), p);
	case OP_Leave: return goccl_order_leave(PTR(CUstream, a[0]), p);
	case OP_Copy: TRY(cuMemcpyAsync, a[0], a[1], a[2], PTR(CUstream, a[3])); return 0;
	case OP_Memset8: TRY(cuMemsetD8Async, a[0], (unsigned char)a[1], a[2], PTR(CUstream, a[3])); return 0;
	case OP_Memset32: TRY(cuMemsetD32Async, a[0], (unsigned)a[1], a[2], PTR(CUstream, a[3])); return 0;
	case OP_EventRecord: TRY(cuEventRecord, PTR(CUevent, a[0]), PTR(CUstream, a[1])); return 0;
	case OP_StreamWaitEvent: TRY(cuStreamWaitEvent, PTR(CUstream, a[0]), PTR(CUevent, a[1]), 0); return 0;
	case OP_WriteValue32:
		TRY(cuStreamWriteValue32_v2, PTR(CUstream, a[0]), a[1], (uint32_t)a[2], (unsigned)a[3]);
		return 0;
	case OP_WriteValue64: TRY(cuStreamWriteValue64_v2, PTR(CUstream, a[0]), a[1], a[2], (unsigned)a[3]); return 0;
	case OP_WaitValue32: TRY(cuStreamWaitValue32_v2, PTR(CUstream, a[0]), a[1], (uint32_t)a[2], (unsigned)a[3]); return 0;
	case OP_WaitValue64: TRY(cuStreamWaitValue64_v2, PTR(CUstream, a[0]), a[1], a[2], (unsigned)a[3]); return 0;
	case OP_MemOps: TRY(cuStreamBatchMemOp_v2, PTR(CUstream, a[0]), (unsigned)a[1], p, 0); return 0;
	case OP_GraphLaunch: TRY(cuGraphLaunch, PTR(CUgraphExec, a[0]), PTR(CUstream, a[1])); return 0;
	case OP_BeginCapture: TRY(cuStreamBeginCapture_v2, PTR(CUstream, a[0]), (int)a[1]); return 0;
	case OP_EndCapture: TRY(cuStreamEndCapture, PTR(CUstream, a[0]), &o.graph); a[0] = o.n; return 0;
	case OP_CaptureInfo: {
		int status = 0;
		unsigned long long id = 0;
		TRY(cuStreamGetCaptureInfo_v2, PTR(CUstream, a[0]), &status, &id, NULL, NULL, NULL);
		a[0] = status, a[1] = id;
		return 0;
	}
	}
	return FAIL(cuInit, GOCCL_NOT_SUPPORTED);
}

static uint64_t immediate(uint32_t op, uint64_t *a, void *p, void *q) {
	int i = 0, j = 0;
	size_t n = 0, m = 0;
	CUdeviceptr d = 0;
	union object o = {0};
	switch (op) {
	case OP_DriverInit: TRY(cuInit, 0); return 0;
	case OP_DriverVersion: TRY(cuDriverGetVersion, &i); a[0] = i; return 0;
	case OP_DeviceCount: TRY(cuDeviceGetCount, &i); a[0] = i; return 0;
	case OP_DeviceName: TRY(cuDeviceGetName, p, (int)a[1], (int)a[0]); return 0;
	case OP_DeviceBusID: TRY(cuDeviceGetPCIBusId, p, (int)a[1], (int)a[0]); return 0;
	case OP_DeviceMemory: TRY(cuDeviceTotalMem_v2, &n, (int)a[0]); a[0] = n; return 0;
	case OP_DeviceAttribute: TRY(cuDeviceGetAttribute, &i, (int)a[1], (int)a[0]); a[0] = (uint64_t)(int64_t)i; return 0;
	case OP_CanAccessPeer: TRY(cuDeviceCanAccessPeer, &i, (int)a[0], (int)a[1]); a[0] = i; return 0;
	case OP_PeerAttribute:
		TRY(cuDeviceGetP2PAttribute, &i, (int)a[2], (int)a[0], (int)a[1]);
		a[0] = (uint64_t)(int64_t)i;
		return 0;
	case OP_ContextRetain:
		TRY(cuDeviceGet, &i, (int)a[0]);
		TRY(cuDevicePrimaryCtxRetain, &o.context, i);
		a[0] = o.n;
		return 0;
	case OP_ContextRelease: TRY(cuDevicePrimaryCtxRelease_v2, (int)a[0]); return 0;
	case OP_ContextSynchronize: TRY(cuCtxSynchronize); return 0;
	case OP_PriorityRange:
		TRY(cuCtxGetStreamPriorityRange, &i, &j);
		a[0] = (uint64_t)(int64_t)i, a[1] = (uint64_t)(int64_t)j;
		return 0;
	case OP_CurrentDevice: TRY(cuCtxGetDevice, &i); a[0] = i; return 0;
	case OP_EnablePeer: return enable_peer(a);
	case OP_MemInfo: TRY(cuMemGetInfo_v2, &n, &m); a[0] = n, a[1] = m; return 0;
	case OP_MemAlloc: TRY(cuMemAlloc_v2, &d, a[0]); a[0] = d; return 0;
	case OP_MemFree: TRY(cuMemFree_v2, a[0]); return 0;
	case OP_PointerInfo: return pointer_info(a);
	case OP_AddressRange: TRY(cuMemGetAddressRange_v2, &d, &n, a[0]); a[0] = d, a[1] = n; return 0;
	case OP_HostAlloc: return host_alloc(a);
	case OP_HostFree: TRY(cuMemFreeHost, PTR(void *, a[0])); return 0;
	case OP_HostRegister: return host_register(a);
	case OP_HostUnregister: TRY(cuMemHostUnregister, PTR(void *, a[0])); return 0;
	case OP_IPCGet: TRY(cuIpcGetMemHandle, p, a[0]); return 0;
	case OP_IPCOpen: {
		CUipcMemHandle h;
		memcpy(&h, p, sizeof h);
		TRY(cuIpcOpenMemHandle_v2, &d, h, 1);
		a[0] = d;
		return 0;
	}
	case OP_IPCClose: TRY(cuIpcCloseMemHandle, a[0]); return 0;
	case OP_VMMAlloc: return vmm_alloc(a);
	case OP_VMMExport: return vmm_export(a);
	case OP_VMMImport: return vmm_import(a);
	case OP_VMMAccess: return set_access(a[0], a[1], a[2]);
	case OP_VMMFree: return vmm_free(a);
	case OP_VMMReserve: TRY(cuMemAddressReserve, &d, a[0], a[1], 0, 0); a[0] = d; return 0;
	case OP_VMMUnreserve: TRY(cuMemAddressFree, a[0], a[1]); return 0;
	case OP_DMABuf: {
		int fd = -1;
		TRY(cuMemGetHandleForAddressRange, &fd, a[0], a[1], GOCCL_RANGE_DMA_BUF, 0);
		a[0] = (uint64_t)(int64_t)fd;
		return 0;
	}
	case OP_CopyIn:
		TRY(cuMemcpyHtoDAsync_v2, a[0], p, a[1], PTR(CUstream, a[2]));
		TRY(cuStreamSynchronize, PTR(CUstream, a[2]));
		return 0;
	case OP_CopyOut:
		TRY(cuMemcpyDtoHAsync_v2, p, a[0], a[1], PTR(CUstream, a[2]));
		TRY(cuStreamSynchronize, PTR(CUstream, a[2]));
		return 0;
	case OP_StreamCreate:
		TRY(cuStreamCreateWithPriority, &o.stream, (unsigned)a[0], (int)(int64_t)a[1]);
		a[0] = o.n;
		return 0;
	case OP_StreamDestroy: TRY(cuStreamDestroy_v2, PTR(CUstream, a[0])); return 0;
	case OP_StreamQuery: TRY(cuStreamQuery, PTR(CUstream, a[0])); return 0;
	case OP_StreamSynchronize: TRY(cuStreamSynchronize, PTR(CUstream, a[0])); return 0;
	case OP_StreamContext: TRY(cuStreamGetCtx, PTR(CUstream, a[0]), &o.context); a[0] = o.n; return 0;
	case OP_EventCreate: TRY(cuEventCreate, &o.event, (unsigned)a[0]); a[0] = o.n; return 0;
	case OP_EventQuery: TRY(cuEventQuery, PTR(CUevent, a[0])); return 0;
	case OP_EventElapsed: {
		float ms = 0;
		uint32_t bits;
		TRY(cuEventElapsedTime, &ms, PTR(CUevent, a[0]), PTR(CUevent, a[1]));
		memcpy(&bits, &ms, 4);
		a[0] = bits;
		return 0;
	}
	case OP_EventDestroy: TRY(cuEventDestroy_v2, PTR(CUevent, a[0])); return 0;
	case OP_GraphInstantiate:
		TRY(cuGraphInstantiateWithFlags, &o.exec, PTR(CUgraph, a[0]), a[1]);
		a[0] = o.n;
		return 0;
	case OP_GraphUpload: TRY(cuGraphUpload, PTR(CUgraphExec, a[0]), PTR(CUstream, a[1])); return 0;
	case OP_GraphNodes: TRY(cuGraphGetNodes, PTR(CUgraph, a[0]), NULL, &n); a[0] = n; return 0;
	case OP_GraphExecDestroy: TRY(cuGraphExecDestroy, PTR(CUgraphExec, a[0])); return 0;
	case OP_GraphDestroy: TRY(cuGraphDestroy, PTR(CUgraph, a[0])); return 0;
	case OP_ModuleLoad: return module_load(a, p, q);
	case OP_ModuleUnload: TRY(cuModuleUnload, PTR(CUmodule, a[0])); return 0;
	case OP_ModuleFunction: return module_function(a, p);
	case OP_ModuleGlobal: TRY(cuModuleGetGlobal_v2, &d, &n, PTR(CUmodule, a[0]), p); a[0] = d, a[1] = n; return 0;
	case OP_FuncGetAttribute:
		TRY(cuFuncGetAttribute, &i, (int)a[1], PTR(CUfunction, a[0]));
		a[0] = (uint64_t)(int64_t)i;
		return 0;
	case OP_FuncSetAttribute: TRY(cuFuncSetAttribute, PTR(CUfunction, a[0]), (int)a[1], (int)a[2]); return 0;
	case OP_Occupancy:
		TRY(cuOccupancyMaxActiveBlocksPerMultiprocessor, &i, PTR(CUfunction, a[0]), (int)a[1], a[2]);
		a[0] = i;
		return 0;
	case OP_Checkpoint: return checkpoint(a);
	}
	return FAIL(cuInit, GOCCL_NOT_SUPPORTED);
}

uint64_t goccl_driver_call(uint32_t op, uint64_t context, uint64_t *a, uint8_t *p, uint8_t *q) {
	struct current cur;
	int mode = GOCCL_CAPTURE_RELAXED, relaxed = 0;
	uint64_t r = use_context(context, &cur);
	if (r) return r;
	if (op >= OP_DriverInit) relaxed = goccl_cu.cuThreadExchangeStreamCaptureMode(&mode) == 0;
	r = op < OP_DriverInit ? ordered(op, a, p) : immediate(op, a, p, q);
	if (relaxed) goccl_cu.cuThreadExchangeStreamCaptureMode(&mode);
	restore_context(&cur);
	return r;
}
