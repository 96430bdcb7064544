// The profiler plugin.
//
//   group (api) event          of each communicator in a submission
//     call event               of each request, from version 5 on
//       collective, message    of each request
//         kernel               one channel: from the submission until the work has ended on its stream
//
// Except for kernels, events start before the submission and stop after it, the inner before the outer. A kernel stops
// when the core reports the end of the work, from another thread; in a graph there is none.
#include "plugged.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct profiler *profiler;
static int version;

int shim_find_profiler(void) {
	profiler = shim_plugin("NCCL_PROFILER_PLUGIN", "profiler", "ncclProfiler_v", &version);
	return profiler != NULL;
}

void shim_profiler_begins(struct plugged *p) {
	if (!profiler) return;
	ncclResult_t r;
	if (version >= 5) r = profiler->init5(&p->profiler, p->hash, &p->events, "", 1, p->size, p->rank, shim_plugin_log);
	else if (version == 4) r = profiler->init4(&p->profiler, &p->events, "", p->hash, 1, p->size, p->rank,
		shim_plugin_log);
	else r = profiler->init1(&p->profiler, &p->events);
	p->profiled = r == ncclSuccess;
	if (r) p->events = 0;
}

// Events stop before the context ends: a communicator that is freed has no work, so reports are near.
void shim_profiler_ends(struct plugged *p) {
	if (!p->profiled) return;
	for (int i = 0; i < 2000 && __atomic_load_n(&p->running, __ATOMIC_ACQUIRE); i++) usleep(1000);
	profiler->finalize(p->profiler);
}

static uint64_t now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

const char *shim_request_func(const goccl_request *r, int *number) {
	static const struct { const char *name; int number; } funcs[] = {
		[GOCCL_ALL_REDUCE] = {"AllReduce", FUNC_ALL_REDUCE}, [GOCCL_ALL_GATHER] = {"AllGather", FUNC_ALL_GATHER},
		[GOCCL_REDUCE_SCATTER] = {"ReduceScatter", FUNC_REDUCE_SCATTER}, [GOCCL_BROADCAST] = {"Broadcast", FUNC_BROADCAST},
		[GOCCL_REDUCE] = {"Reduce", FUNC_REDUCE}, [GOCCL_SEND] = {"Send", FUNC_SEND}, [GOCCL_RECV] = {"Recv", FUNC_RECV},
		[GOCCL_ALL_TO_ALL] = {"AlltoAll", FUNC_NONE}, [GOCCL_ALL_TO_ALL_V] = {"AlltoAllv", FUNC_NONE},
		[GOCCL_GATHER] = {"Gather", FUNC_NONE}, [GOCCL_SCATTER] = {"Scatter", FUNC_NONE},
	};
	*number = FUNC_NONE;
	if (r->collective >= sizeof funcs / sizeof *funcs || !funcs[r->collective].name) return "Unknown";
	*number = funcs[r->collective].number;
	return funcs[r->collective].name;
}

const char *shim_request_type(const goccl_request *r, size_t *bytes) {
	if (r->type >= ncclNumTypes) return *bytes = 0, "Unknown";
	*bytes = plugin_types[r->type].bytes;
	return plugin_types[r->type].name;
}

static int is_message(const goccl_request *r) { return r->collective == GOCCL_SEND || r->collective == GOCCL_RECV; }

// one is the events of a request; of is the events of its communicator.
struct one { struct of *of; goccl_request *req; void *call, *work, *kernel; };
struct of { struct plugged *p; void *group, *api; };
struct profile { size_t n, comms; struct of *of; struct one one[]; };

static void *start(struct plugged *p, uint64_t type, void *parent, const void *body, size_t size) {
	if (!(p->events & (int)type)) return NULL;
	void *event = NULL;
	struct event_v1 old;
	struct event_v5 now;
	memset(&old, 0, sizeof old), memset(&now, 0, sizeof now);
	old.type = (uint8_t)type, now.type = type;
	old.parent = now.parent = parent, old.rank = now.rank = p->rank;
	memcpy(version >= 5 ? now.room : old.room, body, size);
	return profiler->start(p->profiler, &event, version >= 5 ? (void *)&now : (void *)&old) ? NULL : event;
}
#define START(p, type, parent, body) start(p, type, parent, &(body), sizeof(body))
static void stop(void *event) { if (event) profiler->stop(event); }

// WORK starts the event of a collective or message with the descriptor of a version, whose fields have these values.
#define WORK(descriptor, event, ...) \
	do { \
		struct descriptor d = {__VA_ARGS__}; \
		o->work = START(p, event, parent, d); \
	} while (0)

static void start_work(struct one *o, void *parent) {
	struct plugged *p = o->of->p;
	goccl_request *r = o->req;
	int number;
	size_t bytes;
	const char *func = shim_request_func(r, &number), *type = shim_request_type(r, &bytes), *way = "goccl";
	uint8_t f = (uint8_t)number, t = (uint8_t)r->type;
	bytes *= r->count;
	if (is_message(r)) {
		void *buff = r->collective == GOCCL_SEND ? (void *)r->send : r->recv;
		if (version == 1) WORK(p2p1, EVENT_P2P, "", p->hash, f, buff, t, r->count, r->root);
		else if (version <= 3) WORK(p2p2, EVENT_P2P, "", p->hash, func, buff, type, r->count, r->root);
		else WORK(p2p4, EVENT_P2P, func, buff, type, r->count, r->root, 1, o->of->group);
		return;
	}
	uint64_t seq = p->seq[r->collective % 16]++;
	const void *send = r->send;
	void *recv = r->recv;
	if (version == 1)
		WORK(coll1, EVENT_COLL, "", p->hash, seq, f, send, recv, r->count, r->root, t, r->op, bytes, 1, 1, 0, 0, 0, 0);
	else if (version == 2)
		WORK(coll2, EVENT_COLL, "", p->hash, seq, func, send, recv, r->count, r->root, type, bytes, 1, 1, way, way);
	else if (version == 3)
		WORK(coll3, EVENT_COLL, "", p->hash, seq, func, send, recv, r->count, r->root, type, 1, 1, way, way);
	else
		WORK(coll4, EVENT_COLL, seq, func, send, recv, r->count, r->root, type, 1, 1, way, way, o->of->group);
}

static void start_one(struct one *o) {
	struct plugged *p = o->of->p;
	goccl_request *r = o->req;
	int number;
	size_t bytes;
	if (version >= 5) {
		const char *func = shim_request_func(r, &number), *type = shim_request_type(r, &bytes);
		struct coll_api c = {func, r->count, type, r->root, (void *)r->stream, false};
		struct p2p_api m = {func, r->count, type, (void *)r->stream, false};
		o->call = is_message(r) ? START(p, EVENT_P2P_API, o->of->api, m) : START(p, EVENT_COLL_API, o->of->api, c);
	}
	void *parent = version >= 5 ? o->call : o->of->group;
	start_work(o, parent);
	struct kernel k = {0, now_ns()};
	if (version >= 3) o->kernel = START(p, EVENT_KERNEL, o->work, k);
}

static struct of *of(struct profile *f, goccl_comm comm, int depth) {
	for (size_t i = 0; i < f->comms; i++)
		if (f->of[i].p->comm == comm) return &f->of[i];
	struct plugged *p = shim_plugged_comm(comm);
	if (!p) return NULL;
	struct of *o = &f->of[f->comms++];
	struct group_api api = {false, depth};
	char none[1] = {0};
	*o = (struct of){.p = p};
	if (version >= 5) o->api = START(p, EVENT_GROUP_API, NULL, api);
	o->group = START(p, EVENT_GROUP, NULL, none);
	return o;
}

struct profile *shim_profile_start(goccl_request *reqs, size_t n, int depth) {
	if (!profiler) return NULL;
	struct profile *f = calloc(1, sizeof *f + n * (sizeof *f->one + sizeof *f->of));
	if (!f) return NULL;
	f->of = (struct of *)&f->one[n];
	for (size_t i = 0; i < n; i++) {
		struct of *o = of(f, reqs[i].comm, depth);
		if (!o) continue;
		f->one[f->n] = (struct one){.of = o, .req = &reqs[i]};
		start_one(&f->one[f->n++]);
	}
	return f;
}

struct kernel_end { void *event; struct plugged *p; };

// ended runs on a thread of the core.
static void ended(void *arg) {
	struct kernel_end *k = arg;
	union state_args args = {.kernel.timer = now_ns()};
	profiler->record(k->event, STATE_KERNEL_STOP, &args);
	profiler->stop(k->event);
	__atomic_sub_fetch(&k->p->running, 1, __ATOMIC_RELEASE);
	free(k);
}

static void stop_kernel(struct one *o, goccl_request *r, ncclResult_t result) {
	if (!o->kernel) return;
	struct kernel_end *k = malloc(sizeof *k);
	if (!k) return;
	*k = (struct kernel_end){o->kernel, o->of->p};
	__atomic_add_fetch(&k->p->running, 1, __ATOMIC_RELAXED);
	if (result || core.notify(r->comm, r->stream, ended, k)) ended(k);
}

void shim_profile_stop(struct profile *f, goccl_request *reqs, ncclResult_t result) {
	(void)reqs;
	if (!f) return;
	for (size_t i = f->n; i-- > 0;) {
		struct one *o = &f->one[i];
		stop_kernel(o, o->req, result);
		stop(o->work);
		stop(o->call);
	}
	for (size_t i = f->comms; i-- > 0;) {
		stop(f->of[i].group);
		stop(f->of[i].api);
	}
	free(f);
}
