// The part of NVML's ABI that a topology needs, read in one call into plain structs.
#ifndef GOCCL_NVML_H
#define GOCCL_NVML_H
#include <stdint.h>

enum { GOCCL_NVML_GPUS = 32, GOCCL_NVML_LINKS = 18 };

// Kinds of a link's far end. NONE: the link is down or not there.
enum { GOCCL_LINK_NONE = 0, GOCCL_LINK_GPU = 1, GOCCL_LINK_SWITCH = 2, GOCCL_LINK_OTHER = 3 };

typedef struct {
	char name[96], uuid[96], bus[32];
	uint64_t memory; // bytes
	int32_t major, minor, mig;
	int32_t link[GOCCL_NVML_LINKS];
	char remote[GOCCL_NVML_LINKS][32]; // bus id of the far end
} goccl_nvml_gpu;

typedef struct {
	char driver[96];
	int32_t cuda, count;
	goccl_nvml_gpu gpu[GOCCL_NVML_GPUS];
	int32_t p2p[GOCCL_NVML_GPUS][GOCCL_NVML_GPUS];      // NVML's P2P status for writes, -1: not known
	int32_t ancestor[GOCCL_NVML_GPUS][GOCCL_NVML_GPUS]; // NVML's topology level, -1: not known
} goccl_nvml_info;

// Returns 0, or NVML's error; -1: the library cannot be opened or lacks a function. text says what failed.
int goccl_nvml_read(const char *path, goccl_nvml_info *out, char *text, int size);
#endif
