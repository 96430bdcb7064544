// Collectives: each fills in a request and submits it; tools/gen writes those whose parameters are a request's.
#include "shim.h"

// An operator is NCCL's own (below 5) or one that ncclRedOpCreatePreMulSum created; the numbers between are invalid.
static ncclResult_t check_op(ncclRedOp_t op, const char *what) {
	if ((unsigned)op < ncclNumOps || (unsigned)op >= GOCCL_FIRST_CREATED_OP) return ncclSuccess;
	return shim_remember(shim_fail(ncclInvalidArgument, "%s: reduction operator %d is not known", what, (int)op));
}

#include "zz_collectives.h"

static ncclResult_t all_to_all_v(const void *sendbuff, const size_t *sc, const size_t *sd, void *recvbuff,
				 const size_t *rc, const size_t *rd, ncclDataType_t datatype, ncclComm_t comm,
				 cudaStream_t stream, const goccl_call_config *config, const char *what) {
	_Static_assert(sizeof(size_t) == sizeof(int64_t), "counts");
	goccl_request r = {.comm = handle(comm), .collective = GOCCL_ALL_TO_ALL_V, .type = datatype, .send = sendbuff,
		.recv = recvbuff, .stream = (uintptr_t)stream, .send_counts = (const int64_t *)sc,
		.send_displs = (const int64_t *)sd, .recv_counts = (const int64_t *)rc, .recv_displs = (const int64_t *)rd,
		.config = config};
	return shim_call(&r, NULL, what);
}

NCCL(AllToAllv, const void *sendbuff, const size_t *sendcounts, const size_t *sdispls, void *recvbuff,
	const size_t *recvcounts, const size_t *rdispls, ncclDataType_t datatype, ncclComm_t comm,
	cudaStream_t stream) {
	return all_to_all_v(sendbuff, sendcounts, sdispls, recvbuff, recvcounts, rdispls, datatype, comm, stream, NULL,
			    "ncclAllToAllv");
}

// VCCL has two parameter lists under one name: (…, relaybuff, datatype, comm, stream) and, since a month later, (…,
// relaybuff, relaycount, datatype, comm, stream). Both pass one eight-byte slot per parameter after the six array and
// buffer pointers. A communicator handle has a value that no other argument can have, so the slot that holds it
// identifies the list. The relay buffer is not needed: goccl relays only data that fits into its scratch memory.
static ncclResult_t matrices(const void *sendbuff, const size_t *sc, const size_t *sd, void *recvbuff, const size_t *rc,
			     const size_t *rd, uintptr_t relay, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d)
	__asm__("pncclAlltoAllv") __attribute__((used));
#ifdef __GNUC__
__asm__(".globl pncclAlltoAllv\n.weak ncclAlltoAllv\n"
	".type ncclAlltoAllv, %function\n.set ncclAlltoAllv, pncclAlltoAllv");
#endif

// complete says whether both matrices have the counts of all n ranks. A program may have filled in its own row only.
static int complete(const size_t *sc, const size_t *rc, size_t n) {
	size_t any = 0;
	for (size_t s = 0; s < n; s++)
		for (size_t d = 0; d < n; d++) {
			if (sc[s * n + d] != rc[d * n + s]) return 0;
			any |= sc[s * n + d];
		}
	return any != 0;
}

#define COMM_TAG 0x0cc1 // the kind of a goccl_comm, in its top 16 bits

static ncclResult_t matrices(const void *sendbuff, const size_t *sc, const size_t *sd, void *recvbuff, const size_t *rc,
			     const size_t *rd, uintptr_t relay, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d) {
	static const char what[] = "ncclAlltoAllv";
	(void)relay;
	uintptr_t type = a, comm = b, stream = c;
	if (b >> 48 != COMM_TAG && c >> 48 == COMM_TAG) type = b, comm = c, stream = d;
	if (!sc || !sd || !rc || !rd)
		return shim_remember(shim_fail(ncclInvalidArgument, "%s: a matrix of counts or displacements is NULL", what));
	NEED_CORE;
	goccl_comm_info i;
	ncclResult_t r = shim_remember(shim_result(core.comm_info_get(comm, &i), what));
	if (r) return r;
	size_t row = (size_t)i.rank * (size_t)i.size; // of R × R matrices, the row of this rank
	goccl_call_config config = {.size = sizeof config};
	if (complete(sc, rc, (size_t)i.size)) config.all_counts = (const int64_t *)sc;
	return all_to_all_v(sendbuff, sc + row, sd + row, recvbuff, rc + row, rd + row, (ncclDataType_t)(uint32_t)type,
			    (ncclComm_t)comm, (cudaStream_t)stream, config.all_counts ? &config : NULL, what);
}
