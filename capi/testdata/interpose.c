// A program may replace a function and call the twin, as profilers do.
#include "test.h"

static int calls;

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
	ncclComm_t comm, cudaStream_t stream) {
	calls++;
	return pncclAllReduce(send, recv, count, type, op, comm, stream);
}

int main(void) {
	ncclComm_t c;
	float v = 5, w = 0;
	OK(pncclCommInitAll(&c, 1, NULL));
	OK(ncclAllReduce(&v, &w, 1, ncclFloat, ncclSum, c, NULL));
	CHECK(calls == 1 && w == 5);
	OK(ncclCommDestroy(c));
	return 0;
}
