// Macros with which operations call the driver's functions and report failures.
#ifndef GOCCL_DRIVER_CALL_H
#define GOCCL_DRIVER_CALL_H
#include "api.h"

#define FAIL(name, r) (((uint64_t)API_##name << 32) | (uint32_t)(r))
// TRY calls a function. On failure it returns from the operation.
#define TRY(name, ...) \
	do { \
		if (!goccl_cu.name) return FAIL(name, GOCCL_NOT_SUPPORTED); \
		CUresult r_ = goccl_cu.name(__VA_ARGS__); \
		if (r_) return FAIL(name, r_); \
	} while (0)
// ELSE calls a function. On failure it stores the failure in `bad` and jumps to label (for operations with a rollback).
#define ELSE(label, name, ...) \
	do { \
		CUresult r_ = goccl_cu.name(__VA_ARGS__); \
		if (r_) { \
			bad = FAIL(name, r_); \
			goto label; \
		} \
	} while (0)

#define PTR(T, x) ((T)(uintptr_t)(x))
#define LO(x) ((uint32_t)(x))
#define HI(x) ((uint32_t)((x) >> 32))

// goccl_launch is OP_Launch. a: func, stream, grid x|y, grid z|block x, block y|block z, shared|flags, cluster x|y, cluster z, parameter bytes; p: parameters.
enum { LAUNCH_COOPERATIVE = 1, LAUNCH_OVERLAP = 2 }; // flags
uint64_t goccl_launch(uint64_t *a, void *p);
#endif
