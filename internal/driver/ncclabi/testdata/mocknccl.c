// A library with NCCL's ABI for one process, over host memory: ranks meet at InitRank, collectives are checked for
// their arguments and done for communicators of one rank; sends meet receives of the same group.
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct { char internal[128]; } ncclUniqueId;
typedef struct comm { int rank, n, device; float scale; } *ncclComm_t;
enum { OK = 0, ARG = 4, USAGE = 5 };
static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
static __thread int depth;
static __thread struct { const void *send; void *recv; size_t n; } pending;
static const char *last = "";
static int fail(const char *why) { last = why; return ARG; }

int ncclGetVersion(int *v) { *v = 22809; return OK; }
const char *ncclGetErrorString(int r) {
	return r == ARG ? "invalid argument" : r == USAGE ? "invalid usage" : "no error";
}
const char *ncclGetLastError(ncclComm_t c) { (void)c; return last; }
int ncclGetUniqueId(ncclUniqueId *id) { for (int i = 0; i < 128; i++) id->internal[i] = (char)(i * 3 + 1); return OK; }
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cv = PTHREAD_COND_INITIALIZER;
static int arrived;
int ncclCommInitRank(ncclComm_t *c, int n, ncclUniqueId id, int rank) {
	for (int i = 0; i < 128; i++)
		if (id.internal[i] != (char)(i * 3 + 1)) return fail("the unique id did not arrive by value");
	if (rank < 0 || rank >= n) return fail("rank");
	pthread_mutex_lock(&mu);
	int want = (arrived / n + 1) * n;
	if (++arrived == want) pthread_cond_broadcast(&cv);
	while (arrived < want) pthread_cond_wait(&cv, &mu);
	pthread_mutex_unlock(&mu);
	*c = calloc(1, sizeof **c);
	(*c)->rank = rank, (*c)->n = n;
	return OK;
}
int ncclCommInitAll(ncclComm_t *c, int n, const int *devs) {
	for (int i = 0; i < n; i++) c[i] = calloc(1, sizeof **c), c[i]->rank = i, c[i]->n = n, c[i]->device = devs[i];
	return devs[n - 1] == 40 + n - 1 ? OK : fail("device list");
}
int ncclCommDestroy(ncclComm_t c) { free(c); return OK; }
int ncclCommAbort(ncclComm_t c) { free(c); return OK; }
int ncclCommGetAsyncError(ncclComm_t c, int *r) { (void)c; *r = OK; return OK; }
int ncclGroupStart(void) { depth++; return OK; }
int ncclGroupEnd(void) {
	if (!depth--) { depth = 0; last = "group end without start"; return USAGE; }
	if (pending.send && pending.recv) memcpy(pending.recv, pending.send, pending.n);
	memset(&pending, 0, sizeof pending);
	return OK;
}
static int copy(const void *s, void *r, size_t n, int t, ncclComm_t c, void *stream) {
	if (!c || t < 0 || t > 11) return fail("type");
	if (stream != (void *)0x51) return fail("stream");
	if (c->n == 1) memmove(r, s, n * sizes[t]);
	return OK;
}
int ncclAllReduce(const void *s, void *r, size_t n, int t, int op, ncclComm_t c, void *st) {
	int e = copy(s, r, n, t, c, st);
	if (!e && op == 5) for (size_t i = 0; i < n; i++) ((float *)r)[i] *= c->scale;
	return e ? e : op < 0 || op > 5 ? fail("op") : OK;
}
int ncclAllGather(const void *s, void *r, size_t n, int t, ncclComm_t c, void *st) { return copy(s, r, n, t, c, st); }
int ncclReduceScatter(const void *s, void *r, size_t n, int t, int op, ncclComm_t c, void *st) {
	return op == 2 ? copy(s, r, n, t, c, st) : fail("op");
}
int ncclBroadcast(const void *s, void *r, size_t n, int t, int root, ncclComm_t c, void *st) {
	return root == 0 ? copy(s, r, n, t, c, st) : fail("root");
}
int ncclReduce(const void *s, void *r, size_t n, int t, int op, int root, ncclComm_t c, void *st) {
	return root == 0 && op == 3 ? copy(s, r, n, t, c, st) : fail("root or op");
}
int ncclAlltoAll(const void *s, void *r, size_t n, int t, ncclComm_t c, void *st) { return copy(s, r, n, t, c, st); }
int ncclGather(const void *s, void *r, size_t n, int t, int root, ncclComm_t c, void *st) {
	return root == 0 ? copy(s, r, n, t, c, st) : fail("root");
}
int ncclSend(const void *s, size_t n, int t, int peer, ncclComm_t c, void *st) {
	(void)c, (void)st;
	if (!depth || peer) return fail("peer");
	pending.send = s, pending.n = n * sizes[t];
	return OK;
}
int ncclRecv(void *r, size_t n, int t, int peer, ncclComm_t c, void *st) {
	(void)c, (void)st;
	if (!depth || peer) return fail("peer");
	pending.recv = r, pending.n = n * sizes[t];
	return OK;
}
int ncclMemAlloc(void **p, size_t n) { *p = calloc(1, n); return OK; }
int ncclMemFree(void *p) { free(p); return OK; }
int ncclCommWindowRegister(ncclComm_t c, void *p, size_t n, void **w, int flags) {
	*w = c;
	return p && n == 4096 && flags == 1 ? OK : fail("window");
}
int ncclCommWindowDeregister(ncclComm_t c, void *w) { return w == c ? OK : fail("window"); }
int ncclRedOpCreatePreMulSum(int *op, void *scalar, int t, int residence, ncclComm_t c) {
	if (t != 7 || residence != 1) return fail("premulsum");
	memcpy(&c->scale, scalar, 4);
	*op = 5;
	return OK;
}
int ncclRedOpDestroy(int op, ncclComm_t c) { c->scale = 0; return op == 5 ? OK : fail("op"); }
