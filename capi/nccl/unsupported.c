// Functions that goccl does not support. Each returns ncclInvalidUsage and names the missing feature in the last error.
// They exist because a missing symbol would be resolved in another NCCL in the process, or keep a program from
// starting.
#include "shim.h"

static ncclResult_t refuse(const char *name, const char *why) {
	return shim_remember(shim_fail(ncclInvalidUsage, "%s is not supported by goccl: %s", name, why));
}

#define NO_GIN "it has no GIN, the network of NCCL's device API; see ginType of ncclCommQueryProperties"
#define NO_CFT "it has no CFT"
#define NO_PARAMS "NCCL's parameters do not exist here; docs/environment.md lists the variables that exist"

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define LACKS(feature, name, ...) \
	ncclResult_t pnccl##name(__VA_ARGS__) { return refuse("nccl" #name, NO_##feature); } \
	WEAK(nccl##name)
LACKS(CFT, GetCftDeviceLeInfo, ncclWindow_t window, size_t offset, int peerCft, ncclTeam_t cftTeam, uint32_t *leId,
	size_t *leOffset);
LACKS(CFT, GetPeerDeviceLeInfo, ncclWindow_t window, size_t offset, int peerWorld, uint32_t *leId, size_t *leOffset);
LACKS(CFT, GetMultimemDeviceLeInfo, ncclWindow_t window, size_t offset, uint32_t *leId, size_t *leOffset);
LACKS(GIN, GinBarrierCreateRequirement, ncclComm_t comm, ncclTeam_t team, int nBarriers, void *outHandle,
	ncclDevResourceRequirements_t *outReq);
LACKS(GIN, GinOutboxCreateRequirement, int nBlocks, int sizeLog2, void *outHandle,
	ncclDevResourceRequirements_t *outReq);
LACKS(GIN, GinInboxA2ACreateRequirement, ncclTeam_t peers, int nBlocks, int sizeLog2, void *outHandle,
	ncclDevResourceRequirements_t *outReq);
LACKS(PARAMS, ParamBind, ncclParamHandle_t *out, const char *key);
LACKS(PARAMS, ParamGetI8, ncclParamHandle_t h, int8_t *out);
LACKS(PARAMS, ParamGetI16, ncclParamHandle_t h, int16_t *out);
LACKS(PARAMS, ParamGetI32, ncclParamHandle_t h, int32_t *out);
LACKS(PARAMS, ParamGetI64, ncclParamHandle_t h, int64_t *out);
LACKS(PARAMS, ParamGetU8, ncclParamHandle_t h, uint8_t *out);
LACKS(PARAMS, ParamGetU16, ncclParamHandle_t h, uint16_t *out);
LACKS(PARAMS, ParamGetU32, ncclParamHandle_t h, uint32_t *out);
LACKS(PARAMS, ParamGetU64, ncclParamHandle_t h, uint64_t *out);
LACKS(PARAMS, ParamGetStr, ncclParamHandle_t h, const char **out);
LACKS(PARAMS, ParamGet, ncclParamHandle_t h, void *out, int maxLen, int *len);
LACKS(PARAMS, ParamGetParameter, const char *key, const char **value, int *valueLen);
LACKS(PARAMS, ParamGetAllParameterKeys, const char ***table, int *tableLen);

ncclTeam_t pncclTeamCft(ncclComm_t comm, ncclCftTeamMode_t mode) {
	return refuse("ncclTeamCft", NO_CFT), (ncclTeam_t){0};
}
WEAK(ncclTeamCft);
ncclTeam_t pncclTeamCftMultimem(ncclComm_t comm) { return refuse("ncclTeamCftMultimem", NO_CFT), (ncclTeam_t){0}; }
WEAK(ncclTeamCftMultimem);

// Joining is authenticated by the secret in the unique id; what follows is not encrypted.
NCCL(SetEncryption, const ncclEncryptionConfig_t *config) {
	if (!config || config->magic != NCCL_API_MAGIC || config->size < sizeof *config)
		return shim_remember(shim_fail(ncclInvalidArgument,
			"ncclSetEncryption: config was not initialised with NCCL_ENCRYPTION_CONFIG_INITIALIZER"));
	if (config->mode == NCCL_ENCRYPTION_MODE_NONE) return ncclSuccess;
	return refuse("ncclSetEncryption", "its sockets prove who they are, but what they carry is not encrypted");
}

// This one cannot return an error: there is nothing to print.
void pncclParamDumpAll(void) { refuse("ncclParamDumpAll", NO_PARAMS); }
WEAK(ncclParamDumpAll);
