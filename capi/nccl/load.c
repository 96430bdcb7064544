// Loading the core, and what must work without it: some functions, and the output of NCCL_DEBUG and NCCL_DEBUG_FILE.
#define _GNU_SOURCE
#include "shim.h"

#include "../loader.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

struct core core;
int shim_ready;

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
static char failure[1024]; // why the core could not be loaded; guarded by loading
static int failed;

// Scripts find the version of a library by searching its file for this form.
#define REPORTED 22809
static const char banner[] = "NCCL version 2.28.9+cuda12.8";

static pthread_mutex_t texting = PTHREAD_MUTEX_INITIALIZER;
static int opening; // the core is being loaded, or has been

// After a fork the threads of the core exist in the parent only; before the core is loaded there are none. Threads that
// do not exist in the child may have held the locks.
static void child(void) {
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
	texting = loading = fresh;
	if (opening) shim_ready = -1;
}

__attribute__((constructor)) static void enter(void) { pthread_atfork(NULL, NULL, child); }

__attribute__((destructor)) static void leave(void) {
	if (shim_ready == 1) shim_ready = -2;
}

const char *shim_setting(const char *name) {
	const char *s = getenv(name);
	return s && *s ? s : NULL;
}

// load fills the table, or the text of the failure.
static int load(void) {
	if (loader_open(&core, "libnccl.so.2", &core, failure, sizeof failure)) return -1;
	if (core.abi_version() != GOCCL_ABI_VERSION) {
		snprintf(failure, sizeof failure,
			"libgoccl.so has ABI %u, this libnccl.so.2 needs %u: install both from one release",
			core.abi_version(), GOCCL_ABI_VERSION);
		return -1;
	}
	return 0;
}

static void announce(void) {
	int v = shim_version();
	shim_log("NCCL version %d.%d.%d by goccl %s", v / 10000, v / 100 % 100, v % 100, core.version());
}

ncclResult_t shim_open(void) {
	int ready = __atomic_load_n(&shim_ready, __ATOMIC_ACQUIRE);
	if (ready == 1) return ncclSuccess;
	if (ready == -1)
		return shim_fail(ncclSystemError,
			"this process was forked after its parent had used NCCL, whose threads stayed there: start "
			"workers before the first communicator, or with spawn or forkserver instead of fork");
	if (ready == -2) return shim_fail(ncclSystemError, "the process is exiting");
	pthread_mutex_lock(&loading);
	if (!shim_ready && !failed) {
		opening = 1;
		if (load() == 0) {
			__atomic_store_n(&shim_ready, 1, __ATOMIC_RELEASE);
			if (shim_debug()) announce();
		} else {
			failed = 1;
			opening = 0;
		}
	}
	ncclResult_t r = ncclSuccess;
	if (failed) r = shim_fail(ncclSystemError, "%s", failure);
	pthread_mutex_unlock(&loading);
	return r;
}

// The last error is per process, as in NCCL. A text stays valid until sixteen later ones are stored.
static char texts[16][2048];
static unsigned latest;

static void keep(const char *s) {
	pthread_mutex_lock(&texting);
	if (!strcmp(texts[latest], s)) { // the same text again, as with polling
		pthread_mutex_unlock(&texting);
		return;
	}
	unsigned next = (latest + 1) % 16;
	snprintf(texts[next], sizeof texts[next], "%s", s);
	__atomic_store_n(&latest, next, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&texting);
	if (shim_debug() >= 2) shim_log("goccl [%d] NCCL WARN %s", (int)getpid(), s);
}

ncclResult_t shim_fail(ncclResult_t r, const char *format, ...) {
	char text[2048];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	keep(text);
	return r;
}

ncclResult_t shim_code(goccl_result r) {
	switch (r) {
	case GOCCL_SUCCESS: return ncclSuccess;
	case GOCCL_CUDA_ERROR:
	case GOCCL_OUT_OF_MEMORY: return ncclUnhandledCudaError;
	case GOCCL_SYSTEM_ERROR:
	case GOCCL_FORKED: return ncclSystemError;
	case GOCCL_INVALID_ARGUMENT: return ncclInvalidArgument;
	case GOCCL_PEER_DEAD:
	case GOCCL_ABORTED: return ncclRemoteError; // by another rank: a local abort frees the communicator
	case GOCCL_IN_PROGRESS: return ncclInProgress;
	case GOCCL_TIMEOUT: return shim_version() >= 23003 ? ncclTimeout : ncclRemoteError; // ncclTimeout is newer than 2.28
	case GOCCL_INVALID_USAGE:
	case GOCCL_MISMATCH:
	case GOCCL_UNSUPPORTED:
	case GOCCL_CLOSED: return ncclInvalidUsage;
	}
	return ncclInternalError;
}

ncclResult_t shim_result_slow(goccl_result r, const char *what) {
	ncclResult_t n = shim_code(r);
	if (n == ncclInProgress) return n;
	return shim_fail(n, "%s: %s", what, core.last_error());
}

int shim_version(void) {
	const char *s = shim_setting("GOCCL_NCCL_VERSION");
	if (!s) return REPORTED;
	int major, minor, patch = 0;
	if (strchr(s, '.')) { // 2.28.9
		if (sscanf(s, "%d.%d.%d", &major, &minor, &patch) < 2) return REPORTED;
		return NCCL_VERSION(major, minor, patch);
	}
	int code = atoi(s);
	return code > 0 ? code : REPORTED;
}

NCCL(GetVersion, int *version) {
	if (!version) return shim_fail(ncclInvalidArgument, "ncclGetVersion: version is NULL");
	*version = banner[0] ? shim_version() : 0; // keeps the banner in the file
	return ncclSuccess;
}

const char *pncclGetErrorString(ncclResult_t result) {
	switch (result) {
	case ncclSuccess: return "no error";
	case ncclUnhandledCudaError: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
	case ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
	case ncclInternalError: return "internal error - please report this issue to the NCCL developers";
	case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
	case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
	case ncclRemoteError: return "remote process exited or there was a network error";
	case ncclInProgress: return "NCCL operation in progress";
	case ncclTimeout: return "timeout";
	default: return "unknown result code";
	}
}
WEAK(ncclGetErrorString);

const char *pncclGetLastError(ncclComm_t comm) {
	(void)comm;
	return texts[__atomic_load_n(&latest, __ATOMIC_ACQUIRE)];
}
WEAK(ncclGetLastError);

// The environment is read at each use, so there is nothing to reset.
void pncclResetDebugInit(void) {}
WEAK(ncclResetDebugInit);

int shim_debug(void) {
	const char *s = shim_setting("NCCL_DEBUG");
	if (!s || !strcasecmp(s, "NONE")) return 0;
	return !strcasecmp(s, "VERSION") ? 1 : !strcasecmp(s, "WARN") ? 2 : 3;
}

static int out = -1;

// open_log expands %h (the host) and %p (the process) in the file name. If the file cannot be opened, stderr is used.
static void open_log(void) {
	const char *s = shim_setting("NCCL_DEBUG_FILE");
	char path[4096], host[256] = "localhost";
	size_t n = 0;
	out = STDERR_FILENO;
	if (!s) return;
	gethostname(host, sizeof host - 1);
	for (; *s && n < sizeof path - 300; s++) {
		if (*s != '%' || !s[1]) {
			path[n++] = *s;
			continue;
		}
		switch (*++s) {
		case 'h': n += (size_t)snprintf(path + n, sizeof path - n, "%s", host); break;
		case 'p': n += (size_t)snprintf(path + n, sizeof path - n, "%d", (int)getpid()); break;
		default: path[n++] = *s;
		}
	}
	path[n] = 0;
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd >= 0) out = fd;
}

void shim_log(const char *format, ...) {
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	char line[2300];
	va_list args;
	pthread_once(&once, open_log);
	va_start(args, format);
	int n = vsnprintf(line, sizeof line - 1, format, args);
	va_end(args);
	if (n < 0) return;
	if (n > (int)sizeof line - 2) n = sizeof line - 2;
	line[n++] = '\n';
	if (write(out, line, (size_t)n) < 0) return; // the failure cannot be reported
}
