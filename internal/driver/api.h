// This is the part of the CUDA driver ABI that goccl uses. The declarations are goccl's own, so the build needs no
// toolkit. Names carry the version suffix of the symbol that libcuda exports (cuMemAlloc_v2), since they are looked up
// with dlsym.
#ifndef GOCCL_DRIVER_API_H
#define GOCCL_DRIVER_API_H
#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemHandle;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct { unsigned char from_port, to_port, type, reserved[5]; } CUgraphEdgeData;
typedef struct { char bytes[16]; } CUuuid;
typedef struct { char data[64]; } CUipcMemHandle;
typedef struct { int type, id; } CUmemLocation;
typedef struct { CUmemLocation location; int flags; } CUmemAccessDesc;
typedef struct {
	int type, requestedHandleTypes;
	CUmemLocation location;
	void *win32HandleMetaData;
	struct {
		unsigned char compressionType, gpuDirectRDMACapable;
		unsigned short usage;
		unsigned char reserved[4];
	} allocFlags;
} CUmemAllocationProp;
typedef struct {
	int id;
	char pad[4];
	union { char bytes[64]; struct { unsigned x, y, z; } dim; int i; } value;
} CUlaunchAttribute;
typedef struct {
	unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
	CUstream hStream;
	CUlaunchAttribute *attrs;
	unsigned numAttrs;
} CUlaunchConfig;

typedef struct {
	int operation; // driver.MemOp names those in use
	CUdeviceptr address;
	uint64_t value;
	unsigned flags;
	uint64_t reserved[2];
} CUstreamBatchMemOpParams;

typedef struct { unsigned timeoutMs, reserved0; uint64_t reserved1[7]; } CUcheckpointLockArgs;

_Static_assert(sizeof(CUcheckpointLockArgs) == 64, "CUcheckpointLockArgs");
_Static_assert(sizeof(CUstreamBatchMemOpParams) == 48, "CUstreamBatchMemOpParams");
_Static_assert(sizeof(CUmemAllocationProp) == 32, "CUmemAllocationProp");
_Static_assert(sizeof(CUmemAccessDesc) == 12, "CUmemAccessDesc");
_Static_assert(sizeof(CUlaunchAttribute) == 72, "CUlaunchAttribute");
_Static_assert(sizeof(CUgraphEdgeData) == 8, "CUgraphEdgeData");
_Static_assert(sizeof(CUlaunchConfig) == 56, "CUlaunchConfig");

enum {
	GOCCL_SUCCESS = 0, GOCCL_INVALID_VALUE = 1, GOCCL_LOSSY_QUERY = 402, GOCCL_NOT_READY = 600,
	GOCCL_PEER_ALREADY = 704, GOCCL_NOT_SUPPORTED = 801, GOCCL_CAPTURE_INVALIDATED = 901,
	GOCCL_CAPTURE_RELAXED = 2, GOCCL_HANDLE_POSIX_FD = 1, GOCCL_LOCATION_DEVICE = 1, GOCCL_PROT_RW = 3,
	GOCCL_RANGE_DMA_BUF = 1,
	GOCCL_MEM_PINNED = 1, GOCCL_WAIT_GEQ = 0, GOCCL_NON_BLOCKING = 1,
	GOCCL_ADD_DEPENDENCIES = 0, GOCCL_SET_DEPENDENCIES = 1,
};

// R(symbol, parameters) is a required function. O is optional: if it is missing, a call of it fails with
// CUDA_ERROR_NOT_SUPPORTED. Multicast functions are left out on purpose: a multicast object can take a host's GPUs out
// of service.
#define GOCCL_API(R, O) \
	R(cuInit, (unsigned)) \
	R(cuDriverGetVersion, (int *)) \
	R(cuGetErrorName, (CUresult, const char **)) \
	R(cuGetErrorString, (CUresult, const char **)) \
	R(cuDeviceGetCount, (int *)) \
	R(cuDeviceGet, (CUdevice *, int)) \
	R(cuDeviceGetName, (char *, int, CUdevice)) \
	R(cuDeviceTotalMem_v2, (size_t *, CUdevice)) \
	R(cuDeviceGetAttribute, (int *, int, CUdevice)) \
	R(cuDeviceGetPCIBusId, (char *, int, CUdevice)) \
	R(cuDeviceCanAccessPeer, (int *, CUdevice, CUdevice)) \
	R(cuDeviceGetP2PAttribute, (int *, int, CUdevice, CUdevice)) \
	R(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice)) \
	R(cuDevicePrimaryCtxRelease_v2, (CUdevice)) \
	R(cuCtxGetCurrent, (CUcontext *)) \
	R(cuCtxSetCurrent, (CUcontext)) \
	R(cuCtxGetDevice, (CUdevice *)) \
	R(cuCtxGetStreamPriorityRange, (int *, int *)) \
	R(cuCtxEnablePeerAccess, (CUcontext, unsigned)) \
	R(cuThreadExchangeStreamCaptureMode, (int *)) \
	R(cuMemGetInfo_v2, (size_t *, size_t *)) \
	R(cuMemAlloc_v2, (CUdeviceptr *, size_t)) \
	R(cuMemFree_v2, (CUdeviceptr)) \
	R(cuMemGetAddressRange_v2, (CUdeviceptr *, size_t *, CUdeviceptr)) \
	R(cuPointerGetAttributes, (unsigned, int *, void **, CUdeviceptr)) \
	R(cuMemHostAlloc, (void **, size_t, unsigned)) \
	R(cuMemFreeHost, (void *)) \
	R(cuMemHostGetDevicePointer_v2, (CUdeviceptr *, void *, unsigned)) \
	R(cuMemHostRegister_v2, (void *, size_t, unsigned)) \
	R(cuMemHostUnregister, (void *)) \
	R(cuIpcGetMemHandle, (CUipcMemHandle *, CUdeviceptr)) \
	R(cuIpcOpenMemHandle_v2, (CUdeviceptr *, CUipcMemHandle, unsigned)) \
	R(cuIpcCloseMemHandle, (CUdeviceptr)) \
	R(cuMemAddressReserve, (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long)) \
	R(cuMemAddressFree, (CUdeviceptr, size_t)) \
	R(cuMemCreate, (CUmemHandle *, size_t, const CUmemAllocationProp *, unsigned long long)) \
	R(cuMemRelease, (CUmemHandle)) \
	R(cuMemMap, (CUdeviceptr, size_t, size_t, CUmemHandle, unsigned long long)) \
	R(cuMemUnmap, (CUdeviceptr, size_t)) \
	R(cuMemSetAccess, (CUdeviceptr, size_t, const CUmemAccessDesc *, size_t)) \
	R(cuMemGetAllocationGranularity, (size_t *, const CUmemAllocationProp *, int)) \
	R(cuMemExportToShareableHandle, (void *, CUmemHandle, int, unsigned long long)) \
	R(cuMemImportFromShareableHandle, (CUmemHandle *, void *, int)) \
	R(cuMemRetainAllocationHandle, (CUmemHandle *, void *)) \
	O(cuMemGetHandleForAddressRange, (void *, CUdeviceptr, size_t, int, unsigned long long)) \
	R(cuMemcpyAsync, (CUdeviceptr, CUdeviceptr, size_t, CUstream)) \
	R(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream)) \
	R(cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream)) \
	R(cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream)) \
	R(cuStreamCreateWithPriority, (CUstream *, unsigned, int)) \
	R(cuStreamDestroy_v2, (CUstream)) \
	R(cuStreamQuery, (CUstream)) \
	R(cuStreamSynchronize, (CUstream)) \
	R(cuStreamWaitEvent, (CUstream, CUevent, unsigned)) \
	R(cuStreamGetCtx, (CUstream, CUcontext *)) \
	R(cuStreamBeginCapture_v2, (CUstream, int)) \
	R(cuStreamEndCapture, (CUstream, CUgraph *)) \
	R(cuStreamIsCapturing, (CUstream, int *)) \
	O(cuStreamGetId, (CUstream, unsigned long long *)) \
	R(cuStreamGetCaptureInfo_v2, (CUstream, int *, unsigned long long *, CUgraph *, const CUgraphNode **, size_t *)) \
	O(cuStreamGetCaptureInfo_v3, \
		(CUstream, int *, unsigned long long *, CUgraph *, const CUgraphNode **, const CUgraphEdgeData **, size_t \
		*)) \
	O(cuStreamUpdateCaptureDependencies, (CUstream, CUgraphNode *, size_t, unsigned)) \
	R(cuStreamWriteValue64_v2, (CUstream, CUdeviceptr, uint64_t, unsigned)) \
	R(cuStreamWaitValue64_v2, (CUstream, CUdeviceptr, uint64_t, unsigned)) \
	R(cuStreamBatchMemOp_v2, (CUstream, unsigned, CUstreamBatchMemOpParams *, unsigned)) \
	R(cuEventCreate, (CUevent *, unsigned)) \
	R(cuEventRecord, (CUevent, CUstream)) \
	R(cuEventQuery, (CUevent)) \
	R(cuEventElapsedTime, (float *, CUevent, CUevent)) \
	R(cuEventDestroy_v2, (CUevent)) \
	O(cuGraphAddEmptyNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t)) \
	O(cuGraphAddEventRecordNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUevent)) \
	O(cuGraphAddEventWaitNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUevent)) \
	O(cuGraphAddDependencies, (CUgraph, const CUgraphNode *, const CUgraphNode *, size_t)) \
	O(cuGraphRemoveDependencies, (CUgraph, const CUgraphNode *, const CUgraphNode *, size_t)) \
	O(cuGraphNodeGetDependencies_v2, (CUgraphNode, CUgraphNode *, CUgraphEdgeData *, size_t *)) \
	R(cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long)) \
	R(cuGraphUpload, (CUgraphExec, CUstream)) \
	R(cuGraphLaunch, (CUgraphExec, CUstream)) \
	R(cuGraphExecDestroy, (CUgraphExec)) \
	R(cuGraphDestroy, (CUgraph)) \
	R(cuGraphGetNodes, (CUgraph, void *, size_t *)) \
	R(cuModuleLoadDataEx, (CUmodule *, const void *, unsigned, int *, void **)) \
	R(cuModuleUnload, (CUmodule)) \
	R(cuModuleGetFunction, (CUfunction *, CUmodule, const char *)) \
	R(cuModuleGetGlobal_v2, (CUdeviceptr *, size_t *, CUmodule, const char *)) \
	R(cuFuncGetAttribute, (int *, int, CUfunction)) \
	R(cuFuncSetAttribute, (CUfunction, int, int)) \
	O(cuFuncLoad, (CUfunction)) \
	R(cuLaunchKernel, \
		(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void \
		**)) \
	O(cuCheckpointProcessGetState, (int, int *)) \
	O(cuCheckpointProcessLock, (int, CUcheckpointLockArgs *)) \
	O(cuCheckpointProcessCheckpoint, (int, void *)) \
	O(cuCheckpointProcessRestore, (int, void *)) \
	O(cuCheckpointProcessUnlock, (int, void *)) \
	O(cuLaunchKernelEx, (const CUlaunchConfig *, CUfunction, void **, void **))

// The function table, and an index per function so that an error can name the failed call.
#define GOCCL_FIELD(name, params) CUresult(*name) params;
#define GOCCL_INDEX(name, params) API_##name,
typedef struct { GOCCL_API(GOCCL_FIELD, GOCCL_FIELD) } goccl_table;
enum { GOCCL_API(GOCCL_INDEX, GOCCL_INDEX) API_count };

extern goccl_table goccl_cu;

// goccl_driver_load opens the library and fills the table. On failure it returns non-zero and writes the reason to
// text.
int goccl_driver_load(const char *path, char *text, int textSize);
// goccl_driver_call performs operation op (zz_calls.h) with context ctx current (0: the thread's current context). The
// result is 0, or API index << 32 | CUresult. p and q are bytes rather than void: cgo scans memory whose type could
// hold Go pointers at every call, which takes a fifth of a launch.
uint64_t goccl_driver_call(uint32_t op, uint64_t ctx, uint64_t *a, uint8_t *p, uint8_t *q);
// goccl_driver_launch is Enter, Launch and Leave of order.c in one call, with few frames, because every collective
// makes it. a and p are as for goccl_launch; order is a struct order.
uint64_t goccl_driver_launch(uint64_t ctx, uint64_t *a, uint8_t *p, uint8_t *order);
// goccl_driver_api names a function of the table.
const char *goccl_driver_api(uint32_t index);
// goccl_driver_error returns the driver's name and text of a code (static strings, or NULL).
void goccl_driver_error(int code, const char **name, const char **text);
// goccl_driver_context returns the addresses of cuCtxGetCurrent and cuCtxSetCurrent, for other C code that must switch
// contexts.
void goccl_driver_context(uint64_t *get, uint64_t *set);
// goccl_driver_current returns the calling thread's context.
uint64_t goccl_driver_current(void);
void goccl_driver_set_current(uint64_t ctx);
#endif
