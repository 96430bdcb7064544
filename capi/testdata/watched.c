// watched WHAT RANKS FILE RANK: 20 all-reduces, then rank 2 does WHAT while the others go on:
//   late      it never calls the 21st       stop, kill   so it is treated by the test while it waits to call it
//   order     it uses two communicators in the other order
//   message   it does not send               end          all end well
// With "slow" rank 2 calls each of 30 all-reduces 100 ms later, more than a busy machine delays others, and all wait at
// the end. The job is killed by the test.
#include "test.h"

static float in[1000], out[1000], in2[1000], out2[1000];

int main(int argc, char **argv) {
	CHECK(argc == 5);
	const char *what = argv[1];
	int n = atoi(argv[2]), rank = atoi(argv[4]);
	ncclUniqueId id = share_id(argv[3], rank);
	ncclComm_t a, b;
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	OK(ncclCommInitRankConfig(&a, n, id, rank, &config));
	OK(ncclCommSplit(a, 0, rank, &b, NULL));
	int slow = !strcmp(what, "slow");
	for (int i = 0; i < (slow ? 30 : 20); i++) {
		if (slow && rank == 2) usleep(100000);
		OK(ncclAllReduce(in, out, 1000, ncclFloat, ncclSum, a, NULL));
	}
	printf("ready\n");
	fflush(stdout);
	if (slow) pause();
	if (!strcmp(what, "end")) {
		OK(ncclCommDestroy(a));
		OK(ncclCommDestroy(b));
		pause();
	}
	if (!strcmp(what, "order")) {
		ncclComm_t first = rank == 2 ? b : a, second = rank == 2 ? a : b;
		OK(ncclAllReduce(in, out, 1000, ncclFloat, ncclSum, first, NULL));
		OK(ncclAllReduce(in2, out2, 1000, ncclFloat, ncclSum, second, NULL));
	} else if (!strcmp(what, "message")) {
		if (rank == 0) OK(ncclRecv(in, 1000, ncclFloat, 2, a, NULL));
	} else if (rank != 2) {
		OK(ncclAllReduce(in, out, 1000, ncclFloat, ncclSum, a, NULL));
	}
	pause();
	return 0;
}
