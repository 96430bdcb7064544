// Declarations that the files of libnccl.so.2 share. The library is C and contains no Go: the first call that needs
// the core (libgoccl.so) loads it.
#ifndef GOCCL_NCCL_SHIM_H
#define GOCCL_NCCL_SHIM_H

#include "../goccl.h"
#include "nccl.h"

#include <stdarg.h>
#include <stddef.h>

// CORE lists the functions of goccl.h that are used.
#define CORE(F) \
	F(abi_version) F(version) F(last_error) F(unique_id_create) F(unique_id_close) F(device_open) F(device_current) F(alloc) F(free) F(comm_start) \
	F(comm_init_all) F(comm_split_start) F(comm_shrink_start) F(comm_wait) F(comm_info_get) F(comm_error) F(comm_finalize) F(comm_destroy) F(comm_abort) \
	F(comm_revoke) F(op_create) F(op_destroy) F(window_register) F(window_deregister) F(check) F(submit)
#define CORE_FIELD(name) __typeof__(goccl_##name) *name;
struct core { CORE(CORE_FIELD) };
extern struct core core;

// shim_core makes the core usable, or returns the reason of the failure. It must be called before any use of `core`.
extern int shim_ready;   // 1 loaded; -1 forked or -2 exiting: calls are refused
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
// log.c: 0 nothing is logged, 1 the version, 2 failures, 3 more. shim_log writes a line.
int shim_debug(void);
void shim_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Groups (group.c). shim_grouped is the depth of the calling thread.
int shim_grouped(void);
// shim_remember makes the group of the thread, if any, fail with r, and returns r.
ncclResult_t shim_remember(ncclResult_t r);
// shim_submit enqueues a request, now or at the end of the group.
ncclResult_t shim_submit_later(const goccl_request *req, const char *what);
static inline __attribute__((always_inline)) ncclResult_t shim_submit(const goccl_request *req, const char *what) {
	NEED_CORE;
	return shim_grouped() ? shim_submit_later(req, what) : shim_result(core.submit(req, 1), what);
}
// shim_started waits for a communicator that is being set up, now or at the end of the group; a failure makes *out
// NULL. comm is the communicator to wait for when *out gets none (a split without color).
ncclResult_t shim_started(ncclComm_t *out, goccl_comm comm, int nonBlocking, const char *what);

// shim_ends finalizes or destroys a communicator, now or at the end of the group; shim_forget removes an aborted one
// from the group.
typedef ncclResult_t shim_end(ncclComm_t comm);
ncclResult_t shim_ends(ncclComm_t comm, shim_end *end, const char *what);
void shim_forget(ncclComm_t comm);

// shim_config reads an ncclConfig_t (or NULL) into a goccl_comm_config. The name is valid as long as the caller's.
ncclResult_t shim_config(const ncclConfig_t *in, goccl_comm_config *out, const char *what);
// SHIM_TIMEOUT: NCCL waits without a limit. Here ranks may start ten minutes apart, unless GOCCL_TIMEOUT says
// otherwise, which is what a negative timeout means to the core.
#define SHIM_TIMEOUT (-600ll * 1000 * 1000 * 1000)

// shim_setting is a variable of the environment, or NULL if it is not set or empty. This library reads only what it
// needs without the core, and what only NCCL has; the core reads everything else.
const char *shim_setting(const char *name);

static inline goccl_comm handle(ncclComm_t c) { return (goccl_comm)(uintptr_t)c; }

// Every function is defined with the prefix p and exported without it as a weak symbol.
#define WEAK(name) extern __typeof__(p##name) name __attribute__((weak, alias("p" #name)))
#endif
