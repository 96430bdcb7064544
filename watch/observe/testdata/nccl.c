// nccl PLUGIN VERSION RANK SIZE WHAT: plays NCCL to a profiler plugin, as one rank of a communicator. After 3
// collectives it does WHAT, says "ready" and waits to be killed:
//   held      its 4th collective begins and does not end       enqueued  ... is called and does not begin
//   idle      it does not call a 4th                            other     its 4th is a broadcast
//   network   held, and a proxy waits for rank 0                captured  its 4th is in a graph
//   end       it ends the communicator                          wrap      5000 more, and events that come too late
#include "../../../capi/nccl/plugin.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct profiler *p;
static void *context;
static int version, rank;

static void *start(uint64_t type, void *parent, const void *body, size_t size) {
	struct event_v1 old;
	struct event_v5 now;
	memset(&old, 0, sizeof old), memset(&now, 0, sizeof now);
	old.type = (uint8_t)type, now.type = type, old.parent = now.parent = parent, old.rank = now.rank = rank;
	memcpy(version >= 5 ? now.room : old.room, body, size);
	void *event = NULL;
	if (p->start(context, &event, version >= 5 ? (void *)&now : (void *)&old)) exit(3);
	return event;
}
#define START(type, parent, body) start(type, parent, &(body), sizeof(body))

static void *collective(uint64_t n, const char *func, bool captured) {
	struct coll_api api = {func, 1000, "ncclFloat32", 0, (void *)0x7000, captured};
	void *call = version >= 5 ? START(EVENT_COLL_API, NULL, api) : NULL;
	struct coll4 c = {n, func, NULL, NULL, 1000, 0, "ncclFloat32", 2, 1, "RING", "LL", NULL};
	void *e = START(EVENT_COLL, call, c);
	p->stop(e);
	if (call) p->stop(call);
	return e;
}

static void kernel(void *e, uint8_t channel, int ends) {
	struct kernel k = {channel, 1000};
	void *event = START(EVENT_KERNEL, e, k);
	if (!ends || !event) return;
	union state_args args = {.kernel.timer = 3000};
	p->record(event, STATE_KERNEL_STOP, &args);
	p->stop(event);
}

static void whole(uint64_t n) {
	void *e = collective(n, "AllReduce", false);
	for (uint8_t channel = 0; channel < 2; channel++) kernel(e, channel, 1);
}

int main(int argc, char **argv) {
	if (argc != 6) return 2;
	version = atoi(argv[2]), rank = atoi(argv[3]);
	const char *what = argv[5];
	char name[32];
	snprintf(name, sizeof name, "ncclProfiler_v%d", version);
	void *lib = dlopen(argv[1], RTLD_NOW);
	p = lib ? dlsym(lib, name) : NULL;
	if (!p) return fprintf(stderr, "%s\n", dlerror()), 2;
	int mask = 0, size = atoi(argv[4]);
	uint64_t id = 0xabcd0000u + (uint64_t)getppid();
	if (version >= 5 ? p->init5(&context, id, &mask, "world", 2, size, rank, NULL)
			 : p->init4(&context, &mask, "world", id, 2, size, rank, NULL))
		return 3;
	if (!(mask & EVENT_COLL) || !(mask & EVENT_KERNEL)) return 4;
	for (uint64_t n = 0; n < 3; n++) whole(n);
	if (!strcmp(what, "wrap")) {
		void *early = collective(3, "AllReduce", false);
		struct proxy_op op = {getpid(), 0, 1, 8, 4096, 1};
		void *proxy = START(EVENT_PROXY_OP, early, op);
		for (uint64_t n = 4; n < 5003; n++) {
			whole(n);
			void *other = START(EVENT_PROXY_OP, NULL, op);
			p->stop(other);
		}
		kernel(early, 0, 1);
		struct proxy_step s = {3};
		void *step = START(EVENT_PROXY_STEP, proxy, s);
		p->record(step, STATE_SEND_WAIT, NULL);
		p->stop(step);
		p->stop(proxy);
	} else if (!strcmp(what, "end")) {
		p->finalize(context);
	} else if (strcmp(what, "idle")) {
		void *e = collective(3, !strcmp(what, "other") ? "Broadcast" : "AllReduce", !strcmp(what, "captured"));
		if (strcmp(what, "enqueued") && strcmp(what, "captured")) kernel(e, 0, 0);
		if (!strcmp(what, "network")) {
			struct proxy_op op = {getpid(), 0, 0, 8, 4096, 0};
			struct proxy_step s = {3};
			void *proxy = START(EVENT_PROXY_OP, e, op), *step = START(EVENT_PROXY_STEP, proxy, s);
			p->record(step, STATE_RECV_WAIT, NULL);
		}
	}
	printf("ready\n");
	fflush(stdout);
	for (;;) pause();
}
