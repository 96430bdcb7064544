/* goccl.h: the C ABI of goccl, libgoccl.so.
 *
 * Stability. Structures never change their size or the order of their fields. Additions use reserved fields or new
 * functions and leave GOCCL_ABI_VERSION unchanged. The version rises only when something here stops working; a program
 * compares it with goccl_abi_version().
 *
 * Results. Every function that can fail returns a goccl_result. When it is not GOCCL_SUCCESS, goccl_last_error() on the
 * same thread returns a text: what was wrong, where, and how to fix it.
 *
 * Threads. Every function may be called from any thread. Collectives of one communicator must be submitted in the same
 * order on every rank, so threads that share a communicator must order their calls. goccl_comm_abort and
 * goccl_comm_error may be called at any time.
 *
 * fork. The first use of the library starts threads. In a child that is forked after that, every function returns
 * GOCCL_FORKED. A child that is forked before the first use may use the library normally.
 *
 * Unloading is not possible: dlclose returns, but the library stays loaded.
 */
#ifndef GOCCL_H
#define GOCCL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GOCCL_ABI_VERSION 1u

typedef int32_t goccl_result;
enum {
	GOCCL_SUCCESS = 0,
	GOCCL_CUDA_ERROR = 1,       /* the GPU or its driver failed */
	GOCCL_SYSTEM_ERROR = 2,     /* the operating system refused something */
	GOCCL_INTERNAL_ERROR = 3,   /* a defect of goccl */
	GOCCL_INVALID_ARGUMENT = 4, /* an argument is wrong */
	GOCCL_INVALID_USAGE = 5,    /* the arguments are valid, but not at this time or in this combination */
	GOCCL_PEER_DEAD = 6,        /* a rank has died, left, or cannot be reached */
	GOCCL_IN_PROGRESS = 7,      /* the communicator is still being set up */
	GOCCL_TIMEOUT = 8,          /* a deadline passed */
	GOCCL_ABORTED = 9,          /* the local rank aborted the communicator */
	GOCCL_MISMATCH = 10,        /* ranks called different operations */
	GOCCL_UNSUPPORTED = 11,     /* this build, device or host cannot do it */
	GOCCL_CLOSED = 12,          /* the object was destroyed */
	GOCCL_FORKED = 13,          /* this process was forked after goccl was used, or is exiting */
	GOCCL_OUT_OF_MEMORY = 14
};

/* Handles. 0 is never a valid handle. A destroyed handle is detected: its value comes again only after 2^32 handles were freed. */
typedef uint64_t goccl_device;
typedef uint64_t goccl_bootstrap;
typedef uint64_t goccl_comm;
typedef uint64_t goccl_window;

typedef struct goccl_unique_id { unsigned char bytes[128]; } goccl_unique_id;

enum { GOCCL_DEVICE_HOST = 1, GOCCL_DEVICE_CUDA = 2 };

/* Element types, numbered as in NCCL. */
enum {
	GOCCL_INT8 = 0, GOCCL_UINT8 = 1, GOCCL_INT32 = 2, GOCCL_UINT32 = 3, GOCCL_INT64 = 4, GOCCL_UINT64 = 5, GOCCL_FLOAT16 = 6,
	GOCCL_FLOAT32 = 7, GOCCL_FLOAT64 = 8, GOCCL_BFLOAT16 = 9, GOCCL_FLOAT8E4M3 = 10, GOCCL_FLOAT8E5M2 = 11
};

/* Reduction operators. goccl_op_create returns numbers from GOCCL_FIRST_CREATED_OP on. */
enum { GOCCL_SUM = 0, GOCCL_PROD = 1, GOCCL_MAX = 2, GOCCL_MIN = 3, GOCCL_AVG = 4, GOCCL_PREMULSUM = 5, GOCCL_FIRST_CREATED_OP = 0x10000 };

enum {
	GOCCL_ALL_REDUCE = 1, GOCCL_ALL_GATHER = 2, GOCCL_REDUCE_SCATTER = 3, GOCCL_ALL_TO_ALL = 4, GOCCL_ALL_TO_ALL_V = 5, GOCCL_BROADCAST = 6,
	GOCCL_REDUCE = 7, GOCCL_GATHER = 8, GOCCL_SCATTER = 9, GOCCL_SEND = 10, GOCCL_RECV = 11, GOCCL_BARRIER = 12,
	GOCCL_ALL_TO_ALL_V_DEVICE = 13
};

/* One collective call of one rank. R is the number of ranks; sizes are in elements.
 *
 *   all_reduce, broadcast, reduce   send count, recv count (reduce: recv at root only; broadcast: send at root only)
 *   all_gather, gather              send count, recv count*R (gather: recv at root only)
 *   reduce_scatter, scatter         send count*R, recv count (scatter: send at root only)
 *   all_to_all                      send count*R, recv count*R
 *   all_to_all_v                    the four arrays, of length R; they are read before the call returns
 *   all_to_all_v_device             the same arrays, in memory that the device can read, aligned to 8 bytes. They are
 *                                   read when the call runs on its stream, and again at each replay of a captured
 *                                   graph, and must not change until the call has ended. Negative counts are 0. All
 *                                   ranks must make this call: it does not match all_to_all_v on another rank
 *   send, recv                      count elements of send, or recv, to or from rank root
 *   barrier                         nothing
 *
 * stream is a CUstream (0: the default stream). On the host device it is a stream of goccl_stream_create (0: the call
 * itself does the work).
 */
typedef struct goccl_request {
	goccl_comm comm;
	uint32_t collective;
	uint32_t type;
	uint32_t op;
	int32_t root; /* broadcast, reduce, gather, scatter: the root. send, recv: the peer */
	const void *send;
	void *recv;
	uint64_t count;
	uintptr_t stream;
	uint64_t scalar;        /* GOCCL_PREMULSUM: the factor, an element of type in the low bytes */
	const void *scalar_ptr; /* GOCCL_PREMULSUM: unless NULL, the device reads the factor here while the collective runs */
	const int64_t *send_counts, *send_displs, *recv_counts, *recv_displs;
	uint64_t send_elements, recv_elements; /* GOCCL_ALL_TO_ALL_V_DEVICE: lengths of send and recv, which are the bounds of all accesses; 0: not known */
	uint64_t reserved[1];                  /* zero */
} goccl_request;

typedef struct goccl_comm_config {
	uint32_t size;          /* sizeof(goccl_comm_config) */
	int32_t non_blocking;   /* set-up runs in the background: poll goccl_comm_error, or call goccl_comm_wait */
	/* For set-up and for each later step that communicates with peers. 0: GOCCL_TIMEOUT, else 30 s; negative:
	 * GOCCL_TIMEOUT, else -timeout_ns. */
	int64_t timeout_ns;
	int64_t op_timeout_ns;  /* for a collective's wait for its peers; 0: GOCCL_OP_TIMEOUT, else none */
	const char *name;       /* for logs; may be NULL */
	uint64_t separate_graphs; /* 1: launches of CUDA graphs are not ordered with each other or with calls outside of graphs; 0: they are */
	uint64_t reserved[3];   /* zero */
} goccl_comm_config;

typedef struct goccl_comm_info {
	int32_t rank, size;
	int32_t device_kind, device_index;
	goccl_device device;
	int32_t non_blocking, reserved;
} goccl_comm_info;

/* The library. */
uint32_t goccl_abi_version(void);
const char *goccl_version(void);
const char *goccl_result_name(goccl_result result);
/* The text of the thread's latest failure, never NULL; valid until the thread's next call that fails. */
const char *goccl_last_error(void);
/* Frees malloc'ed memory that a function of this header returned. */
void goccl_release(void *p);

/* Devices live as long as the process. goccl_device_current returns the device of the calling thread's CUDA context,
 * or, with GOCCL_DEVICE=host, the host device number hint. */
/* kind 0 selects the kind that GOCCL_DEVICE requests. */
goccl_result goccl_device_open(int32_t kind, int32_t index, goccl_device *device);
goccl_result goccl_device_current(int32_t hint, goccl_device *device);
goccl_result goccl_device_count(int32_t kind, int32_t *count);
goccl_result goccl_device_id(goccl_device device, int32_t *kind, int32_t *index);
/* The compute capability of a GPU, and the NUMA node that it is on: 0, 0 and -1 where there is none, as for a host
 * device. */
goccl_result goccl_device_capability(goccl_device device, int32_t *major, int32_t *minor, int32_t *numa_node);

/* Zeroed memory that other processes of the machine can map. */
goccl_result goccl_alloc(goccl_device device, uint64_t size, void **ptr);
goccl_result goccl_free(void *ptr);
/* Copies between memory of the process and memory of the device. The copy is complete when the call returns. */
goccl_result goccl_copy_in(goccl_device device, void *dst, const void *src, uint64_t size);
goccl_result goccl_copy_out(goccl_device device, void *dst, const void *src, uint64_t size);

/* Streams. goccl_stream_synchronize also accepts streams that goccl did not create; timeout_ns 0 waits without a limit.
 */
goccl_result goccl_stream_create(goccl_device device, uintptr_t *stream);
goccl_result goccl_stream_synchronize(goccl_device device, uintptr_t stream, int64_t timeout_ns);
goccl_result goccl_stream_destroy(goccl_device device, uintptr_t stream);

/* Joining. The process that creates a unique id serves it to the other ranks. timeout_ns 0: GOCCL_TIMEOUT, else 30 s.
 */
goccl_result goccl_unique_id_create(int64_t timeout_ns, goccl_unique_id *id);
/* Stops serving id, if this process serves it and ranks are still missing. */
goccl_result goccl_unique_id_close(const goccl_unique_id *id);
goccl_result goccl_bootstrap_join_id(const goccl_unique_id *id, int32_t rank, int32_t size, int64_t timeout_ns, goccl_bootstrap *bootstrap);
/* address: "ip:port", "host:port" or "interface:ip:port"; rank 0 listens there. */
goccl_result goccl_bootstrap_join_address(const char *address, int32_t rank, int32_t size, int64_t timeout_ns, goccl_bootstrap *bootstrap);
/* Uses the environment variables that torchrun, mpirun, srun and similar launchers set. */
goccl_result goccl_bootstrap_join_env(int64_t timeout_ns, goccl_bootstrap *bootstrap);
/* Makes all size ranks of a job inside this process. bootstraps has room for size handles. */
goccl_result goccl_bootstrap_local(int32_t size, goccl_bootstrap *bootstraps);
/* local_rank and local_size count the ranks of this host; any pointer may be NULL. */
goccl_result goccl_bootstrap_info(goccl_bootstrap bootstrap, int32_t *rank, int32_t *size, int32_t *local_rank, int32_t *local_size);
goccl_result goccl_bootstrap_send(goccl_bootstrap bootstrap, int32_t peer, int32_t tag, const void *data, uint64_t size, int64_t timeout_ns);
/* *data must be freed with goccl_release. */
goccl_result goccl_bootstrap_recv(goccl_bootstrap bootstrap, int32_t peer, int32_t tag, int64_t timeout_ns, void **data, uint64_t *size);
/* Every rank contributes size bytes; all has room for the bytes of every rank. */
goccl_result goccl_bootstrap_all_gather(goccl_bootstrap bootstrap, const void *mine, uint64_t size, void *all, int64_t timeout_ns);
goccl_result goccl_bootstrap_barrier(goccl_bootstrap bootstrap, int64_t timeout_ns);
goccl_result goccl_bootstrap_close(goccl_bootstrap bootstrap);

/* Communicators. Creating one is collective. config may be NULL.
 *
 * The *_start functions return the handle at once and set the communicator up in the background. goccl_comm_wait
 * returns when it is ready, or with the reason of the failure (the handle must then still be aborted or destroyed). The
 * other functions start the set-up and wait for it.
 */
goccl_result goccl_comm_start(const goccl_unique_id *id, int32_t rank, int32_t size, goccl_device device, const goccl_comm_config *config, goccl_comm *comm);
/* The caller keeps the bootstrap, and closes it after the communicator. */
goccl_result goccl_comm_create(goccl_bootstrap bootstrap, goccl_device device, const goccl_comm_config *config, goccl_comm *comm);
/* All n ranks in this process, rank i on devices[i]. */
goccl_result goccl_comm_init_all(int32_t n, const goccl_device *devices, const goccl_comm_config *config, goccl_comm *comms);
/* color -1: the rank takes part, *child is 0, and goccl_comm_wait is called on comm itself. config NULL: the parent's.
 */
goccl_result goccl_comm_split_start(goccl_comm comm, int32_t color, int32_t key, const goccl_comm_config *config, goccl_comm *child);
/* Only the remaining ranks call it. abort 1 ends running work first. */
goccl_result goccl_comm_shrink_start(goccl_comm comm, const int32_t *exclude, int32_t n, int32_t abort, const goccl_comm_config *config, goccl_comm *child);
goccl_result goccl_comm_wait(goccl_comm comm);
goccl_result goccl_comm_info_get(goccl_comm comm, goccl_comm_info *info);
/* GOCCL_SUCCESS if nothing has failed, GOCCL_IN_PROGRESS during set-up and finalization, otherwise the failure. */
goccl_result goccl_comm_error(goccl_comm comm);
/* Waits for this rank's enqueued work, notifies the peers, and does not wait for them; no collective may follow. It
 * fails when a death, a deadline or a mismatch cut that work short. Later failures of peers do not affect this rank. On
 * a non-blocking communicator it returns GOCCL_IN_PROGRESS; poll goccl_comm_error for its end. */
goccl_result goccl_comm_finalize(goccl_comm comm);
/* Waits for this rank's enqueued work, then for a short time until the peers no longer need this rank, and frees the
 * communicator. Ranks may call it in any order. */
goccl_result goccl_comm_destroy(goccl_comm comm);
/* Ends running work and set-up, and frees the communicator. Returns within 100 ms. */
goccl_result goccl_comm_abort(goccl_comm comm);
/* Ends running work. Split, shrink and destroy remain possible. */
goccl_result goccl_comm_revoke(goccl_comm comm);

/* Creates an operator that multiplies each input by a factor and sums. The factor is the element of type at scalar,
 * read during this call when on_host is not 0, otherwise while a collective runs. The operator belongs to the
 * communicator. */
goccl_result goccl_op_create(goccl_comm comm, uint32_t type, const void *scalar, int32_t on_host, uint32_t *op);
goccl_result goccl_op_destroy(goccl_comm comm, uint32_t op);

/* Makes size bytes at ptr this rank's part of a window. All ranks register the same windows in the same order. They
 * guarantee that a buffer in a window lies at the same offset on every rank, in every later collective. The call does
 * not wait for other ranks; the first collective in the window does. Copy engines then write large all-gathers and
 * all-to-alls directly into the peers' parts, unless GOCCL_COPY_ENGINE=0 is set on a rank; nothing else changes. A
 * window that overlaps an earlier one of its rank has no effect. The memory must stay allocated until the window is
 * deregistered on all ranks. Every rank deregisters it when no work uses it any more, at the same place among the
 * collectives. Windows end with their communicator. */
goccl_result goccl_window_register(goccl_comm comm, void *ptr, uint64_t size, goccl_window *window);
goccl_result goccl_window_deregister(goccl_window window);

/* Checks a request as goccl_submit does, and enqueues nothing. It replaces a created operator by its factor, so that
 * the operator may be destroyed before the request is submitted. */
goccl_result goccl_check(goccl_request *request);
/* Enqueues n requests, of one or several communicators, as one group. If one request is invalid, none is enqueued. */
goccl_result goccl_submit(const goccl_request *requests, uint64_t n);

#ifdef __cplusplus
}
#endif
#endif
