/* goccl_moe.h: the part of goccl's C ABI for mixtures of experts. The paragraphs of goccl.h on stability, results,
 * threads and fork hold here too.
 */
#ifndef GOCCL_MOE_H
#define GOCCL_MOE_H

#include "goccl.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t goccl_moe;

/* Dispatch sends tokens to the ranks of their experts, combine brings back the sums. Package
 * engine/moe of the sources describes the three operations, the two layouts and the order of the sums. All addresses
 * are of the device's memory, streams as in goccl_request. Handles are memory of the caller, of goccl_moe_offsets.bytes
 * at a multiple of 16, which a notify fills and dispatches and combines read. Every operation enqueues and returns. */
typedef struct goccl_moe_size { /* the same on all ranks; 0: a default */
	uint32_t size;          /* sizeof(goccl_moe_size) */
	int32_t packet_tokens;  /* ranks of up to that many tokens send packets; 0: 256, negative: none */
	uint64_t bytes;         /* of the rows in a rank's memory; see goccl_moe_bytes */
	uint32_t tokens;        /* of a rank in one operation, at most; 0: 16384 */
	uint32_t blocks;        /* thread blocks of a kernel; 0: 16, and 96 for ranks of few tokens */
} goccl_moe_size;

enum { GOCCL_MOE_ROWS = 0, GOCCL_MOE_EXPERTS = 1, GOCCL_MOE_ZERO_COPY = 2 };

typedef struct goccl_moe_shape { /* the same on all ranks */
	uint32_t layout;
	uint32_t hidden;  /* elements of a token */
	uint32_t top_k;   /* experts of a token; 0: tokens go to ranks */
	uint32_t experts; /* of all ranks */
} goccl_moe_shape;

typedef struct goccl_moe_offsets { /* of a handle */
	uint64_t bytes;  /* its size */
	uint64_t counts; /* [ranks] int32: rows from each rank */
	uint64_t total;  /* int32: rows from all ranks */
	uint64_t prefix; /* [ranks][ranks] int32: rows that ranks 0 to i send to rank j */
	uint64_t totals; /* [experts of this rank] int32: rows for each */
	uint64_t ranges; /* GOCCL_MOE_EXPERTS: [experts of this rank][ranks] int64, begin << 32 | count */
	/* GOCCL_MOE_ZERO_COPY: addresses in the buffer: recv_x of a dispatch, whose rows stay until the buffer's next
	 * dispatch, and x of a combine, which a combine with another layout overwrites. */
	void *received, *results;
} goccl_moe_offsets;

typedef struct goccl_moe_handle {
	goccl_moe_shape shape;
	void *memory;
	uint64_t tokens; /* of this rank */
} goccl_moe_handle;

typedef struct goccl_moe_count_args { /* every result may be NULL */
	goccl_moe_handle handle;    /* memory is not used */
	const int64_t *top_k_index; /* [tokens][top_k]; -1: no expert */
	int32_t *ranks;             /* [ranks]: tokens that go to each */
	int32_t *experts;           /* [experts] */
	uint8_t *in_rank;           /* [tokens][ranks]: 0 or 1 */
	uintptr_t stream;
} goccl_moe_count_args;

typedef struct goccl_moe_notify_args {
	goccl_moe_handle handle;
	const int64_t *top_k_index; /* [tokens][top_k]; -1: no expert */
	const uint8_t *in_rank;     /* with top_k 0: [tokens][ranks], not 0: the token goes to the rank */
	const int32_t *counts;      /* with top_k 0: [experts], this rank's tokens by expert, or NULL */
	uintptr_t stream;
} goccl_moe_notify_args;

enum { GOCCL_MOE_QUANTIZE = 1, GOCCL_MOE_POWER_OF_TWO = 2, GOCCL_MOE_LISTS = 4 };

typedef struct goccl_moe_dispatch_args {
	goccl_moe_handle handle;
	const void *x;       /* [tokens][hidden] */
	const float *scales; /* of float8e4m3: [tokens][hidden / 128] */
	uint32_t type;       /* GOCCL_BFLOAT16 or GOCCL_FLOAT8E4M3 */
	/* QUANTIZE sends bfloat16 as float8e4m3; POWER_OF_TWO rounds the scales up. LISTS sends experts and weights too. */
	uint32_t flags;
	uint32_t blocks; /* thread blocks of the kernel; 0: as goccl_moe_size says */
	uint32_t reserved;
	const int64_t *index; /* with LISTS: [tokens][top_k] */
	const float *weights; /* the same, or NULL */
	void *recv_x;         /* [recv_rows][hidden]; GOCCL_MOE_EXPERTS: [experts of this rank][recv_rows][hidden] */
	float *recv_scales;
	uint64_t recv_rows;
	int64_t *recv_index;  /* with LISTS: [recv_rows][top_k], experts of this rank or -1 */
	float *recv_weights;  /* the same, or NULL */
	int32_t *recv_source; /* the rows' tokens at their ranks, or NULL */
	uintptr_t stream;
} goccl_moe_dispatch_args;

typedef struct goccl_moe_combine_args {
	goccl_moe_handle handle;
	const void *x; /* bfloat16, in the order of what dispatch brought */
	uint64_t rows; /* as recv_rows */
	/* GOCCL_MOE_EXPERTS: the weights of this rank's tokens. GOCCL_MOE_ROWS: [rows][top_k], returned to the tokens'
	 * ranks, or NULL */
	const float *weights;
	const int64_t *index;   /* GOCCL_MOE_EXPERTS: [tokens][top_k] */
	const void *bias[2];    /* [tokens][hidden] bfloat16, added first, or NULL */
	void *out;              /* [tokens][hidden] bfloat16 */
	float *out_weights;     /* [tokens][top_k] sums of the weights that came back, or NULL */
	uint32_t blocks, reserved;
	uintptr_t stream;
} goccl_moe_combine_args;

/* The bytes that tokens of a shape need, with packets. */
goccl_result goccl_moe_bytes(int32_t ranks, uint64_t tokens, const goccl_moe_shape *shape, uint64_t *bytes);
/* Makes the memory; collective. It ends with goccl_moe_destroy or with its communicator. */
goccl_result goccl_moe_create(goccl_comm comm, const goccl_moe_size *size, goccl_moe *moe);
goccl_result goccl_moe_destroy(goccl_moe moe);
goccl_result goccl_moe_layout(goccl_moe moe, const goccl_moe_shape *shape, goccl_moe_offsets *offsets);
/* Changes the mask between two operations: gone, [ranks], is not 0 for a rank that takes no part any more; replicas,
 * [experts], is the expert that serves the tokens of an expert on such a rank, -1: none, or NULL. All ranks that remain
 * call it together, with the same mask; it waits for them. From then on a failure of the communicator
 * does not end the operations; goccl_moe_error returns their own failure. */
goccl_result goccl_moe_set_mask(goccl_moe moe, const uint8_t *gone, uint32_t ranks, const int32_t *replicas,
				uint32_t experts);
/* The failure that has ended the operations. */
goccl_result goccl_moe_error(goccl_moe moe);
/* Counts this rank's tokens; local. */
goccl_result goccl_moe_count(goccl_moe moe, const goccl_moe_count_args *args);
/* The operations; collective, numbered among the communicator's collectives. */
goccl_result goccl_moe_notify(goccl_moe moe, const goccl_moe_notify_args *args);
goccl_result goccl_moe_dispatch(goccl_moe moe, const goccl_moe_dispatch_args *args);
goccl_result goccl_moe_combine(goccl_moe moe, const goccl_moe_combine_args *args);

#ifdef __cplusplus
}
#endif
#endif
