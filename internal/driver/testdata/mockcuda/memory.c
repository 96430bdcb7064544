// Memory: allocations of every kind, and how other processes get at them. Part of mockcuda.c.

static CUdeviceptr reserve(size_t size, size_t align) {
	char *p = mmap(NULL, size + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) return 0;
	char *q = (char *)(((uintptr_t)p + align - 1) / align * align);
	if (q > p) munmap(p, q - p);
	munmap(q + size, p + align - q);
	return (uintptr_t)q;
}
static int mapfd(CUdeviceptr at, size_t size, int fd, int prot) {
	return mmap((void *)(uintptr_t)at, size, prot, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED;
}
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
	IDLE;
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
	IDLE;
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
	IDLE;
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
	IDLE;
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
	IDLE;
	UNSAFE;
	(void)f;
	if (find((uintptr_t)h)) return 712;
	add((uintptr_t)h, n, REGISTERED, cur->dev);
	return OK;
}
CUresult cuMemHostUnregister(void *h) {
	LOCKED;
	NEEDCTX;
	IDLE;
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
	IDLE;
	UNSAFE;
	struct ipc i;
	memcpy(&i, &h, sizeof i);
	if (f != 1 || i.magic != 0x60cc1) return INVALID;
	if (i.pid == getpid()) return NOCTX;
	for (struct region *r = regions; r; r = r->next)
		if (r->type == IPC && r->dev == cur->dev && !memcmp(r->ipc, &h, 64)) return MAPPED;
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/fd/%d", i.pid, i.fd);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct stat st;
	if (fd < 0) return INVALID;
	size_t size = (i.size + 4095) / 4096 * 4096;
	if (fstat(fd, &st) || (size_t)st.st_size != size || !(*p = reserve(size, 4096)) ||
		mapfd(*p, size, fd, PROT_READ | PROT_WRITE)) {
		close(fd);
		return INVALID;
	}
	close(fd);
	memcpy(add(*p, i.size, IPC, cur->dev)->ipc, &h, 64);
	foreign(1);
	return OK;
}
CUresult cuIpcCloseMemHandle(CUdeviceptr p) {
	LOCKED;
	NEEDCTX;
	IDLE;
	struct region *r = find(p);
	if (!r || r->type != IPC) return INVALID;
	munmap((void *)(uintptr_t)p, (r->size + 4095) / 4096 * 4096);
	foreign(-1);
	drop(r);
	return OK;
}
CUresult cuMemAddressReserve(CUdeviceptr *p, size_t n, size_t align, CUdeviceptr at, unsigned long long f) {
	LOCKED;
	UNSAFE;
	(void)at, (void)f;
	if (!n || n % PAGE) return INVALID;
	*p = reserve(n, align ? align : PAGE);
	if (*p) reserved(*p, n, 1);
	return *p ? OK : OOM;
}
static int overlaps(CUdeviceptr p, size_t n) {
	for (struct region *r = regions; r; r = r->next)
		if (p < r->base + r->size && r->base < p + n) return 1;
	return 0;
}
CUresult cuMemAddressFree(CUdeviceptr p, size_t n) {
	LOCKED;
	UNSAFE;
	if (overlaps(p, n) || !reserved(p, n, -1)) return INVALID;
	munmap((void *)(uintptr_t)p, n);
	return OK;
}
CUresult cuMemCreate(CUmemHandle *h, size_t n, const CUmemAllocationProp *prop, unsigned long long f) {
	LOCKED;
	UNSAFE;
	(void)f;
	int d = prop->location.id;
	if (n % PAGE || !n || prop->type != 1 || prop->requestedHandleTypes != 1 || prop->location.type != 1 || d < 0 ||
		d >= devices)
		return INVALID;
	if (used[d] + n > memory) return OOM;
	int fd = newfd(n);
	if (fd < 0) return OOM;
	struct vmm *v = calloc(1, sizeof *v);
	*v = (struct vmm){fd, d, 1, n, d};
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
	if (off || n % PAGE || p % PAGE || n > v->size || overlaps(p, n) || !reserved(p, n, 0) ||
		mapfd(p, n, v->fd, PROT_NONE))
		return INVALID;
	struct region *r = add(p, n, VMM, v->home);
	r->h = v, v->refs++;
	foreign(v->dev < 0);
	return OK;
}
CUresult cuMemUnmap(CUdeviceptr p, size_t n) {
	LOCKED;
	UNSAFE;
	struct region *r = find(p);
	if (!r || r->type != VMM || r->base != p || r->size != n) return INVALID;
	mmap((void *)(uintptr_t)p, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	foreign(-(r->h->dev < 0));
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
CUresult cuMemGetAllocationGranularity(size_t *g, const CUmemAllocationProp *p, int o) {
	(void)p, (void)o;
	*g = PAGE;
	return OK;
}
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
	*v = (struct vmm){fcntl((int)(uintptr_t)os, F_DUPFD_CLOEXEC, 0), -1, 1, st.st_size, 0};
	for (struct region *r = regions; r; r = r->next) { // known where this process made the memory
		struct stat own;
		if (r->h && !fstat(r->h->fd, &own) && own.st_ino == st.st_ino && own.st_dev == st.st_dev) v->home = r->h->home;
	}
	live[5]++;
	*h = (uintptr_t)v;
	return OK;
}
// The descriptor is that of the whole allocation, so only a range from its start is right.
CUresult cuMemGetHandleForAddressRange(void *out, CUdeviceptr p, size_t n, int type, unsigned long long f) {
	LOCKED;
	NEEDCTX;
	struct region *r = find(p);
	if (type != 1 || f || p % 4096 || n % 4096 || !n) return INVALID;
	if (!r || r->type != VMM || p != r->base || n > r->size) return INVALID;
	int fd = fcntl(r->h->fd, F_DUPFD_CLOEXEC, 0);
	*(int *)out = fd;
	return fd < 0 ? INVALID : OK;
}
CUresult cuMemRetainAllocationHandle(CUmemHandle *h, void *p) {
	LOCKED;
	struct region *r = find((uintptr_t)p);
	if (!r) {
		fprintf(stderr, "cuMemRetainAllocationHandle of memory that is not mapped: the driver crashes there\n");
		abort();
	}
	if (r->type != VMM) return INVALID;
	r->h->refs++;
	*h = (uintptr_t)r->h;
	return OK;
}
