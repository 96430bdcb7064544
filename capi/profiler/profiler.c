// libgoccl-profiler.so, a profiler plugin for NCCL: NCCL_PROFILER_PLUGIN=/path/libgoccl-profiler.so.
//
//   1. The first communicator makes the memory of records.h; each takes a slot of it.
//   2. A collective or message takes the next slot of its communicator's ring. Its kernel channels and proxies add to
//      it: when the last channel has ended, so has the operation, and the sums count it.
//   3. A handle is a number, not an address: what (tag), which communicator, which order. An event that comes after its
//      slot has gone to another operation is dropped; no event can touch memory that is gone.
//
// Threads: NCCL calls from every thread that calls it, and from its proxy threads. Slots are taken with atomic adds;
// only names and communicators are added under the lock. Nothing here waits or allocates after the start of a
// communicator. There is no Go in this library: a process must not hold two Go runtimes, and may hold goccl's.
#define _GNU_SOURCE
#include "memory.h"

#include "../nccl/plugin.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TAG_OP = 1, TAG_KERNEL, TAG_PROXY, TAG_CALL, TAG_CAPTURED_CALL };
#define HANDLE_LOW ((UINT64_C(1) << 48) - 1)
static void *handle(uint64_t tag, unsigned slot, uint64_t low) {
	return (void *)(tag << 56 | (uint64_t)(slot & 255) << 48 | (low & HANDLE_LOW));
}
static uint64_t tag_of(const void *h) { return (uint64_t)h >> 56; }
static uint64_t low_of(const void *h) { return (uint64_t)h & HANDLE_LOW; }
static struct record_comm *comm_of(const void *h) { return &records->comm[(uint64_t)h >> 48 & 255]; }

#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define STORE(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELEASE)
#define ADD(x, v) __atomic_add_fetch(&(x), v, __ATOMIC_ACQ_REL)

// op_of returns the operation of a handle, NULL if its slot holds another one.
static struct record_op *op_of(const void *h) {
	uint64_t order = low_of(h);
	if (!h || tag_of(h) > TAG_PROXY || !order) return NULL;
	struct record_op *o = &comm_of(h)->op[(order - 1) % RECORDS_OPS];
	return LOAD(o->order) == order ? o : NULL;
}
static struct record_proxy *proxy_of(const void *h) {
	uint64_t order = low_of(h);
	if (tag_of(h) != TAG_PROXY || !order) return NULL;
	struct record_proxy *p = &comm_of(h)->proxy[(order - 1) % RECORDS_PROXIES];
	return LOAD(p->order) == order ? p : NULL;
}

static uint64_t type_bytes(const char *type) {
	for (size_t i = 0; type && i < ncclNumTypes; i++)
		if (!strcmp(type, plugin_types[i].name)) return plugin_types[i].bytes;
	return 1;
}

// claim takes the next slot of a ring: its order is 0 until it is filled.
static struct record_op *claim(struct record_comm *c, uint64_t *order) {
	*order = ADD(c->ops, 1);
	struct record_op *o = &c->op[(*order - 1) % RECORDS_OPS];
	STORE(o->order, 0);
	memset((char *)o + sizeof o->order, 0, sizeof *o - sizeof o->order);
	o->enqueued = memory_now();
	return o;
}

static void *publish(struct record_comm *c, struct record_op *o, uint64_t order, const void *parent) {
	uint64_t tag = parent ? tag_of(parent) : 0;
	if (tag == TAG_CAPTURED_CALL) o->flags |= FLAG_CAPTURED;
	if (tag == TAG_CALL || tag == TAG_CAPTURED_CALL) o->stream = low_of(parent);
	memory_sum_begun(c, o);
	STORE(o->order, order);
	return handle(TAG_OP, (unsigned)(c - records->comm), order);
}

static void *start_collective(struct record_comm *c, const struct coll4 *d, const void *parent) {
	uint64_t order;
	struct record_op *o = claim(c, &order);
	o->kind = KIND_COLLECTIVE;
	o->call = ADD(c->collectives, 1) - 1;
	o->seq = d->seq, o->count = d->count, o->root = d->root, o->channels = d->channels;
	o->bytes = d->count * type_bytes(d->datatype);
	o->send = (uint64_t)d->send, o->recv = (uint64_t)d->recv;
	o->func = memory_name(d->func), o->type = memory_name(d->datatype);
	o->algo = memory_name(d->algo), o->proto = memory_name(d->proto);
	return publish(c, o, order, parent);
}

static void *start_message(struct record_comm *c, const struct p2p4 *d, const void *parent) {
	uint64_t order;
	struct record_op *o = claim(c, &order);
	o->kind = KIND_MESSAGE;
	o->call = ADD(c->messages, 1) - 1;
	o->count = d->count, o->root = d->peer, o->channels = d->channels;
	o->bytes = d->count * type_bytes(d->datatype);
	o->func = memory_name(d->func), o->type = memory_name(d->datatype);
	if (d->func && !strcmp(d->func, "Recv")) o->recv = (uint64_t)d->buff;
	else o->send = (uint64_t)d->buff;
	return publish(c, o, order, parent);
}

static void *start_copy_engine(struct record_comm *c, const struct copy_engine *d, const void *parent) {
	uint64_t order;
	struct record_op *o = claim(c, &order);
	o->kind = KIND_COPY_ENGINE;
	o->call = ADD(c->collectives, 1) - 1;
	o->seq = d->seq, o->count = d->count, o->root = d->root;
	o->bytes = d->count * type_bytes(d->datatype);
	o->send = (uint64_t)d->send, o->recv = (uint64_t)d->recv, o->stream = (uint64_t)d->stream;
	o->func = memory_name(d->func), o->type = memory_name(d->datatype), o->algo = memory_name("CE");
	return publish(c, o, order, parent);
}

static void least(uint64_t *at, uint64_t value) {
	uint64_t old = LOAD(*at);
	while ((!old || value < old) &&
	       !__atomic_compare_exchange_n(at, &old, value, 1, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
	}
}
static void most(uint64_t *at, uint64_t value) {
	uint64_t old = LOAD(*at);
	while (value > old && !__atomic_compare_exchange_n(at, &old, value, 1, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
	}
}

static void *start_kernel(void *parent, const struct kernel *d) {
	struct record_op *o = tag_of(parent) == TAG_OP ? op_of(parent) : NULL;
	if (!o) return NULL;
	ADD(o->channels_begun, 1);
	least(&o->started, memory_now());
	if (d->timer) least(&o->gpu_started, d->timer);
	return handle(TAG_KERNEL, (unsigned)((uint64_t)parent >> 48 & 255), low_of(parent));
}

static void stop_kernel(void *h) {
	struct record_op *o = op_of(h);
	if (!o) return;
	struct record_comm *c = comm_of(h);
	ADD(c->channels, 1);
	if (ADD(o->channels_done, 1) != (o->channels ? o->channels : 1)) return;
	STORE(o->ended, memory_now());
	memory_sum_ended(c, o);
}

static void *start_proxy(struct record_comm *c, const struct proxy_op *d, void *parent) {
	uint64_t order = ADD(c->proxies, 1);
	struct record_proxy *p = &c->proxy[(order - 1) % RECORDS_PROXIES];
	STORE(p->order, 0);
	*p = (struct record_proxy){.begun = memory_now(), .peer = d->peer, .steps = d->steps, .channel = d->channel,
		.sends = d->sends != 0};
	p->since = p->begun;
	// A proxy also works for other processes of its host; their handles mean nothing here.
	struct record_op *o = d->pid == getpid() && parent && tag_of(parent) == TAG_OP ? op_of(parent) : NULL;
	if (o) {
		p->op = low_of(parent);
		ADD(o->proxies_begun, 1);
	}
	STORE(p->order, order);
	return handle(TAG_PROXY, (unsigned)(c - records->comm), order);
}

static void stop_proxy(void *h) {
	struct record_proxy *p = proxy_of(h);
	if (!p || p->ended) return;
	p->ended = memory_now();
	struct record_op *o = p->op ? op_of(handle(TAG_OP, (unsigned)((uint64_t)h >> 48 & 255), p->op)) : NULL;
	if (o) ADD(o->proxies_done, 1);
}

static void *start(struct record_comm *c, uint64_t type, void *parent, const void *room) {
	switch (type) {
	case EVENT_COLL: return start_collective(c, room, parent);
	case EVENT_P2P: return start_message(c, room, parent);
	case EVENT_COPY_ENGINE: return start_copy_engine(c, room, parent);
	case EVENT_KERNEL: return parent ? start_kernel(parent, room) : NULL;
	case EVENT_PROXY_OP: return start_proxy(c, room, parent);
	case EVENT_PROXY_STEP: {
		struct record_proxy *p = parent ? proxy_of(parent) : NULL;
		if (p) p->step = ((const struct proxy_step *)room)->step;
		// The handle of a step is told from its proxy's by the top bit: only the proxy's end ends the proxy.
		return p ? (void *)((uint64_t)parent | UINT64_C(1) << 63) : NULL;
	}
	case EVENT_COLL_API: {
		const struct coll_api *d = room;
		return handle(d->captured ? TAG_CAPTURED_CALL : TAG_CALL, 0, (uint64_t)d->stream);
	}
	case EVENT_P2P_API: {
		const struct p2p_api *d = room;
		return handle(d->captured ? TAG_CAPTURED_CALL : TAG_CALL, 0, (uint64_t)d->stream);
	}
	}
	return NULL;
}

#define STARTS(name, descriptor) \
	static ncclResult_t name(void *context, void **event, void *from) { \
		struct descriptor *d = from; \
		*event = context ? start(context, d->type, d->parent, d->room) : NULL; \
		return ncclSuccess; \
	}
STARTS(start4, event_v1)
STARTS(start5, event_v5)

static ncclResult_t stop(void *event) {
	switch (event ? tag_of(event) : 0) {
	case TAG_OP: {
		struct record_op *o = op_of(event);
		if (o) STORE(o->launched, memory_now());
		break;
	}
	case TAG_KERNEL: stop_kernel(event); break;
	case TAG_PROXY: stop_proxy(event); break;
	}
	return ncclSuccess;
}

static ncclResult_t record(void *event, int state, union state_args *args) {
	if (!event) return ncclSuccess;
	if (state == STATE_KERNEL_STOP && tag_of(event) == TAG_KERNEL) {
		struct record_op *o = op_of(event);
		if (o && args) most(&o->gpu_ended, args->kernel.timer);
		return ncclSuccess;
	}
	int of_step = (state >= STATE_STEP_FIRST && state <= STATE_STEP_LAST) || state == STATE_SEND_PEER_WAIT;
	if ((uint64_t)event >> 63 && of_step) {
		struct record_proxy *p = proxy_of((void *)((uint64_t)event & ~(UINT64_C(1) << 63)));
		if (!p) return ncclSuccess;
		p->state = (uint8_t)state, p->since = memory_now();
		if (args && (state == STATE_SEND_WAIT || state == STATE_RECV_FLUSH_WAIT)) p->bytes += args->step.bytes;
	}
	return ncclSuccess;
}

enum { WANTED = EVENT_COLL | EVENT_P2P | EVENT_PROXY_OP | EVENT_PROXY_STEP | EVENT_KERNEL };
static ncclResult_t init(int version, void **context, uint64_t comm, int *mask, const char *name, int nodes, int nranks,
			 int rank) {
	*context = memory_open(version, comm, name, nodes, nranks, rank);
	*mask = !*context ? 0 : WANTED;
	if (*context && version >= 5) *mask |= EVENT_COLL_API | EVENT_P2P_API | (version >= 6 ? EVENT_COPY_ENGINE : 0);
	return ncclSuccess;
}
#define INIT(version, ...) \
	static ncclResult_t init##version(void **context, __VA_ARGS__, int nodes, int nranks, int rank, plugin_log *log) { \
		(void)log; \
		return init(version, context, comm, mask, name, nodes, nranks, rank); \
	}
INIT(4, int *mask, const char *name, uint64_t comm)
INIT(5, uint64_t comm, int *mask, const char *name)
INIT(6, uint64_t comm, int *mask, const char *name)

static ncclResult_t finalize(void *context) {
	memory_close(context);
	return ncclSuccess;
}

#define EXPORT __attribute__((visibility("default")))
EXPORT const struct profiler ncclProfiler_v4 = {"goccl", {.init4 = init4}, start4, stop, record, finalize};
EXPORT const struct profiler ncclProfiler_v5 = {"goccl", {.init5 = init5}, start5, stop, record, finalize};
EXPORT const struct profiler ncclProfiler_v6 = {"goccl", {.init5 = init6}, start5, stop, record, finalize};
