// NCCL's C ABI, the part that a benchmark needs, declared by ourselves.
#ifndef GOCCL_NCCLABI_H
#define GOCCL_NCCLABI_H
#include <stddef.h>
#include <stdint.h>

typedef struct { char internal[128]; } ncclUniqueId;
typedef void *comm_t, *stream_t;

// R: every NCCL since 2.7 has it. O: came later.
#define NCCL_API(R, O) \
	R(ncclGetVersion, (int *)) \
	R(ncclGetUniqueId, (ncclUniqueId *)) \
	R(ncclCommInitRank, (comm_t *, int, ncclUniqueId, int)) \
	R(ncclCommDestroy, (comm_t)) \
	R(ncclCommGetAsyncError, (comm_t, int *)) \
	R(ncclGroupStart, (void)) \
	R(ncclGroupEnd, (void)) \
	R(ncclAllReduce, (const void *, void *, size_t, int, int, comm_t, stream_t)) \
	R(ncclAllGather, (const void *, void *, size_t, int, comm_t, stream_t)) \
	R(ncclReduceScatter, (const void *, void *, size_t, int, int, comm_t, stream_t)) \
	R(ncclBroadcast, (const void *, void *, size_t, int, int, comm_t, stream_t)) \
	R(ncclReduce, (const void *, void *, size_t, int, int, int, comm_t, stream_t)) \
	R(ncclSend, (const void *, size_t, int, int, comm_t, stream_t)) \
	R(ncclRecv, (void *, size_t, int, int, comm_t, stream_t)) \
	O(ncclAlltoAll, (const void *, void *, size_t, int, comm_t, stream_t)) \
	O(ncclGather, (const void *, void *, size_t, int, int, comm_t, stream_t)) \
	O(ncclScatter, (const void *, void *, size_t, int, int, comm_t, stream_t)) \
	O(ncclRedOpCreatePreMulSum, (int *, void *, int, int, comm_t)) \
	O(ncclRedOpDestroy, (int, comm_t))
#define NCCL_FIELD(name, params) int(*name) params;
#define NCCL_INDEX(name, params) ABI_##name,
enum { NCCL_API(NCCL_INDEX, NCCL_INDEX) ABI_count };
typedef struct {
	NCCL_API(NCCL_FIELD, NCCL_FIELD)
	const char *(*ncclGetErrorString)(int);
	const char *(*ncclGetLastError)(comm_t);
	int (*getContext)(void **);
	int (*setContext)(void *);
} goccl_nccl;

// Opens a library. On failure NULL, and why in text. get and set are the driver's context functions, or 0.
goccl_nccl *goccl_nccl_open(const char *path, uint64_t get, uint64_t set, char *text, int size);
// Calls function index with ctx current (0: whatever is). abi.c says what a[] holds; p is the one pointer to Go memory,
// if any. Results that are handles come back in a[0]. -1: the library lacks the function; -2: the context could not be
// set.
int goccl_nccl_call(const goccl_nccl *lib, uint32_t index, uint64_t ctx, uint64_t *a, void *p);
int goccl_nccl_has(const goccl_nccl *lib, uint32_t index);
const char *goccl_nccl_error(const goccl_nccl *lib, int code);
const char *goccl_nccl_last(const goccl_nccl *lib, uint64_t comm);
#endif
