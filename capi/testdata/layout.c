// Prints sizes, offsets and numbers of nccl.h and, unless NVIDIA's headers are compiled instead, of goccl.h.
#ifdef NVIDIA
#include <nccl.h>
#include <nccl_device.h>
#include <stdio.h>
#include <stddef.h>
#else
#include "test.h"
#include "../goccl.h"
#endif

#define SIZE(t) printf("sizeof %s %zu\n", #t, sizeof(t));
#define AT(t, f) printf("%s.%s %zu\n", #t, #f, offsetof(t, f));
#define IS(x) printf("%s %d\n", #x, (int)(x));

static void nvidias(void) {
	SIZE(ncclUniqueId) SIZE(ncclComm_t) SIZE(ncclResult_t) SIZE(ncclDataType_t) SIZE(ncclRedOp_t)
	SIZE(ncclWaitSignalDesc_t) SIZE(ncclTeam_t)
#define C(f) AT(ncclConfig_t, f)
	SIZE(ncclConfig_t) C(size) C(magic) C(version) C(blocking) C(cgaClusterSize) C(minCTAs) C(maxCTAs) C(netName)
	C(splitShare) C(trafficClass) C(commName) C(collnetEnable) C(CTAPolicy) C(shrinkShare) C(nvlsCTAs)
	C(nChannelsPerNetPeer) C(nvlinkCentricSched) C(graphUsageMode) C(numRmaCtx) C(maxP2pPeers) C(graphStreamOrdering)
	C(launchOrderImplicit) C(numRmaSig) C(rmaEagerInit) C(hostCftMode) C(nvlsHostMode)
#define L(f) AT(ncclCollConfig_t, f)
	SIZE(ncclCollConfig_t) L(size) L(magic) L(version) L(ext) L(minCTAs) L(maxCTAs) L(nvlsCTAs) L(cgaClusterSize)
	L(algSelection) L(forceAlgSelection) L(CTAPolicy) L(userProfilerTag) L(launchCompletionEvent)
	SIZE(ncclConfigExt_t) AT(ncclConfigExt_t, next) AT(ncclConfigExt_t, key) AT(ncclConfigExt_t, val)
	SIZE(ncclEncryptionConfig_t) AT(ncclEncryptionConfig_t, mode) AT(ncclEncryptionConfig_t, psk)
	SIZE(ncclSimInfo_t) AT(ncclSimInfo_t, magic) AT(ncclSimInfo_t, version) AT(ncclSimInfo_t, estimatedTime)
#define P(f) AT(ncclCommProperties_t, f)
	SIZE(ncclCommProperties_t) P(rank) P(nRanks) P(cudaDev) P(nvmlDev) P(deviceApiSupport) P(multimemSupport) P(ginType)
	P(nLsaTeams) P(hostRmaSupport) P(railedGinType) P(commHash) P(ginMinStride) P(ginConnectionType) P(ginSupport)
	P(devCommRuntimeVersionSize) P(cftSupport) P(cftMulticastSupport) P(cftCountedSupport)
	IS(ncclSuccess) IS(ncclUnhandledCudaError) IS(ncclSystemError) IS(ncclInternalError) IS(ncclInvalidArgument)
	IS(ncclInvalidUsage) IS(ncclRemoteError) IS(ncclInProgress) IS(ncclTimeout) IS(ncclNumResults)
	IS(ncclInt8) IS(ncclUint8) IS(ncclInt32) IS(ncclUint32) IS(ncclInt64) IS(ncclUint64) IS(ncclFloat16) IS(ncclFloat32)
	IS(ncclFloat64) IS(ncclBfloat16) IS(ncclFloat8e4m3) IS(ncclFloat8e5m2) IS(ncclNumTypes)
	IS(ncclSum) IS(ncclProd) IS(ncclMax) IS(ncclMin) IS(ncclAvg) IS(ncclNumOps) IS(ncclMaxRedOp)
	IS(ncclScalarDevice) IS(ncclScalarHostImmediate)
	IS(NCCL_API_MAGIC == 0xcafebeef) IS(NCCL_SPLIT_NOCOLOR) IS(NCCL_VERSION_CODE)
	IS(NCCL_VERSION(2, 8, 3)) IS(NCCL_VERSION(2, 28, 9))
	IS(NCCL_WIN_DEFAULT) IS(NCCL_WIN_COLL_SYMMETRIC) IS(NCCL_WIN_STRICT_ORDERING) IS(NCCL_WIN_GIN_ONLY)
	IS(NCCL_WIN_CFT_COUNTED) IS(NCCL_SHRINK_ABORT) IS(NCCL_SUSPEND_MEM) IS(NCCL_CTA_POLICY_ZERO)
	IS(ncclStatGpuMemSuspend) IS(ncclStatGpuMemSuspended) IS(ncclStatGpuMemPersist) IS(ncclStatGpuMemTotal)
	IS(NCCL_GIN_TYPE_EFA_GDA) IS(NCCL_GIN_CONNECTION_CUSTOM_STRIDE) IS(NCCL_CFT_TEAM_HIER_LSA)
	IS(ncclHostCftFallback) IS(NCCL_ENCRYPTION_MODE_PSK)
}

#ifdef NVIDIA
static void ours(void) {}
#else
static void ours(void) {
#define R(f) AT(goccl_request, f)
	SIZE(goccl_request) R(collective) R(type) R(op) R(root) R(send) R(recv) R(count) R(stream) R(scalar) R(scalar_ptr)
	R(send_counts) R(recv_displs) R(recv_elements) R(config)
#define G(f) AT(goccl_call_config, f)
	SIZE(goccl_call_config) G(min_ctas) G(max_ctas) G(algorithms) G(force) G(cta_policy) G(launched) G(all_counts)
	G(exact)
#define M(f) AT(goccl_comm_config, f)
	SIZE(goccl_comm_config) M(timeout_ns) M(op_timeout_ns) M(name) M(separate_graphs) M(min_ctas) M(max_ctas)
	M(rma_contexts) M(rma_signals) M(cta_policy) M(exact) M(reserved)
	SIZE(goccl_comm_info) AT(goccl_comm_info, device) AT(goccl_comm_info, non_blocking)
	SIZE(goccl_unique_id)
}
#endif

int main(void) {
	nvidias();
	ours();
	return 0;
}
