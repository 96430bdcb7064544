// Groups. The state is per thread; only the outermost ncclGroupEnd acts.
//
// 1. A call inside a group is checked at once. A failure is returned and recorded: the whole group then enqueues
//    nothing.
// 2. The set-up of a communicator starts at its call and is waited for at the end, so one thread can set up many ranks.
// 3. The same holds for windows and device communicators.
// 4. At the end, the requests go to the core as one group, in call order.
// 5. Then the communicators that were finalized or destroyed in the group are ended, also when the group has failed. An
//    abort takes effect at once: it removes the communicator and its requests from the group.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

struct started { // a communicator being set up
	ncclComm_t *out;
	goccl_comm comm;
	int nonBlocking;
	const char *what;
};

struct ending { // of a communicator
	goccl_comm comm;
	shim_end *end;
};

struct later { // something begun that waits for other ranks
	goccl_comm comm;
	shim_finish *finish;
	void *what;
};

// What a request points to, copied because the caller may change it after the call: the arrays of an all-to-all-v, or
// the configuration of the call.
struct copy {
	struct copy *next;
	int64_t bytes[];
};

// A list grows by GROW, and keeps its memory for the next group of the thread.
#define LIST(type) struct { type *at; size_t n, room; }

struct group {
	int depth;
	ncclResult_t error;
	LIST(goccl_request) reqs;
	LIST(struct started) started;
	LIST(struct ending) endings;
	LIST(struct later) laters;
	struct copy *copies;
};

static __thread struct group *mine;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void clear(struct group *g) {
	while (g->copies) {
		struct copy *c = g->copies;
		g->copies = c->next;
		free(c);
	}
	g->depth = 0, g->error = ncclSuccess, g->reqs.n = 0, g->started.n = 0, g->endings.n = 0, g->laters.n = 0;
}

static void end_thread(void *p) {
	struct group *g = p;
	clear(g);
	free(g->reqs.at);
	free(g->started.at);
	free(g->endings.at);
	free(g->laters.at);
	free(g);
	mine = NULL;
}

static void make_key(void) { pthread_key_create(&key, end_thread); }

static struct group *group(void) {
	if (mine) return mine;
	pthread_once(&once, make_key);
	struct group *g = calloc(1, sizeof *g);
	if (g && pthread_setspecific(key, g) == 0) return mine = g;
	free(g);
	return NULL;
}

int shim_grouped(void) { return mine ? mine->depth : 0; }

ncclResult_t shim_remember(ncclResult_t r) {
	if (r != ncclSuccess && r != ncclInProgress && shim_grouped() && !mine->error) mine->error = r;
	return r;
}

// grow makes room for one more element of size in an array.
static void *grow(void *array, size_t n, size_t *room, size_t size) {
	if (n < *room) return array;
	size_t bigger = *room ? 2 * *room : 16;
	void *p = realloc(array, bigger * size);
	if (p) *room = bigger;
	return p;
}

// GROW is grow for a list; it is not 0 without memory.
#define GROW(list) \
	({ \
		void *p_ = grow((list).at, (list).n, &(list).room, sizeof *(list).at); \
		if (p_) (list).at = p_; \
		!p_; \
	})

static ncclResult_t no_memory(void) { return shim_remember(shim_fail(ncclSystemError, "out of memory in a group")); }

// keep makes room that lasts until the group ends.
static void *keep(struct group *g, size_t size) {
	struct copy *c = malloc(sizeof *c + size);
	if (!c) return NULL;
	c->next = g->copies;
	g->copies = c;
	return c->bytes;
}

static int own_counts(struct group *g, goccl_request *r) {
	goccl_comm_info info;
	if (core.comm_info_get(r->comm, &info)) return -1;
	size_t n = (size_t)info.size;
	int64_t *counts = keep(g, 4 * n * sizeof *counts);
	if (!counts) return -1;
	const int64_t **from[] = {&r->send_counts, &r->send_displs, &r->recv_counts, &r->recv_displs};
	for (int i = 0; i < 4; i++) {
		memcpy(counts + i * n, *from[i], n * sizeof *counts);
		*from[i] = counts + i * n;
	}
	return 0;
}

static int own_config(struct group *g, goccl_request *r) {
	const char *names = r->config->algorithms ? r->config->algorithms : "";
	goccl_call_config *c = keep(g, sizeof *c + strlen(names) + 1);
	if (!c) return -1;
	*c = *r->config;
	if (c->all_counts) {
		goccl_comm_info info;
		if (core.comm_info_get(r->comm, &info)) return -1;
		size_t bytes = (size_t)info.size * (size_t)info.size * sizeof *c->all_counts;
		int64_t *matrix = keep(g, bytes);
		if (!matrix) return -1;
		c->all_counts = memcpy(matrix, c->all_counts, bytes);
	}
	c->algorithms = strcpy((char *)(c + 1), names);
	r->config = c;
	return 0;
}

ncclResult_t shim_submit_later(const goccl_request *req, const char *what) {
	struct group *g = mine;
	if (GROW(g->reqs)) return no_memory();
	goccl_request *own = &g->reqs.at[g->reqs.n];
	*own = *req;
	ncclResult_t r = shim_remember(shim_result(core.check(own), what));
	if (r) return r;
	if (req->collective == GOCCL_ALL_TO_ALL_V && own_counts(g, own)) return no_memory();
	if (req->config && own_config(g, own)) return no_memory();
	g->reqs.n++;
	return ncclSuccess;
}

ncclResult_t shim_ends(ncclComm_t comm, shim_end *end, const char *what) {
	if (!shim_grouped()) return end(comm);
	goccl_comm_info info;
	goccl_result known = core.comm_info_get(handle(comm), &info);
	if (known == GOCCL_INVALID_ARGUMENT) return shim_remember(shim_result(known, what));
	struct group *g = mine;
	if (GROW(g->endings)) return no_memory();
	g->endings.at[g->endings.n++] = (struct ending){handle(comm), end};
	return ncclSuccess;
}

void shim_forget(ncclComm_t comm) {
	if (!shim_grouped()) return;
	struct group *g = mine;
// REMOVE drops the elements of the communicator.
#define REMOVE(list, end) \
	do { \
		size_t n = 0; \
		for (size_t i = 0; i < (list).n; i++) \
			if ((list).at[i].comm != handle(comm)) (list).at[n++] = (list).at[i]; \
			else end; \
		(list).n = n; \
	} while (0)
	REMOVE(g->reqs, (void)0);
	REMOVE(g->started, (void)0);
	REMOVE(g->endings, (void)0);
	REMOVE(g->laters, g->laters.at[i].finish(g->laters.at[i].what, 1));
#undef REMOVE
}

ncclResult_t shim_later(goccl_comm comm, shim_finish *finish, void *what) {
	if (!shim_grouped()) return finish(what, 0);
	struct group *g = mine;
	if (GROW(g->laters)) {
		finish(what, 1);
		return no_memory();
	}
	g->laters.at[g->laters.n++] = (struct later){comm, finish, what};
	return ncclSuccess;
}

// settle waits for one communicator, which then begins with the plugins.
static ncclResult_t settle(struct started *s) {
	ncclResult_t r = shim_result(core.comm_wait(s->comm), s->what);
	if (!r && *s->out) shim_plug(*s->out);
	return r;
}

// give_up frees the communicators that were being set up.
static void give_up(struct started *s) {
	if (*s->out) {
		shim_unplug(*s->out);
		core.comm_abort(handle(*s->out));
	}
	*s->out = NULL;
}

ncclResult_t shim_started(ncclComm_t *out, goccl_comm comm, int nonBlocking, const char *what) {
	struct started s = {out, comm, nonBlocking, what};
	if (!shim_grouped()) {
		if (nonBlocking) return ncclInProgress;
		ncclResult_t r = settle(&s);
		if (r) give_up(&s);
		return r;
	}
	struct group *g = mine;
	if (GROW(g->started)) {
		give_up(&s);
		return no_memory();
	}
	g->started.at[g->started.n++] = s;
	return nonBlocking ? ncclInProgress : ncclSuccess;
}

NCCL(GroupStart, void) {
	struct group *g = group();
	if (!g) return shim_fail(ncclSystemError, "ncclGroupStart: out of memory");
	g->depth++;
	return ncclSuccess;
}

// finish ends the outermost group.
static ncclResult_t finish(struct group *g, double *simulate) {
	ncclResult_t r = g->error;
	int pending = 0;
	for (size_t i = 0; i < g->started.n; i++) {
		struct started *s = &g->started.at[i];
		if (s->nonBlocking) {
			pending = 1;
			continue;
		}
		ncclResult_t one = settle(s);
		if (!r) r = one;
	}
	int given_up = r != ncclSuccess || simulate;
	for (size_t i = 0; i < g->laters.n; i++) {
		ncclResult_t one = g->laters.at[i].finish(g->laters.at[i].what, given_up);
		if (!r) r = one;
	}
	if (r)
		for (size_t i = 0; i < g->started.n; i++) give_up(&g->started.at[i]);
	else if (g->reqs.n && simulate)
		r = shim_result(core.estimate(g->reqs.at, g->reqs.n, simulate), "ncclGroupSimulateEnd");
	else if (g->reqs.n)
		r = shim_plugs ? shim_plugged(g->reqs.at, g->reqs.n, 1, "ncclGroupEnd")
			       : shim_result(core.submit(g->reqs.at, g->reqs.n), "ncclGroupEnd");
	for (size_t i = 0; i < g->endings.n; i++) {
		ncclResult_t one = g->endings.at[i].end((ncclComm_t)(uintptr_t)g->endings.at[i].comm);
		if (one == ncclInProgress)
			pending = 1;
		else if (!r)
			r = one;
	}
	clear(g);
	return r ? r : pending ? ncclInProgress : ncclSuccess;
}

static ncclResult_t group_end(double *simulate, const char *what) {
	struct group *g = mine;
	if (!g || g->depth == 0)
		return shim_fail(ncclInvalidUsage, "%s: there was no ncclGroupStart on this thread", what);
	if (--g->depth > 0) return ncclSuccess;
	if (shim_ready < 0) { // forked or exiting inside a group
		clear(g);
		return shim_open();
	}
	return finish(g, simulate);
}

NCCL(GroupEnd, void) { return group_end(NULL, SELF); }

// The group is closed and nothing is enqueued. The estimate is in microseconds, as NCCL's.
NCCL(GroupSimulateEnd, ncclSimInfo_t *info) {
	if (info && info->magic != NCCL_SIM_INFO_MAGIC)
		return shim_remember(shim_fail(ncclInvalidArgument,
			"ncclGroupSimulateEnd: simInfo was not initialised with NCCL_SIM_INFO_INITIALIZER"));
	double estimate = 0;
	ncclResult_t r = group_end(&estimate, SELF);
	if (info && !r) info->estimatedTime = (float)estimate;
	return r;
}
