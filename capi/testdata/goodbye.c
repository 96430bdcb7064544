// goodbye HOW RANK FILE: rank 0 leaves long before the others, in one of several ways; the others' work is done, and
// nothing fails for them.
#include "test.h"
#include <signal.h>

enum { N = 3 };

static void finalize(ncclComm_t c, int nonBlocking) {
	ncclResult_t r = ncclInProgress;
	EXPECT(ncclCommFinalize(c), nonBlocking ? ncclInProgress : ncclSuccess);
	for (double end = now() + 60; r == ncclInProgress && now() < end; usleep(500)) OK(ncclCommGetAsyncError(c, &r));
	if (r) FAIL("after ncclCommFinalize the communicator's error is %d: %s", r, ncclGetLastError(NULL));
}

int main(int argc, char **argv) {
	CHECK(argc == 4);
	const char *how = argv[1];
	int rank = atoi(argv[2]), clean = strcmp(how, "abort") && strcmp(how, "kill"),
	    nonBlocking = !strcmp(how, "nonblocking");
	ncclUniqueId id = share_id(argv[3], rank);
	ncclConfig_t cfg = NCCL_CONFIG_INITIALIZER;
	cfg.blocking = !nonBlocking;
	ncclComm_t c, half;
	ncclResult_t r = ncclCommInitRankConfig(&c, N, id, rank, &cfg);
	CHECK(r == (nonBlocking ? ncclInProgress : ncclSuccess));
	for (double end = now() + 60; r == ncclInProgress && now() < end; usleep(500)) OK(ncclCommGetAsyncError(c, &r));
	CHECK(r == ncclSuccess);
	cfg.blocking = 1;
	r = ncclCommSplit(c, rank < 2, rank, &half, &cfg);
	for (double end = now() + 60; r == ncclInProgress && now() < end; usleep(500)) OK(ncclCommGetAsyncError(c, &r));
	CHECK(r == ncclSuccess);
	float v[1000] = {1}, w[1000];
	OK(ncclAllReduce(v, w, 1000, ncclFloat, ncclSum, c, NULL));
	OK(ncclAllReduce(v, w, 1000, ncclFloat, ncclSum, half, NULL));
	if (rank == 0) {
		if (!strcmp(how, "kill")) kill(getpid(), SIGKILL);
		if (!strcmp(how, "abort")) {
			OK(ncclCommAbort(half));
			OK(ncclCommAbort(c));
			return 0;
		}
		finalize(half, 0);
		finalize(c, nonBlocking);
		if (!strcmp(how, "exit")) return 0; // NCCL does not ask for more
		OK(ncclCommDestroy(half));
		OK(ncclCommDestroy(c));
		return 0;
	}
	usleep(3000000); // longer than rank 0 waits for anybody
	if (clean) {
		OK(ncclCommGetAsyncError(c, &r));
		if (r) FAIL("a clean goodbye became %d: %s", r, ncclGetLastError(NULL));
	}
	double begin = now();
	finalize(half, 0);
	finalize(c, nonBlocking);
	OK(ncclCommDestroy(half));
	OK(ncclCommDestroy(c));
	if (now() - begin > 20) FAIL("leaving took %g s", now() - begin);
	return 0;
}
