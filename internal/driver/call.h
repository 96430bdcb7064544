// Macros with which operations call the driver's functions and report failures.
#ifndef GOCCL_DRIVER_CALL_H
#define GOCCL_DRIVER_CALL_H
#include "api.h"

#include <string.h>

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

enum { LAUNCH_OVERLAP = 1 }; // flags

// goccl_launch launches a kernel. a: func, stream, grid x|y, grid z|block x, block y|block z, shared|flags,
// cluster x|y, cluster z, parameter bytes; p: parameters.
static inline __attribute__((always_inline)) uint64_t goccl_launch(uint64_t *a, void *p) {
	size_t size = a[8];
	void *extra[] = {(void *)1, p, (void *)2, &size, (void *)0};
	void **ex = size ? extra : NULL;
	uint32_t flags = HI(a[5]);
	if (!a[6] && !flags) {
		TRY(cuLaunchKernel, PTR(CUfunction, a[0]), LO(a[2]), HI(a[2]), LO(a[3]), HI(a[3]), LO(a[4]), HI(a[4]), LO(a[5]),
			PTR(CUstream, a[1]), NULL, ex);
		return 0;
	}
	CUlaunchAttribute attr[2];
	unsigned n = 0;
	memset(attr, 0, sizeof attr);
	if (a[6]) {
		attr[n].id = 4;
		attr[n].value.dim.x = LO(a[6]), attr[n].value.dim.y = HI(a[6]), attr[n].value.dim.z = LO(a[7]);
		n++;
	}
	if (flags & LAUNCH_OVERLAP) attr[n].id = 6, attr[n].value.i = 1, n++;
	CUlaunchConfig c = {LO(a[2]), HI(a[2]), LO(a[3]), HI(a[3]), LO(a[4]), HI(a[4]), LO(a[5]), PTR(CUstream, a[1]), attr,
		n};
	TRY(cuLaunchKernelEx, &c, PTR(CUfunction, a[0]), NULL, ex);
	return 0;
}

// The context that a thread had before an operation, if that uses another.
struct current {
	CUcontext before;
	int swapped;
};

// use_context makes ctx the thread's current context; 0 leaves the current one.
static inline uint64_t use_context(uint64_t context, struct current *c) {
	CUcontext ctx = PTR(CUcontext, context);
	*c = (struct current){0};
	if (!ctx) return 0;
	TRY(cuCtxGetCurrent, &c->before);
	if (c->before == ctx) return 0;
	TRY(cuCtxSetCurrent, ctx);
	c->swapped = 1;
	return 0;
}

static inline void restore_context(const struct current *c) {
	if (c->swapped) goccl_cu.cuCtxSetCurrent(c->before);
}
#endif
