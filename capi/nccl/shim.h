// Declarations that the files of libnccl.so.2 share. The library is C and contains no Go: the first call that needs
// the core (libgoccl.so) loads it.
#pragma once

#include <stdarg.h>
#include <stddef.h>

#include "../core.h"
#include "nccl.h"

extern struct core core;

// shim_core makes the core usable, or returns the reason of the failure. It must be called before any use of `core`.
extern int shim_ready; // 1 loaded; -1 forked or -2 exiting: calls are refused
ncclResult_t shim_open(void);
static inline ncclResult_t shim_core(void) {
	return __builtin_expect(__atomic_load_n(&shim_ready, __ATOMIC_ACQUIRE) == 1, 1) ? ncclSuccess : shim_open();
}
#define NEED_CORE \
	do { \
		ncclResult_t open_ = shim_core(); \
		if (open_) return open_; \
	} while (0)

// shim_exiting is true once main has returned. r is the core's result, because the core may detect the exit before
// this library does. Functions that free something then succeed: the end of the process frees it, and an error in a
// destructor may terminate the program.
static inline int shim_exiting(goccl_result r) { return shim_ready == -2 || (r == GOCCL_FORKED && shim_ready == 1); }

// shim_fail stores a text as the last error (and logs it, when NCCL_DEBUG requests warnings) and returns r.
ncclResult_t shim_fail(ncclResult_t r, const char *format, ...) __attribute__((format(printf, 2, 3)));
// shim_result converts a result of the core to NCCL's code and stores the text of a failure.
ncclResult_t shim_result_slow(goccl_result r, const char *what);
static inline ncclResult_t shim_result(goccl_result r, const char *what) {
	return __builtin_expect(r == GOCCL_SUCCESS, 1) ? ncclSuccess : shim_result_slow(r, what);
}
// shim_code converts the code only.
ncclResult_t shim_code(goccl_result r);
int shim_version(void);
// 0 nothing is logged, 1 the version, 2 failures, 3 more. shim_log writes a line.
int shim_debug(void);
void shim_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Groups (group.c). shim_grouped is the depth of the calling thread.
int shim_grouped(void);
// shim_remember makes the group of the thread, if any, fail with r, and returns r.
ncclResult_t shim_remember(ncclResult_t r);
// shim_submit enqueues a request, now or at the end of the group.
ncclResult_t shim_submit_later(const goccl_request *req, const char *what);
// shim_plugs is 1 if there is a plugin; shim_plugged then submits requests. depth is the depth of the group, 0 for
// none.
extern int shim_plugs;
void shim_find_plugins(void);
ncclResult_t shim_plugged(goccl_request *reqs, size_t n, int depth, const char *what);
// shim_plug lets a communicator that is set up begin with the plugins; its end is shim_unplug.
void shim_plug(ncclComm_t comm);
void shim_unplug(ncclComm_t comm);
static inline __attribute__((always_inline)) ncclResult_t shim_submit(const goccl_request *req, const char *what) {
	NEED_CORE;
	if (__builtin_expect(shim_plugs, 0) && !shim_grouped()) {
		goccl_request copy = *req;
		return shim_plugged(&copy, 1, 0, what);
	}
	return shim_grouped() ? shim_submit_later(req, what) : shim_result(core.submit(req, 1), what);
}
// shim_call is shim_submit with the configuration of the call, or NULL.
ncclResult_t shim_configured(goccl_request *req, const ncclCollConfig_t *config, const char *what);
static inline __attribute__((always_inline)) ncclResult_t shim_call(
	goccl_request *req, const ncclCollConfig_t *config, const char *what) {
	return config ? shim_configured(req, config, what) : shim_submit(req, what);
}
// shim_started waits for a communicator that is being set up, now or at the end of the group; a failure makes *out
// NULL. comm is the communicator to wait for when *out gets none (a split without color).
ncclResult_t shim_started(ncclComm_t *out, goccl_comm comm, int nonBlocking, const char *what);

// shim_ends finalizes or destroys a communicator, now or at the end of the group; shim_forget removes an aborted one
// from the group.
typedef ncclResult_t shim_end(ncclComm_t comm);
ncclResult_t shim_ends(ncclComm_t comm, shim_end *end, const char *what);
// shim_later finishes what a call has begun and what waits for other ranks, now or at the end of the group. With
// given_up, the group has failed or was simulated: finish frees it and does not wait.
typedef ncclResult_t shim_finish(void *what, int given_up);
ncclResult_t shim_later(goccl_comm comm, shim_finish *finish, void *what);
void shim_forget(ncclComm_t comm);

// Windows (window.c). A window has two halves. Copy engines use the one half, if NCCL_WIN_COLL_SYMMETRIC requests it.
// Kernels and the host's functions for pointers use the other: all parts, mapped side by side.
struct shim_window {
	struct shim_window *next;
	void *device; // struct device_window in device memory; the ncclWindow_t
	struct slot *slot; // that it is in
	goccl_comm comm;
	void *ptr;
	size_t size;
	int flags, rank, ranks;
	goccl_window copies, flat; // 0: none
	goccl_flat at;             // base 0: the memory cannot be mapped side by side
	char *reason;              // why not
	void *owned;               // memory to free with the window
};
// shim_window returns the window, or NULL. It is valid until the window is deregistered.
struct shim_window *shim_window(ncclWindow_t win);
// shim_window_begin registers size bytes at ptr; shim_window_finish waits for the other ranks, makes the window known,
// and frees it on a failure.
ncclResult_t shim_window_begin(
	ncclComm_t comm, void *ptr, size_t size, int flags, struct shim_window **out, const char *what);
ncclResult_t shim_window_finish(struct shim_window *w, const char *what);
ncclResult_t shim_window_close(struct shim_window *w, const char *what);
// shim_window_table is the address of the communicator's struct window_table, or 0.
uint64_t shim_window_table(goccl_comm comm);
// shim_windows_end forgets the windows of a communicator that has ended. aborted: kernels may still read them.
void shim_windows_end(goccl_comm comm, int aborted);
// shim_regions_end forgets its registrations.
void shim_regions_end(goccl_comm comm);

// shim_config reads an ncclConfig_t (or NULL) into a goccl_comm_config. The name is valid as long as the caller's.
ncclResult_t shim_config(const ncclConfig_t *in, goccl_comm_config *out, const char *what);
// shim_device_properties fills in what depends on the device API (device.c).
void shim_device_properties(ncclComm_t comm, ncclCommProperties_t *p);
// SHIM_TIMEOUT: NCCL waits without a limit. Here ranks may start ten minutes apart, unless GOCCL_TIMEOUT says
// otherwise, which is what a negative timeout means to the core.
#define SHIM_TIMEOUT (-600ll * 1000 * 1000 * 1000)

// shim_setting is a variable of the environment, or NULL if it is not set or empty. This library reads only what it
// needs without the core, and what only NCCL has; the core reads everything else.
const char *shim_setting(const char *name);

static inline goccl_comm handle(ncclComm_t c) { return (goccl_comm)(uintptr_t)c; }

// Every function is defined with the prefix p and exported without it as a weak symbol. NCCL begins the definition of
// one that returns a result; SELF is its name.
#define WEAK(name) extern __typeof__(p##name) name __attribute__((weak, alias("p" #name)))
#define NCCL(name, ...) \
	WEAK(nccl##name); \
	ncclResult_t pnccl##name(__VA_ARGS__)
#define SELF (__func__ + 1)
// BAD returns from a function: an argument is invalid.
#define BAD(...) return shim_remember(shim_fail(ncclInvalidArgument, __VA_ARGS__))
