// libmscclpp.so: the functions of goccl.h and goccl_primitive.h, each of which loads libgoccl.so at its first use. C++
// programs link it (the headers of capi/include are over these functions) and may fork before that first use.
#define _GNU_SOURCE
#include "../goccl_moe.h"
#include "../goccl_primitive.h"

#include "../loader.h"

#include <pthread.h>

enum {
#define DOOR(name, params, args) SLOT_##name,
#include "../zz_functions.h"
#undef DOOR
	SLOT_abi_version, SLOT_version, SLOT_result_name, SLOT_last_error, SLOT_release, SLOTS
};

static const char *const names[SLOTS] = {
#define DOOR(name, params, args) "goccl_" #name,
#include "../zz_functions.h"
#undef DOOR
	"goccl_abi_version", "goccl_version", "goccl_result_name", "goccl_last_error", "goccl_release",
};

static void *slots[SLOTS];
static char failure[1024]; // why the core could not be loaded
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER; // guards slots and failure until ready is set
static int ready;          // 1: slots are filled; -1: failure says why they are not

// A thread that loads while another forks does not exist in the child.
static void child(void) {
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
	loading = fresh;
}

__attribute__((constructor)) static void enter(void) { pthread_atfork(NULL, NULL, child); }

static int load(void) {
	void *lib = loader_open(&ready, "libmscclpp.so", failure, sizeof failure);
	if (!lib) return -1;
	for (int i = 0; i < SLOTS; i++)
		if (!(slots[i] = dlsym(lib, names[i]))) {
			loader_lacks(names[i], "libmscclpp.so", failure, sizeof failure);
			return -1;
		}
	return 1;
}

static int core_loaded(void) {
	int r = __atomic_load_n(&ready, __ATOMIC_ACQUIRE);
	if (r) return r > 0;
	pthread_mutex_lock(&loading);
	if (!ready) __atomic_store_n(&ready, load(), __ATOMIC_RELEASE);
	r = ready;
	pthread_mutex_unlock(&loading);
	return r > 0;
}

// The arguments' casts drop the const of an array's elements, which the functions here still have.
#pragma GCC diagnostic ignored "-Wincompatible-pointer-types"
#define DOOR(name, params, args) \
	goccl_result goccl_##name params { \
		if (!core_loaded()) return GOCCL_SYSTEM_ERROR; \
		return ((goccl_result(*) params)slots[SLOT_##name]) args; \
	}
#include "../zz_functions.h"
#undef DOOR

uint32_t goccl_abi_version(void) {
	return core_loaded() ? ((uint32_t(*)(void))slots[SLOT_abi_version])() : GOCCL_ABI_VERSION;
}
const char *goccl_version(void) { return core_loaded() ? ((const char *(*)(void))slots[SLOT_version])() : ""; }
const char *goccl_last_error(void) {
	return core_loaded() ? ((const char *(*)(void))slots[SLOT_last_error])() : failure;
}
void goccl_release(void *p) {
	if (core_loaded()) ((void (*)(void *))slots[SLOT_release])(p);
}
const char *goccl_result_name(goccl_result r) {
	return core_loaded() ? ((const char *(*)(goccl_result))slots[SLOT_result_name])(r) : "system error";
}
