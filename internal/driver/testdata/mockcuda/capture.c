// Capture: what a stream gets becomes nodes that depend on its frontier. Part of mockcuda.c.

static CUgraph capture_of(unsigned long long id) {
	for (int i = 0; i < CAPMAX; i++) if (captures[i] && captures[i]->id == id) return captures[i];
	return NULL;
}
static CUresult capture_record(CUevent e, CUstream s) {
	if (s->capture->invalid) return CAPINVAL;
	free(e->frontier.at);
	e->capture = s->capture->id, e->frontier = copied(&s->frontier);
	return OK;
}
// capture_join lets a stream follow what an event has seen of a capture; it becomes part of that.
static CUresult capture_join(CUstream s, CUevent e) {
	CUgraph g = capture_of(e->capture);
	if (!g) return CAPEVENT;
	if (s->capture && s->capture != g) { s->capture->invalid = g->invalid = 1; return CAPMERGE; }
	if (!s->capture) s->capture = g, s->frontier.n = 0;
	for (size_t i = 0; i < e->frontier.n; i++)
		if (!has(&s->frontier, e->frontier.at[i])) append(&s->frontier, e->frontier.at[i]);
	return OK;
}
CUresult cuStreamBeginCapture_v2(CUstream s, int mode) {
	LOCKED;
	if ((uintptr_t)s <= 1) return CAPUNSUP;
	CUresult r = owned(&s);
	if (r) return r;
	if (s->capture) return INVALID;
	for (int i = 0; i < CAPMAX; i++)
		if (!captures[i]) {
			CUgraph g = captures[i] = s->capture = calloc(1, sizeof *g);
			g->mode = mode, g->thread = pthread_self(), g->id = nextID++, g->origin = s, s->frontier.n = 0, live[3]++;
			return OK;
		}
	return UNSUPPORTED;
}
static void free_graph(CUgraph g) {
	for (size_t i = 0; i < g->nodes.n; i++)
		free(g->nodes.at[i]->op.params), free(g->nodes.at[i]->deps.at), free(g->nodes.at[i]);
	free(g->nodes.at), free(g), live[3]--;
}
static void see(CUgraphNode x) {
	if (x->seen) return;
	x->seen = 1;
	for (size_t i = 0; i < x->deps.n; i++) see(x->deps.at[i]);
}
// joined says whether what each stream of the capture has now comes before what its first stream has.
static int joined(CUgraph g) {
	for (size_t i = 0; i < g->nodes.n; i++) g->nodes.at[i]->seen = 0;
	for (size_t i = 0; i < g->origin->frontier.n; i++) see(g->origin->frontier.at[i]);
	for (struct CUstream_st *t = streams; t; t = t->next)
		for (size_t i = 0; t->capture == g && i < t->frontier.n; i++) if (!t->frontier.at[i]->seen) return 0;
	return 1;
}
CUresult cuStreamEndCapture(CUstream s, CUgraph *out) {
	LOCKED;
	CUresult r = owned(&s);
	if (r) return r;
	CUgraph g = s->capture;
	*out = NULL;
	if (!g) return INVALID;
	if (g->origin != s) { g->invalid = 1; return CAPUNMATCHED; }
	if (g->mode != 2 && !pthread_equal(g->thread, pthread_self())) return CAPTHREAD;
	r = g->invalid ? CAPINVAL : joined(g) ? OK : CAPUNJOINED;
	for (struct CUstream_st *t = streams; t; t = t->next) if (t->capture == g) t->capture = NULL;
	for (int d = 0; d < devices; d++) if (ctxs[d].def.capture == g) ctxs[d].def.capture = NULL;
	for (int i = 0; i < CAPMAX; i++) if (captures[i] == g) captures[i] = NULL;
	if (r) free_graph(g);
	else *out = g;
	return r;
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
// A query of the frontier changes nothing and is not noted.
CUresult cuStreamGetCaptureInfo_v3(CUstream s, int *st, unsigned long long *id, CUgraph *g, const CUgraphNode **deps,
	const CUgraphEdgeData **edges, size_t *n) {
	static const CUgraphEdgeData plain[64];
	LOCKED;
	CUstream as = s;
	CUresult r = owned(&s);
	if (r) return r;
	if (!deps) note((struct note){.kind = T_CAPTURE_QUERY, .captured = s->capture != NULL}, as, NULL, NULL);
	*st = !s->capture ? 0 : s->capture->invalid ? 2 : 1;
	if (*st != 1) return OK;
	if (id) *id = s->capture->id;
	if (g) *g = s->capture;
	if (deps) *deps = s->frontier.at;
	if (edges) *edges = plain;
	if (n) *n = s->frontier.n;
	return OK;
}
CUresult cuStreamGetCaptureInfo_v2(
	CUstream s, int *st, unsigned long long *id, CUgraph *g, const CUgraphNode **deps, size_t *n) {
	CUresult r = cuStreamGetCaptureInfo_v3(s, st, id, g, deps, NULL, n);
	return !r && deps && weak(F_LOSSY) ? LOSSY : r;
}
CUresult cuStreamUpdateCaptureDependencies(CUstream s, CUgraphNode *deps, size_t n, unsigned flags) {
	LOCKED;
	CUresult r = owned(&s);
	if (r) return r;
	if (!s->capture) return ILLEGAL;
	if (s->capture->invalid) return CAPINVAL;
	for (size_t i = 0; i < n; i++) if (!has(&s->capture->nodes, deps[i])) return INVALID;
	if (flags) s->frontier.n = 0; // set, not add
	for (size_t i = 0; i < n; i++) {
		if (has(&s->frontier, deps[i])) return INVALID;
		append(&s->frontier, deps[i]);
	}
	return OK;
}
