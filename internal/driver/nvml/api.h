// The part of NVML's ABI that goccl calls. Each read opens the library, starts it, asks for everything and shuts it
// down.
#ifndef GOCCL_NVML_API_H
#define GOCCL_NVML_API_H
#include <stdint.h>

typedef void *dev_t_;
typedef unsigned long long u64;
typedef struct {
	char busIdLegacy[16];
	unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
	char busId[32];
} pci_t;
typedef struct { u64 total, free, used; } amount_t; // of memory, and of BAR1

#define NVML_API(R, O) \
	R(nvmlInit_v2, (void)) \
	R(nvmlShutdown, (void)) \
	R(nvmlSystemGetDriverVersion, (char *, unsigned)) \
	R(nvmlDeviceGetCount_v2, (unsigned *)) \
	R(nvmlDeviceGetHandleByIndex_v2, (unsigned, dev_t_ *)) \
	R(nvmlDeviceGetName, (dev_t_, char *, unsigned)) \
	R(nvmlDeviceGetUUID, (dev_t_, char *, unsigned)) \
	R(nvmlDeviceGetPciInfo_v3, (dev_t_, pci_t *)) \
	R(nvmlDeviceGetMemoryInfo, (dev_t_, amount_t *)) \
	O(nvmlSystemGetCudaDriverVersion_v2, (int *)) \
	O(nvmlDeviceGetCudaComputeCapability, (dev_t_, int *, int *)) \
	O(nvmlDeviceGetMigMode, (dev_t_, unsigned *, unsigned *)) \
	O(nvmlDeviceGetNvLinkState, (dev_t_, unsigned, int *)) \
	O(nvmlDeviceGetNvLinkRemotePciInfo_v2, (dev_t_, unsigned, pci_t *)) \
	O(nvmlDeviceGetNvLinkRemoteDeviceType, (dev_t_, unsigned, int *)) \
	O(nvmlDeviceGetP2PStatus, (dev_t_, dev_t_, int, int *)) \
	O(nvmlDeviceGetTopologyCommonAncestor, (dev_t_, dev_t_, int *)) \
	O(nvmlDeviceGetPersistenceMode, (dev_t_, int *)) \
	O(nvmlDeviceGetEccMode, (dev_t_, int *, int *)) \
	O(nvmlDeviceGetComputeMode, (dev_t_, int *)) \
	O(nvmlDeviceGetTemperature, (dev_t_, int, unsigned *)) \
	O(nvmlDeviceGetCurrPcieLinkGeneration, (dev_t_, unsigned *)) \
	O(nvmlDeviceGetMaxPcieLinkGeneration, (dev_t_, unsigned *)) \
	O(nvmlDeviceGetCurrPcieLinkWidth, (dev_t_, unsigned *)) \
	O(nvmlDeviceGetMaxPcieLinkWidth, (dev_t_, unsigned *)) \
	O(nvmlDeviceGetPcieReplayCounter, (dev_t_, unsigned *)) \
	O(nvmlDeviceGetClockInfo, (dev_t_, int, unsigned *)) \
	O(nvmlDeviceGetMaxClockInfo, (dev_t_, int, unsigned *)) \
	O(nvmlDeviceGetCurrentClocksThrottleReasons, (dev_t_, u64 *)) \
	O(nvmlDeviceGetBAR1MemoryInfo, (dev_t_, amount_t *)) \
	O(nvmlDeviceGetTotalEccErrors, (dev_t_, int, int, u64 *)) \
	O(nvmlDeviceGetRemappedRows, (dev_t_, unsigned *, unsigned *, unsigned *, unsigned *)) \
	O(nvmlDeviceGetRetiredPagesPendingStatus, (dev_t_, int *)) \
	O(nvmlDeviceGetNvLinkErrorCounter, (dev_t_, unsigned, int, u64 *))

#define NVML_FIELD(name, params) int(*name) params;
typedef struct {
	NVML_API(NVML_FIELD, NVML_FIELD)
	const char *(*nvmlErrorString)(int);
} goccl_nvml;

// goccl_nvml_start opens and starts NVML. It returns 0, or NVML's error; -1: the library cannot be opened or lacks a
// function. text says what failed.
int goccl_nvml_start(const char *path, goccl_nvml *t, char *text, int size);
#endif
