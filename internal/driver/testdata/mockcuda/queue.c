// Queues of operations: what a stream holds runs as far as it can. Part of mockcuda.c.

static int ready(struct op *o) {
	switch (o->kind) {
	case WAIT32: return (int32_t)(__atomic_load_n((uint32_t *)(uintptr_t)o->a, __ATOMIC_ACQUIRE) - (uint32_t)o->b) >= 0;
	case WAIT64: return (int64_t)(__atomic_load_n((uint64_t *)(uintptr_t)o->a, __ATOMIC_ACQUIRE) - o->b) >= 0;
	case WAITEVENT: return o->ev->done >= o->a;
	default: return 1;
	}
}
static void execute(struct op *o) {
	void *p = (void *)(uintptr_t)o->a;
	switch (o->kind) {
	case COPY: memmove(p, (void *)(uintptr_t)o->b, o->c); break;
	case SET8:
		// Fresh windows are large and mostly stay untouched: a hole in the memfd is zeros too.
		if (!o->b && o->c >= PAGE && (o->a | o->c) % 4096 == 0 && madvise(p, o->c, MADV_REMOVE) == 0) break;
		memset(p, (int)o->b, o->c);
		break;
	case SET32: for (uint64_t i = 0; i < o->c; i++) ((uint32_t *)p)[i] = (uint32_t)o->b; break;
	case WRITE32: __atomic_store_n((uint32_t *)p, (uint32_t)o->b, __ATOMIC_RELEASE); break;
	case WRITE64: __atomic_store_n((uint64_t *)p, o->b, __ATOMIC_RELEASE); break;
	case RECORD: o->ev->done = o->a; clock_gettime(CLOCK_MONOTONIC, &o->ev->at); break;
	case KERNEL: if (o->fn->run) o->fn->run(o->params, o->grid, o->block); break;
	default: break;
	}
}
static int advance(struct CUstream_st *s) {
	size_t i = 0;
	while (i < s->n && ready(&s->ops[i])) execute(&s->ops[i]), free(s->ops[i].params), i++;
	memmove(s->ops, s->ops + i, (s->n - i) * sizeof *s->ops);
	s->n -= i;
	return i > 0;
}
static void drain(void) {
	for (int moved = 1; moved;) {
		moved = 0;
		for (struct CUstream_st *s = streams; s; s = s->next) moved |= advance(s);
		for (int d = 0; d < devices; d++) moved |= advance(&ctxs[d].def);
	}
}
static void push(struct op **ops, size_t *n, size_t *cap, struct op o) {
	if (*n == *cap) *ops = realloc(*ops, (*cap = *cap ? 2 * *cap : 8) * sizeof o);
	(*ops)[(*n)++] = o;
}
// A GPU may only touch VMM memory that cuMemSetAccess gave it.
static int denied(CUstream s, CUdeviceptr p) {
	struct region *r = find(p);
	return r && r->type == VMM && !(r->access >> s->ctx->dev & 1);
}
static CUresult submit(CUstream s, struct op o) {
	CUstream as = s;
	CUresult r = owned(&s);
	if (r) return r;
	static const uint8_t kinds[] = {[COPY] = T_COPY, [SET8] = T_SET, [SET32] = T_SET, [WRITE32] = T_WRITE, [WRITE64] = T_WRITE, [WAIT32] = T_WAIT_VALUE, [WAIT64] = T_WAIT_VALUE};
	if (o.kind <= WAIT64) note((struct note){.kind = kinds[o.kind], .captured = s->capture != NULL, .a = o.a, .b = o.b, .c = o.c}, as, NULL, NULL);
	if (o.kind <= SET32 && (denied(s, o.a) || (o.kind == COPY && denied(s, o.b)))) return INVALID;
	if (s->capture) {
		if (s->capture->invalid) return CAPINVAL;
		push(&s->capture->ops, &s->capture->n, &s->capture->cap, o);
		return OK;
	}
	push(&s->ops, &s->n, &s->cap, o);
	drain();
	return OK;
}
