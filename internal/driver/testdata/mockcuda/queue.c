// Queues of operations: what streams hold runs as far as it can, or, while the trace has a seed, a few random steps at
// a time. Part of mockcuda.c.

static void append(struct nodes *l, CUgraphNode x) {
	if (l->n == l->cap) l->at = realloc(l->at, (l->cap = l->cap ? 2 * l->cap : 4) * sizeof x);
	l->at[l->n++] = x;
}
static int has(const struct nodes *l, CUgraphNode x) {
	for (size_t i = 0; i < l->n; i++) if (l->at[i] == x) return 1;
	return 0;
}
static struct nodes copied(const struct nodes *l) {
	struct nodes c = {0};
	for (size_t i = 0; i < l->n; i++) append(&c, l->at[i]);
	return c;
}
static void k_blocks(const unsigned char *p, unsigned grid, unsigned block);
static void unmark(struct mark *m) { if (m && --m->refs == 0) free(m); }
// latest is what a wait for the event waits for when it is submitted; next is a new record.
static struct mark *latest(CUevent e) {
	if (e->latest) e->latest->refs++;
	return e->latest;
}
static struct mark *next(CUevent e) {
	unmark(e->latest);
	e->latest = calloc(1, sizeof *e->latest), e->latest->refs = 2;
	return e->latest;
}
static void unexec(CUgraphExec x) {
	if (--x->refs) return;
	for (size_t i = 0; i < x->n; i++) free(x->ops[i].params);
	free(x->ops), free(x->first), free(x->deps), free(x);
}
static void freerun(struct run *r) {
	if (!r) return;
	for (size_t i = 0; i < r->x->n; i++) unmark(r->nodes[i].mark);
	unexec(r->x), free(r->nodes), free(r);
}

static int ready(const struct op *o, const struct mark *m) {
	switch (o->kind) {
	case WAIT32: return (int32_t)(__atomic_load_n((uint32_t *)(uintptr_t)o->a, __ATOMIC_ACQUIRE) - (uint32_t)o->b) >= 0;
	case WAIT64: return (int64_t)(__atomic_load_n((uint64_t *)(uintptr_t)o->a, __ATOMIC_ACQUIRE) - o->b) >= 0;
	case WAITEVENT: return !m || m->done;
	case KERNEL: return !kernel_waits(o);
	default: return 1;
	}
}
static void execute(const struct op *o, struct mark *m) {
	void *p = (void *)(uintptr_t)o->a;
	if (o->kind <= WRITE64) touched("an operation", o->a);
	if (o->kind == COPY) touched("a copy", o->b);
	if (o->kind == KERNEL && o->fn->run == k_blocks) // the ticket and the windows are the first parameters
		for (int i = 0; i <= 16; i++) touched(o->fn->name, ((const uint64_t *)o->params)[i]);
	switch (o->kind) {
	case COPY: memmove(p, (void *)(uintptr_t)o->b, o->c); break;
	case SET8:
		// Fresh windows are large and mostly stay untouched: a hole in the memfd is zeros too.
		if (!o->b && o->c >= PAGE && (o->a | o->c) % 4096 == 0 && madvise(p, o->c, MADV_REMOVE) == 0) break;
		memset(p, (int)o->b, o->c);
		break;
	case WRITE32: __atomic_store_n((uint32_t *)p, (uint32_t)o->b, __ATOMIC_RELEASE); break;
	case WRITE64: __atomic_store_n((uint64_t *)p, o->b, __ATOMIC_RELEASE); break;
	case RECORD: m->done = 1; clock_gettime(CLOCK_MONOTONIC, &m->at); break;
	case KERNEL: if (o->fn->run) o->fn->run(o->params, o->grid, o->block); break;
	default: break;
	}
}

static uint64_t seeded, chance;
static int random_steps(void) {
	uint64_t seed = tracing ? __atomic_load_n(&tracing->seed, __ATOMIC_ACQUIRE) : 0;
	if (seed != seeded) seeded = chance = seed;
	return seed != 0;
}
static uint64_t below(uint64_t n) {
	chance = chance * 6364136223846793005u + 1442695040888963407u;
	return (chance >> 33) % n;
}
static void pause_between_steps(void) { if (!random_steps()) usleep(100); }

// A step of an operation that is ready. With a seed, a kernel takes two: between them others have theirs.
static int step(const struct op *o, struct mark *m, int *state) {
	int slow = random_steps();
	if (o->kind == KERNEL && !*state && slow) {
		note((struct note){.kind = T_BEGIN, .a = o->serial}, NULL, o->fn->name, NULL);
		*state = 1;
		return 0;
	}
	execute(o, m);
	if (*state) note((struct note){.kind = T_END, .a = o->serial}, NULL, o->fn->name, NULL);
	*state = 2;
	return 1;
}

static int node_ready(const struct run *r, size_t i) {
	const struct CUgraphExec_st *x = r->x;
	if (r->nodes[i].state == 2 || x->finished != r->number) return 0; // a graph's launches follow one another
	for (size_t d = x->first[i]; d < x->first[i + 1]; d++) if (r->nodes[x->deps[d]].state != 2) return 0;
	return ready(&x->ops[i], r->nodes[i].mark);
}
static void node_step(struct run *r, size_t i) {
	if (step(&r->x->ops[i], r->nodes[i].mark, &r->nodes[i].state) && --r->left == 0) r->x->finished++;
}

// pop takes the head of a queue away once it is done.
static int pop(struct CUstream_st *s) {
	struct op *o = s->ops;
	if (!s->n || !(o->kind == GRAPH ? !o->run->left && o->run->x->finished > o->run->number : o->state == 2)) return 0;
	free(o->params), unmark(o->mark), freerun(o->run);
	memmove(s->ops, s->ops + 1, --s->n * sizeof *o);
	return 1;
}
// advance runs what stands first in a queue as far as it can.
static int advance(struct CUstream_st *s) {
	int moved = 0;
	for (;;) {
		while (pop(s)) moved = 1;
		if (!s->n) return moved;
		int before = moved;
		moved = 0;
		if (s->ops->kind == GRAPH) {
			struct run *r = s->ops->run;
			for (size_t i = 0; i < r->x->n; i++) if (node_ready(r, i)) node_step(r, i), moved = 1;
		} else if (ready(s->ops, s->ops->mark)) {
			step(s->ops, s->ops->mark, &s->ops->state), moved = 1;
		}
		if (!moved) return before;
	}
}

#define EACH_QUEUE(s) \
	for (struct CUstream_st * lists_[] = {streams, orphans}, **l_ = lists_; l_ < lists_ + 2; l_++) \
		for (struct CUstream_st *s = *l_; s; s = s->next)
// one makes a random step among all that are possible, or none.
static int one(void) {
	struct choice { struct CUstream_st *s; size_t node; } *c = NULL;
	size_t n = 0, cap = 0;
#define CHOOSE(...) \
	do { \
		if (n == cap) c = realloc(c, (cap = cap ? 2 * cap : 16) * sizeof *c); \
		c[n++] = (struct choice){__VA_ARGS__}; \
	} while (0)
#define CHOICES(s) \
	do { \
		while (pop(s)) {} \
		if (!s->n) break; \
		if (s->ops->kind != GRAPH) { if (ready(s->ops, s->ops->mark)) CHOOSE(s, 0); break; } \
		for (size_t i = 0; i < s->ops->run->x->n; i++) if (node_ready(s->ops->run, i)) CHOOSE(s, i); \
	} while (0)
	EACH_QUEUE(s) CHOICES(s);
	for (int d = 0; d < devices; d++) { struct CUstream_st *s = &ctxs[d].def; CHOICES(s); }
	if (n) {
		struct choice k = c[below(n)];
		if (k.s->ops->kind == GRAPH) node_step(k.s->ops->run, k.node);
		else step(k.s->ops, k.s->ops->mark, &k.s->ops->state);
		while (pop(k.s)) {}
	}
	free(c);
	return n > 0;
}
static void drain(void) {
	if (random_steps()) {
		for (uint64_t k = below(6); k && one(); k--) {}
		return;
	}
	for (int moved = 1; moved;) {
		moved = 0;
		EACH_QUEUE(s) moved |= advance(s);
		for (int d = 0; d < devices; d++) moved |= advance(&ctxs[d].def);
	}
	for (struct CUstream_st **p = &orphans, *s; (s = *p);) {
		if (s->n) { p = &s->next; continue; }
		*p = s->next;
		free(s->ops), free(s);
	}
}
static void push(struct CUstream_st *s, struct op o) {
	if (s->n == s->cap) s->ops = realloc(s->ops, (s->cap = s->cap ? 2 * s->cap : 8) * sizeof o);
	s->ops[s->n++] = o;
}
// A GPU may only touch VMM memory that cuMemSetAccess gave it.
static int denied(CUstream s, CUdeviceptr p) {
	struct region *r = find(p);
	return r && r->type == VMM && !(r->access >> s->ctx->dev & 1);
}
static CUgraphNode add_node(CUgraph g, struct op o, const CUgraphNode *deps, size_t n) {
	CUgraphNode x = calloc(1, sizeof *x);
	x->op = o, x->graph = g, x->index = g->nodes.n;
	for (size_t i = 0; i < n; i++) append(&x->deps, deps[i]);
	append(&g->nodes, x);
	return x;
}
static CUresult submit(CUstream s, struct op o) {
	CUstream as = s;
	CUresult r = owned(&s);
	if (r) return r;
	static const uint8_t kinds[] = {[COPY] = T_COPY,
		[SET8] = T_SET,
		[WRITE32] = T_WRITE,
		[WRITE64] = T_WRITE,
		[WAIT32] = T_WAIT_VALUE,
		[WAIT64] = T_WAIT_VALUE};
	if (o.kind <= WAIT64)
		note((struct note){.kind = kinds[o.kind], .captured = s->capture != NULL, .a = o.a, .b = o.b, .c = o.c},
			as, NULL, NULL);
	if (o.kind <= WAIT64 && (denied(s, o.a) || (o.kind == COPY && denied(s, o.b)))) return INVALID;
	if (s->capture) {
		if (s->capture->invalid) return CAPINVAL;
		CUgraphNode x = add_node(s->capture, o, s->frontier.at, s->frontier.n);
		s->frontier.n = 0, append(&s->frontier, x);
		return OK;
	}
	if (o.kind == RECORD) o.mark = next(o.ev);
	if (o.kind == WAITEVENT) o.mark = latest(o.ev);
	push(s, o);
	drain();
	return OK;
}
