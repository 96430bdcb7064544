// splitdeath RANK FILE: four ranks split a communicator again and again, rank 3 without a color. Rank 1 kills itself
// somewhere in it; each of the others gets an error that names it.
#include "test.h"
#include <signal.h>

static void *die(void *delay) {
	usleep(*(useconds_t *)delay);
	kill(getpid(), SIGKILL);
	return NULL;
}

int main(int argc, char **argv) {
	CHECK(argc == 3);
	int rank = atoi(argv[1]);
	ncclUniqueId id = share_id(argv[2], rank);
	ncclComm_t c;
	OK(ncclCommInitRank(&c, 4, id, rank));
	float v = 1, w;
	// When rank 1 has the sum, every rank has joined.
	ncclResult_t first = ncclAllReduce(&v, &w, 1, ncclFloat, ncclSum, c, NULL);
	if (rank == 1) {
		OK(first);
		pthread_t t;
		static useconds_t delay;
		delay = getpid() * 7919u % 20000;
		CHECK(pthread_create(&t, NULL, die, &delay) == 0);
	}
	for (;;) {
		ncclComm_t child = NULL;
		const char *what = "ncclCommSplit";
		double begin = now();
		ncclResult_t r = ncclCommSplit(c, rank == 3 ? NCCL_SPLIT_NOCOLOR : 0, rank, &child, NULL);
		if (!r && child) {
			what = "ncclAllReduce";
			r = ncclAllReduce(&v, &w, 1, ncclFloat, ncclSum, child, NULL);
			if (!r && w != 3) FAIL("the sum is %g", w);
		}
		double took = now() - begin;
		if (took > 10) FAIL("%s took %g s: %d %s", what, took, r, ncclGetLastError(NULL));
		if (!r) {
			if (child) OK(ncclCommDestroy(child));
			continue;
		}
		if (r != ncclRemoteError) FAIL("%s is %d: %s", what, r, ncclGetLastError(NULL));
		SAYS("peer 1");
		if (getenv("TIMES")) printf("%s %.3f s %s\n", what, took, ncclGetLastError(NULL));
		if (child) OK(ncclCommAbort(child));
		OK(ncclCommAbort(c));
		return 0;
	}
}
