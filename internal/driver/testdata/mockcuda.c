// A libcuda for tests: the functions of api.h over memory of the host. It is as strict as the real one where goccl
// could go wrong (a context must be current, streams belong to contexts, a legacy handle opens once, captures are
// spoilt by unsafe calls) and as weak as can be elsewhere.
//
//   memory    memfd mappings; a CUdeviceptr is the host address. Legacy IPC handles name /proc/PID/fd/N; VMM handles
//             are the memfd itself.
//             Work that touches reserved addresses where nothing is mapped ends the process.
//   streams   a queue of operations that runs at submission as far as it can: only WaitValue and WaitEvent block it.
//             While the trace has a seed, kernels take time, and operations begin and end in any order that streams,
//             edges and events allow: mockcuda/queue.c.
//   capture   operations become nodes of a graph instead; an edge is what the stream had before. A launch of the
//             graph is one operation of its stream, whose nodes run as their edges allow. Nodes that wait for events
//             or record them go by what is so at the launch.
//   kernels   a module is PTX text or a cubin; entries whose names are in `kernels` (mockcuda/module.c) run as C
//             functions. Those whose names begin as in `ticketed` add their blocks to their first parameter, an
//             address or 0 (kernels/collective/ticket.cuh). Others do nothing.
//   checkpoint  MOCKCUDA_CHECKPOINT names a folder where processes show others their state. Calls of a locked process
//             wait. One that maps imported memory cannot be checkpointed.
//   trace     MOCKCUDA_TRACE names a file that mockcuda.NewTrace made: while its first word is not 0, stream-ordered
//             calls are noted there. It also names the first call that needed an idle device while a kernel waited.
//
// MOCKCUDA_DEVICES (2) is the number of GPUs, MOCKCUDA_MEMORY_MB (512) their memory, MOCKCUDA_NO_PEER=1 takes peer
// access away, and MOCKCUDA_NO_NVLINK=1 leaves PCIe for it. MOCKCUDA_DEAF_PEER=1 leaves the access, but what the
// kernels of the probe store on another GPU is lost (2: spoilt). MOCKCUDA_CAPABILITY (90) is ten times the compute
// capability. Attribute 7000+k of a device counts live objects: 0 regions, 1 streams, 2 events, 3 graphs, 4 modules,
// 5 VMM handles, 6 context references. One lock guards everything.
#define _GNU_SOURCE
#include "../api.h"

#include <elf.h>
#include <execinfo.h>
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
enum {
	OK = 0, INVALID = 1, OOM = 2, UNINIT = 3, NODEV = 101, NOCTX = 201, MAPPED = 208, BADPTX = 218, BADHANDLE = 400,
	NOTFOUND = 500, NOTREADY = 600, UNSUPPORTED = 801, CAPUNSUP = 900, CAPINVAL = 901, CAPTHREAD = 908, CAPEVENT = 907,
	ILLEGAL = 401, LOSSY = 402, CAPMERGE = 902, CAPUNMATCHED = 903, CAPUNJOINED = 904, CAPISOLATION = 905
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
#define LOCKED __attribute__((cleanup(unlock))) int locked_ = (enter(), 0); (void)locked_
// What another process sees of this one: mockcuda/checkpoint.c. state is that of cuCheckpointProcessGetState.
struct process { int state, foreign; };
static struct process *own;
static void enter(void) {
	while (own && __atomic_load_n(&own->state, __ATOMIC_ACQUIRE)) usleep(1000);
	pthread_mutex_lock(&mu);
}
static void unlock(int *x) { (void)x; pthread_mutex_unlock(&mu); }

static int inited, devices = 2;
static size_t memory, used[MAXDEV];
static long live[8];
static unsigned long long nextID = 1;

// ---- objects

enum kind { COPY, SET8, WRITE32, WRITE64, WAIT32, WAIT64, RECORD, WAITEVENT, KERNEL, EMPTY, GRAPH };
struct mark { int done, refs; struct timespec at; }; // one record of an event: who waits for it waits for no later one
struct op {
	enum kind kind;
	uint64_t a, b, c, serial; // serial: of a call that launches a kernel, also of those that are captured
	CUevent ev;
	struct mark *mark;
	CUfunction fn;
	unsigned grid, block;
	unsigned char *params;
	struct run *run;
	int state;
};
struct nodes { CUgraphNode *at; size_t n, cap; };
struct CUgraphNode_st { struct op op; CUgraph graph; struct nodes deps; size_t index; int seen; };
struct CUgraph_st { struct nodes nodes; unsigned long long id; int mode, invalid; pthread_t thread; CUstream origin; };
struct CUgraphExec_st {
	struct op *ops;
	size_t *first, *deps, n;
	unsigned long long id;
	int refs;
	uint64_t launched, finished;
};
struct run { CUgraphExec x; size_t left; uint64_t number; struct { int state; struct mark *mark; } *nodes; };
struct CUstream_st {
	CUcontext ctx;
	struct op *ops;
	size_t n, cap;
	CUgraph capture;
	struct nodes frontier;
	struct CUstream_st *next;
	unsigned long long id;
};
struct CUctx_st { int dev, refs; struct CUstream_st def; uint32_t peers; };
struct CUevent_st {
	CUcontext ctx;
	struct mark *latest;
	unsigned long long capture;
	struct nodes frontier;
	int timing;
};
struct CUfunc_st {
	char name[64];
	void (*run)(const unsigned char *, unsigned, unsigned);
	int maxDyn, carveout, loaded;
	struct CUfunc_st *next;
};
struct CUmod_st {
	char *text;
	struct CUfunc_st *fns;
	struct {
		char name[64];
		CUdeviceptr p;
		size_t n;
	} global[8];
	int globals;
};
struct vmm { int fd, dev, refs; size_t size; int home; }; // dev: whose memory it counts for, or -1
struct region {
	CUdeviceptr base;
	size_t size;
	enum { LEGACY, VMM, HOST, REGISTERED, IPC, GLOBAL } type;
	int fd, dev;
	unsigned long long id;
	struct vmm *h;
	uint32_t access;
	char ipc[64];
	struct region *next;
};

static struct CUctx_st ctxs[MAXDEV];
static struct CUstream_st *streams, *graves, *orphans; // graves: destroyed streams, whose handles are given out again
						       // at once; orphans: what they still had to do
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
// Ranges of cuMemAddressReserve, from lowest to highest. Those that were freed stay here, so that accesses to them are
// detected.
static struct range { CUdeviceptr p; size_t n; int live; struct range *next; } *ranges;
static CUdeviceptr lowest = ~(CUdeviceptr)0, highest;

// reserved enters a range (1), frees it (-1), or reports whether n bytes at p lie in one (0).
static int reserved(CUdeviceptr p, size_t n, int what) {
	struct range *r = ranges;
	if (what > 0) {
		while (r && (r->live || r->p != p || r->n != n)) r = r->next;
		if (r) return r->live = 1;
		r = malloc(sizeof *r);
		*r = (struct range){p, n, 1, ranges}, ranges = r;
		if (p < lowest) lowest = p;
		if (p + n > highest) highest = p + n;
		return 1;
	}
	for (; r; r = r->next) {
		if (!r->live || (what < 0 ? p != r->p || n != r->n : p < r->p || p + n > r->p + r->n)) continue;
		r->live = what == 0;
		return 1;
	}
	return 0;
}
// touched ends the process, as a fault ends its work on a real GPU, if p was reserved once and nothing is mapped there.
static void touched(const char *who, CUdeviceptr p) {
	if (p < lowest || p >= highest || find(p)) return; // most arguments of a launch are no addresses at all
	for (struct range *r = ranges; r; r = r->next)
		if (p >= r->p && p < r->p + r->n) {
			fprintf(stderr, "mockcuda: %s accesses %#llx, where nothing is mapped\n", who, p);
			abort();
		}
}
// unsafe is called by what must not run during a capture, unless the thread has relaxed its mode. It spoils the
// capture, as the driver does.
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
// IDLE marks calls in which the strictest driver waits until the kernels of the context have ended. VMM functions are
// not among them: they do not wait, even where they should.
#define IDLE needs_idle(cur, __func__)
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

// ---- one unit: the parts use what stands in those before them

#include "mockcuda/trace.c"
#include "mockcuda/queue.c"
#include "mockcuda/checkpoint.c"
#include "mockcuda/device.c"
#include "mockcuda/memory.c"
#include "mockcuda/capture.c"
#include "mockcuda/stream.c"
#include "mockcuda/graph.c"
#include "mockcuda/module.c"
