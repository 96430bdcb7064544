//go:build cgo && linux

#include "health.h"
#include "api.h"

#include <stdio.h>
#include <string.h>

// ASK stores a value if the function is there and succeeds.
#define ASK(name, type, to, ...) \
	do { \
		type v_ = 0; \
		if (t->name && !t->name(__VA_ARGS__, &v_)) (to) = v_; \
	} while (0)

static void read_links(const goccl_nvml *t, dev_t_ d, struct goccl_nvml_state *h) {
	if (!t->nvmlDeviceGetNvLinkState || !t->nvmlDeviceGetNvLinkErrorCounter) return;
	uint64_t *sums[4] = {&h->link_replays, &h->link_recoveries, &h->link_crc_flit, &h->link_crc_data};
	for (unsigned l = 0; l < GOCCL_NVML_LINKS; l++) {
		int active = 0;
		if (t->nvmlDeviceGetNvLinkState(d, l, &active) || !active) continue;
		for (int counter = 0; counter < 4; counter++) {
			u64 n = 0;
			if (t->nvmlDeviceGetNvLinkErrorCounter(d, l, counter, &n)) continue;
			*sums[counter] = (*sums[counter] == GOCCL_NVML_NONE ? 0 : *sums[counter]) + n;
		}
	}
}

static void read_one(const goccl_nvml *t, dev_t_ d, struct goccl_nvml_state *h) {
	enum { SM = 1, MEMORY = 2, GPU_SENSOR = 0, CORRECTED = 0, UNCORRECTED = 1, VOLATILE = 0 };
	memset(h, 0xff, sizeof *h); // -1 and NONE
	ASK(nvmlDeviceGetPersistenceMode, int, h->persistence, d);
	ASK(nvmlDeviceGetComputeMode, int, h->compute_mode, d);
	ASK(nvmlDeviceGetTemperature, unsigned, h->temperature, d, GPU_SENSOR);
	ASK(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, h->pcie_gen, d);
	ASK(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, h->pcie_gen_most, d);
	ASK(nvmlDeviceGetCurrPcieLinkWidth, unsigned, h->pcie_width, d);
	ASK(nvmlDeviceGetMaxPcieLinkWidth, unsigned, h->pcie_width_most, d);
	ASK(nvmlDeviceGetPcieReplayCounter, unsigned, h->pcie_replays, d);
	ASK(nvmlDeviceGetClockInfo, unsigned, h->sm_clock, d, SM);
	ASK(nvmlDeviceGetMaxClockInfo, unsigned, h->sm_clock_most, d, SM);
	ASK(nvmlDeviceGetClockInfo, unsigned, h->memory_clock, d, MEMORY);
	ASK(nvmlDeviceGetMaxClockInfo, unsigned, h->memory_clock_most, d, MEMORY);
	ASK(nvmlDeviceGetCurrentClocksThrottleReasons, u64, h->throttle, d);
	ASK(nvmlDeviceGetTotalEccErrors, u64, h->ecc_corrected, d, CORRECTED, VOLATILE);
	ASK(nvmlDeviceGetTotalEccErrors, u64, h->ecc_uncorrected, d, UNCORRECTED, VOLATILE);
	ASK(nvmlDeviceGetRetiredPagesPendingStatus, int, h->pages_pending, d);
	int ecc, pending;
	if (t->nvmlDeviceGetEccMode && !t->nvmlDeviceGetEccMode(d, &ecc, &pending)) h->ecc = ecc, h->ecc_pending = pending;
	unsigned mig, later, corrected, uncorrected, waiting, failed;
	if (t->nvmlDeviceGetMigMode && !t->nvmlDeviceGetMigMode(d, &mig, &later)) h->mig = (int)mig;
	if (t->nvmlDeviceGetRemappedRows && !t->nvmlDeviceGetRemappedRows(d, &corrected, &uncorrected, &waiting, &failed))
		h->rows_remapped = (int)(corrected + uncorrected), h->rows_pending = (int)waiting, h->rows_failed = (int)failed;
	amount_t bar, mem;
	if (t->nvmlDeviceGetBAR1MemoryInfo && !t->nvmlDeviceGetBAR1MemoryInfo(d, &bar))
		h->bar1_total = bar.total, h->bar1_free = bar.free;
	if (!t->nvmlDeviceGetMemoryInfo(d, &mem)) h->memory = mem.total;
	read_links(t, d, h);
}

int goccl_nvml_read_health(const char *path, goccl_nvml_health *out, int32_t *count, char *text, int size) {
	goccl_nvml t;
	int r = goccl_nvml_start(path, &t, text, size);
	if (r) return r;
	unsigned n = 0;
	if ((r = t.nvmlDeviceGetCount_v2(&n))) snprintf(text, size, "NVML does not count the GPUs");
	if (n > GOCCL_NVML_GPUS) n = GOCCL_NVML_GPUS;
	*count = 0;
	for (unsigned i = 0; i < n && !r; i++) {
		dev_t_ d;
		pci_t pci;
		goccl_nvml_health *h = &out[i];
		if ((r = t.nvmlDeviceGetHandleByIndex_v2(i, &d)) || (r = t.nvmlDeviceGetName(d, h->name, sizeof h->name)) ||
			(r = t.nvmlDeviceGetPciInfo_v3(d, &pci))) {
			snprintf(text, size, "GPU %u does not answer", i);
			break;
		}
		snprintf(h->bus, sizeof h->bus, "%.31s", pci.busId);
		read_one(&t, d, &h->state);
		*count = (int32_t)i + 1;
	}
	t.nvmlShutdown();
	return r;
}
