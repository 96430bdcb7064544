// Modules, kernels and launches. Part of mockcuda.c.

static uint64_t arg64(const unsigned char *p, int off) { uint64_t v; memcpy(&v, p + off, 8); return v; }
static uint32_t arg32(const unsigned char *p, int off) { uint32_t v; memcpy(&v, p + off, 4); return v; }
// goccl_test_add(u64 out, u64 a, u64 b, u32 n): out[i] = a[i] + b[i]
static void k_add(const unsigned char *p, unsigned grid, unsigned block) {
	uint32_t *o = (void *)(uintptr_t)arg64(p, 0), *a = (void *)(uintptr_t)arg64(p, 8),
		 *b = (void *)(uintptr_t)arg64(p, 16), n = arg32(p, 24);
	for (uint64_t i = 0; i < n && i < (uint64_t)grid * block; i++) o[i] = a[i] + b[i];
}
// probe_store and probe_check of kernels/probe/probe.cuh, whose Args these offsets are of.
enum { PROBE_HALF = 4096, PROBE_WORDS = PROBE_HALF / 4 - 1 };
static uint32_t *probe_slot(const unsigned char *p, uint32_t window, uint32_t source) {
	return (uint32_t *)(uintptr_t)(arg64(p, 8 * window) + source * 2 * PROBE_HALF);
}
static uint32_t probe_pattern(const unsigned char *p, uint32_t from, uint32_t to, uint32_t i) {
	return (arg32(p, 152) ^ (from * 16 + to) * 0x9e3779b9u) + i * 0x85ebca6bu;
}
static int probe_device(const unsigned char *p, uint32_t window) {
	struct region *r = find(arg64(p, 8 * window));
	return r && r->h ? r->h->home : -1;
}
static void k_probe_store(const unsigned char *p, unsigned grid, unsigned block) {
	(void)block;
	const char *e = getenv("MOCKCUDA_DEAF_PEER");
	uint32_t rank = arg32(p, 144);
	for (uint32_t w = 0; w < grid; w++) {
		int deaf = e && probe_device(p, w) != probe_device(p, rank) ? atoi(e) : 0;
		uint32_t *to = probe_slot(p, w, rank);
		if (deaf == 1) continue;
		for (uint32_t i = 0; i < PROBE_WORDS; i++) to[i] = probe_pattern(p, rank, w, i) ^ (deaf == 2 && i == 77);
		to[PROBE_WORDS] = arg32(p, 152);
	}
}
static int probe_same(const unsigned char *p, const uint32_t *at, uint32_t from, uint32_t to) {
	for (uint32_t i = 0; i < PROBE_WORDS; i++)
		if (at[i] != probe_pattern(p, from, to, i)) return 0;
	return 1;
}
static uint32_t probe_result(const unsigned char *p, uint32_t rank, uint32_t from) {
	const uint32_t *mine = probe_slot(p, rank, from);
	if (mine[PROBE_WORDS] != arg32(p, 152)) return 2;
	if (!probe_same(p, mine, from, rank)) return 3;
	if (!probe_same(p, mine + PROBE_HALF / 4, from, from)) return 4;
	return arg32(p, 156) && !probe_same(p, probe_slot(p, from, from), from, from) ? 5 : 1;
}
static void k_probe_check(const unsigned char *p, unsigned grid, unsigned block) {
	(void)block;
	uint32_t *result = (void *)(uintptr_t)arg64(p, 128);
	for (uint32_t from = 0; from < grid; from++) result[from] = probe_result(p, arg32(p, 144), from);
}
static const struct {
	const char *name;
	void (*run)(const unsigned char *, unsigned, unsigned);
} kernels[] = {{"goccl_test_add", k_add}, {"probe_store", k_probe_store}, {"probe_check", k_probe_check}};
static void k_blocks(const unsigned char *p, unsigned grid, unsigned block) {
	(void)block;
	uint64_t *ticket = (void *)(uintptr_t)arg64(p, 0);
	if (ticket) __atomic_fetch_add(ticket, grid, __ATOMIC_RELEASE);
}
static const char *const ticketed[] = {"all_", "reduce", "exchange_", "move_", "broadcast_", "point_to_point_", "wire_",
                                       "put_signal", "wait_signal", "fused_", "moe_"};

// Tests speak of kernels without what the names of those that communicate begin with (kernels.Entry).
static const char *plain(const char *name) {
	static const char prefix[] = "ncclDevKernel_goccl_";
	return strncmp(name, prefix, sizeof prefix - 1) ? name : name + sizeof prefix - 1;
}
static void add_function(CUmodule m, const char *full, size_t len) {
	const char *name = plain(full);
	len -= name - full;
	CUfunction f = calloc(1, sizeof *f);
	if (len >= sizeof f->name) len = sizeof f->name - 1;
	memcpy(f->name, name, len);
	for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
		if (!strcmp(kernels[i].name, f->name)) f->run = kernels[i].run;
	for (size_t i = 0; i < sizeof ticketed / sizeof *ticketed; i++)
		if (!strncmp(f->name, ticketed[i], strlen(ticketed[i]))) f->run = k_blocks;
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
	IDLE;
	UNSAFE;
	const char *s = image;
	if (!memcmp(s, ELFMAG, SELFMAG)) {
		*m = calloc(1, sizeof **m), live[4]++;
		cubin_functions(*m, image);
		return OK;
	}
	if (strncmp(s, ".version", 8) && !strstr(s, "\n.version")) {
		for (unsigned i = 0; i < n; i++)
			if (opt[i] == 5)
				strcpy(val[i],
					"ptxas application ptx input, line 1; fatal   : Missing .version directive at start "
					"of file\nptxas fatal   : Ptx assembly aborted due to errors");
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
	IDLE;
	UNSAFE;
	for (int g = 0; g < m->globals; g++) drop(find(m->global[g].p)), free((void *)(uintptr_t)m->global[g].p);
	for (CUfunction f = m->fns, n; f; f = n) n = f->next, free(f);
	free(m->text), free(m), live[4]--;
	return OK;
}
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
	LOCKED;
	for (name = plain(name), *f = m->fns; *f && strcmp((*f)->name, name); *f = (*f)->next) {}
	return *f ? OK : NOTFOUND;
}
CUresult cuModuleGetGlobal_v2(CUdeviceptr *p, size_t *n, CUmodule m, const char *name) {
	LOCKED;
	for (int g = 0; g < m->globals; g++)
		if (!strcmp(m->global[g].name, name)) {
			*p = m->global[g].p, *n = m->global[g].n;
			return OK;
		}
	return NOTFOUND;
}
CUresult cuFuncLoad(CUfunction f) {
	LOCKED;
	if (!f) return BADHANDLE;
	if (!f->loaded) IDLE;
	f->loaded = 1;
	return OK;
}
CUresult cuFuncGetAttribute(int *v, int a, CUfunction f) {
	cuFuncLoad(f);
	*v = a == 0 ? 1024 : a == 4 ? 16 : a == 5 || a == 6 ? 90 : a == 8 ? (f->maxDyn ? f->maxDyn : 49152) :
	     a == 9 ? f->carveout - 1 : 0;
	return OK;
}
CUresult cuFuncSetAttribute(CUfunction f, int a, int v) {
	cuFuncLoad(f);
	if (a == 8) { if (v > 232448) return INVALID; f->maxDyn = v; }
	if (a == 9) { if (v < -1 || v > 100) return INVALID; f->carveout = v + 1; }
	return OK;
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, CUfunction f, int threads, size_t shared) {
	(void)f, (void)shared;
	*n = 2048 / threads;
	return OK;
}
static CUresult launch(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
	unsigned shared, CUstream s, void **params, void **extra, int overlap) {
	LOCKED;
	if (params || !gx || !gy || !gz || !bx || !by || !bz || bx * by * bz > 1024 ||
		shared > (unsigned)(f->maxDyn ? f->maxDyn : 49152))
		return INVALID;
	if (!f->loaded) IDLE;
	f->loaded = 1;
	struct op o = {.kind = KERNEL,
		.fn = f,
		.grid = gx * gy * gz,
		.block = bx * by * bz,
		.params = calloc(1, MAXPARAM),
		.serial = nextID++};
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
	if (!r)
		note((struct note){.kind = T_LAUNCH,
			     .captured = (s->capture != NULL) | overlap << 1,
			     .grid = o.grid,
			     .block = o.block,
			     .shared = shared,
			     .a = syscall(SYS_gettid),
			     .b = o.serial,
			     .c = s->capture ? s->capture->id : 0,
			     .nparams = p ? n : 0},
			as, f->name, o.params);
	if (!r) r = submit(as, o);
	if (r) free(o.params);
	return r;
}
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
	unsigned shared, CUstream s, void **params, void **extra) {
	hold();
	return launch(f, gx, gy, gz, bx, by, bz, shared, s, params, extra, 0);
}
CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params, void **extra) {
	hold();
	int overlap = 0; // noted only: a kernel that comes early waits for the one before by itself
	for (unsigned i = 0; i < c->numAttrs; i++) {
		if (c->attrs[i].id == 4 && (!c->attrs[i].value.dim.x || c->gridDimX % c->attrs[i].value.dim.x)) return 912;
		if (c->attrs[i].id == 6) overlap = c->attrs[i].value.i != 0;
	}
	return launch(f, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ,
		c->sharedMemBytes, c->hStream, params, extra, overlap);
}
