// Streams and events. Part of mockcuda.c.

#define SUBMIT(s, ...) LOCKED; return submit(s, (struct op){__VA_ARGS__})
CUresult cuMemcpyAsync(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream st) {
	if (d < 4096 || s < 4096) return INVALID;
	SUBMIT(st, .kind = COPY, .a = d, .b = s, .c = n);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream st) {
	SUBMIT(st, .kind = COPY, .a = d, .b = s, .c = n);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr d, const void *s, size_t n, CUstream st) {
	{ LOCKED; if (!find(d) || !find(d + n - 1)) return INVALID; }
	SUBMIT(st, .kind = COPY, .a = d, .b = (uintptr_t)s, .c = n);
}
CUresult cuMemcpyDtoHAsync_v2(void *d, CUdeviceptr s, size_t n, CUstream st) {
	{ LOCKED; if (!find(s) || !find(s + n - 1)) return INVALID; }
	SUBMIT(st, .kind = COPY, .a = (uintptr_t)d, .b = s, .c = n);
}
CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char v, size_t n, CUstream s) {
	SUBMIT(s, .kind = SET8, .a = p, .b = v, .c = n);
}
// memop is a store or a wait. Only the default flags are known: the second form of these calls has no other for stores,
// and goccl needs none for waits.
static CUresult memop(CUstream s, enum kind kind, CUdeviceptr p, uint64_t v, unsigned flags) {
	int bytes = kind == WRITE32 || kind == WAIT32 ? 4 : 8;
	if (flags || p % bytes || !find(p)) return INVALID;
	return submit(s, (struct op){.kind = kind, .a = p, .b = v});
}
#define MEMOP(name, type, kind) \
	CUresult name(CUstream s, CUdeviceptr p, type v, unsigned f) { LOCKED; return memop(s, kind, p, v, f); }
MEMOP(cuStreamWriteValue32_v2, uint32_t, WRITE32)
MEMOP(cuStreamWriteValue64_v2, uint64_t, WRITE64)
MEMOP(cuStreamWaitValue32_v2, uint32_t, WAIT32)
MEMOP(cuStreamWaitValue64_v2, uint64_t, WAIT64)
CUresult cuStreamBatchMemOp_v2(CUstream s, unsigned n, CUstreamBatchMemOpParams *p, unsigned flags) {
	static const enum kind kinds[] = {[1] = WAIT32, [2] = WRITE32, [4] = WAIT64, [5] = WRITE64};
	LOCKED;
	CUresult r = !n || n > 256 || flags ? INVALID : OK;
	for (unsigned i = 0; i < n && !r; i++)
		r = p[i].operation < 1 || p[i].operation > 5 || p[i].operation == 3 ? INVALID
			: memop(s, kinds[p[i].operation], p[i].address, p[i].value, p[i].flags);
	return r;
}
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
			if (s->capture) s->capture->invalid = 1;
			free(s->frontier.at);
			struct CUstream_st *o = malloc(sizeof *o); // its work goes on
			*o = *s, o->next = orphans, orphans = o;
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
	while ((r = cuStreamQuery(s)) == NOTREADY) pause_between_steps();
	return r;
}
CUresult cuCtxSynchronize(void) {
	{ LOCKED; IDLE; }
	for (int busy = 1; busy;) {
		pthread_mutex_lock(&mu);
		drain();
		busy = cur && cur->def.n;
		for (struct CUstream_st *s = streams; s; s = s->next) busy |= s->ctx == cur && s->n;
		pthread_mutex_unlock(&mu);
		if (busy) pause_between_steps();
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
	if (weak(F_NO_IDS)) return UNSUPPORTED;
	if ((uintptr_t)s == 2) {
		if (!ownID) ownID = nextID++;
		*id = ownID;
		return cur ? OK : NOCTX;
	}
	if ((r = owned(&s))) return r;
	if (s->capture) { // as driver 580 seems to do on an H200
		s->capture->invalid = 1;
		return CAPUNSUP;
	}
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
	if (s->capture) return capture_record(e, s);
	e->capture = 0;
	return submit(s, (struct op){.kind = RECORD, .ev = e});
}
CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned f) {
	LOCKED;
	(void)f;
	CUstream as = s;
	CUresult r = owned(&s);
	if (r) return r;
	note((struct note){.kind = T_WAIT_EVENT, .captured = s->capture != NULL, .a = (uintptr_t)e}, as, NULL, NULL);
	if (e->capture) return capture_join(s, e);
	if (s->capture) return CAPISOLATION;
	return submit(s, (struct op){.kind = WAITEVENT, .ev = e});
}
CUresult cuEventQuery(CUevent e) {
	LOCKED;
	UNSAFE;
	if (e->capture) return CAPEVENT;
	drain();
	return !e->latest || e->latest->done ? OK : NOTREADY;
}
CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b) {
	LOCKED;
	if (!a->timing || !b->timing || !a->latest || !b->latest) return BADHANDLE;
	if (!a->latest->done || !b->latest->done) return NOTREADY;
	struct timespec *from = &a->latest->at, *to = &b->latest->at;
	*ms = (to->tv_sec - from->tv_sec) * 1e3f + (to->tv_nsec - from->tv_nsec) / 1e6f;
	return OK;
}
CUresult cuEventDestroy_v2(CUevent e) {
	LOCKED;
	live[2]--;
	unmark(e->latest);
	free(e->frontier.at);
	free(e);
	return OK;
}
