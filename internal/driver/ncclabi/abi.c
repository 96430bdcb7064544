//go:build cgo && linux

#define _GNU_SOURCE
#include "abi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int goccl_nccl_has(const goccl_nccl *lib, uint32_t i) { return i < ABI_count && ((void *const *)lib)[i] != NULL; }

goccl_nccl *goccl_nccl_open(const char *path, uint64_t get, uint64_t set, char *text, int size) {
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		snprintf(text, size, "%s", dlerror());
		return NULL;
	}
	goccl_nccl *t = calloc(1, sizeof *t);
	void **slot = (void **)t;
#define MUST(name, params) \
	if (!(slot[ABI_##name] = dlsym(lib, #name))) { \
		snprintf(text, size, "%s has no %s: it does not speak NCCL's ABI", path, #name); \
		free(t); \
		dlclose(lib); \
		return NULL; \
	}
#define MAY(name, params) slot[ABI_##name] = dlsym(lib, #name);
	NCCL_API(MUST, MAY)
	*(void **)&t->ncclGetErrorString = dlsym(lib, "ncclGetErrorString");
	*(void **)&t->ncclGetLastError = dlsym(lib, "ncclGetLastError");
	*(void **)&t->getContext = (void *)(uintptr_t)get;
	*(void **)&t->setContext = (void *)(uintptr_t)set;
	return t;
}

const char *goccl_nccl_error(const goccl_nccl *lib, int code) {
	return lib->ncclGetErrorString ? lib->ncclGetErrorString(code) : NULL;
}
const char *goccl_nccl_last(const goccl_nccl *lib, uint64_t comm) {
	return lib->ncclGetLastError ? lib->ncclGetLastError((comm_t)(uintptr_t)comm) : NULL;
}

#define P(i) ((void *)(uintptr_t)a[i])
#define I(i) ((int)(int64_t)a[i])

static int call(const goccl_nccl *lib, uint32_t index, uint64_t *a, void *p) {
	if (!goccl_nccl_has(lib, index)) return -1;
	int i = 0, r;
	void *h = NULL;
	ncclUniqueId id;
	switch (index) {
	case ABI_ncclGetVersion: r = lib->ncclGetVersion(&i); a[0] = (uint64_t)i; return r;
	case ABI_ncclGetUniqueId: r = lib->ncclGetUniqueId(&id); memcpy(p, &id, sizeof id); return r;
	case ABI_ncclCommInitRank: // a: nranks, rank; p: id
		memcpy(&id, p, sizeof id);
		r = lib->ncclCommInitRank(&h, I(0), id, I(1));
		a[0] = (uintptr_t)h;
		return r;
	case ABI_ncclCommDestroy: return lib->ncclCommDestroy(P(0));
	case ABI_ncclCommGetAsyncError: r = lib->ncclCommGetAsyncError(P(0), &i); a[0] = (uint64_t)i; return r;
	case ABI_ncclGroupStart: return lib->ncclGroupStart();
	case ABI_ncclGroupEnd: return lib->ncclGroupEnd();
	// a: send, recv, count, type, op, root or peer, comm, stream
	case ABI_ncclAllReduce: return lib->ncclAllReduce(P(0), P(1), a[2], I(3), I(4), P(6), P(7));
	case ABI_ncclAllGather: return lib->ncclAllGather(P(0), P(1), a[2], I(3), P(6), P(7));
	case ABI_ncclReduceScatter: return lib->ncclReduceScatter(P(0), P(1), a[2], I(3), I(4), P(6), P(7));
	case ABI_ncclBroadcast: return lib->ncclBroadcast(P(0), P(1), a[2], I(3), I(5), P(6), P(7));
	case ABI_ncclReduce: return lib->ncclReduce(P(0), P(1), a[2], I(3), I(4), I(5), P(6), P(7));
	case ABI_ncclSend: return lib->ncclSend(P(0), a[2], I(3), I(5), P(6), P(7));
	case ABI_ncclRecv: return lib->ncclRecv(P(1), a[2], I(3), I(5), P(6), P(7));
	case ABI_ncclAlltoAll: return lib->ncclAlltoAll(P(0), P(1), a[2], I(3), P(6), P(7));
	case ABI_ncclGather: return lib->ncclGather(P(0), P(1), a[2], I(3), I(5), P(6), P(7));
	case ABI_ncclScatter: return lib->ncclScatter(P(0), P(1), a[2], I(3), I(5), P(6), P(7));
	case ABI_ncclRedOpCreatePreMulSum: // a: type, residence, comm, device scalar; p: host scalar
		r = lib->ncclRedOpCreatePreMulSum(&i, p ? p : P(3), I(0), I(1), P(2));
		a[0] = (uint64_t)i;
		return r;
	case ABI_ncclRedOpDestroy: return lib->ncclRedOpDestroy(I(0), P(1));
	}
	return -1;
}

int goccl_nccl_call(const goccl_nccl *lib, uint32_t index, uint64_t ctx, uint64_t *a, void *p) {
	void *want = (void *)(uintptr_t)ctx, *prev = NULL;
	int swapped = 0;
	if (want && lib->getContext) {
		if (lib->getContext(&prev)) return -2;
		if (prev != want) {
			if (lib->setContext(want)) return -2;
			swapped = 1;
		}
	}
	int r = call(lib, index, a, p);
	if (swapped) lib->setContext(prev);
	return r;
}
