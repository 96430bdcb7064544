// NCCL's plugins: the structures that a profiler and a tuner exchange with the library, of every version, written from
// NCCL's public headers. A plugin is a library that exports ncclProfiler_v1…v6 or ncclTunerPlugin_v2…v6.
#pragma once

#include "nccl.h"

// A plugin logs with it: level (1 version, 2 warning, 3 info), subsystems, place, text.
typedef void plugin_log(int level, unsigned long flags, const char *file, int line, const char *format, ...);
void shim_plugin_log(int level, unsigned long flags, const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

// shim_plugin opens the library that a variable names: a path, or the x of libnccl-KIND-x.so; libnccl-KIND.so when it
// is not set; nothing for "none". It looks for symbols PREFIX6 down to PREFIX1 and stores the number that it found.
void *shim_plugin(const char *variable, const char *kind, const char *prefix, int *version);

// NCCL's numbers of functions, which plugins know.
enum { FUNC_BROADCAST, FUNC_REDUCE, FUNC_ALL_GATHER, FUNC_REDUCE_SCATTER, FUNC_ALL_REDUCE, FUNC_SENDRECV, FUNC_SEND,
	FUNC_RECV, FUNC_NONE = -1 };

// The names and sizes of element types, by NCCL's numbers.
static const struct { const char *name; size_t bytes; } plugin_types[ncclNumTypes] = {
	{"ncclInt8", 1}, {"ncclUint8", 1}, {"ncclInt32", 4}, {"ncclUint32", 4}, {"ncclInt64", 8}, {"ncclUint64", 8},
	{"ncclFloat16", 2}, {"ncclFloat32", 4}, {"ncclFloat64", 8}, {"ncclBfloat16", 2}, {"ncclFloat8e4m3", 1},
	{"ncclFloat8e5m2", 1},
};

// Types of profiler events, and the states of one that are recorded.
enum {
	EVENT_GROUP = 1 << 0, EVENT_COLL = 1 << 1, EVENT_P2P = 1 << 2, EVENT_PROXY_OP = 1 << 3, EVENT_PROXY_STEP = 1 << 4,
	EVENT_KERNEL = 1 << 6, EVENT_GROUP_API = 1 << 8, EVENT_COLL_API = 1 << 9, EVENT_P2P_API = 1 << 10,
	EVENT_LAUNCH = 1 << 11, EVENT_COPY_ENGINE = 1 << 12,
	// Of a step of a proxy; from STATE_STEP_FIRST to STATE_STEP_LAST, and STATE_SEND_PEER_WAIT.
	STATE_SEND_GPU_WAIT = 8, STATE_SEND_WAIT = 9, STATE_RECV_WAIT = 10, STATE_RECV_FLUSH_WAIT = 11,
	STATE_RECV_GPU_WAIT = 12, STATE_SEND_PEER_WAIT = 20,
	STATE_STEP_FIRST = STATE_SEND_GPU_WAIT, STATE_STEP_LAST = STATE_RECV_GPU_WAIT,
	STATE_KERNEL_STOP = 22, STATE_GROUP_START_STOP = 23, STATE_GROUP_END_START = 24
};

// Descriptors. Versions 1 to 4 have a type of one byte, 5 and 6 of eight; the numbers in the names are versions.
#define PROFILER_HEAD(type_t) type_t type; void *parent; int rank
struct coll1 {
	const char *name; uint64_t comm, seq; uint8_t func; const void *send; void *recv; size_t count; int root;
	uint8_t datatype; uint32_t op; size_t traffic; uint8_t channels, warps, algo, proto; int collnet, nvls;
};
struct p2p1 { const char *name; uint64_t comm; uint8_t func; void *buff; uint8_t datatype; size_t count; int peer; };
struct coll2 {
	const char *name; uint64_t comm, seq; const char *func; const void *send; void *recv; size_t count; int root;
	const char *datatype; size_t traffic; uint8_t channels, warps; const char *algo, *proto;
};
struct coll3 {
	const char *name; uint64_t comm, seq; const char *func; const void *send; void *recv; size_t count; int root;
	const char *datatype; uint8_t channels, warps; const char *algo, *proto;
};
struct p2p2 {
	const char *name; uint64_t comm; const char *func; void *buff; const char *datatype; size_t count; int peer;
};
struct coll4 {
	uint64_t seq; const char *func; const void *send; void *recv; size_t count; int root; const char *datatype;
	uint8_t channels, warps; const char *algo, *proto; void *group; // group: from version 5 on
};
struct p2p4 {
	const char *func; void *buff; const char *datatype; size_t count; int peer; uint8_t channels; void *group;
};
struct kernel { uint8_t channel; uint64_t timer; };
struct group_api { bool captured; int depth; };
struct coll_api { const char *func; size_t count; const char *datatype; int root; void *stream; bool captured; };
struct p2p_api { const char *func; size_t count; const char *datatype; void *stream; bool captured; };
struct launch { void *stream; };
struct proxy_op { int pid; uint8_t channel; int peer, steps, chunk, sends; };
struct proxy_step { int step; };
struct copy_engine { // from version 6 on
	uint64_t seq; const char *func; const void *send; void *recv; size_t count; int root; const char *datatype, *sync;
	bool inner; uint32_t batch, batches, number; void *stream;
};
#define PROFILER_BODY \
	union { \
		struct coll1 coll1; struct p2p1 p2p1; struct coll2 coll2; struct coll3 coll3; struct p2p2 p2p2; struct coll4 coll4; \
		struct p2p4 p2p4; struct kernel kernel; struct group_api group_api; struct coll_api coll_api; \
		struct p2p_api p2p_api; struct launch launch; struct proxy_op proxy_op; struct proxy_step proxy_step; \
		struct copy_engine copy_engine; char room[256]; \
	}
struct event_v1 { PROFILER_HEAD(uint8_t); PROFILER_BODY; }; // to 4
struct event_v5 { PROFILER_HEAD(uint64_t); PROFILER_BODY; };
_Static_assert(offsetof(struct event_v1, coll1) == 24 && offsetof(struct event_v5, coll4) == 24, "descriptors");
_Static_assert(sizeof(struct coll4) == 88 && offsetof(struct coll4, group) == 80, "collectives of version 5");
_Static_assert(sizeof(struct coll_api) == 48 && sizeof(struct p2p_api) == 40 && sizeof(struct p2p4) == 48, "calls");

union state_args { struct { uint64_t timer; } kernel; struct { size_t bytes; } step; char room[32]; };

struct profiler {
	const char *name;
	union {
		ncclResult_t (*init1)(void **context, int *mask);
		ncclResult_t (*init4)(void **context, int *mask, const char *name, uint64_t comm, int nodes, int nranks, int rank,
				      plugin_log *log);
		ncclResult_t (*init5)(void **context, uint64_t comm, int *mask, const char *name, int nodes, int nranks, int rank,
				      plugin_log *log);
	};
	ncclResult_t (*start)(void *context, void **event, void *descriptor);
	ncclResult_t (*stop)(void *event);
	ncclResult_t (*record)(void *event, int state, union state_args *args);
	ncclResult_t (*finalize)(void *context);
};

// Tuners. Version 2 names its choice; from 3 on it edits a table of costs, [7 algorithms][3 protocols], in which -1
// stands for what does not exist.
enum { TUNER_TREE = 0, TUNER_RING = 1, TUNER_ALGORITHMS = 7, TUNER_LL = 0, TUNER_LL128 = 1, TUNER_SIMPLE = 2,
	TUNER_PROTOCOLS = 3 };
struct tuner_domains { int domains, least, most; };
struct tuner {
	const char *name;
	union {
		ncclResult_t (*init2)(size_t nranks, size_t nodes, plugin_log *log, void **context);
		ncclResult_t (*init5)(void **context, uint64_t comm, size_t nranks, size_t nodes, plugin_log *log,
				      struct tuner_domains *domains, void *constants);
	};
	union {
		ncclResult_t (*get2)(void *context, int func, size_t bytes, int collnet, int nvls, int ops, int *algorithm,
				     int *protocol, int *channels);
		ncclResult_t (*get3)(void *context, int func, size_t bytes, int ops, float **costs, int algorithms, int protocols,
				     int *channels);
		ncclResult_t (*get4)(void *context, int func, size_t bytes, int ops, float **costs, int algorithms, int protocols,
				     int registered, int *channels);
	};
	ncclResult_t (*finalize)(void *context);
};
