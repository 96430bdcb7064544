// The state of GPUs that decides whether they work well, read in one call. -1, or NONE, means that NVML does not know.
#ifndef GOCCL_NVML_HEALTH_H
#define GOCCL_NVML_HEALTH_H
#include "nvml.h"

#include <stddef.h>

#define GOCCL_NVML_NONE UINT64_MAX

// The state of one GPU, which Go has as State.
struct goccl_nvml_state {
	int32_t persistence, ecc, mig; // 1: it is on
	int32_t ecc_pending;           // ECC after the next start
	int32_t compute_mode;          // NVML's: 0 all processes, 2 none, 3 one
	int32_t temperature;           // °C
	int32_t pcie_gen, pcie_gen_most, pcie_width, pcie_width_most; // now, and what device and slot can do
	int32_t sm_clock, sm_clock_most, memory_clock, memory_clock_most; // MHz
	int32_t rows_pending, rows_failed; // rows of memory whose replacement needs a reset, or a new GPU
	int32_t rows_remapped, pages_pending;
	uint64_t bar1_total, bar1_free, memory; // bytes
	uint64_t throttle; // bits of NVML's reasons
	// Counters since the driver was loaded; of links over all NVLinks.
	uint64_t pcie_replays, ecc_corrected, ecc_uncorrected;
	uint64_t link_replays, link_recoveries, link_crc_flit, link_crc_data;
};

typedef struct {
	char name[96], bus[32];
	struct goccl_nvml_state state;
} goccl_nvml_health;

int goccl_nvml_read_health(const char *path, goccl_nvml_health *out, int32_t *count, char *text, int size);
#endif
