// NVML of a machine with three GPUs: 0 and 1 have four links to a switch and two to each other, 2 has none and no P2P.
#include <stdio.h>
#include <string.h>
typedef struct { char legacy[16]; unsigned domain, bus, device, id, sub; char busId[32]; } pci_t;
static int open_;
int nvmlInit_v2(void) { open_++; return 0; }
int nvmlShutdown(void) { return open_-- > 0 ? 0 : 1; }
const char *nvmlErrorString(int r) { return r == 1 ? "Uninitialized" : "Not Supported"; }
int nvmlSystemGetDriverVersion(char *s, unsigned n) { snprintf(s, n, "580.159.04"); return open_ ? 0 : 1; }
int nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = 13000; return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 3; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = (void *)(unsigned long)(i + 1); return 0; }
#define I ((int)(unsigned long)d - 1)
int nvmlDeviceGetName(void *d, char *s, unsigned n) { snprintf(s, n, "Mock %d", I); return 0; }
int nvmlDeviceGetUUID(void *d, char *s, unsigned n) { snprintf(s, n, "GPU-%d", I); return 0; }
int nvmlDeviceGetPciInfo_v3(void *d, pci_t *p) {
	memset(p, 0, sizeof *p);
	snprintf(p->busId, 32, "00000000:%02X:00.0", 0x1A + I);
	return 0;
}
int nvmlDeviceGetMemoryInfo(void *d, unsigned long long *m) { m[0] = (unsigned long long)(I + 1) << 30; return 0; }
int nvmlDeviceGetCudaComputeCapability(void *d, int *a, int *b) { (void)d; *a = 9, *b = 0; return 0; }
int nvmlDeviceGetMigMode(void *d, unsigned *a, unsigned *b) { *a = I == 2, *b = 0; return 0; }
int nvmlDeviceGetNvLinkState(void *d, unsigned l, int *a) { *a = I < 2 && l < 6; return I < 2 ? 0 : 3; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *d, unsigned l, pci_t *p) {
	snprintf(p->busId, 32, l < 4 ? "00000000:07:00.0" : "00000000:%02X:00.0", 0x1A + !I);
	return 0;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void *d, unsigned l, int *t) { (void)d; *t = l < 4 ? 2 : 0; return 0; }
int nvmlDeviceGetP2PStatus(void *d, void *e, int idx, int *s) {
	*s = idx == 1 && d != (void *)3 && e != (void *)3 ? 0 : 1;
	return 0;
}
int nvmlDeviceGetTopologyCommonAncestor(void *d, void *e, int *l) {
	*l = d == (void *)3 || e == (void *)3 ? 50 : 40;
	return 0;
}
// Health: GPU 0 is well, 1 has trouble of every kind, 2 knows nothing.
#define KNOWS if (I == 2) return 3
int nvmlDeviceGetPersistenceMode(void *d, int *v) { KNOWS; *v = I == 0; return 0; }
int nvmlDeviceGetEccMode(void *d, int *a, int *b) { KNOWS; *a = I == 0, *b = 1; return 0; }
int nvmlDeviceGetComputeMode(void *d, int *v) { KNOWS; *v = I ? 3 : 0; return 0; }
int nvmlDeviceGetTemperature(void *d, int s, unsigned *v) { KNOWS; *v = s ? 0 : 40 + 50 * I; return 0; }
int nvmlDeviceGetCurrPcieLinkGeneration(void *d, unsigned *v) { KNOWS; *v = I ? 1 : 5; return 0; }
int nvmlDeviceGetMaxPcieLinkGeneration(void *d, unsigned *v) { KNOWS; *v = 5; return 0; }
int nvmlDeviceGetCurrPcieLinkWidth(void *d, unsigned *v) { KNOWS; *v = I ? 8 : 16; return 0; }
int nvmlDeviceGetMaxPcieLinkWidth(void *d, unsigned *v) { KNOWS; *v = 16; return 0; }
int nvmlDeviceGetPcieReplayCounter(void *d, unsigned *v) { KNOWS; *v = I * 1234; return 0; }
int nvmlDeviceGetClockInfo(void *d, int c, unsigned *v) { KNOWS; *v = (c == 1 ? 1980 : 2619) / (1 + I); return 0; }
int nvmlDeviceGetMaxClockInfo(void *d, int c, unsigned *v) { KNOWS; *v = c == 1 ? 1980 : 2619; return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, unsigned long long *v) { KNOWS; *v = I ? 0x40 : 0; return 0; }
int nvmlDeviceGetBAR1MemoryInfo(void *d, unsigned long long *v) {
	KNOWS;
	v[0] = I ? 256ull << 20 : 256ull << 30, v[1] = v[0] - (1 << 20), v[2] = 1 << 20;
	return 0;
}
int nvmlDeviceGetTotalEccErrors(void *d, int kind, int counter, unsigned long long *v) {
	KNOWS;
	*v = counter == 0 && I ? 7 + kind : 0;
	return 0;
}
int nvmlDeviceGetRemappedRows(void *d, unsigned *a, unsigned *b, unsigned *pending, unsigned *failed) {
	KNOWS;
	*a = I, *b = 2 * I, *pending = I, *failed = I;
	return 0;
}
int nvmlDeviceGetRetiredPagesPendingStatus(void *d, int *v) { KNOWS; *v = 0; return 0; }
int nvmlDeviceGetNvLinkErrorCounter(void *d, unsigned l, int c, unsigned long long *v) {
	*v = I ? l + 100 * c : 0;
	return 0;
}
