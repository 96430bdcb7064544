// Plugins: finding them, and the parts that profiler and tuner share.
//
// 1. The first communicator opens the plugins, once for the process. Without plugins the only cost is a test of
//    shim_plugs.
// 2. A communicator that is set up begins with each plugin; a non-blocking one when the program learns that it is set
//    up, at the latest with its first call.
// 3. A call, or the calls of a group, go by shim_plugged: the tuner is asked, then the profiler's events surround the
//    submission.
// 4. A communicator that is freed ends with each plugin.
#define _GNU_SOURCE
#include "plugged.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int shim_plugs;

void shim_plugin_log(int level, unsigned long flags, const char *file, int line, const char *format, ...) {
	(void)flags;
	if (shim_debug() < level) return;
	char text[1024];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	shim_log("plugin %s:%d %s", file ? file : "", line, text);
}

void *shim_plugin(const char *variable, const char *kind, const char *prefix, int *version) {
	const char *name = shim_setting(variable);
	char path[512];
	if (name && !strcmp(name, "none")) return NULL;
	void *lib = NULL;
	if (name) lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	snprintf(path, sizeof path, name ? "libnccl-%s-%s.so" : "libnccl-%s.so", kind, name ? name : "");
	if (!lib) lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		if (name && shim_debug() >= 2) shim_log("goccl NCCL WARN %s=%s: neither that nor %s can be opened", variable,
			name, path);
		return NULL;
	}
	for (int v = 6; v >= 1; v--) {
		snprintf(path, sizeof path, "%s%d", prefix, v);
		void *found = dlsym(lib, path);
		if (found) {
			*version = v;
			return found;
		}
	}
	if (shim_debug() >= 2) shim_log("goccl NCCL WARN %s: the %s has no %s1 to 6", variable, kind, prefix);
	dlclose(lib);
	return NULL;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void find(void) {
	int found = shim_find_profiler() | shim_find_tuner();
	__atomic_store_n(&shim_plugs, found, __ATOMIC_RELEASE);
}
void shim_find_plugins(void) { pthread_once(&once, find); }

// The communicators that have begun with the plugins.
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct plugged *all;

struct plugged *shim_plugged_comm(goccl_comm comm) {
	pthread_mutex_lock(&mu);
	struct plugged *p = all;
	while (p && p->comm != comm) p = p->next;
	if (!p) {
		goccl_comm_info info;
		uint64_t hash = 0;
		if (!core.comm_info_get(comm, &info) && !core.comm_hash(comm, &hash) && (p = calloc(1, sizeof *p))) {
			*p = (struct plugged){.next = all, .comm = comm, .hash = hash, .rank = info.rank, .size = info.size};
			all = p;
			shim_profiler_begins(p);
			shim_tuner_begins(p);
		}
	}
	pthread_mutex_unlock(&mu);
	return p;
}

void shim_plug(ncclComm_t comm) {
	if (shim_plugs) shim_plugged_comm(handle(comm));
}

void shim_unplug(ncclComm_t comm) {
	if (!shim_plugs) return;
	pthread_mutex_lock(&mu);
	struct plugged **at = &all;
	while (*at && (*at)->comm != handle(comm)) at = &(*at)->next;
	struct plugged *p = *at;
	if (p) *at = p->next;
	pthread_mutex_unlock(&mu);
	if (!p) return;
	shim_profiler_ends(p);
	shim_tuner_ends(p);
	free(p);
}

ncclResult_t shim_plugged(goccl_request *reqs, size_t n, int depth, const char *what) {
	goccl_call_config *tuned = shim_tune(reqs, n);
	struct profile *events = shim_profile_start(reqs, n, depth);
	ncclResult_t r = shim_result(core.submit(reqs, n), what);
	shim_profile_stop(events, reqs, r);
	free(tuned);
	return r;
}
