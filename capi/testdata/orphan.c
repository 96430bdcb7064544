// orphan N RANK FILE: rank 1 kills itself while the communicator is being set up and a third rank is missing; rank 0 is
// told at once.
#include "test.h"
#include <signal.h>

int main(int argc, char **argv) {
	CHECK(argc == 4);
	int n = atoi(argv[1]), rank = atoi(argv[2]);
	ncclUniqueId id = share_id(argv[3], rank);
	ncclComm_t c;
	if (rank == 1) {
		ncclConfig_t cfg = NCCL_CONFIG_INITIALIZER;
		cfg.blocking = 0;
		EXPECT(ncclCommInitRankConfig(&c, n, id, rank, &cfg), ncclInProgress);
		usleep(300000);
		kill(getpid(), SIGKILL);
	}
	double begin = now();
	EXPECT(ncclCommInitRank(&c, n, id, rank), ncclRemoteError);
	CHECK(c == NULL);
	SAYS("peer 1");
	if (now() - begin > 20) FAIL("it took %g s", now() - begin);
	OK(ncclGetUniqueId(&id)); // the process can go on
	OK(ncclCommInitRank(&c, 1, id, 0));
	OK(ncclCommDestroy(c));
	return 0;
}
