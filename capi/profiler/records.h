// The memory in which the profiler plugin keeps its records, and which `goccl watch` reads.
//
// It is a memfd named "goccl-profiler": other processes of the same user open it as /proc/PID/fd/N, also while the
// process hangs or is stopped, and nothing is left behind when the process ends. watch/observe/records reads
// it; a test compares the layouts.
//
// One thread writes a field at a time, or several add to it; readers never write. A reader that wants a whole operation
// reads `order` before and after it: it is 0 while the slot changes hands.
#pragma once

#include <stdint.h>

enum {
	RECORDS_VERSION = 1,
	RECORDS_NAMES = 128, RECORDS_NAME = 24, // names of collectives, types, algorithms and protocols
	RECORDS_COMMS = 256, RECORDS_OPS = 512, RECORDS_PROXIES = 256, RECORDS_SUMS = 96,
	RECORDS_UNNAMED = 255,
};
#define RECORDS_MAGIC UINT64_C(0x314c4343434f4731) // "1GOCCCL1"

enum record_kind { KIND_COLLECTIVE = 1, KIND_MESSAGE = 2, KIND_COPY_ENGINE = 3 };
enum record_flag { FLAG_CAPTURED = 1 }; // in a CUDA graph: no kernel events follow

// An operation. Times are CLOCK_MONOTONIC in ns, 0: not yet. GPU times are those that NCCL gives with kernel events.
struct record_op {
	uint64_t order;	   // 1 + its number in the communicator, of all kinds; 0: being written
	uint64_t call;	   // its number among the collectives, or among the messages, from 0
	uint64_t seq;	   // NCCL's number of it, per collective
	uint64_t count, bytes;
	uint64_t enqueued, launched; // the call of NCCL's host code: its begin and end
	uint64_t started, ended;     // the first channel of the kernel began, the last one ended
	uint64_t gpu_started, gpu_ended;
	uint64_t send, recv, stream;
	uint32_t channels_begun, channels_done;
	int32_t root; // of a message: the peer
	uint8_t kind, func, type, algo, proto, channels, flags, unused;
	uint32_t proxies_begun, proxies_done;
	uint32_t reserved[3];
};

// A transfer that a proxy thread makes for an operation.
struct record_proxy {
	uint64_t order; // as of an operation
	uint64_t op;	// order of the operation; 0: not known
	uint64_t begun, ended, since; // since: when state was entered
	uint64_t bytes; // that the network has moved
	int32_t peer, steps, step;
	uint8_t channel, sends, state, unused; // state: NCCL's number of the state of the last step, 0: none
};

// Sums over the operations of a kind that have ended, or that were enqueued if no kernel events are given.
struct record_sum {
	uint64_t key; // 1 << 32 | func << 24 | algo << 16 | proto << 8 | size class; 0: unused
	uint64_t begun, ended, bytes; // operations, and bytes of those begun
	uint64_t queued_ns; // from the call to the start on the GPU
	uint64_t busy_ns;   // from the start to the end
	uint64_t busy_bytes; // bytes of operations in busy_ns
	uint64_t reserved;
};

enum record_comm_state { COMM_FREE = 0, COMM_OPEN = 1, COMM_CLOSED = 2 };
struct record_comm {
	uint64_t id;
	uint64_t opened, closed;
	uint32_t state; // enum record_comm_state
	int32_t rank, size, nodes;
	char name[64];
	uint64_t ops, collectives, messages, proxies; // how many have begun
	uint64_t channels; // kernel events that have ended: 0 means that NCCL gives none
	uint64_t lost;	   // operations without a sum
	uint64_t reserved[8];
	struct record_sum sums[RECORDS_SUMS];
	struct record_op op[RECORDS_OPS]; // operation n is in slot n % RECORDS_OPS
	struct record_proxy proxy[RECORDS_PROXIES];
};

struct records {
	uint64_t magic; // written last
	uint32_t version, pid;
	uint32_t comm_bytes, comms; // sizeof(struct record_comm), and how many slots have been used
	uint32_t profiler;	    // version of the interface that NCCL chose
	uint32_t names;
	uint64_t begun, begun_real; // CLOCK_MONOTONIC and CLOCK_REALTIME at the same moment
	uint64_t refused;	    // communicators for which there was no slot
	uint64_t reserved[8];
	char host[64];
	char name[RECORDS_NAMES][RECORDS_NAME]; // the first is ""
	struct record_comm comm[];
};
