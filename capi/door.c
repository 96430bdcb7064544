//go:build cgo && linux

// The functions of goccl.h, goccl_moe.h and goccl_primitive.h. Each checks one flag and calls Go. A forked child never
// enters the Go runtime, because the threads of the runtime do not exist in the child.
#include "door.h"
#include "goccl_moe.h"
#include "goccl_primitive.h"
#include "_cgo_export.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static volatile int refused; // why no call may enter Go: 1 forked, 2 exiting

// The last error is per thread. It is stored under a pthread key, not in __thread: the Go runtime makes the
// thread-local storage of this library static, and little static space is left in a process that is already running.
#define TEXT 4096
static pthread_key_t key;

void goccl_door_fail(const char *text, size_t n) {
	char *last = pthread_getspecific(key);
	if (!last) {
		if (!(last = malloc(TEXT))) return;
		pthread_setspecific(key, last);
	}
	if (n >= TEXT) n = TEXT - 1;
	memcpy(last, text, n);
	last[n] = 0;
}

const char *goccl_last_error(void) {
	const char *last = pthread_getspecific(key);
	return last ? last : "";
}

static const uint64_t *sockets; // sockets[0]: 1 + the highest descriptor listed; sockets[fd]: the inode of the
				// socket that was opened as fd
static size_t socket_words;

void goccl_door_children(const uint64_t *table, size_t n) {
	socket_words = n;
	__atomic_store_n(&sockets, table, __ATOMIC_RELEASE);
}

// Peers see the end of a process when the last copy of its sockets is closed. The child cannot use them, so it closes
// its copies. Only async-signal-safe functions are called.
static void let_go(void) {
	const uint64_t *table = __atomic_load_n(&sockets, __ATOMIC_ACQUIRE);
	size_t n = table ? __atomic_load_n(&table[0], __ATOMIC_RELAXED) : 0;
	for (size_t fd = 1; fd < n && fd < socket_words; fd++) {
		struct stat st;
		uint64_t inode = __atomic_load_n(&table[fd], __ATOMIC_RELAXED);
		if (inode && fstat((int)fd, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_ino == inode) close((int)fd);
	}
}

static void child(void) {
	refused = 1;
	let_go();
}

__attribute__((constructor)) static void load(void) {
	pthread_key_create(&key, free);
	pthread_atfork(NULL, NULL, child);
}

// After main has returned, other threads may still call the library, but the driver is shutting down.
__attribute__((destructor)) static void leave(void) {
	if (!refused) refused = 2;
}

static goccl_result refuse(void) {
	static const char forked[] =
		"this process was forked after goccl was first used, and goccl's threads stayed in the parent: start "
		"workers before the first communicator, or with spawn or forkserver instead of fork",
			  exiting[] = "the process is exiting";
	if (refused == 1)
		goccl_door_fail(forked, sizeof forked - 1);
	else
		goccl_door_fail(exiting, sizeof exiting - 1);
	return GOCCL_FORKED;
}

#define DOOR(name, params, args) \
	goccl_result goccl_##name params { \
		if (__builtin_expect(refused, 0)) return refuse(); \
		return gocclgo_##name args; \
	}
#include "zz_functions.h"
#undef DOOR

uint32_t goccl_abi_version(void) { return GOCCL_ABI_VERSION; }

const char *goccl_version(void) { return refused ? "" : gocclgo_version(); }

void goccl_release(void *p) { free(p); }

const char *goccl_result_name(goccl_result r) {
	static const char *const names[] = {"success", "CUDA error", "system error", "internal error",
		"invalid argument", "invalid usage", "peer dead", "in progress", "timeout", "aborted", "mismatch",
		"unsupported", "closed", "forked", "out of memory"};
	return r >= 0 && (size_t)r < sizeof names / sizeof *names ? names[r] : "unknown result";
}
