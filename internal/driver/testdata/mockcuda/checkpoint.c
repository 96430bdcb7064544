// The checkpoint functions, and what processes show each other for them. Part of mockcuda.c.

// process maps the file of a process, or returns NULL.
static struct process *process(int pid, int flags) {
	char path[256];
	const char *dir = getenv("MOCKCUDA_CHECKPOINT");
	snprintf(path, sizeof path, "%s/%d", dir ? dir : "/nonexistent", pid);
	int fd = open(path, O_RDWR | O_CLOEXEC | flags, 0600);
	if (fd < 0) return NULL;
	void *p = ftruncate(fd, sizeof(struct process)) ? MAP_FAILED
		: mmap(NULL, sizeof(struct process), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return p == MAP_FAILED ? NULL : p;
}
// foreign counts the mappings of imported memory.
static void foreign(int n) {
	if (own) __atomic_fetch_add(&own->foreign, n, __ATOMIC_RELEASE);
}
enum { RUNNING, LOCKED_, CHECKPOINTED, FAILED };
// move takes a process from one state to another. A process that maps imported memory cannot be saved, and fails.
static CUresult move(int pid, int from, int to) {
	struct process *p = process(pid, 0);
	if (!p) return INVALID;
	CUresult r = p->state == from ? OK : ILLEGAL;
	if (!r && to == CHECKPOINTED && __atomic_load_n(&p->foreign, __ATOMIC_ACQUIRE)) to = FAILED, r = UNSUPPORTED;
	if (p->state == from) __atomic_store_n(&p->state, to, __ATOMIC_RELEASE);
	munmap(p, sizeof *p);
	return r;
}
static int zero(const void *p, size_t n) {
	for (size_t i = 0; i < n; i++) if (((const char *)p)[i]) return 0;
	return 1;
}
CUresult cuCheckpointProcessGetState(int pid, int *state) {
	struct process *p = process(pid, 0);
	if (!p) return INVALID;
	*state = p->state;
	munmap(p, sizeof *p);
	return OK;
}
CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *a) {
	return a->timeoutMs && zero((char *)a + 4, 60) ? move(pid, RUNNING, LOCKED_) : INVALID;
}
CUresult cuCheckpointProcessCheckpoint(int pid, void *a) { return a ? INVALID : move(pid, LOCKED_, CHECKPOINTED); }
CUresult cuCheckpointProcessRestore(int pid, void *a) { return a ? INVALID : move(pid, CHECKPOINTED, LOCKED_); }
CUresult cuCheckpointProcessUnlock(int pid, void *a) { return a ? INVALID : move(pid, LOCKED_, RUNNING); }
