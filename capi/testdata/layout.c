// Prints sizes, offsets and numbers of nccl.h and goccl.h.
#include "test.h"
#include "../goccl.h"

#define SIZE(t) printf("sizeof %s %zu\n", #t, sizeof(t))
#define AT(t, f) printf("%s.%s %zu\n", #t, #f, offsetof(t, f))
#define IS(x) printf("%s %d\n", #x, (int)(x))

int main(void) {
	SIZE(ncclUniqueId), SIZE(ncclComm_t), SIZE(ncclResult_t), SIZE(ncclDataType_t), SIZE(ncclRedOp_t), SIZE(ncclWaitSignalDesc_t), SIZE(ncclTeam_t);
	SIZE(ncclConfig_t);
	AT(ncclConfig_t, size), AT(ncclConfig_t, magic), AT(ncclConfig_t, version), AT(ncclConfig_t, blocking), AT(ncclConfig_t, cgaClusterSize), AT(ncclConfig_t, minCTAs),
		AT(ncclConfig_t, maxCTAs), AT(ncclConfig_t, netName), AT(ncclConfig_t, splitShare), AT(ncclConfig_t, trafficClass), AT(ncclConfig_t, commName),
		AT(ncclConfig_t, collnetEnable), AT(ncclConfig_t, CTAPolicy), AT(ncclConfig_t, shrinkShare), AT(ncclConfig_t, nvlsCTAs), AT(ncclConfig_t, nChannelsPerNetPeer),
		AT(ncclConfig_t, nvlinkCentricSched), AT(ncclConfig_t, graphUsageMode), AT(ncclConfig_t, numRmaCtx), AT(ncclConfig_t, maxP2pPeers), AT(ncclConfig_t, graphStreamOrdering);
	SIZE(ncclSimInfo_t), AT(ncclSimInfo_t, magic), AT(ncclSimInfo_t, version), AT(ncclSimInfo_t, estimatedTime);
	SIZE(ncclCommProperties_t);
	AT(ncclCommProperties_t, rank), AT(ncclCommProperties_t, nRanks), AT(ncclCommProperties_t, cudaDev), AT(ncclCommProperties_t, nvmlDev), AT(ncclCommProperties_t, deviceApiSupport),
		AT(ncclCommProperties_t, multimemSupport), AT(ncclCommProperties_t, ginType), AT(ncclCommProperties_t, nLsaTeams), AT(ncclCommProperties_t, hostRmaSupport),
		AT(ncclCommProperties_t, railedGinType);
	IS(ncclSuccess), IS(ncclUnhandledCudaError), IS(ncclSystemError), IS(ncclInternalError), IS(ncclInvalidArgument), IS(ncclInvalidUsage), IS(ncclRemoteError), IS(ncclInProgress),
		IS(ncclTimeout), IS(ncclNumResults);
	IS(ncclInt8), IS(ncclUint8), IS(ncclInt32), IS(ncclUint32), IS(ncclInt64), IS(ncclUint64), IS(ncclFloat16), IS(ncclFloat32), IS(ncclFloat64), IS(ncclBfloat16), IS(ncclFloat8e4m3),
		IS(ncclFloat8e5m2), IS(ncclNumTypes);
	IS(ncclSum), IS(ncclProd), IS(ncclMax), IS(ncclMin), IS(ncclAvg), IS(ncclNumOps), IS(ncclMaxRedOp), IS(ncclScalarDevice), IS(ncclScalarHostImmediate);
	IS(NCCL_API_MAGIC == 0xcafebeef), IS(NCCL_SPLIT_NOCOLOR), IS(NCCL_VERSION_CODE), IS(NCCL_VERSION(2, 8, 3)), IS(NCCL_VERSION(2, 28, 9));
	SIZE(goccl_request);
	AT(goccl_request, collective), AT(goccl_request, type), AT(goccl_request, op), AT(goccl_request, root), AT(goccl_request, send), AT(goccl_request, recv), AT(goccl_request, count),
		AT(goccl_request, stream), AT(goccl_request, scalar), AT(goccl_request, scalar_ptr), AT(goccl_request, send_counts), AT(goccl_request, recv_displs), AT(goccl_request, recv_elements), AT(goccl_request, reserved);
	SIZE(goccl_comm_config), AT(goccl_comm_config, timeout_ns), AT(goccl_comm_config, op_timeout_ns), AT(goccl_comm_config, name), AT(goccl_comm_config, separate_graphs), AT(goccl_comm_config, reserved);
	SIZE(goccl_comm_info), AT(goccl_comm_info, device), AT(goccl_comm_info, non_blocking);
	SIZE(goccl_unique_id);
	return 0;
}
