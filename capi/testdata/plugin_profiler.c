// A profiler plugin of version VERSION. It records its events, and check() says what is wrong with them.
#include "../nccl/plugin.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

enum { MOST = 4096 };
struct seen { uint64_t type; struct seen *parent; int open, children, ended, stamped; };
static struct seen events[MOST];
static int n, contexts, finalized, counts[16];
static char wrong[256];
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
#define WRONG(...) do { if (!wrong[0]) snprintf(wrong, sizeof wrong, __VA_ARGS__); } while (0)

static ncclResult_t start(void *context, void **handle, void *descriptor) {
	(void)context;
#if VERSION >= 5
	struct event_v5 *d = descriptor;
	const char *func = d->coll4.func, *datatype = d->coll4.datatype;
	size_t count = d->coll4.count;
#else
	struct event_v1 *d = descriptor;
#if VERSION == 4
	const char *func = d->coll4.func, *datatype = d->coll4.datatype;
	size_t count = d->coll4.count;
#elif VERSION == 3
	const char *func = d->coll3.func, *datatype = d->coll3.datatype;
	size_t count = d->coll3.count;
#elif VERSION == 2
	const char *func = d->coll2.func, *datatype = d->coll2.datatype;
	size_t count = d->coll2.count;
#else
	const char *func = d->coll1.func == FUNC_ALL_REDUCE ? "AllReduce" : "?", *datatype = "ncclFloat32";
	size_t count = d->coll1.count;
#endif
#endif
	pthread_mutex_lock(&mu);
	struct seen *e = &events[n++ % MOST], *parent = d->parent;
	*e = (struct seen){.type = d->type, .parent = parent, .open = 1};
	if (d->type == EVENT_COLL && (strcmp(func, "AllReduce") || strcmp(datatype, "ncclFloat32") || count != 1000))
		WRONG("a collective %s of %zu %s", func, count, datatype);
	if (parent && !parent->open) WRONG("an event of type %d starts in one of type %d that has ended", (int)d->type,
		(int)parent->type);
	if (parent && d->type != EVENT_KERNEL) parent->children++;
	static const struct { uint64_t type, old, now; } outer[] = {{EVENT_COLL, EVENT_GROUP, EVENT_COLL_API},
		{EVENT_P2P, EVENT_GROUP, EVENT_P2P_API}, {EVENT_COLL_API, 0, EVENT_GROUP_API}, {EVENT_P2P_API, 0, EVENT_GROUP_API}};
	for (int i = 0; i < 4; i++)
		if (d->type == outer[i].type && (!parent || parent->type != (VERSION >= 5 ? outer[i].now : outer[i].old)))
			WRONG("an event of type %d in one of type %d", (int)d->type, parent ? (int)parent->type : -1);
	if (d->type == EVENT_KERNEL && (!parent || !(parent->type & (EVENT_COLL | EVENT_P2P)))) WRONG("a kernel of nothing");
	for (int b = 0; b < 16; b++)
		if (d->type == 1u << b) counts[b]++;
	pthread_mutex_unlock(&mu);
	*handle = e;
	return ncclSuccess;
}

static ncclResult_t stop(void *handle) {
	struct seen *e = handle;
	pthread_mutex_lock(&mu);
	if (!e->open) WRONG("an event of type %d stops twice", (int)e->type);
	if (e->children != e->ended) WRONG("an event of type %d stops before %d inside it", (int)e->type,
		e->children - e->ended);
	if (e->type == EVENT_KERNEL && !e->stamped) WRONG("a kernel stops without its time");
	if (e->parent && e->type != EVENT_KERNEL) e->parent->ended++;
	e->open = 0;
	pthread_mutex_unlock(&mu);
	return ncclSuccess;
}

static ncclResult_t record(void *handle, int state, union state_args *args) {
	struct seen *e = handle;
	if (state == STATE_KERNEL_STOP && args->kernel.timer) e->stamped = 1;
	return ncclSuccess;
}

static ncclResult_t begin(void **context, int *mask) {
	*context = &contexts;
	*mask = 0xffff;
	__atomic_add_fetch(&contexts, 1, __ATOMIC_RELAXED);
	return ncclSuccess;
}
#if VERSION >= 5
static ncclResult_t init(void **context, uint64_t comm, int *mask, const char *name, int nodes, int nranks, int rank,
			 plugin_log *log) {
	if (!comm || !name || nodes != 1 || nranks != 2 || rank < 0 || rank > 1) WRONG("init of rank %d of %d", rank, nranks);
	log(3, 0, __FILE__, __LINE__, "rank %d begins", rank);
	return begin(context, mask);
}
#elif VERSION == 4
static ncclResult_t init(void **context, int *mask, const char *name, uint64_t comm, int nodes, int nranks, int rank,
			 plugin_log *log) {
	if (!comm || !name || nodes != 1 || nranks != 2 || rank < 0 || rank > 1 || !log) WRONG("init of rank %d of %d",
		rank, nranks);
	return begin(context, mask);
}
#else
#define init begin
#endif

static ncclResult_t finalize(void *context) {
	if (context != &contexts) WRONG("another context ends");
	__atomic_add_fetch(&finalized, 1, __ATOMIC_RELAXED);
	return ncclSuccess;
}

struct { const char *name; void *calls[5]; } JOIN(ncclProfiler_v, VERSION) = {"recorder", {init, start, stop,
	record, finalize}};

// check returns NULL if so many groups, collectives, messages and kernels have begun and ended.
const char *check(int groups, int collectives, int messages, int comms) {
	pthread_mutex_lock(&mu);
	int group = counts[0], coll = counts[1], message = counts[2], kernel = counts[6];
	for (int i = 0; i < n; i++)
		if (events[i].open) WRONG("an event of type %d has not ended", (int)events[i].type);
	if (group != groups || coll != collectives || message != messages || kernel != (VERSION >= 3 ? coll + message : 0))
		WRONG("%d groups, %d collectives, %d messages and %d kernels", group, coll, message, kernel);
	if (VERSION >= 5 && (counts[8] != groups || counts[9] != coll || counts[10] != message)) WRONG("%d %d %d calls",
		counts[8], counts[9], counts[10]);
	if (contexts != comms || finalized != comms) WRONG("%d contexts, %d ended", contexts, finalized);
	pthread_mutex_unlock(&mu);
	return wrong[0] ? wrong : NULL;
}
