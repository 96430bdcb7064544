/* nccl.h: NCCL's host interface as libnccl.so.2 of goccl provides it, written from the ABI. A program may be compiled
 * with this header or with NVIDIA's: sizes, numbers and names are the same. docs/nccl-migration.md lists the
 * differences. */
#ifndef NCCL_H_
#define NCCL_H_

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#ifndef __cplusplus
#include <stdbool.h>
#endif

/* As NVIDIA's header does, bring the CUDA runtime and the small floats: to nvcc, and to other compilers that find
 * CUDA's headers. The runtime's headers need crt/, which pip has in a separate package. */
#ifdef __CUDACC__
#define NCCL_WITH_CUDA_
#elif defined(__has_include)
#if __has_include(<cuda_runtime.h>) && __has_include(<crt/host_config.h>)
#define NCCL_WITH_CUDA_
#endif
#endif
#ifdef NCCL_WITH_CUDA_
#undef NCCL_WITH_CUDA_
#include <cuda_runtime.h>
#ifdef __has_include
#if __has_include(<cuda_fp16.h>)
#include <cuda_fp16.h>
#endif
#if __has_include(<cuda_bf16.h>)
#include <cuda_bf16.h>
#endif
#if defined(__cplusplus) && __has_include(<cuda_fp8.h>)
#include <cuda_fp8.h>
#endif
#endif
#endif

/* Types of the CUDA runtime, without its header. */
#ifndef __CUDA_RUNTIME_H__
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
#endif

#define NCCL_MAJOR 2
#define NCCL_MINOR 32
#define NCCL_PATCH 3
#define NCCL_SUFFIX ""
#define NCCL_VERSION(X, Y, Z) (((X) <= 2 && (Y) <= 8) ? (X) * 1000 + (Y) * 100 + (Z) : (X) * 10000 + (Y) * 100 + (Z))
#define NCCL_VERSION_CODE NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;
#define NCCL_COMM_NULL NULL

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct { char internal[NCCL_UNIQUE_ID_BYTES]; } ncclUniqueId;

typedef enum {
	ncclSuccess = 0,
	ncclUnhandledCudaError = 1,
	ncclSystemError = 2,
	ncclInternalError = 3,
	ncclInvalidArgument = 4,
	ncclInvalidUsage = 5,
	ncclRemoteError = 6,
	ncclInProgress = 7,
	ncclTimeout = 8,
	ncclNumResults = 9
} ncclResult_t;

typedef enum {
	ncclInt8 = 0, ncclChar = 0, ncclUint8 = 1, ncclInt32 = 2, ncclInt = 2, ncclUint32 = 3, ncclInt64 = 4,
	ncclUint64 = 5,
	ncclFloat16 = 6, ncclHalf = 6, ncclFloat32 = 7, ncclFloat = 7, ncclFloat64 = 8, ncclDouble = 8, ncclBfloat16 = 9,
	ncclFloat8e4m3 = 10, ncclFloat8e5m2 = 11, ncclNumTypes = 12
} ncclDataType_t;

typedef enum {
	ncclSum = 0,
	ncclProd = 1,
	ncclMax = 2,
	ncclMin = 3,
	ncclAvg = 4,
	ncclNumOps = 5,
	ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;
typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;
typedef enum {
	ncclStatGpuMemSuspend = 0,
	ncclStatGpuMemSuspended = 1,
	ncclStatGpuMemPersist = 2,
	ncclStatGpuMemTotal = 3
} ncclCommMemStat_t;
typedef enum {
	NCCL_GIN_TYPE_NONE = 0,
	NCCL_GIN_TYPE_PROXY = 2,
	NCCL_GIN_TYPE_GDAKI = 3,
	NCCL_GIN_TYPE_GPI = 4,
	NCCL_GIN_TYPE_EFA_GDA = 5
} ncclGinType_t;
typedef enum {
	NCCL_GIN_CONNECTION_NONE,
	NCCL_GIN_CONNECTION_FULL,
	NCCL_GIN_CONNECTION_RAIL,
	NCCL_GIN_CONNECTION_CUSTOM_STRIDE
} ncclGinConnectionType_t;
typedef enum { NCCL_CFT_TEAM_FLAT, NCCL_CFT_TEAM_HIER_MULTIMEM, NCCL_CFT_TEAM_HIER_LSA } ncclCftTeamMode_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT (-1.0f)
#define NCCL_SPLIT_NOCOLOR (-1)
#define NCCL_API_MAGIC 0xcafebeefu
#define NCCL_SIM_INFO_MAGIC 0x74685283u
#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_STRICT_ORDERING 0x02
#define NCCL_WIN_GIN_ONLY 0x04
#define NCCL_WIN_CFT_COUNTED 0x08
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096
#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02
#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01
#define NCCL_REVOKE_DEFAULT 0x00
#define NCCL_SUSPEND_MEM 0x01

/* size, magic and version determine the fields that the caller knows; see the initialiser. docs/nccl-migration.md lists
 * the fields that goccl uses. */
typedef struct ncclConfig {
	size_t size;
	unsigned int magic;
	unsigned int version;
	int blocking;
	int cgaClusterSize, minCTAs, maxCTAs;
	const char *netName;
	int splitShare;
	int trafficClass;
	const char *commName;
	int collnetEnable, CTAPolicy, shrinkShare, nvlsCTAs;
	int nChannelsPerNetPeer, nvlinkCentricSched;
	int graphUsageMode, numRmaCtx;
	int maxP2pPeers;
	int graphStreamOrdering;
	int launchOrderImplicit, numRmaSig, rmaEagerInit, hostCftMode;
	int nvlsHostMode;
} ncclConfig_t;

#define NCCL_UNDEFINED_INTS_4_ \
	NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT
#define NCCL_CONFIG_INITIALIZER \
	{ sizeof(ncclConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, NCCL_UNDEFINED_INTS_4_, \
	  NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, \
	  NCCL_UNDEFINED_INTS_4_, NCCL_UNDEFINED_INTS_4_, NCCL_UNDEFINED_INTS_4_, \
	  NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT }

enum { ncclHostCftDefault = NCCL_CONFIG_UNDEF_INT, ncclHostCftEnable = 1, ncclHostCftDisable, ncclHostCftFallback };

/* The configuration of one call; all ranks must give the same. Extensions belong to a vendor, whose number is in the
 * key; others are ignored. goccl's are, with the member of val: s, names of algorithms or plans as GOCCL_ALGO has them,
 * separated by commas; i, the most thread blocks, and so SMs; i, the level of exact sums, 1: batch, 2: placement,
 * 3: reference (docs/exact.md). */
enum { GOCCL_VENDOR_ID = 0x90cc1, GOCCL_OPTION_ALGORITHM = 1, GOCCL_OPTION_MAX_CTAS, GOCCL_OPTION_EXACT };

typedef struct ncclConfigExt {
	struct ncclConfigExt *next;
	struct { int vendorId, optionId; } key;
	union { int i; const char *s; void *raw; } val;
} ncclConfigExt_t;

typedef struct ncclCollConfig {
	size_t size;
	unsigned int magic;
	unsigned int version;
	ncclConfigExt_t *ext;
	int minCTAs, maxCTAs, nvlsCTAs, cgaClusterSize;
	const char *algSelection;
	int forceAlgSelection;
	int CTAPolicy;
	uint64_t userProfilerTag;
	cudaEvent_t launchCompletionEvent;
} ncclCollConfig_t;

#define NCCL_COLLCONFIG_INITIALIZER \
	{ sizeof(ncclCollConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_PTR, NCCL_UNDEFINED_INTS_4_, \
	  NCCL_CONFIG_UNDEF_PTR, 1, NCCL_CONFIG_UNDEF_INT, 0, NCCL_CONFIG_UNDEF_PTR }

typedef enum { NCCL_ENCRYPTION_MODE_NONE = 0, NCCL_ENCRYPTION_MODE_PSK = 1 } ncclEncryptionMode_t;
typedef struct ncclEncryptionConfig {
	size_t size;
	unsigned int magic;
	unsigned int version;
	int mode;
	const char *psk;
} ncclEncryptionConfig_t;

#define NCCL_ENCRYPTION_CONFIG_INITIALIZER \
	{ sizeof(ncclEncryptionConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, NCCL_ENCRYPTION_MODE_NONE, \
	  NCCL_CONFIG_UNDEF_PTR }

typedef struct ncclSimInfo {
	size_t size;
	unsigned int magic;
	unsigned int version;
	float estimatedTime;
} ncclSimInfo_t;
#define NCCL_SIM_INFO_INITIALIZER { sizeof(ncclSimInfo_t), NCCL_SIM_INFO_MAGIC, NCCL_VERSION_CODE, NCCL_UNDEF_FLOAT }

typedef struct ncclCommProperties {
	size_t size;
	unsigned int magic;
	unsigned int version;
	int rank, nRanks, cudaDev, nvmlDev;
	bool deviceApiSupport, multimemSupport;
	ncclGinType_t ginType;
	int nLsaTeams;
	bool hostRmaSupport;
	ncclGinType_t railedGinType;
	uint64_t commHash;
	int ginMinStride;
	ncclGinConnectionType_t ginConnectionType;
	bool ginSupport[64];
	size_t devCommRuntimeVersionSize;
	bool cftSupport, cftMulticastSupport, cftCountedSupport;
} ncclCommProperties_t;
#define NCCL_COMM_PROPERTIES_INITIALIZER { sizeof(ncclCommProperties_t), NCCL_API_MAGIC, NCCL_VERSION_CODE }

typedef struct ncclWaitSignalDesc { int opCnt, peer, sigIdx, ctx; } ncclWaitSignalDesc_t;
typedef struct ncclTeam { int nRanks, rank, stride; } ncclTeam_t;
typedef struct ncclParamHandle *ncclParamHandle_t;

/* Structures of the device API. Kernels and their host code are compiled with NVIDIA's nccl_device.h. */
typedef struct ncclDevComm ncclDevComm_t;
typedef struct ncclDevCommRequirements ncclDevCommRequirements_t;
typedef struct ncclDevResourceRequirements ncclDevResourceRequirements_t;
typedef struct ncclMultimemHandle { void *mcBasePtr; } ncclMultimemHandle_t;

/* Every function has a twin with the prefix p. The twin remains when a tool replaces the function. */
#define NCCL_API(ret, name, ...) \
	ret name(__VA_ARGS__); \
	ret p##name(__VA_ARGS__);
#define NCCL_LACKS(feature, name, ...) NCCL_API(ncclResult_t, name, __VA_ARGS__)
#include "api.h"
#undef NCCL_API
#undef NCCL_LACKS

#ifdef __cplusplus
}
#endif
#endif
