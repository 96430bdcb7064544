// Functions that goccl does not support. Each returns ncclInvalidUsage and names the missing feature in the last error.
// They exist because a missing symbol would be resolved in another NCCL in the process, or keep a program from
// starting.
#include "shim.h"

static ncclResult_t refuse(const char *name, const char *why) { return shim_remember(shim_fail(ncclInvalidUsage, "%s is not supported by goccl: %s", name, why)); }

#define NO_DEVICE_API "it has no NCCL device API; see deviceApiSupport of ncclCommQueryProperties"
#define NO_RMA "it has no one-sided operations behind NCCL's names; goccl's own are memory and port channels"
#define NO_GROW "communicators do not grow or pause; make a new one"
#define NO_PARAMS "NCCL's parameters do not exist here; docs/environment.md lists what is read"

// NO defines a function that returns the error. The parameters are those of api.h, including unnamed ones.
#define NO(name, why, ...) \
	ncclResult_t p##name(__VA_ARGS__) { return refuse(#name, why); } \
	WEAK(name)
#pragma GCC diagnostic ignored "-Wunused-parameter"

NO(ncclCommGetUniqueId, NO_GROW, ncclComm_t comm, ncclUniqueId *id);
NO(ncclCommGrow, NO_GROW, ncclComm_t comm, int n, const ncclUniqueId *id, int rank, ncclComm_t *newcomm, ncclConfig_t *config);
NO(ncclCommSuspend, NO_GROW, ncclComm_t comm, int flags);
NO(ncclCommResume, NO_GROW, ncclComm_t comm);
NO(ncclCommMemStats, "it keeps no statistics of memory", ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value);

NO(ncclPutSignal, NO_RMA, const void *buf, size_t count, ncclDataType_t type, int peer, ncclWindow_t win, size_t offset, int sig, int ctx, unsigned int flags, ncclComm_t comm, cudaStream_t stream);
NO(ncclSignal, NO_RMA, int peer, int sig, int ctx, unsigned int flags, ncclComm_t comm, cudaStream_t stream);
NO(ncclWaitSignal, NO_RMA, int n, ncclWaitSignalDesc_t *descs, ncclComm_t comm, cudaStream_t stream);

NO(ncclDevCommCreate, NO_DEVICE_API, ncclComm_t comm, const ncclDevCommRequirements_t *reqs, ncclDevComm_t *out);
NO(ncclDevCommDestroy, NO_DEVICE_API, ncclComm_t comm, const ncclDevComm_t *dev);
NO(ncclGetLsaMultimemDevicePointer, NO_DEVICE_API, ncclWindow_t win, size_t offset, void **out);
NO(ncclGetMultimemDevicePointer, NO_DEVICE_API, ncclWindow_t win, size_t offset, ncclMultimemHandle_t multimem, void **out);
NO(ncclGetLsaDevicePointer, NO_DEVICE_API, ncclWindow_t win, size_t offset, int rank, void **out);
NO(ncclGetPeerDevicePointer, NO_DEVICE_API, ncclWindow_t win, size_t offset, int peer, void **out);
NO(ncclLsaBarrierCreateRequirement, NO_DEVICE_API, ncclTeam_t team, int n, void *out, ncclDevResourceRequirements_t *req);
NO(ncclGinBarrierCreateRequirement, NO_DEVICE_API, ncclComm_t comm, ncclTeam_t team, int n, void *out, ncclDevResourceRequirements_t *req);
NO(ncclLLA2ACreateRequirement, NO_DEVICE_API, int blocks, int slots, void *out, ncclDevResourceRequirements_t *req);
NO(ncclGinOutboxCreateRequirement, NO_DEVICE_API, int blocks, int sizeLog2, void *out, ncclDevResourceRequirements_t *req);
NO(ncclGinInboxA2ACreateRequirement, NO_DEVICE_API, ncclTeam_t peers, int blocks, int sizeLog2, void *out, ncclDevResourceRequirements_t *req);

NO(ncclParamBind, NO_PARAMS, ncclParamHandle_t *out, const char *key);
NO(ncclParamGetI8, NO_PARAMS, ncclParamHandle_t h, int8_t *out);
NO(ncclParamGetI16, NO_PARAMS, ncclParamHandle_t h, int16_t *out);
NO(ncclParamGetI32, NO_PARAMS, ncclParamHandle_t h, int32_t *out);
NO(ncclParamGetI64, NO_PARAMS, ncclParamHandle_t h, int64_t *out);
NO(ncclParamGetU8, NO_PARAMS, ncclParamHandle_t h, uint8_t *out);
NO(ncclParamGetU16, NO_PARAMS, ncclParamHandle_t h, uint16_t *out);
NO(ncclParamGetU32, NO_PARAMS, ncclParamHandle_t h, uint32_t *out);
NO(ncclParamGetU64, NO_PARAMS, ncclParamHandle_t h, uint64_t *out);
NO(ncclParamGetStr, NO_PARAMS, ncclParamHandle_t h, const char **out);
NO(ncclParamGet, NO_PARAMS, ncclParamHandle_t h, void *out, int max, int *len);
NO(ncclParamGetParameter, NO_PARAMS, const char *key, const char **value, int *len);
NO(ncclParamGetAllParameterKeys, NO_PARAMS, const char ***table, int *len);

// These two cannot return an error: there is nothing to print, and no slot is needed.
void pncclParamDumpAll(void) { refuse("ncclParamDumpAll", NO_PARAMS); }
WEAK(ncclParamDumpAll);
int pncclLLA2ACalcSlots(int maxElts, int maxEltSize) { return refuse("ncclLLA2ACalcSlots", NO_DEVICE_API), 0; }
WEAK(ncclLLA2ACalcSlots);
