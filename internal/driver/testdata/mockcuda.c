// A libcuda for tests: the functions of api.h over memory of the host. It is as strict as the real one where goccl could go wrong (a context
// must be current, streams belong to contexts, a legacy handle opens once, captures are spoilt by unsafe calls) and as weak as can be elsewhere.
//
//   memory    memfd mappings; a CUdeviceptr is the host address. Legacy IPC handles name /proc/PID/fd/N; VMM handles are the memfd itself.
//   streams   a queue of operations that runs at submission as far as it can: only WaitValue and WaitEvent block it.
//   capture   operations go to the graph instead; a launch of the graph queues copies of them.
//   kernels   a module is PTX text or a cubin; entries whose names are in `kernels` below run as C functions. Those whose names begin as in `ticketed`
//             add their blocks to their first parameter, an address or 0 (kernels/collective/ticket.cuh). Others do nothing.
//   trace     MOCKCUDA_TRACE names a file that mockcuda.NewTrace made: while its first word is not 0, stream-ordered calls are noted there.
//
// MOCKCUDA_DEVICES (2) is the number of GPUs, MOCKCUDA_MEMORY_MB (512) their memory, MOCKCUDA_NO_PEER=1 takes peer access away.
// Attribute 7000+k of a device counts live objects: 0 regions, 1 streams, 2 events, 3 graphs, 4 modules, 5 VMM handles, 6 context references.
// One lock guards everything.
#define _GNU_SOURCE
#include "../api.h"

#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 2 << 20, MAXDEV = 16, MAXPARAM = 4096 };
enum { OK = 0, INVALID = 1, OOM = 2, UNINIT = 3, NODEV = 101, NOCTX = 201, MAPPED = 208, BADPTX = 218, BADHANDLE = 400, NOTFOUND = 500, NOTREADY = 600, UNSUPPORTED = 801, CAPUNSUP = 900, CAPINVAL = 901, CAPTHREAD = 908, CAPEVENT = 907 };

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
#define LOCKED __attribute__((cleanup(unlock))) int locked_ = (pthread_mutex_lock(&mu), 0); (void)locked_
static void unlock(int *x) { (void)x; pthread_mutex_unlock(&mu); }

static int inited, devices = 2, noPeer;
static size_t memory, used[MAXDEV];
static long live[8];
static unsigned long long nextID = 1;

// ---- objects

enum kind { COPY, SET8, SET32, WRITE32, WRITE64, WAIT32, WAIT64, RECORD, WAITEVENT, KERNEL };
struct op {
	enum kind kind;
	uint64_t a, b, c, d;
	CUevent ev;
	CUfunction fn;
	unsigned grid, block;
	unsigned char *params;
};
struct CUgraph_st { struct op *ops; size_t n, cap; unsigned long long id; int mode, invalid; pthread_t thread; };
struct CUgraphExec_st { struct op *ops; size_t n; };
struct CUstream_st { CUcontext ctx; struct op *ops; size_t n, cap; CUgraph capture; struct CUstream_st *next; unsigned long long id; };
struct CUctx_st { int dev, refs; struct CUstream_st def; uint32_t peers; };
struct CUevent_st { CUcontext ctx; uint64_t recorded, done; struct timespec at; CUgraph capture; int timing; };
struct CUfunc_st { char name[64]; void (*run)(const unsigned char *, unsigned, unsigned); int maxDyn; struct CUfunc_st *next; };
struct CUmod_st { char *text; struct CUfunc_st *fns; struct { char name[64]; CUdeviceptr p; size_t n; } global[8]; int globals; };
struct vmm { int fd, dev, refs; size_t size; };
struct region { CUdeviceptr base; size_t size; enum { LEGACY, VMM, HOST, REGISTERED, IPC, GLOBAL } type; int fd, dev; unsigned long long id; struct vmm *h; uint32_t access; char ipc[64]; struct region *next; };

static struct CUctx_st ctxs[MAXDEV];
static struct CUstream_st *streams, *graves; // graves: destroyed streams, whose handles are given out again at once
static struct region *regions;
static __thread CUcontext cur;
static __thread int tlsMode;
#define CAPMAX 16
static CUgraph captures[CAPMAX];

#define NEEDCTX if (!inited) return UNINIT; if (!cur || !cur->refs) return NOCTX

static struct region *find(CUdeviceptr p) {
	for (struct region *r = regions; r; r = r->next)
		if (p >= r->base && p < r->base + r->size) return r;
	return NULL;
}
static struct region *add(CUdeviceptr base, size_t size, int type, int dev) {
	struct region *r = calloc(1, sizeof *r);
	*r = (struct region){.base = base, .size = size, .type = type, .fd = -1, .dev = dev, .id = nextID++, .next = regions};
	regions = r, live[0]++;
	return r;
}
static void drop(struct region *r) {
	for (struct region **p = &regions; *p; p = &(*p)->next)
		if (*p == r) { *p = r->next; break; }
	live[0]--;
	free(r);
}
// unsafe is called by what must not run during a capture, unless the thread has relaxed its mode. It spoils the capture, as the driver does.
static CUresult unsafe(void) {
	CUresult r = OK;
	for (int i = 0; i < CAPMAX; i++) {
		CUgraph g = captures[i];
		if (!g || tlsMode == 2 || g->mode == 2) continue;
		if (g->mode == 1 && !pthread_equal(g->thread, pthread_self())) continue;
		if (tlsMode == 1 && !pthread_equal(g->thread, pthread_self())) continue;
		g->invalid = 1, r = CAPUNSUP;
	}
	return r;
}
#define UNSAFE do { CUresult u_ = unsafe(); if (u_) return u_; } while (0)
static CUstream real(CUstream s) { return (uintptr_t)s <= 2 ? &cur->def : s; }
static CUresult owned(CUstream *s) {
	if (!cur || !cur->refs) return NOCTX;
	*s = real(*s);
	if (*s == &cur->def) return OK;
	for (CUstream t = streams; t; t = t->next) // the real driver may crash on a stream that was destroyed
		if (t == *s) return t->ctx == cur ? OK : BADHANDLE;
	return BADHANDLE;
}

// ---- the trace of calls (read by mockcuda/trace.go; both know this layout)

enum { T_LAUNCH = 1, T_RECORD, T_WAIT_EVENT, T_COPY, T_SET, T_WRITE, T_WAIT_VALUE, T_CAPTURE_QUERY, T_GRAPH };
struct trace { uint32_t on, full; uint64_t used; };
struct note { uint32_t size, kind, captured, grid, block, shared; uint64_t stream, a, b, c; uint32_t nparams, nname; };
enum { TRACE_BYTES = 8 << 20, TRACE_HEADER = 64 };
static struct trace *tracing;
static void note(struct note n, CUstream s, const char *name, const void *params) {
	if (!tracing || !__atomic_load_n(&tracing->on, __ATOMIC_ACQUIRE)) return;
	n.stream = (uintptr_t)s, n.nname = name ? strlen(name) : 0;
	n.size = (sizeof n + n.nname + n.nparams + 7) / 8 * 8;
	if (TRACE_HEADER + tracing->used + n.size > TRACE_BYTES) { tracing->full = 1; return; }
	char *at = (char *)tracing + TRACE_HEADER + tracing->used;
	memcpy(at, &n, sizeof n);
	if (n.nname) memcpy(at + sizeof n, name, n.nname);
	if (n.nparams) memcpy(at + sizeof n + n.nname, params, n.nparams);
	__atomic_store_n(&tracing->used, tracing->used + n.size, __ATOMIC_RELEASE);
}
static void trace_open(void) {
	const char *path = getenv("MOCKCUDA_TRACE");
	int fd = path && *path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (fd < 0) return;
	void *p = mmap(NULL, TRACE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (p != MAP_FAILED) tracing = p;
}

// ---- running

static int ready(struct op *o) {
	switch (o->kind) {
	case WAIT32: return (int32_t)(__atomic_load_n((uint32_t *)(uintptr_t)o->a, __ATOMIC_ACQUIRE) - (uint32_t)o->b) >= 0;
	case WAIT64: return (int64_t)(__atomic_load_n((uint64_t *)(uintptr_t)o->a, __ATOMIC_ACQUIRE) - o->b) >= 0;
	case WAITEVENT: return o->ev->done >= o->a;
	default: return 1;
	}
}
static void execute(struct op *o) {
	void *p = (void *)(uintptr_t)o->a;
	switch (o->kind) {
	case COPY: memmove(p, (void *)(uintptr_t)o->b, o->c); break;
	case SET8:
		// Fresh windows are large and mostly stay untouched: a hole in the memfd is zeros too.
		if (!o->b && o->c >= PAGE && (o->a | o->c) % 4096 == 0 && madvise(p, o->c, MADV_REMOVE) == 0) break;
		memset(p, (int)o->b, o->c);
		break;
	case SET32: for (uint64_t i = 0; i < o->c; i++) ((uint32_t *)p)[i] = (uint32_t)o->b; break;
	case WRITE32: __atomic_store_n((uint32_t *)p, (uint32_t)o->b, __ATOMIC_RELEASE); break;
	case WRITE64: __atomic_store_n((uint64_t *)p, o->b, __ATOMIC_RELEASE); break;
	case RECORD: o->ev->done = o->a; clock_gettime(CLOCK_MONOTONIC, &o->ev->at); break;
	case KERNEL: if (o->fn->run) o->fn->run(o->params, o->grid, o->block); break;
	default: break;
	}
}
static int advance(struct CUstream_st *s) {
	size_t i = 0;
	while (i < s->n && ready(&s->ops[i])) execute(&s->ops[i]), free(s->ops[i].params), i++;
	memmove(s->ops, s->ops + i, (s->n - i) * sizeof *s->ops);
	s->n -= i;
	return i > 0;
}
static void drain(void) {
	for (int moved = 1; moved;) {
		moved = 0;
		for (struct CUstream_st *s = streams; s; s = s->next) moved |= advance(s);
		for (int d = 0; d < devices; d++) moved |= advance(&ctxs[d].def);
	}
}
static void push(struct op **ops, size_t *n, size_t *cap, struct op o) {
	if (*n == *cap) *ops = realloc(*ops, (*cap = *cap ? 2 * *cap : 8) * sizeof o);
	(*ops)[(*n)++] = o;
}
// A GPU may only touch VMM memory that cuMemSetAccess gave it.
static int denied(CUstream s, CUdeviceptr p) {
	struct region *r = find(p);
	return r && r->type == VMM && !(r->access >> s->ctx->dev & 1);
}
static CUresult submit(CUstream s, struct op o) {
	CUstream as = s;
	CUresult r = owned(&s);
	if (r) return r;
	static const uint8_t kinds[] = {[COPY] = T_COPY, [SET8] = T_SET, [SET32] = T_SET, [WRITE32] = T_WRITE, [WRITE64] = T_WRITE, [WAIT32] = T_WAIT_VALUE, [WAIT64] = T_WAIT_VALUE};
	if (o.kind <= WAIT64) note((struct note){.kind = kinds[o.kind], .captured = s->capture != NULL, .a = o.a, .b = o.b, .c = o.c}, as, NULL, NULL);
	if (o.kind <= SET32 && (denied(s, o.a) || (o.kind == COPY && denied(s, o.b)))) return INVALID;
	if (s->capture) {
		if (s->capture->invalid) return CAPINVAL;
		push(&s->capture->ops, &s->capture->n, &s->capture->cap, o);
		return OK;
	}
	push(&s->ops, &s->n, &s->cap, o);
	drain();
	return OK;
}

// ---- the driver itself

CUresult cuInit(unsigned f) {
	LOCKED;
	(void)f;
	if (getenv("MOCKCUDA_DEVICES")) devices = atoi(getenv("MOCKCUDA_DEVICES"));
	if (devices > MAXDEV) devices = MAXDEV;
	memory = (size_t)(getenv("MOCKCUDA_MEMORY_MB") ? atoi(getenv("MOCKCUDA_MEMORY_MB")) : 512) << 20;
	noPeer = getenv("MOCKCUDA_NO_PEER") && *getenv("MOCKCUDA_NO_PEER") == '1';
	for (int i = 0; i < MAXDEV; i++) ctxs[i].dev = i, ctxs[i].def.ctx = &ctxs[i];
	if (devices == 0) return 100;
	trace_open();
	inited = 1;
	return OK;
}
CUresult cuDriverGetVersion(int *v) { *v = 12080; return OK; }
static const struct { int code; const char *name, *text; } errs[] = {{0, "CUDA_SUCCESS", "no error"}, {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	{2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}, {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"}, {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
	{218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"}, {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"}, {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
	{801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"}, {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
	{901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"}};
CUresult cuGetErrorName(CUresult c, const char **s) {
	for (size_t i = 0; i < sizeof errs / sizeof *errs; i++) if (errs[i].code == c) { *s = errs[i].name; return OK; }
	*s = NULL;
	return INVALID;
}
CUresult cuGetErrorString(CUresult c, const char **s) {
	for (size_t i = 0; i < sizeof errs / sizeof *errs; i++) if (errs[i].code == c) { *s = errs[i].text; return OK; }
	*s = NULL;
	return INVALID;
}
CUresult cuDeviceGetCount(int *n) { *n = devices; return inited ? OK : UNINIT; }
CUresult cuDeviceGet(CUdevice *d, int o) { *d = o; return o >= 0 && o < devices ? OK : NODEV; }
CUresult cuDeviceGetName(char *s, int n, CUdevice d) { snprintf(s, n, "Mock GPU %d", d); return OK; }
CUresult cuDeviceTotalMem_v2(size_t *n, CUdevice d) { (void)d; *n = memory; return OK; }
CUresult cuDeviceGetPCIBusId(char *s, int n, CUdevice d) { snprintf(s, n, "0000:%02X:00.0", d + 1); return OK; }
CUresult cuDeviceGetAttribute(int *v, int a, CUdevice d) {
	LOCKED;
	if (d < 0 || d >= devices) return NODEV;
	if (a >= 7000 && a < 7008) { *v = (int)live[a - 7000]; return OK; }
	static const struct { int a, v; } t[] = {{8, 49152}, {10, 32}, {13, 1980000}, {16, 132}, {38, 52428800}, {39, 2048}, {40, 3}, {41, 1}, {75, 9}, {76, 0}, {81, 233472}, {95, 1}, {97, 232448}, {102, 1}, {103, 1}, {110, 1}, {120, 1}, {122, 1}};
	*v = 0;
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) if (t[i].a == a) *v = t[i].v;
	return OK;
}
CUresult cuDeviceCanAccessPeer(int *v, CUdevice a, CUdevice b) { *v = a != b && !noPeer; return OK; }
CUresult cuDeviceGetP2PAttribute(int *v, int t, CUdevice a, CUdevice b) { (void)t; *v = a != b && !noPeer; return OK; }
CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) {
	LOCKED;
	UNSAFE;
	if (d < 0 || d >= devices) return NODEV;
	*c = &ctxs[d], ctxs[d].refs++, live[6]++;
	return OK;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d) {
	LOCKED;
	if (d < 0 || d >= devices || !ctxs[d].refs) return NOCTX;
	if (--ctxs[d].refs == 0) ctxs[d].peers = 0;
	live[6]--;
	return OK;
}
CUresult cuCtxGetCurrent(CUcontext *c) { *c = cur; return OK; }
CUresult cuCtxSetCurrent(CUcontext c) { cur = c; return OK; }
CUresult cuCtxGetDevice(CUdevice *d) {
	if (!cur) return 201;
	*d = cur->dev;
	return OK;
}
CUresult cuCtxGetStreamPriorityRange(int *l, int *g) { *l = 0, *g = -5; return OK; }
CUresult cuCtxEnablePeerAccess(CUcontext c, unsigned f) {
	LOCKED;
	(void)f;
	NEEDCTX;
	if (noPeer || c == cur) return 217;
	if (cur->peers >> c->dev & 1) return GOCCL_PEER_ALREADY;
	cur->peers |= 1u << c->dev;
	return OK;
}
CUresult cuThreadExchangeStreamCaptureMode(int *m) { int old = tlsMode; tlsMode = *m, *m = old; return OK; }

// ---- memory

static CUdeviceptr reserve(size_t size, size_t align) {
	char *p = mmap(NULL, size + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) return 0;
	char *q = (char *)(((uintptr_t)p + align - 1) / align * align);
	if (q > p) munmap(p, q - p);
	munmap(q + size, p + align - q);
	return (uintptr_t)q;
}
static int mapfd(CUdeviceptr at, size_t size, int fd, int prot) { return mmap((void *)(uintptr_t)at, size, prot, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED; }
static int newfd(size_t size) {
	int fd = memfd_create("mockcuda", MFD_CLOEXEC);
	if (fd >= 0 && ftruncate(fd, size)) close(fd), fd = -1;
	return fd;
}
CUresult cuMemGetInfo_v2(size_t *f, size_t *t) {
	LOCKED;
	NEEDCTX;
	*t = memory, *f = memory - used[cur->dev];
	return OK;
}
CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t n) {
	LOCKED;
	NEEDCTX;
	UNSAFE;
	if (!n) return INVALID;
	size_t size = (n + 4095) / 4096 * 4096;
	if (used[cur->dev] + size > memory) return OOM;
	int fd = newfd(size);
	*p = reserve(size, 4096);
	if (fd < 0 || !*p || mapfd(*p, size, fd, PROT_READ | PROT_WRITE)) return OOM;
	memset((void *)(uintptr_t)*p, 0xcd, n);
	struct region *r = add(*p, n, LEGACY, cur->dev);
	r->fd = fd, used[cur->dev] += size;
	return OK;
}
CUresult cuMemFree_v2(CUdeviceptr p) {
	LOCKED;
	NEEDCTX;
	UNSAFE;
	struct region *r = find(p);
	if (!r || r->base != p || r->type != LEGACY) return INVALID;
	size_t size = (r->size + 4095) / 4096 * 4096;
	munmap((void *)(uintptr_t)p, size), close(r->fd), used[r->dev] -= size;
	drop(r);
	return OK;
}
CUresult cuMemGetAddressRange_v2(CUdeviceptr *b, size_t *n, CUdeviceptr p) {
	LOCKED;
	NEEDCTX;
	struct region *r = find(p);
	if (!r) return NOTFOUND;
	*b = r->base, *n = r->size;
	return OK;
}
CUresult cuPointerGetAttributes(unsigned n, int *attr, void **data, CUdeviceptr p) {
	LOCKED;
	NEEDCTX;
	struct region *r = find(p);
	if (!r) return OK;
	for (unsigned i = 0; i < n; i++) {
		unsigned *u = data[i];
		switch (attr[i]) {
		case 2: *u = r->type == HOST || r->type == REGISTERED ? 1 : 2; break;
		case 7: *(unsigned long long *)data[i] = r->id; break;
		case 9: *u = r->dev; break;
		case 10: *u = r->type == LEGACY; break;
		case 13: *u = 1; break;
		case 14: *(unsigned long long *)data[i] = r->type == VMM; break;
		default: break;
		}
	}
	return OK;
}
CUresult cuMemHostAlloc(void **h, size_t n, unsigned f) {
	LOCKED;
	NEEDCTX;
	UNSAFE;
	(void)f;
	size_t size = (n + 4095) / 4096 * 4096;
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED) return OOM;
	add((uintptr_t)(*h = p), size, HOST, cur->dev);
	return OK;
}
CUresult cuMemFreeHost(void *h) {
	LOCKED;
	NEEDCTX;
	UNSAFE;
	struct region *r = find((uintptr_t)h);
	if (!r || r->type != HOST) return INVALID;
	munmap(h, r->size);
	drop(r);
	return OK;
}
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *d, void *h, unsigned f) {
	LOCKED;
	NEEDCTX;
	(void)f;
	*d = (uintptr_t)h;
	return find(*d) ? OK : INVALID;
}
CUresult cuMemHostRegister_v2(void *h, size_t n, unsigned f) {
	LOCKED;
	NEEDCTX;
	UNSAFE;
	(void)f;
	if (find((uintptr_t)h)) return 712;
	add((uintptr_t)h, n, REGISTERED, cur->dev);
	return OK;
}
CUresult cuMemHostUnregister(void *h) {
	LOCKED;
	NEEDCTX;
	struct region *r = find((uintptr_t)h);
	if (!r || r->type != REGISTERED) return 713;
	drop(r);
	return OK;
}
struct ipc { uint32_t magic; int pid, fd, dev; uint64_t size, id; };
CUresult cuIpcGetMemHandle(CUipcMemHandle *h, CUdeviceptr p) {
	LOCKED;
	NEEDCTX;
	struct region *r = find(p);
	if (!r || r->type != LEGACY) return INVALID;
	struct ipc i = {0x60cc1, getpid(), r->fd, r->dev, r->size, r->id};
	memset(h, 0, sizeof *h), memcpy(h, &i, sizeof i);
	return OK;
}
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *p, CUipcMemHandle h, unsigned f) {
	LOCKED;
	NEEDCTX;
	UNSAFE;
	struct ipc i;
	memcpy(&i, &h, sizeof i);
	if (f != 1 || i.magic != 0x60cc1) return INVALID;
	if (i.pid == getpid()) return NOCTX;
	for (struct region *r = regions; r; r = r->next) if (r->type == IPC && r->dev == cur->dev && !memcmp(r->ipc, &h, 64)) return MAPPED;
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/fd/%d", i.pid, i.fd);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct stat st;
	if (fd < 0) return INVALID;
	size_t size = (i.size + 4095) / 4096 * 4096;
	if (fstat(fd, &st) || (size_t)st.st_size != size || !(*p = reserve(size, 4096)) || mapfd(*p, size, fd, PROT_READ | PROT_WRITE)) { close(fd); return INVALID; }
	close(fd);
	memcpy(add(*p, i.size, IPC, cur->dev)->ipc, &h, 64);
	return OK;
}
CUresult cuIpcCloseMemHandle(CUdeviceptr p) {
	LOCKED;
	NEEDCTX;
	struct region *r = find(p);
	if (!r || r->type != IPC) return INVALID;
	munmap((void *)(uintptr_t)p, (r->size + 4095) / 4096 * 4096);
	drop(r);
	return OK;
}
CUresult cuMemAddressReserve(CUdeviceptr *p, size_t n, size_t align, CUdeviceptr at, unsigned long long f) {
	LOCKED;
	UNSAFE;
	(void)at, (void)f;
	if (!n || n % PAGE) return INVALID;
	*p = reserve(n, align ? align : PAGE);
	return *p ? OK : OOM;
}
CUresult cuMemAddressFree(CUdeviceptr p, size_t n) {
	LOCKED;
	UNSAFE;
	if (find(p)) return INVALID;
	munmap((void *)(uintptr_t)p, n);
	return OK;
}
CUresult cuMemCreate(CUmemHandle *h, size_t n, const CUmemAllocationProp *prop, unsigned long long f) {
	LOCKED;
	UNSAFE;
	(void)f;
	int d = prop->location.id;
	if (n % PAGE || !n || prop->type != 1 || prop->requestedHandleTypes != 1 || prop->location.type != 1 || d < 0 || d >= devices) return INVALID;
	if (used[d] + n > memory) return OOM;
	int fd = newfd(n);
	if (fd < 0) return OOM;
	struct vmm *v = calloc(1, sizeof *v);
	*v = (struct vmm){fd, d, 1, n};
	used[d] += n, live[5]++;
	*h = (uintptr_t)v;
	return OK;
}
static void unref(struct vmm *v) {
	if (--v->refs) return;
	close(v->fd);
	if (v->dev >= 0) used[v->dev] -= v->size;
	live[5]--;
	free(v);
}
CUresult cuMemRelease(CUmemHandle h) {
	LOCKED;
	unref((struct vmm *)(uintptr_t)h);
	return OK;
}
CUresult cuMemMap(CUdeviceptr p, size_t n, size_t off, CUmemHandle h, unsigned long long f) {
	LOCKED;
	UNSAFE;
	(void)f;
	struct vmm *v = (void *)(uintptr_t)h;
	if (off || n > v->size || mapfd(p, n, v->fd, PROT_NONE)) return INVALID;
	struct region *r = add(p, n, VMM, v->dev < 0 ? 0 : v->dev);
	r->h = v, v->refs++;
	return OK;
}
CUresult cuMemUnmap(CUdeviceptr p, size_t n) {
	LOCKED;
	UNSAFE;
	struct region *r = find(p);
	if (!r || r->type != VMM || r->base != p || r->size != n) return INVALID;
	mmap((void *)(uintptr_t)p, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	unref(r->h);
	drop(r);
	return OK;
}
CUresult cuMemSetAccess(CUdeviceptr p, size_t n, const CUmemAccessDesc *d, size_t count) {
	LOCKED;
	UNSAFE;
	struct region *r = find(p);
	if (!r || r->type != VMM || r->base != p || r->size != n) return INVALID;
	for (size_t i = 0; i < count; i++) {
		if (d[i].location.id < 0 || d[i].location.id >= devices) return NODEV;
		r->access |= 1u << d[i].location.id;
	}
	return mprotect((void *)(uintptr_t)p, n, PROT_READ | PROT_WRITE) ? INVALID : OK;
}
CUresult cuMemGetAllocationGranularity(size_t *g, const CUmemAllocationProp *p, int o) { (void)p, (void)o; *g = PAGE; return OK; }
CUresult cuMemExportToShareableHandle(void *out, CUmemHandle h, int type, unsigned long long f) {
	LOCKED;
	(void)f;
	if (type != 1) return UNSUPPORTED;
	int fd = fcntl(((struct vmm *)(uintptr_t)h)->fd, F_DUPFD_CLOEXEC, 0);
	*(int *)out = fd;
	return fd < 0 ? INVALID : OK;
}
CUresult cuMemImportFromShareableHandle(CUmemHandle *h, void *os, int type) {
	LOCKED;
	UNSAFE;
	struct stat st;
	if (type != 1 || fstat((int)(uintptr_t)os, &st) || !st.st_size || st.st_size % PAGE) return INVALID;
	struct vmm *v = calloc(1, sizeof *v);
	*v = (struct vmm){fcntl((int)(uintptr_t)os, F_DUPFD_CLOEXEC, 0), -1, 1, st.st_size};
	live[5]++;
	*h = (uintptr_t)v;
	return OK;
}
CUresult cuMemRetainAllocationHandle(CUmemHandle *h, void *p) {
	LOCKED;
	struct region *r = find((uintptr_t)p);
	if (!r || r->type != VMM) return INVALID;
	r->h->refs++;
	*h = (uintptr_t)r->h;
	return OK;
}

// ---- streams

#define SUBMIT(s, ...) LOCKED; return submit(s, (struct op){__VA_ARGS__})
CUresult cuMemcpyAsync(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream st) {
	if (d < 4096 || s < 4096) return INVALID;
	SUBMIT(st, .kind = COPY, .a = d, .b = s, .c = n);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc, size_t n, CUstream st) { (void)dc, (void)sc; SUBMIT(st, .kind = COPY, .a = d, .b = s, .c = n); }
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream st) { SUBMIT(st, .kind = COPY, .a = d, .b = s, .c = n); }
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr d, const void *s, size_t n, CUstream st) {
	{ LOCKED; if (!find(d) || !find(d + n - 1)) return INVALID; }
	SUBMIT(st, .kind = COPY, .a = d, .b = (uintptr_t)s, .c = n);
}
CUresult cuMemcpyDtoHAsync_v2(void *d, CUdeviceptr s, size_t n, CUstream st) {
	{ LOCKED; if (!find(s) || !find(s + n - 1)) return INVALID; }
	SUBMIT(st, .kind = COPY, .a = (uintptr_t)d, .b = s, .c = n);
}
CUresult cuMemcpyBatchAsync(CUdeviceptr *d, CUdeviceptr *s, size_t *n, size_t count, CUmemcpyAttributes *at, size_t *idx, size_t na, size_t *bad, CUstream st) {
	LOCKED;
	(void)bad;
	if (na != 1 || idx[0] != 0 || at->srcAccessOrder != 1 || (uintptr_t)st <= 2) return INVALID;
	CUstream r = st;
	CUresult e = owned(&r);
	if (e) return e;
	if (r->capture) return CAPUNSUP;
	for (size_t i = 0; i < count && !e; i++) e = submit(st, (struct op){.kind = COPY, .a = d[i], .b = s[i], .c = n[i]});
	return e;
}
CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char v, size_t n, CUstream s) { SUBMIT(s, .kind = SET8, .a = p, .b = v, .c = n); }
CUresult cuMemsetD32Async(CUdeviceptr p, unsigned v, size_t n, CUstream s) { SUBMIT(s, .kind = SET32, .a = p, .b = v, .c = n); }
CUresult cuStreamWriteValue32_v2(CUstream s, CUdeviceptr p, uint32_t v, unsigned f) { (void)f; SUBMIT(s, .kind = WRITE32, .a = p, .b = v); }
CUresult cuStreamWriteValue64_v2(CUstream s, CUdeviceptr p, uint64_t v, unsigned f) { (void)f; SUBMIT(s, .kind = WRITE64, .a = p, .b = v); }
CUresult cuStreamWaitValue32_v2(CUstream s, CUdeviceptr p, uint32_t v, unsigned f) { (void)f; SUBMIT(s, .kind = WAIT32, .a = p, .b = v); }
CUresult cuStreamWaitValue64_v2(CUstream s, CUdeviceptr p, uint64_t v, unsigned f) { (void)f; SUBMIT(s, .kind = WAIT64, .a = p, .b = v); }
CUresult cuStreamCreateWithPriority(CUstream *s, unsigned f, int prio) {
	LOCKED;
	NEEDCTX;
	UNSAFE;
	(void)f, (void)prio;
	if (graves) *s = graves, graves = graves->next, memset(*s, 0, sizeof **s);
	else *s = calloc(1, sizeof **s);
	(*s)->ctx = cur, (*s)->id = nextID++, (*s)->next = streams, streams = *s, live[1]++;
	return OK;
}
CUresult cuStreamDestroy_v2(CUstream s) {
	LOCKED;
	NEEDCTX;
	for (struct CUstream_st **p = &streams; *p; p = &(*p)->next)
		if (*p == s) {
			*p = s->next, live[1]--;
			for (size_t i = 0; i < s->n; i++) free(s->ops[i].params);
			free(s->ops);
			s->next = graves, graves = s;
			return OK;
		}
	return BADHANDLE;
}
CUresult cuStreamQuery(CUstream s) {
	LOCKED;
	CUresult r = owned(&s);
	if (r) return r;
	UNSAFE;
	if (s->capture) { s->capture->invalid = 1; return CAPUNSUP; }
	drain();
	return s->n ? NOTREADY : OK;
}
CUresult cuStreamSynchronize(CUstream s) {
	CUresult r;
	while ((r = cuStreamQuery(s)) == NOTREADY) usleep(100);
	return r;
}
CUresult cuCtxSynchronize(void) {
	for (int busy = 1; busy;) {
		pthread_mutex_lock(&mu);
		drain();
		busy = cur && cur->def.n;
		for (struct CUstream_st *s = streams; s; s = s->next) busy |= s->ctx == cur && s->n;
		pthread_mutex_unlock(&mu);
		if (busy) usleep(100);
	}
	return cur ? OK : NOCTX;
}
CUresult cuStreamGetCtx(CUstream s, CUcontext *c) {
	LOCKED;
	for (struct CUstream_st *t = streams; t; t = t->next) if (t == s) { *c = s->ctx; return OK; }
	return BADHANDLE;
}
static __thread unsigned long long ownID; // of the thread's default stream
CUresult cuStreamGetId(CUstream s, unsigned long long *id) {
	LOCKED;
	CUresult r;
	if ((uintptr_t)s == 2) {
		if (!ownID) ownID = nextID++;
		*id = ownID;
		return cur ? OK : NOCTX;
	}
	if ((r = owned(&s))) return r;
	*id = s == &cur->def ? 1ull << 62 | cur->dev : s->id;
	return OK;
}
CUresult cuEventCreate(CUevent *e, unsigned f) {
	LOCKED;
	NEEDCTX;
	UNSAFE;
	*e = calloc(1, sizeof **e);
	(*e)->ctx = cur, (*e)->timing = !(f & 2), live[2]++;
	return OK;
}
CUresult cuEventRecord(CUevent e, CUstream s) {
	LOCKED;
	CUstream as = s;
	CUresult r = owned(&s);
	if (r) return r;
	if (e->ctx != s->ctx) return BADHANDLE;
	note((struct note){.kind = T_RECORD, .captured = s->capture != NULL, .a = (uintptr_t)e}, as, NULL, NULL);
	e->capture = s->capture;
	if (s->capture) return s->capture->invalid ? CAPINVAL : OK;
	return submit(s, (struct op){.kind = RECORD, .ev = e, .a = ++e->recorded});
}
CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned f) {
	LOCKED;
	(void)f;
	CUstream as = s;
	CUresult r = owned(&s);
	if (r) return r;
	note((struct note){.kind = T_WAIT_EVENT, .captured = s->capture != NULL, .a = (uintptr_t)e}, as, NULL, NULL);
	if (e->capture) {
		s->capture = e->capture;
		return OK;
	}
	if (s->capture) return 905;
	return submit(s, (struct op){.kind = WAITEVENT, .ev = e, .a = e->recorded});
}
CUresult cuEventQuery(CUevent e) {
	LOCKED;
	UNSAFE;
	if (e->capture) return CAPEVENT;
	drain();
	return e->done >= e->recorded ? OK : NOTREADY;
}
CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b) {
	LOCKED;
	if (!a->timing || !b->timing || !a->recorded || !b->recorded) return BADHANDLE;
	if (a->done < a->recorded || b->done < b->recorded) return NOTREADY;
	*ms = (b->at.tv_sec - a->at.tv_sec) * 1e3f + (b->at.tv_nsec - a->at.tv_nsec) / 1e6f;
	return OK;
}
CUresult cuEventDestroy_v2(CUevent e) { LOCKED; live[2]--; free(e); return OK; }

// ---- graphs

CUresult cuStreamBeginCapture_v2(CUstream s, int mode) {
	LOCKED;
	if ((uintptr_t)s <= 1) return CAPUNSUP;
	CUresult r = owned(&s);
	if (r) return r;
	if (s->capture) return INVALID;
	for (int i = 0; i < CAPMAX; i++)
		if (!captures[i]) {
			CUgraph g = captures[i] = s->capture = calloc(1, sizeof *g);
			g->mode = mode, g->thread = pthread_self(), g->id = nextID++, live[3]++;
			return OK;
		}
	return UNSUPPORTED;
}
CUresult cuStreamEndCapture(CUstream s, CUgraph *g) {
	LOCKED;
	CUresult r = owned(&s);
	if (r) return r;
	if (!(*g = s->capture)) return INVALID;
	if ((*g)->mode != 2 && !pthread_equal((*g)->thread, pthread_self())) return CAPTHREAD;
	for (struct CUstream_st *t = streams; t; t = t->next) if (t->capture == *g) t->capture = NULL;
	for (int i = 0; i < CAPMAX; i++) if (captures[i] == *g) captures[i] = NULL;
	if ((*g)->invalid) { free((*g)->ops), free(*g), live[3]--, *g = NULL; return CAPINVAL; }
	return OK;
}
CUresult cuStreamIsCapturing(CUstream s, int *st) {
	LOCKED;
	CUstream as = s;
	CUresult r = owned(&s);
	if (r) return r;
	note((struct note){.kind = T_CAPTURE_QUERY, .captured = s->capture != NULL}, as, NULL, NULL);
	*st = !s->capture ? 0 : s->capture->invalid ? 2 : 1;
	return OK;
}
CUresult cuStreamGetCaptureInfo_v2(CUstream s, int *st, unsigned long long *id, CUgraph *g, void *deps, size_t *n) {
	(void)g, (void)deps, (void)n;
	CUresult r = cuStreamIsCapturing(s, st);
	if (!r && *st) *id = real(s)->capture->id;
	return r;
}
static struct op copyop(struct op o) {
	if (o.params) { unsigned char *p = malloc(MAXPARAM); memcpy(p, o.params, MAXPARAM); o.params = p; }
	return o;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec *x, CUgraph g, unsigned long long f) {
	LOCKED;
	UNSAFE;
	(void)f;
	*x = calloc(1, sizeof **x);
	(*x)->n = g->n, (*x)->ops = calloc(g->n + 1, sizeof *g->ops), live[3]++;
	for (size_t i = 0; i < g->n; i++) (*x)->ops[i] = copyop(g->ops[i]);
	return OK;
}
CUresult cuGraphUpload(CUgraphExec x, CUstream s) { (void)x, (void)s; return OK; }
CUresult cuGraphLaunch(CUgraphExec x, CUstream s) {
	LOCKED;
	CUresult r = OK;
	note((struct note){.kind = T_GRAPH, .a = (uintptr_t)x, .b = x->n}, s, NULL, NULL);
	for (size_t i = 0; i < x->n && !r; i++) r = submit(s, copyop(x->ops[i]));
	return r;
}
CUresult cuGraphGetNodes(CUgraph g, void *nodes, size_t *n) { (void)nodes; *n = g->n; return OK; }
static void freeops(struct op *o, size_t n) { for (size_t i = 0; i < n; i++) free(o[i].params); free(o); }
CUresult cuGraphExecDestroy(CUgraphExec x) { LOCKED; freeops(x->ops, x->n), free(x), live[3]--; return OK; }
CUresult cuGraphDestroy(CUgraph g) { LOCKED; freeops(g->ops, g->n), free(g), live[3]--; return OK; }

// ---- modules and kernels

static uint64_t arg64(const unsigned char *p, int off) { uint64_t v; memcpy(&v, p + off, 8); return v; }
static uint32_t arg32(const unsigned char *p, int off) { uint32_t v; memcpy(&v, p + off, 4); return v; }
// goccl_test_add(u64 out, u64 a, u64 b, u32 n): out[i] = a[i] + b[i]
static void k_add(const unsigned char *p, unsigned grid, unsigned block) {
	uint32_t *o = (void *)(uintptr_t)arg64(p, 0), *a = (void *)(uintptr_t)arg64(p, 8), *b = (void *)(uintptr_t)arg64(p, 16), n = arg32(p, 24);
	for (uint64_t i = 0; i < n && i < (uint64_t)grid * block; i++) o[i] = a[i] + b[i];
}
static const struct { const char *name; void (*run)(const unsigned char *, unsigned, unsigned); } kernels[] = {{"goccl_test_add", k_add}};
static void k_blocks(const unsigned char *p, unsigned grid, unsigned block) {
	(void)block;
	uint64_t *ticket = (void *)(uintptr_t)arg64(p, 0);
	if (ticket) __atomic_fetch_add(ticket, grid, __ATOMIC_RELEASE);
}
static const char *const ticketed[] = {"all_", "reduce", "exchange_", "broadcast_", "point_to_point_"};

static void add_function(CUmodule m, const char *name, size_t len) {
	CUfunction f = calloc(1, sizeof *f);
	if (len >= sizeof f->name) len = sizeof f->name - 1;
	memcpy(f->name, name, len);
	for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) if (!strcmp(kernels[i].name, f->name)) f->run = kernels[i].run;
	for (size_t i = 0; i < sizeof ticketed / sizeof *ticketed; i++) if (!strncmp(f->name, ticketed[i], strlen(ticketed[i]))) f->run = k_blocks;
	f->next = m->fns, m->fns = f;
}
// A cubin is an ELF file whose sections .text.NAME are its kernels.
static void cubin_functions(CUmodule m, const void *image) {
	const Elf64_Ehdr *h = image;
	const Elf64_Shdr *sec = (const void *)((const char *)image + h->e_shoff);
	const char *names = (const char *)image + sec[h->e_shstrndx].sh_offset;
	for (int i = 0; i < h->e_shnum; i++) {
		const char *n = names + sec[i].sh_name;
		if (!strncmp(n, ".text.", 6)) add_function(m, n + 6, strlen(n + 6));
	}
}
CUresult cuModuleLoadDataEx(CUmodule *m, const void *image, unsigned n, int *opt, void **val) {
	LOCKED;
	NEEDCTX;
	UNSAFE;
	const char *s = image;
	if (!memcmp(s, ELFMAG, SELFMAG)) {
		*m = calloc(1, sizeof **m), live[4]++;
		cubin_functions(*m, image);
		return OK;
	}
	if (strncmp(s, ".version", 8) && !strstr(s, "\n.version")) {
		for (unsigned i = 0; i < n; i++) if (opt[i] == 5) strcpy(val[i], "ptxas application ptx input, line 1; fatal   : Missing .version directive at start of file\nptxas fatal   : Ptx assembly aborted due to errors");
		return BADPTX;
	}
	*m = calloc(1, sizeof **m), (*m)->text = strdup(s), live[4]++;
	for (const char *p = strstr(s, ".entry "); p; p = strstr(p + 1, ".entry ")) {
		add_function(*m, p + 7, strspn(p + 7, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"));
	}
	for (const char *p = strstr(s, ".global .align "); p && (*m)->globals < 8; p = strstr(p + 1, ".global .align ")) {
		int align;
		size_t size;
		char name[64];
		if (sscanf(p, ".global .align %d .b8 %63[A-Za-z0-9_][%zu]", &align, name, &size) != 3) continue;
		int g = (*m)->globals++;
		strcpy((*m)->global[g].name, name);
		(*m)->global[g].p = (uintptr_t)calloc(1, size), (*m)->global[g].n = size;
		add((*m)->global[g].p, size, GLOBAL, cur->dev);
	}
	return OK;
}
CUresult cuModuleUnload(CUmodule m) {
	LOCKED;
	UNSAFE;
	for (int g = 0; g < m->globals; g++) drop(find(m->global[g].p)), free((void *)(uintptr_t)m->global[g].p);
	for (CUfunction f = m->fns, n; f; f = n) n = f->next, free(f);
	free(m->text), free(m), live[4]--;
	return OK;
}
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
	LOCKED;
	for (*f = m->fns; *f && strcmp((*f)->name, name); *f = (*f)->next) {}
	return *f ? OK : NOTFOUND;
}
CUresult cuModuleGetGlobal_v2(CUdeviceptr *p, size_t *n, CUmodule m, const char *name) {
	LOCKED;
	for (int g = 0; g < m->globals; g++) if (!strcmp(m->global[g].name, name)) { *p = m->global[g].p, *n = m->global[g].n; return OK; }
	return NOTFOUND;
}
CUresult cuFuncGetAttribute(int *v, int a, CUfunction f) {
	*v = a == 0 ? 1024 : a == 4 ? 16 : a == 5 || a == 6 ? 90 : a == 8 ? (f->maxDyn ? f->maxDyn : 49152) : 0;
	return OK;
}
CUresult cuFuncSetAttribute(CUfunction f, int a, int v) {
	if (a == 8) { if (v > 232448) return INVALID; f->maxDyn = v; }
	return OK;
}
CUresult cuFuncLoad(CUfunction f) { return f ? OK : BADHANDLE; }
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, CUfunction f, int threads, size_t shared) { (void)f, (void)shared; *n = 2048 / threads; return OK; }
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream s, void **params, void **extra) {
	LOCKED;
	if (params || !gx || !gy || !gz || !bx || !by || !bz || bx * by * bz > 1024 || shared > (unsigned)(f->maxDyn ? f->maxDyn : 49152)) return INVALID;
	struct op o = {.kind = KERNEL, .fn = f, .grid = gx * gy * gz, .block = bx * by * bz, .params = calloc(1, MAXPARAM)};
	size_t n = 0;
	void *p = NULL;
	for (void **e = extra; e && *e; e += 2) {
		if (*e == (void *)1) p = e[1];
		if (*e == (void *)2) n = *(size_t *)e[1];
	}
	if (n > MAXPARAM) return INVALID;
	if (p) memcpy(o.params, p, n);
	CUstream as = s;
	CUresult r = owned(&s);
	if (!r) note((struct note){.kind = T_LAUNCH, .captured = s->capture != NULL, .grid = o.grid, .block = o.block, .shared = shared, .a = syscall(SYS_gettid), .nparams = p ? n : 0}, as, f->name, o.params);
	if (!r) r = submit(as, o);
	if (r) free(o.params);
	return r;
}
CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params, void **extra) {
	for (unsigned i = 0; i < c->numAttrs; i++)
		if (c->attrs[i].id == 4 && (!c->attrs[i].value.dim.x || c->gridDimX % c->attrs[i].value.dim.x)) return 912;
	return cuLaunchKernel(f, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ, c->sharedMemBytes, c->hStream, params, extra);
}
