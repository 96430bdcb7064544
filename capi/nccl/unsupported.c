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

// NO defines a function that returns the error. The parameters are as in api.h, including unnamed ones.
#define NO(name, why, ...) \
	ncclResult_t p##name(__VA_ARGS__) { return refuse(#name, why); } \
	WEAK(name)
#pragma GCC diagnostic ignored "-Wunused-parameter"

NO(ncclGinBarrierCreateRequirement, NO_GIN, ncclComm_t comm, ncclTeam_t team, int n, void *out,
	ncclDevResourceRequirements_t *req);
NO(ncclGinOutboxCreateRequirement, NO_GIN, int blocks, int sizeLog2, void *out, ncclDevResourceRequirements_t *req);
NO(ncclGinInboxA2ACreateRequirement, NO_GIN, ncclTeam_t peers, int blocks, int sizeLog2, void *out,
	ncclDevResourceRequirements_t *req);

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

NO(ncclGetCftDeviceLeInfo, NO_CFT, ncclWindow_t win, size_t offset, int peer, ncclTeam_t team, uint32_t *id,
	size_t *out);
NO(ncclGetPeerDeviceLeInfo, NO_CFT, ncclWindow_t win, size_t offset, int peer, uint32_t *id, size_t *out);
NO(ncclGetMultimemDeviceLeInfo, NO_CFT, ncclWindow_t win, size_t offset, uint32_t *id, size_t *out);

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
