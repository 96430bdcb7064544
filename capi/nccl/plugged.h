// What the files of the plugins share.
#pragma once

#include "plugin.h"
#include "shim.h"

// A communicator that has begun with the plugins.
struct plugged {
	struct plugged *next;
	goccl_comm comm;
	uint64_t hash;
	int rank, size;
	uint64_t seq[16]; // calls of each collective so far
	void *profiler;   // the profiler's context
	int events;       // the types that it wants
	int profiled, tuned;
	void *tuner; // the tuner's context
	int running; // completions that have not been reported yet; atomic
};
// shim_plugged_comm returns the communicator's, and lets it begin first; NULL while it is not set up.
struct plugged *shim_plugged_comm(goccl_comm comm);

int shim_find_profiler(void); // 1 if there is one
void shim_profiler_begins(struct plugged *p);
void shim_profiler_ends(struct plugged *p);
struct profile *shim_profile_start(goccl_request *reqs, size_t n, int depth);
void shim_profile_stop(struct profile *events, goccl_request *reqs, ncclResult_t result);

int shim_find_tuner(void);
void shim_tuner_begins(struct plugged *p);
void shim_tuner_ends(struct plugged *p);
// shim_tune gives requests the configurations that the tuner chooses; the result must be freed after the submission.
goccl_call_config *shim_tune(goccl_request *reqs, size_t n);

// The bytes of a request as tuners count them, NCCL's name of its collective, and NCCL's number or FUNC_NONE.
size_t shim_request_bytes(const goccl_request *r, int size);
const char *shim_request_func(const goccl_request *r, int *number);
const char *shim_request_type(const goccl_request *r, size_t *bytes);
