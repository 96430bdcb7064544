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
 * Unloading is not possible: dlclose returns, but the library stays loaded. */
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
	GOCCL_OUT_OF_MEMORY = 14    /* the device or the host has no more memory */
};

/* Handles. 0 is never valid. A destroyed handle is detected: its value comes again after 2^32 handles were freed. */
typedef uint64_t goccl_device;
typedef uint64_t goccl_bootstrap;
typedef uint64_t goccl_comm;
typedef uint64_t goccl_window;
typedef uint64_t goccl_fusion;

typedef struct goccl_unique_id { unsigned char bytes[128]; } goccl_unique_id;

enum { GOCCL_DEVICE_HOST = 1, GOCCL_DEVICE_CUDA = 2 };

/* Element types, numbered as in NCCL. */
enum {
	GOCCL_INT8 = 0, GOCCL_UINT8 = 1, GOCCL_INT32 = 2, GOCCL_UINT32 = 3, GOCCL_INT64 = 4, GOCCL_UINT64 = 5,
	GOCCL_FLOAT16 = 6, GOCCL_FLOAT32 = 7, GOCCL_FLOAT64 = 8, GOCCL_BFLOAT16 = 9, GOCCL_FLOAT8E4M3 = 10,
	GOCCL_FLOAT8E5M2 = 11
};

/* Reduction operators. goccl_op_create returns numbers from GOCCL_FIRST_CREATED_OP on. */
enum {
	GOCCL_SUM = 0, GOCCL_PROD = 1, GOCCL_MAX = 2, GOCCL_MIN = 3, GOCCL_AVG = 4, GOCCL_PREMULSUM = 5,
	GOCCL_FIRST_CREATED_OP = 0x10000
};

enum {
	GOCCL_ALL_REDUCE = 1, GOCCL_ALL_GATHER = 2, GOCCL_REDUCE_SCATTER = 3, GOCCL_ALL_TO_ALL = 4,
	GOCCL_ALL_TO_ALL_V = 5, GOCCL_BROADCAST = 6, GOCCL_REDUCE = 7, GOCCL_GATHER = 8, GOCCL_SCATTER = 9,
	GOCCL_SEND = 10, GOCCL_RECV = 11, GOCCL_BARRIER = 12, GOCCL_ALL_TO_ALL_V_DEVICE = 13
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
 * itself does the work). */
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
	/* GOCCL_ALL_TO_ALL_V_DEVICE: lengths of send and recv, which are the bounds of all accesses; 0: not known */
	uint64_t send_elements, recv_elements;
	const struct goccl_call_config *config; /* NULL: none */
} goccl_request;

/* How far collectives spare the SMs of a GPU: the fastest launch; few SMs, at little loss of speed; copy engines
 * wherever they can do the work, even if they are slower. */
enum { GOCCL_CTA_POLICY_DEFAULT = 1, GOCCL_CTA_POLICY_EFFICIENCY = 2, GOCCL_CTA_POLICY_ZERO = 3 };

/* On what the bits of a sum of floats may depend, further than on the same call: docs/exact.md. */
enum { GOCCL_EXACT_BATCH = 1, GOCCL_EXACT_PLACEMENT = 2, GOCCL_EXACT_REFERENCE = 3 };

/* The configuration of one call; all ranks must give the same. It is read before goccl_submit returns. */
typedef struct goccl_call_config {
	uint32_t size; /* sizeof(goccl_call_config) */
	/* The least and the most thread blocks of the call's kernel; 0: as the communicator's. The communicator's own limits
	 * hold as well. The host device ignores them. */
	uint16_t min_ctas, max_ctas;
	/* Names of algorithms, as GOCCL_ALGO has them, separated by commas, in any case: the first that can run this
	 * collective runs it. Names of NCCL stand for the nearest of goccl's: ring, and tree for one_shot_ll128. NULL or
	 * "": the communicator chooses. */
	const char *algorithms;
	uint32_t force; /* 1: the call is refused when none of algorithms is there; 0: then the communicator chooses */
	uint32_t cta_policy; /* a GOCCL_CTA_POLICY; 0: the communicator's */
	uintptr_t launched; /* a CUevent that is recorded behind the call's work; 0: none */
	/* all_to_all_v: what each rank sends to each, all_counts[s*R+d] elements from rank s to rank d, or NULL. It is read
	 * before the call returns. Either all ranks give the same numbers or none gives any. Ranks of one host can then send
	 * their small messages to another host together. */
	const int64_t *all_counts;
	uint32_t exact; /* a GOCCL_EXACT: the level of the call, if that is further than the communicator's */
} goccl_call_config;

typedef struct goccl_comm_config {
	uint32_t size;          /* sizeof(goccl_comm_config) */
	int32_t non_blocking;   /* set-up runs in the background: poll goccl_comm_error, or call goccl_comm_wait */
	/* For set-up and for each later step that communicates with peers. 0: GOCCL_TIMEOUT, else 30 s; negative:
	 * GOCCL_TIMEOUT, else -timeout_ns. */
	int64_t timeout_ns;
	int64_t op_timeout_ns;  /* for a collective's wait for its peers; 0: GOCCL_OP_TIMEOUT, else 30 minutes;
	                        * negative: GOCCL_OP_TIMEOUT, else without a limit */
	const char *name;       /* for logs; may be NULL */
	/* 0: launches of CUDA graphs are ordered with each other and with calls outside of graphs. 1: they are not. 2: calls
	 * on several streams of one capture are not ordered either: each stays on the stream that it was captured on, and
	 * the caller orders them. */
	uint64_t separate_graphs;
	/* The least and the most thread blocks of a collective's kernel; 0: GOCCL_MAX_CTAS, else the fastest number. The
 * smallest max_ctas and the largest min_ctas of any rank hold for all. */
	uint16_t min_ctas, max_ctas;
	/* Signals of one-sided calls: contexts, and signals of each peer in a context. 0: 1 of each. */
	uint16_t rma_contexts, rma_signals;
	/* A GOCCL_CTA_POLICY; 0: GOCCL_CTA_POLICY of the environment, which wins, else the default. The largest of any rank
	 * holds for all. */
	uint32_t cta_policy;
	/* A GOCCL_EXACT; 0: GOCCL_EXACT of the environment, which wins if it is further. All ranks keep the furthest. */
	uint32_t exact;
	uint32_t reserved[2]; /* zero */
} goccl_comm_config;

typedef struct goccl_comm_info {
	int32_t rank, size;
	int32_t device_kind, device_index;
	goccl_device device;
	int32_t non_blocking;
	int32_t reaches; /* 1: kernels of every rank can address the memory of all ranks. 0 during set-up */
} goccl_comm_info;

/* A flat window: the part of rank p is at base + p*stride. */
typedef struct goccl_flat {
	uint64_t base, stride;
	uint64_t abort; /* address of a 32-bit word for kernels to poll: not 0 after a failure or an abort; 0: none */
	uint64_t reserved[5];
} goccl_flat;

/* The library. */
uint32_t goccl_abi_version(void);
const char *goccl_version(void);
const char *goccl_result_name(goccl_result result);
/* The text of the thread's latest failure, never NULL; valid until the thread's next call that fails. */
const char *goccl_last_error(void);
/* Frees malloc'ed memory that a function of this header returned. */
void goccl_release(void *p);

/* Devices live as long as the process. goccl_device_current returns the device of the calling thread's CUDA context,
 * or, without a GPU or with GOCCL_DEVICE=host, the host device number hint. */
/* kind 0 selects the kind that GOCCL_DEVICE requests, else CUDA where there is a GPU, else the host device. */
goccl_result goccl_device_open(int32_t kind, int32_t index, goccl_device *device);
goccl_result goccl_device_current(int32_t hint, goccl_device *device);
goccl_result goccl_device_count(int32_t kind, int32_t *count);
goccl_result goccl_device_id(goccl_device device, int32_t *kind, int32_t *index);
/* The compute capability of a GPU, and its NUMA node: 0, 0 and -1 where there is none, as for a host device. */
goccl_result goccl_device_capability(goccl_device device, int32_t *major, int32_t *minor, int32_t *numa_node);

/* Zeroed memory that other processes of the machine can map. */
goccl_result goccl_alloc(goccl_device device, uint64_t size, void **ptr);
goccl_result goccl_free(void *ptr);
/* Copies between memory of the process and memory of the device. The copy is complete when the call returns. */
goccl_result goccl_copy_in(goccl_device device, void *dst, const void *src, uint64_t size);
goccl_result goccl_copy_out(goccl_device device, void *dst, const void *src, uint64_t size);

/* Streams. goccl_stream_synchronize also accepts streams that goccl did not create; timeout_ns 0: no limit. */
goccl_result goccl_stream_create(goccl_device device, uintptr_t *stream);
goccl_result goccl_stream_synchronize(goccl_device device, uintptr_t stream, int64_t timeout_ns);
goccl_result goccl_stream_destroy(goccl_device device, uintptr_t stream);

/* Joining. The process that creates a unique id serves it to the others. timeout_ns 0: GOCCL_TIMEOUT, else 30 s. */
goccl_result goccl_unique_id_create(int64_t timeout_ns, goccl_unique_id *id);
/* Stops serving id, if this process serves it and ranks are still missing. */
goccl_result goccl_unique_id_close(const goccl_unique_id *id);
goccl_result goccl_bootstrap_join_id(
	const goccl_unique_id *id, int32_t rank, int32_t size, int64_t timeout_ns, goccl_bootstrap *bootstrap);
/* address: "ip:port", "host:port" or "interface:ip:port"; rank 0 listens there. */
goccl_result goccl_bootstrap_join_address(
	const char *address, int32_t rank, int32_t size, int64_t timeout_ns, goccl_bootstrap *bootstrap);
/* Uses the environment variables that torchrun, mpirun, srun and similar launchers set. */
goccl_result goccl_bootstrap_join_env(int64_t timeout_ns, goccl_bootstrap *bootstrap);
/* Makes all size ranks of a job inside this process. bootstraps has room for size handles. */
goccl_result goccl_bootstrap_local(int32_t size, goccl_bootstrap *bootstraps);
/* local_rank and local_size count the ranks of this host; any pointer may be NULL. */
goccl_result goccl_bootstrap_info(
	goccl_bootstrap bootstrap, int32_t *rank, int32_t *size, int32_t *local_rank, int32_t *local_size);
goccl_result goccl_bootstrap_send(
	goccl_bootstrap bootstrap, int32_t peer, int32_t tag, const void *data, uint64_t size, int64_t timeout_ns);
/* *data must be freed with goccl_release. */
goccl_result goccl_bootstrap_recv(
	goccl_bootstrap bootstrap, int32_t peer, int32_t tag, int64_t timeout_ns, void **data, uint64_t *size);
/* Every rank contributes size bytes; all has room for the bytes of every rank. */
goccl_result goccl_bootstrap_all_gather(
	goccl_bootstrap bootstrap, const void *mine, uint64_t size, void *all, int64_t timeout_ns);
goccl_result goccl_bootstrap_barrier(goccl_bootstrap bootstrap, int64_t timeout_ns);
goccl_result goccl_bootstrap_close(goccl_bootstrap bootstrap);

/* Communicators. Creating one is collective. config may be NULL.
 *
 * The *_start functions return the handle at once and set the communicator up in the background. goccl_comm_wait
 * returns when it is ready, or with the reason of the failure (the handle must then still be aborted or destroyed). The
 * other functions start the set-up and wait for it. */
goccl_result goccl_comm_start(const goccl_unique_id *id, int32_t rank, int32_t size, goccl_device device,
	const goccl_comm_config *config, goccl_comm *comm);
/* The caller keeps the bootstrap, and closes it after the communicator. */
goccl_result goccl_comm_create(
	goccl_bootstrap bootstrap, goccl_device device, const goccl_comm_config *config, goccl_comm *comm);
/* All n ranks in this process, rank i on devices[i]. */
goccl_result goccl_comm_init_all(
	int32_t n, const goccl_device *devices, const goccl_comm_config *config, goccl_comm *comms);
/* color -1: the rank takes part, *child is 0, and goccl_comm_wait is called on comm. config NULL: the parent's. */
goccl_result goccl_comm_split_start(
	goccl_comm comm, int32_t color, int32_t key, const goccl_comm_config *config, goccl_comm *child);
/* Only the remaining ranks call it. abort 1 ends running work first. n may be 0 once a rank has failed: the ranks agree
   on whom they leave out. */
goccl_result goccl_comm_shrink_start(goccl_comm comm, const int32_t *exclude, int32_t n, int32_t abort,
	const goccl_comm_config *config, goccl_comm *child);
/* Makes the id by which new ranks join the communicator. This process serves it; it is used once. */
goccl_result goccl_comm_unique_id(goccl_comm comm, int64_t timeout_ns, goccl_unique_id *id);
/* Adds ranks: the ranks of comm keep their numbers, and size is the number of all ranks. All ranks of comm call it; the
 * one that made the id passes it, the others NULL. The new ranks, from comm's size on, call goccl_comm_start with the
 * id. comm remains usable. */
goccl_result goccl_comm_grow_start(goccl_comm comm, int32_t size, const goccl_unique_id *id,
				   const goccl_comm_config *config, goccl_comm *grown);
/* Frees the memory that the communicator needs only for its work, and makes it anew; both are collective, and
 * goccl_comm_wait waits for them. In between it can only be ended. Graphs captured before may be launched after it. */
goccl_result goccl_comm_suspend_start(goccl_comm comm);
goccl_result goccl_comm_resume_start(goccl_comm comm);
/* Moves the GPU state of processes of this host, n ranks whose communicators are suspended, to host memory, where tools
 * such as CRIU find it, and back on the same addresses. The caller is another process, which may trace them. A process
 * that calls the driver in between waits. After restore the ranks resume their communicators. timeout_ns 0: a minute.
 * What take has done is undone if it fails. Drivers before 570 cannot. */
goccl_result goccl_snapshot_take(const int32_t *pids, int32_t n, int64_t timeout_ns);
goccl_result goccl_snapshot_restore(const int32_t *pids, int32_t n, int64_t timeout_ns);
/* 0: the process runs; 1: its calls of the driver wait; 2: its state is in host memory; 3: it cannot go on. */
goccl_result goccl_snapshot_state(int32_t pid, int32_t *state);
/* Bytes of the device that suspending frees, or has freed (suspended is then 1), and those that it does not. */
goccl_result goccl_comm_memory(goccl_comm comm, uint64_t *suspendable, uint64_t *persistent, int32_t *suspended);
goccl_result goccl_comm_wait(goccl_comm comm);
goccl_result goccl_comm_info_get(goccl_comm comm, goccl_comm_info *info);
/* A number that is the same on all ranks of a communicator, and different for every communicator. */
goccl_result goccl_comm_hash(goccl_comm comm, uint64_t *hash);
/* GOCCL_SUCCESS if nothing has failed, GOCCL_IN_PROGRESS during set-up and finalization, otherwise the failure. */
goccl_result goccl_comm_error(goccl_comm comm);
/* The flight recorder: the last operations of all communicators of this process, the peers that they wait for, and
 * verdicts on waiting operations. format is json, text, trace (Chrome's), torch or torch-json (PyTorch's flight
 * recorder), or stack. *data must be freed with goccl_release. */
goccl_result goccl_records(const char *format, void **data, uint64_t *size);
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
 * read during this call when on_host is not 0, otherwise while a collective runs. It belongs to the communicator. */
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

/* A workspace for fused all-reduces: an all-reduce, then a residual sum, RMSNorm and quantisation. Creating one is
 * collective, at the same place among the collectives of all ranks. It ends with its communicator. config may be
 * NULL. */
typedef struct goccl_fusion_config {
	uint64_t size;          /* sizeof(goccl_fusion_config) */
	uint64_t row_bytes;     /* the largest row that one kernel takes, others run as several; 0: 16 KiB */
	uint64_t scratch_bytes; /* for sums that the caller does not want; 0: 16 MiB */
} goccl_fusion_config;

enum { GOCCL_FUSION_BY_SIZE = 0, GOCCL_FUSION_ONE_SHOT = 1, GOCCL_FUSION_TWO_SHOT = 2, GOCCL_FUSION_APART = 3 };
enum { GOCCL_QUANT_NONE = 0, GOCCL_QUANT_STATIC = 1, GOCCL_QUANT_DYNAMIC = 2 };

/* One fused all-reduce of one rank: rows of hidden elements, all steps rounded to type as separate kernels would.
 *
 *   sum = all-reduced input;  residual_out = sum + residual;
 *   norm = residual_out / sqrt(mean(residual_out^2) + epsilon) * weight;  quant = norm / scale
 *
 * Outputs that are NULL are not written. Buffers begin at multiples of 16 bytes. An output may be the same memory as
 * input or residual, and overlaps no other buffer otherwise. */
typedef struct goccl_fused_request {
	uint64_t size; /* sizeof(goccl_fused_request) */
	uint64_t tokens, hidden; /* rows, and elements of one: a multiple of 8 up to 16384 */
	uint32_t type;           /* GOCCL_FLOAT16, GOCCL_BFLOAT16 or GOCCL_FLOAT32 */
	uint32_t algorithm;      /* GOCCL_FUSION_...; the same on all ranks */
	const void *input;
	void *sum;
	const void *residual; /* NULL: none is added */
	void *residual_out;
	const void *weight; /* hidden elements; NULL: all 1 */
	void *norm;
	void *quant;           /* tokens * hidden elements of quant_type */
	const float *scale;    /* GOCCL_QUANT_STATIC: one number in the device's memory, read when the call runs */
	float *scale_out;      /* GOCCL_QUANT_DYNAMIC: tokens numbers, each the row's largest norm / the largest quant */
	uint32_t quantisation; /* GOCCL_QUANT_... */
	uint32_t quant_type;   /* GOCCL_INT8 or GOCCL_FLOAT8E4M3 */
	float epsilon;
	/* 1: rank r reads and writes only the rows [r * ceil(tokens / R), ...) of residual, residual_out and sum */
	uint32_t divided_residual;
	uintptr_t stream;
} goccl_fused_request;

goccl_result goccl_fusion_create(goccl_comm comm, const goccl_fusion_config *config, goccl_fusion *fusion);
goccl_result goccl_fusion_all_reduce(goccl_fusion fusion, const goccl_fused_request *request);
/* Measures the algorithms for 1, 2, 4, ... tokens, and keeps the fastest of each size for requests with
 * GOCCL_FUSION_BY_SIZE, which otherwise run apart. Collective. */
goccl_result goccl_fusion_tune(goccl_fusion fusion, uint64_t tokens, uint64_t hidden, uint32_t type);
/* The workspace's work has ended. */
goccl_result goccl_fusion_destroy(goccl_fusion fusion);

/* The same for a flat window, whose parts every rank maps side by side, for kernels that compute addresses. Sizes may
 * differ and windows may overlap. The memory is of goccl_alloc, or of cuMemCreate with a file descriptor; parts begin
 * at the same offset in their allocations on all ranks, or whole pages of 2 MiB apart. The call does not wait for other
 * ranks. goccl_flat_wait does, and tells where the parts are; it fails with GOCCL_UNSUPPORTED on all ranks when a rank
 * could not share or map its part. goccl_window_deregister ends the window. */
goccl_result goccl_flat_register(goccl_comm comm, void *ptr, uint64_t size, goccl_window *window);
goccl_result goccl_flat_wait(goccl_window window, goccl_flat *flat);

/* Estimates the microseconds of n requests as one group, by the simulator's model of H200 GPUs. Nothing is enqueued. */
goccl_result goccl_estimate(const goccl_request *requests, uint64_t n, double *microseconds);

/* Calls f(arg) once, from another thread, when the work that is on a stream of a communicator's device now has ended.
 * f must not wait for that stream. It fails, and calls nothing, if the stream is being captured. */
goccl_result goccl_notify(goccl_comm comm, uintptr_t stream, void (*f)(void *arg), void *arg);

/* One-sided operations; GOCCL_UNSUPPORTED where a GPU cannot address the memory of all ranks. A put copies size bytes
 * at src to an offset of the peer's part of a flat window and then signals the peer, which takes no part. Signals are
 * counted by peer, context (0 to 15) and index (0 to 15); a wait uses up the signals that it waits for. A flat window
 * must exist. On GPUs the operations are in the order of their stream only. */
typedef struct goccl_signal_wait { int32_t count, peer, index, context; } goccl_signal_wait;
goccl_result goccl_put_signal(goccl_window window, uint64_t offset, const void *src, uint64_t size, int32_t peer,
	int32_t context, int32_t index, uintptr_t stream);
goccl_result goccl_signal(goccl_comm comm, int32_t peer, int32_t context, int32_t index, uintptr_t stream);
goccl_result goccl_wait_signal(goccl_comm comm, int32_t n, const goccl_signal_wait *waits, uintptr_t stream);

/* Checks a request as goccl_submit does, and enqueues nothing. It replaces a created operator by its factor, so that
 * the operator may be destroyed before the request is submitted. */
goccl_result goccl_check(goccl_request *request);
/* Enqueues n requests, of one or several communicators, as one group. If one request is invalid, none is enqueued. */
goccl_result goccl_submit(const goccl_request *requests, uint64_t n);

#ifdef __cplusplus
}
#endif
#endif
