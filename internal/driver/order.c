//go:build cgo && linux

// Work of one owner runs in the order in which the host enqueues it, and its graphs run in the order in which the host
// launches them, across streams. An operation is enter, its work on one stream, leave:
//
//  enter, not captured  1. Wait for the mark of the latest work, unless that was on this stream.
//  leave, not captured  2. Mark the end of this work.
//  enter, captured      3. Drop dependencies of the stream that come before others of them.
//                       4. In the first operation of a capture: add a node that waits for the event.
//                       5. In a later one, if on another stream than the previous: add an edge from the previous tail.
//  leave, captured      6. Move the capture's record of the event behind this work.
//
// The mark of kernels with tickets is a word in device memory, if there is one: each of their blocks adds 1 to it when
// it ends, and blocks is the number of blocks launched so far. This is free unless another stream is used; an event
// after every launch would cost about a microsecond. The mark of other work is the event. The latest mark covers all
// earlier work, because all work follows the work before it.
//
// The host is not notified of a graph launch. So from the first capture on, the event marks all work (shared): each
// graph launch waits for the latest record and makes a record, both at the time of the launch, and so does other work.
// A capture with one stream gets the same chain of nodes as without an order: the wait is ahead of it, the record a
// leaf at its end.
//
// Streams are compared by their ids, which unlike handles are never reused: a stream may be destroyed while it has
// work, and another may get its handle; the per-thread default streams share one handle. Id 0 is unknown and belongs to
// no stream. The id of a capturing stream is not queried, because that invalidates the capture (driver 580). Within one
// capture the handle is used instead: see captured.
#include "order.h"
#include "call.h"

#include <string.h>

enum { UNORDERED = 2 }; // a value of separate
enum { MARK_NONE, MARK_EVENT, MARK_BLOCKS };

#define EVENT(o) PTR(CUevent, (o)->event)

// The dependencies of the next node of a stream that is being captured.
struct frontier {
	unsigned long long id;
	CUgraph graph;
	const CUgraphNode *nodes; // owned by the driver, valid until the next call for the stream
	size_t n;
	int lossy; // not all edges to the next node will be plain
};

static uint64_t frontier(CUstream s, struct frontier *f) {
	int status = 0;
	f->lossy = 0;
	CUresult r = goccl_cu.cuStreamGetCaptureInfo_v2(s, &status, &f->id, &f->graph, &f->nodes, &f->n);
	if (r == GOCCL_LOSSY_QUERY) { // some edges are not plain; their kind does not matter here
		const CUgraphEdgeData *edges = NULL;
		f->lossy = 1;
		TRY(cuStreamGetCaptureInfo_v3, s, &status, &f->id, &f->graph, &f->nodes, &edges, &f->n);
	} else if (r) {
		return FAIL(cuStreamGetCaptureInfo_v2, r);
	}
	return status == 1 ? 0 : FAIL(cuStreamGetCaptureInfo_v2, GOCCL_CAPTURE_INVALIDATED);
}

// captured identifies a stream within one capture. The default streams have no unique handle: they are unknown.
static uint64_t captured(CUstream s) { return (uintptr_t)s <= 2 ? 0 : (uintptr_t)s; }

static int holds(const struct frontier *f, CUgraphNode node) {
	for (size_t i = 0; i < f->n; i++)
		if (f->nodes[i] == node) return 1;
	return 0;
}

// find returns the entry of a capture, or a free one for it. If all are used it takes the one with the oldest lookup,
// since nothing reports the end of a capture.
static struct capture *find(struct order *o, uint64_t id) {
	struct capture *oldest = o->captures;
	for (struct capture *c = o->captures; c < o->captures + ORDER_CAPTURES; c++) {
		if (c->id == id) {
			oldest = c;
			break;
		}
		if (c->used < oldest->used) oldest = c;
	}
	if (oldest->id != id) memset(oldest, 0, sizeof *oldest);
	oldest->used = ++o->time;
	return oldest;
}

// share makes the event cover all work so far, and from now on. For blocks, or if nothing was recorded yet, it records
// the event on a new stream that has no other work, and that the driver frees afterwards. The stream of those blocks
// cannot be used: it may be destroyed, be captured, or have other work after them.
static uint64_t share(struct order *o) {
	if (o->shared) return 0;
	if (o->mark != MARK_EVENT) {
		int mode = GOCCL_CAPTURE_RELAXED; // this stream takes no part in any capture
		CUstream s = NULL;
		uint64_t bad = 0;
		TRY(cuThreadExchangeStreamCaptureMode, &mode);
		ELSE(relaxed, cuStreamCreateWithPriority, &s, GOCCL_NON_BLOCKING, 0);
		if (o->mark == MARK_BLOCKS) ELSE(created, cuStreamWaitValue64_v2, s, o->word, o->blocks, GOCCL_WAIT_GEQ);
		ELSE(created, cuEventRecord, EVENT(o), s);
	created:
		goccl_cu.cuStreamDestroy_v2(s);
	relaxed:
		goccl_cu.cuThreadExchangeStreamCaptureMode(&mode);
		if (bad) return bad;
		o->mark = MARK_EVENT;
	}
	o->shared = 1;
	return 0;
}

enum { REDUCED = 8, WALKED = 96 }; // dependencies of a node, and nodes of a walk, that are looked at

// reduce drops a stream's dependencies that precede another of its dependencies. PyTorch runs asynchronous collectives
// on a separate stream. An operation there depends on the operation before it on that stream and on the kernels of the
// model, which follow the earlier operation, too. With one dependency it may overlap the last of these kernels. A walk
// that is too long, or an old driver, leaves all dependencies in place.
static void reduce(CUstream s, struct frontier *f) {
	CUgraphNode stack[WALKED], keep[REDUCED];
	if (f->n < 2 || f->n > REDUCED || f->lossy || !goccl_cu.cuGraphNodeGetDependencies_v2) return;
	int drop[REDUCED] = {0}, walked = 0;
	size_t kept = 0, n = 0;
	for (size_t i = 0; i < f->n; i++) stack[n++] = f->nodes[i];
	while (n && walked++ < WALKED) {
		CUgraphNode deps[REDUCED];
		CUgraphEdgeData edges[REDUCED];
		size_t m = REDUCED;
		if (goccl_cu.cuGraphNodeGetDependencies_v2(stack[--n], deps, edges, &m)) return;
		for (size_t d = 0; d < m && d < REDUCED; d++) {
			size_t i = 0;
			if (edges[d].type || edges[d].from_port) continue; // the node may begin before this dependency has ended
			while (i < f->n && f->nodes[i] != deps[d]) i++;
			if (i < f->n) drop[i] = 1; // its predecessors are walked from there
			else if (n < WALKED) stack[n++] = deps[d];
		}
	}
	for (size_t i = 0; i < f->n; i++)
		if (!drop[i]) keep[kept++] = f->nodes[i];
	if (kept == f->n || !kept) return;
	if (goccl_cu.cuStreamUpdateCaptureDependencies(s, keep, kept, GOCCL_SET_DEPENDENCIES)) return;
	frontier(s, f);
}

static uint64_t enter_capture(CUstream s, struct order *o) {
	struct frontier f;
	uint64_t r = frontier(s, &f);
	if (r) return r;
	reduce(s, &f);
	struct capture *c = find(o, f.id);
	if (!c->id) {
		if (!o->separate) {
			CUgraphNode wait = NULL;
			if ((r = share(o))) return r;
			TRY(cuGraphAddEventWaitNode, &wait, f.graph, NULL, 0, EVENT(o));
			c->tail = (uintptr_t)wait;
		}
		c->id = f.id;
	}
	CUgraphNode tail = PTR(CUgraphNode, c->tail);
	int follows = !tail || o->separate == UNORDERED || (o->now && c->stream == o->now) || holds(&f, tail);
	o->chained = follows && f.n <= 1;
	if (!follows) TRY(cuStreamUpdateCaptureDependencies, s, &tail, 1, GOCCL_ADD_DEPENDENCIES);
	o->current = c - o->captures + 1;
	return 0;
}

// If removing an edge fails, one superfluous edge stays, which changes no order.
static uint64_t leave_capture(CUstream s, struct order *o) {
	struct frontier f;
	uint64_t r = frontier(s, &f);
	if (r) return r;
	struct capture *c = &o->captures[o->current - 1];
	if (f.id != c->id)
		return FAIL(cuStreamGetCaptureInfo_v2, GOCCL_CAPTURE_INVALIDATED); // another capture began in between
	CUgraphNode before = PTR(CUgraphNode, c->tail), record = PTR(CUgraphNode, c->record), tail = NULL;
	if (f.n == 1) tail = f.nodes[0];
	else TRY(cuGraphAddEmptyNode, &tail, f.graph, f.nodes, f.n);
	c->stream = o->now;
	if (tail == before) return 0; // nothing was added
	c->tail = (uintptr_t)tail;
	if (o->separate) return 0;
	if (!record) {
		TRY(cuGraphAddEventRecordNode, &record, f.graph, &tail, 1, EVENT(o));
		c->record = (uintptr_t)record;
		return 0;
	}
	TRY(cuGraphAddDependencies, f.graph, &tail, &record, 1);
	if (goccl_cu.cuGraphRemoveDependencies) goccl_cu.cuGraphRemoveDependencies(f.graph, &before, &record, 1);
	return 0;
}

uint64_t goccl_order_enter(CUstream s, struct order *o) {
	int capturing = 0;
	unsigned long long id = 0;
	TRY(cuStreamIsCapturing, s, &capturing);
	o->current = 0, o->chained = 1;
	if (capturing) {
		o->now = captured(s);
		return enter_capture(s, o);
	}
	if (!goccl_cu.cuStreamGetId || goccl_cu.cuStreamGetId(s, &id)) id = 0;
	o->now = id;
	// A graph may have been launched since the latest work, even if that was on this stream.
	if (!o->shared && (!o->mark || (id && o->last == id))) return 0;
	if (o->mark == MARK_BLOCKS) TRY(cuStreamWaitValue64_v2, s, o->word, o->blocks, GOCCL_WAIT_GEQ);
	else TRY(cuStreamWaitEvent, s, EVENT(o), 0);
	return 0;
}

// Record the event now, not when another stream is used: by then the stream may be destroyed, or hold work that waits
// for this work.
uint64_t goccl_order_leave(CUstream s, struct order *o) {
	if (o->current) return leave_capture(s, o);
	TRY(cuEventRecord, EVENT(o), s);
	o->last = o->now, o->mark = MARK_EVENT;
	return 0;
}

// The kernel's parameters begin with its ticket: the word to which its blocks add, or 0. Graph launches get 0, because
// they are not counted. Blocks are counted only after the launch succeeded: otherwise a waiter would wait forever. A
// kernel in a graph may overlap the previous one only if that is its sole dependency.
static inline __attribute__((always_inline)) uint64_t launch(uint64_t *a, void *p, struct order *o) {
	CUstream s = PTR(CUstream, a[1]);
	if (a[8] < sizeof o->word) return FAIL(cuLaunchKernel, GOCCL_INVALID_VALUE);
	uint64_t r = goccl_order_enter(s, o);
	if (r) return r;
	uint64_t ticket = o->current ? 0 : o->word;
	memcpy(p, &ticket, sizeof ticket);
	if (!o->chained) a[5] &= ~((uint64_t)LAUNCH_OVERLAP << 32);
	if ((r = goccl_launch(a, p))) return r;
	if (ticket) {
		uint64_t blocks = (uint64_t)LO(a[2]) * HI(a[2]) * LO(a[3]);
		__atomic_store_n(&o->blocks, o->blocks + blocks, __ATOMIC_RELEASE);
		o->last = o->now, o->mark = MARK_BLOCKS;
	}
	return ticket && !o->shared ? 0 : goccl_order_leave(s, o);
}

uint64_t goccl_driver_launch(uint64_t context, uint64_t *a, uint8_t *p, uint8_t *order) {
	struct current cur;
	uint64_t r = use_context(context, &cur);
	if (r) return r;
	r = launch(a, p, (struct order *)order);
	restore_context(&cur);
	return r;
}
