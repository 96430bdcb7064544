// death N RANK FILE: rank 1 kills itself in the middle; the others learn of it, and go on without it.
#include "test.h"
#include <signal.h>

int main(int argc, char **argv) {
	CHECK(argc == 4);
	int n = atoi(argv[1]), rank = atoi(argv[2]);
	ncclUniqueId id = share_id(argv[3], rank);
	ncclComm_t c, less;
	OK(ncclCommInitRank(&c, n, id, rank));
	float v[1000] = {1}, w[1000];
	for (int i = 0; i < 20; i++) OK(ncclAllReduce(v, w, 1000, ncclFloat, ncclSum, c, NULL));
	if (rank == 1) {
		usleep(200000); // the others are inside the next collective by now
		kill(getpid(), SIGKILL);
	}
	double begin = now();
	EXPECT(ncclAllReduce(v, w, 1000, ncclFloat, ncclSum, c, NULL), ncclRemoteError);
	if (now() - begin > 10) FAIL("the death was noticed after %g s", now() - begin);
	SAYS("peer 1");
	SAYS("all_reduce");
	ncclResult_t async = ncclSuccess;
	OK(ncclCommGetAsyncError(c, &async));
	CHECK(async == ncclRemoteError);
	EXPECT(ncclAllReduce(v, w, 1000, ncclFloat, ncclSum, c, NULL), ncclRemoteError);
	int gone[] = {1}, x;
	OK(ncclCommShrink(c, gone, 1, &less, NULL, NCCL_SHRINK_ABORT));
	OK(ncclAllReduce(v, w, 1000, ncclFloat, ncclSum, less, NULL));
	CHECK(w[0] == n - 1);
	OK(ncclCommCount(less, &x));
	CHECK(x == n - 1);
	begin = now();
	OK(ncclCommAbort(c));
	if (now() - begin > 1) FAIL("abort took %g s", now() - begin);
	OK(ncclCommDestroy(less));
	return 0;
}
