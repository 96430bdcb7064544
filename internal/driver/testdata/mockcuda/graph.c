// Graphs: nodes, edges, and launches. Part of mockcuda.c.

static CUresult new_node(CUgraphNode *x, CUgraph g, struct op o, const CUgraphNode *deps, size_t n) {
	for (size_t i = 0; i < n; i++) if (!has(&g->nodes, deps[i])) return INVALID;
	*x = add_node(g, o, deps, n);
	return OK;
}
CUresult cuGraphAddEmptyNode(CUgraphNode *x, CUgraph g, const CUgraphNode *deps, size_t n) {
	LOCKED;
	return new_node(x, g, (struct op){.kind = EMPTY}, deps, n);
}
CUresult cuGraphAddEventRecordNode(CUgraphNode *x, CUgraph g, const CUgraphNode *deps, size_t n, CUevent e) {
	LOCKED;
	return new_node(x, g, (struct op){.kind = RECORD, .ev = e}, deps, n);
}
CUresult cuGraphAddEventWaitNode(CUgraphNode *x, CUgraph g, const CUgraphNode *deps, size_t n, CUevent e) {
	LOCKED;
	return new_node(x, g, (struct op){.kind = WAITEVENT, .ev = e}, deps, n);
}
CUresult cuGraphAddDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n) {
	LOCKED;
	for (size_t i = 0; i < n; i++) {
		if (!has(&g->nodes, from[i]) || !has(&g->nodes, to[i]) || has(&to[i]->deps, from[i])) return INVALID;
		for (size_t k = 0; k < g->nodes.n; k++) g->nodes.at[k]->seen = 0;
		see(from[i]);
		if (to[i]->seen) return INVALID; // a circle
		append(&to[i]->deps, from[i]);
	}
	return OK;
}
CUresult cuGraphRemoveDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n) {
	LOCKED;
	if (weak(F_KEEP_EDGES)) return UNSUPPORTED;
	for (size_t i = 0; i < n; i++) {
		if (!has(&g->nodes, from[i]) || !has(&g->nodes, to[i]) || !has(&to[i]->deps, from[i])) return INVALID;
		struct nodes *l = &to[i]->deps;
		for (size_t k = 0; k < l->n; k++) if (l->at[k] == from[i]) { l->at[k] = l->at[--l->n]; break; }
	}
	return OK;
}
CUresult cuGraphNodeGetDependencies_v2(CUgraphNode x, CUgraphNode *deps, CUgraphEdgeData *edges, size_t *n) {
	LOCKED;
	if (weak(F_KEEP_EDGES)) return UNSUPPORTED;
	for (size_t i = 0; i < *n; i++) {
		deps[i] = i < x->deps.n ? x->deps.at[i] : NULL;
		memset(&edges[i], 0, sizeof edges[i]);
	}
	if (x->deps.n < *n) *n = x->deps.n;
	return OK;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph g, unsigned long long f) {
	LOCKED;
	UNSAFE;
	(void)f;
	CUgraphExec x = *out = calloc(1, sizeof *x);
	size_t edges = 0;
	for (size_t i = 0; i < g->nodes.n; i++) edges += g->nodes.at[i]->deps.n;
	x->n = g->nodes.n, x->ops = calloc(x->n + 1, sizeof *x->ops), x->first = calloc(x->n + 1, sizeof *x->first),
	x->deps = calloc(edges + 1, sizeof *x->deps);
	x->id = g->id, x->refs = 1, live[3]++, edges = 0;
	for (size_t i = 0; i < x->n; i++) {
		CUgraphNode node = g->nodes.at[i];
		x->ops[i] = node->op;
		if (node->op.params) x->ops[i].params = memcpy(malloc(MAXPARAM), node->op.params, MAXPARAM);
		for (size_t d = 0; d < node->deps.n; d++) x->deps[edges++] = node->deps.at[d]->index;
		x->first[i + 1] = edges;
	}
	return OK;
}
CUresult cuGraphUpload(CUgraphExec x, CUstream s) { (void)x, (void)s; return OK; }
CUresult cuGraphLaunch(CUgraphExec x, CUstream s) {
	LOCKED;
	CUstream as = s;
	CUresult e = owned(&s);
	if (e) return e;
	if (s->capture) return UNSUPPORTED; // a graph in a graph
	note((struct note){.kind = T_GRAPH, .a = (uintptr_t)x, .b = x->n, .c = x->id}, as, NULL, NULL);
	if (!x->n) return OK;
	struct run *r = calloc(1, sizeof *r);
	r->x = x, r->left = x->n, r->number = x->launched++, r->nodes = calloc(x->n, sizeof *r->nodes), x->refs++;
	// Waits are for what was recorded before the launch, whatever the graph itself records.
	for (size_t i = 0; i < x->n; i++) if (x->ops[i].kind == WAITEVENT) r->nodes[i].mark = latest(x->ops[i].ev);
	for (size_t i = 0; i < x->n; i++) if (x->ops[i].kind == RECORD) r->nodes[i].mark = next(x->ops[i].ev);
	return submit(as, (struct op){.kind = GRAPH, .run = r});
}
CUresult cuGraphGetNodes(CUgraph g, void *nodes, size_t *n) { (void)nodes; *n = g->nodes.n; return OK; }
CUresult cuGraphExecDestroy(CUgraphExec x) { LOCKED; unexec(x), live[3]--; return OK; }
CUresult cuGraphDestroy(CUgraph g) { LOCKED; free_graph(g); return OK; }
