// Capture and graphs. Part of mockcuda.c.

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
