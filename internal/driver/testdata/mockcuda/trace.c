// The trace of calls. mockcuda/trace.go of the Go package reads it; both know this layout. Part of mockcuda.c.

enum {
	T_LAUNCH = 1, T_RECORD, T_WAIT_EVENT, T_COPY, T_SET, T_WRITE, T_WAIT_VALUE, T_CAPTURE_QUERY, T_GRAPH, T_BEGIN,
	T_END
};
enum { F_LOSSY = 1, F_KEEP_EDGES = 2, F_NO_IDS = 4, F_KERNELS_WAIT = 8 };
struct trace { uint32_t on, full; uint64_t used, seed, flags; char waited[32]; };
struct hold { uint32_t state, ncallers; uint64_t callers[24]; }; // at the end of the file
struct note { uint32_t size, kind, captured, grid, block, shared; uint64_t stream, a, b, c; uint32_t nparams, nname; };
enum { TRACE_BYTES = 8 << 20, TRACE_HEADER = 64, TRACE_HOLD = (8 << 20) - 256 };
enum { HOLD_NEXT = 1, HOLD_HELD };

static struct trace *tracing;
static void note(struct note n, CUstream s, const char *name, const void *params) {
	if (!tracing || !__atomic_load_n(&tracing->on, __ATOMIC_ACQUIRE)) return;
	n.stream = (uintptr_t)s, n.nname = name ? strlen(name) : 0;
	n.size = (sizeof n + n.nname + n.nparams + 7) / 8 * 8;
	if (TRACE_HEADER + tracing->used + n.size > TRACE_HOLD) { tracing->full = 1; return; }
	char *at = (char *)tracing + TRACE_HEADER + tracing->used;
	memcpy(at, &n, sizeof n);
	if (n.nname) memcpy(at + sizeof n, name, n.nname);
	if (n.nparams) memcpy(at + sizeof n + n.nname, params, n.nparams);
	__atomic_store_n(&tracing->used, tracing->used + n.size, __ATOMIC_RELEASE);
}
// hold stops the launch that finds HOLD_NEXT until a test clears it, at most a minute, and leaves the return addresses
// of the launch and its callers, as far as C frames go.
static __attribute__((noinline)) void hold(void) {
	uint32_t next = HOLD_NEXT;
	void *pc[26];
	struct hold *h = tracing ? (struct hold *)((char *)tracing + TRACE_HOLD) : NULL;
	if (!h || __atomic_load_n(&h->state, __ATOMIC_ACQUIRE) != next) return;
	int n = backtrace(pc, 26); // pc[0] is here, pc[1] in the launch, pc[2] in its caller
	for (int i = 2; i < n; i++) h->callers[i - 2] = (uintptr_t)pc[i];
	h->ncallers = n > 2 ? n - 2 : 0;
	if (!__atomic_compare_exchange_n(&h->state, &next, HOLD_HELD, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return;
	for (int i = 0; i < 60000 && __atomic_load_n(&h->state, __ATOMIC_ACQUIRE); i++) usleep(1000);
}
static int weak(uint64_t flag) { return tracing && (__atomic_load_n(&tracing->flags, __ATOMIC_ACQUIRE) & flag) != 0; }
static void k_blocks(const unsigned char *, unsigned, unsigned);
// With F_KERNELS_WAIT, kernels with the parameters of kernels/collective wait until that flag is cleared or their
// communicator is aborted.
static int kernel_waits(const struct op *o) {
	uint64_t abort = 0;
	if (o->kind != KERNEL || o->fn->run != k_blocks || !weak(F_KERNELS_WAIT)) return 0;
	memcpy(&abort, o->params + 8 + 8 * 16, 8);
	struct region *r = find(abort);
	return r && r->type == HOST && !*(volatile uint32_t *)(uintptr_t)abort;
}
// needs_idle notes that the driver may wait in a function for the end of a kernel that waits.
static void needs_idle(CUcontext c, const char *function) {
	if (!tracing || tracing->waited[0]) return;
	int waits = c && c->def.n && kernel_waits(c->def.ops);
	for (struct CUstream_st *s = streams; s; s = s->next) waits |= s->ctx == c && s->n && kernel_waits(s->ops);
	if (waits) strncpy(tracing->waited, function, sizeof tracing->waited - 1);
}
static void trace_open(void) {
	const char *path = getenv("MOCKCUDA_TRACE");
	int fd = path && *path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (fd < 0) return;
	void *p = mmap(NULL, TRACE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (p != MAP_FAILED) tracing = p;
}
