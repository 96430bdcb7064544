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
#define NCCL_API(ret, name, ...)
#define NCCL_LACKS(feature, name, ...) \
	ncclResult_t p##name(__VA_ARGS__) { return refuse(#name, NO_##feature); } \
	WEAK(name);
#include "api.h"

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
