// libmscclpp.so: the functions of goccl.h and goccl_primitive.h, each of which loads libgoccl.so at its first use. C++
// programs link it (the headers of capi/include are over these functions) and may fork before that first use.
#define _GNU_SOURCE
#include "../loader.h"

#include <pthread.h>

static struct core core;
static char failure[1024]; // why the core could not be loaded
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER; // guards core and failure until ready is set
static int ready;          // 1: core is filled; -1: failure says why it is not

// A thread that loads while another forks does not exist in the child.
static void child(void) {
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
	loading = fresh;
}

__attribute__((constructor)) static void enter(void) { pthread_atfork(NULL, NULL, child); }

static int core_loaded(void) {
	int r = __atomic_load_n(&ready, __ATOMIC_ACQUIRE);
	if (r) return r > 0;
	pthread_mutex_lock(&loading);
	if (!ready) {
		int bad = loader_open(&ready, "libmscclpp.so", &core, failure, sizeof failure);
		__atomic_store_n(&ready, bad ? -1 : 1, __ATOMIC_RELEASE);
	}
	r = ready;
	pthread_mutex_unlock(&loading);
	return r > 0;
}

// The arguments' casts drop the const of an array's elements, which the functions here still have.
#pragma GCC diagnostic ignored "-Wincompatible-pointer-types"
#define DOOR(name, params, args) \
	goccl_result goccl_##name params { \
		if (!core_loaded()) return GOCCL_SYSTEM_ERROR; \
		return core.name args; \
	}
#include "../zz_functions.h"
#undef DOOR

uint32_t goccl_abi_version(void) {
	return core_loaded() ? core.abi_version() : GOCCL_ABI_VERSION;
}
const char *goccl_version(void) { return core_loaded() ? core.version() : ""; }
const char *goccl_last_error(void) {
	return core_loaded() ? core.last_error() : failure;
}
void goccl_release(void *p) {
	if (core_loaded()) core.release(p);
}
const char *goccl_result_name(goccl_result r) {
	return core_loaded() ? core.result_name(r) : "system error";
}
