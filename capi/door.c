//go:build cgo && linux

// The functions of goccl.h. Each checks one flag and calls Go. A forked child never enters the Go runtime, because the
// threads of the runtime do not exist in the child.
#include "door.h"
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

static const uint64_t *sockets; // sockets[0]: one more than the highest descriptor noted; sockets[fd]: the inode of the socket that was opened as fd
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
	static const char forked[] = "this process was forked after goccl was first used, and goccl's threads stayed in the parent: start workers before the "
				     "first communicator, or with spawn or forkserver instead of fork",
			  exiting[] = "the process is exiting";
	if (refused == 1)
		goccl_door_fail(forked, sizeof forked - 1);
	else
		goccl_door_fail(exiting, sizeof exiting - 1);
	return GOCCL_FORKED;
}

goccl_result goccl_door_check(void) { return __builtin_expect(refused, 0) ? refuse() : GOCCL_SUCCESS; }

#define DOOR(name, params, args) \
	goccl_result goccl_##name params { \
		if (__builtin_expect(refused, 0)) return refuse(); \
		return gocclgo_##name args; \
	}
DOOR(device_open, (int32_t kind, int32_t index, goccl_device *device), (kind, index, device))
DOOR(device_current, (int32_t hint, goccl_device *device), (hint, device))
DOOR(device_count, (int32_t kind, int32_t *count), (kind, count))
DOOR(device_id, (goccl_device device, int32_t *kind, int32_t *index), (device, kind, index))
DOOR(alloc, (goccl_device device, uint64_t size, void **ptr), (device, size, ptr))
DOOR(free, (void *ptr), (ptr))
DOOR(copy_in, (goccl_device device, void *dst, const void *src, uint64_t size), (device, dst, (void *)src, size))
DOOR(copy_out, (goccl_device device, void *dst, const void *src, uint64_t size), (device, dst, (void *)src, size))
DOOR(stream_create, (goccl_device device, uintptr_t *stream), (device, stream))
DOOR(stream_synchronize, (goccl_device device, uintptr_t stream, int64_t timeout_ns), (device, stream, timeout_ns))
DOOR(stream_destroy, (goccl_device device, uintptr_t stream), (device, stream))
DOOR(unique_id_create, (int64_t timeout_ns, goccl_unique_id *id), (timeout_ns, id))
DOOR(unique_id_close, (const goccl_unique_id *id), ((goccl_unique_id *)id))
DOOR(bootstrap_join_id, (const goccl_unique_id *id, int32_t rank, int32_t size, int64_t timeout_ns, goccl_bootstrap *bootstrap), ((goccl_unique_id *)id, rank, size, timeout_ns, bootstrap))
DOOR(bootstrap_join_address, (const char *address, int32_t rank, int32_t size, int64_t timeout_ns, goccl_bootstrap *bootstrap), ((char *)address, rank, size, timeout_ns, bootstrap))
DOOR(bootstrap_join_env, (int64_t timeout_ns, goccl_bootstrap *bootstrap), (timeout_ns, bootstrap))
DOOR(bootstrap_local, (int32_t size, goccl_bootstrap *bootstraps), (size, bootstraps))
DOOR(bootstrap_info, (goccl_bootstrap bootstrap, int32_t *rank, int32_t *size, int32_t *local_rank, int32_t *local_size), (bootstrap, rank, size, local_rank, local_size))
DOOR(bootstrap_send, (goccl_bootstrap bootstrap, int32_t peer, int32_t tag, const void *data, uint64_t size, int64_t timeout_ns), (bootstrap, peer, tag, (void *)data, size, timeout_ns))
DOOR(bootstrap_recv, (goccl_bootstrap bootstrap, int32_t peer, int32_t tag, int64_t timeout_ns, void **data, uint64_t *size), (bootstrap, peer, tag, timeout_ns, data, size))
DOOR(bootstrap_all_gather, (goccl_bootstrap bootstrap, const void *mine, uint64_t size, void *all, int64_t timeout_ns), (bootstrap, (void *)mine, size, all, timeout_ns))
DOOR(bootstrap_barrier, (goccl_bootstrap bootstrap, int64_t timeout_ns), (bootstrap, timeout_ns))
DOOR(bootstrap_close, (goccl_bootstrap bootstrap), (bootstrap))
DOOR(comm_start, (const goccl_unique_id *id, int32_t rank, int32_t size, goccl_device device, const goccl_comm_config *config, goccl_comm *comm), ((goccl_unique_id *)id, rank, size, device, (goccl_comm_config *)config, comm))
DOOR(comm_create, (goccl_bootstrap bootstrap, goccl_device device, const goccl_comm_config *config, goccl_comm *comm), (bootstrap, device, (goccl_comm_config *)config, comm))
DOOR(comm_init_all, (int32_t n, const goccl_device *devices, const goccl_comm_config *config, goccl_comm *comms), (n, (goccl_device *)devices, (goccl_comm_config *)config, comms))
DOOR(comm_split_start, (goccl_comm comm, int32_t color, int32_t key, const goccl_comm_config *config, goccl_comm *child), (comm, color, key, (goccl_comm_config *)config, child))
DOOR(comm_shrink_start, (goccl_comm comm, const int32_t *exclude, int32_t n, int32_t abort, const goccl_comm_config *config, goccl_comm *child), (comm, (int32_t *)exclude, n, abort, (goccl_comm_config *)config, child))
DOOR(comm_wait, (goccl_comm comm), (comm))
DOOR(comm_info_get, (goccl_comm comm, goccl_comm_info *info), (comm, info))
DOOR(comm_error, (goccl_comm comm), (comm))
DOOR(comm_finalize, (goccl_comm comm), (comm))
DOOR(comm_destroy, (goccl_comm comm), (comm))
DOOR(comm_abort, (goccl_comm comm), (comm))
DOOR(comm_revoke, (goccl_comm comm), (comm))
DOOR(op_create, (goccl_comm comm, uint32_t type, const void *scalar, int32_t on_host, uint32_t *op), (comm, type, (void *)scalar, on_host, op))
DOOR(op_destroy, (goccl_comm comm, uint32_t op), (comm, op))
DOOR(window_register, (goccl_comm comm, void *ptr, uint64_t size, goccl_window *window), (comm, ptr, size, window))
DOOR(window_deregister, (goccl_window window), (window))
DOOR(check, (goccl_request *request), (request))
DOOR(submit, (const goccl_request *requests, uint64_t n), ((goccl_request *)requests, n))

uint32_t goccl_abi_version(void) { return GOCCL_ABI_VERSION; }

const char *goccl_version(void) { return refused ? "" : gocclgo_version(); }

void goccl_release(void *p) { free(p); }

const char *goccl_result_name(goccl_result r) {
	static const char *const names[] = {"success", "CUDA error", "system error", "internal error", "invalid argument", "invalid usage", "peer dead", "in progress",
					    "timeout", "aborted", "mismatch", "unsupported", "closed", "forked", "out of memory"};
	return r >= 0 && (size_t)r < sizeof names / sizeof *names ? names[r] : "unknown result";
}
