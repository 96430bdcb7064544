// Communicators that grow: by threads, by one thread with groups, non-blocking, and what is refused.
#include "test.h"

enum { OLD = 2, N = 4 };
static ncclUniqueId first, more;
static pthread_barrier_t made;

static void sum(ncclComm_t c, float mine, float want) {
	float out = -1;
	OK(ncclAllReduce(&mine, &out, 1, ncclFloat, ncclSum, c, NULL));
	if (out != want) FAIL("the sum is %g, want %g", out, want);
}

static void *rank(void *p) {
	int r = (int)(long)p, x;
	ncclComm_t c = NULL, grown;
	if (r < OLD) {
		OK(ncclCommInitRank(&c, OLD, first, r));
		sum(c, r, 1);
	}
	if (r == 1) OK(ncclCommGetUniqueId(c, &more));
	pthread_barrier_wait(&made);
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	config.commName = "grown";
	if (r < OLD) OK(ncclCommGrow(c, N, r == 1 ? &more : NULL, -1, &grown, r ? &config : NULL));
	else OK(ncclCommGrow(NULL, N, &more, r, &grown, NULL));
	OK(ncclCommCount(grown, &x));
	CHECK(x == N);
	OK(ncclCommUserRank(grown, &x));
	CHECK(x == r);
	if (c) {
		sum(c, r, 1);
		OK(ncclCommDestroy(c));
	}
	sum(grown, r, 6);
	OK(ncclCommFinalize(grown));
	OK(ncclCommDestroy(grown));
	return NULL;
}

// one thread has all ranks; the parent's rank passes no id although it made it.
static void grouped(int blocking) {
	ncclComm_t c[OLD], grown[N] = {0};
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	config.blocking = blocking;
	ncclResult_t r, want = blocking ? ncclSuccess : ncclInProgress;
	OK(ncclGetUniqueId(&first));
	OK(ncclGroupStart());
	for (int i = 0; i < OLD; i++) EXPECT(ncclCommInitRankConfig(&c[i], OLD, first, i, &config), want);
	EXPECT(ncclGroupEnd(), want);
	for (int i = 0; i < OLD; i++)
		for (r = want; r == ncclInProgress; usleep(500)) OK(ncclCommGetAsyncError(c[i], &r));
	OK(ncclCommGetUniqueId(c[0], &more));
	EXPECT(ncclCommGetUniqueId(c[0], &first), ncclInvalidUsage);
	SAYS("no grow has used yet");
	OK(ncclGroupStart());
	for (int i = 0; i < N; i++) {
		if (i < OLD) r = ncclCommGrow(c[i], N, NULL, -1, &grown[i], &config);
		else r = ncclCommGrow(NULL, N, &more, i, &grown[i], &config);
		CHECK(r == want);
	}
	EXPECT(ncclGroupEnd(), want);
	float in[N], out[N];
	for (int i = 0; i < N; i++)
		for (r = want; r == ncclInProgress; usleep(500)) OK(ncclCommGetAsyncError(grown[i], &r));
	OK(ncclGroupStart());
	for (int i = 0; i < N; i++) {
		in[i] = i;
		OK(ncclAllReduce(&in[i], &out[i], 1, ncclFloat, ncclSum, grown[i], NULL));
	}
	OK(ncclGroupEnd());
	for (int i = 0; i < N; i++) CHECK(out[i] == 6);
	OK(ncclCommGetUniqueId(c[0], &more)); // the old one was used
	for (int i = 0; i < OLD; i++) OK(ncclCommAbort(c[i]));
	for (int i = 0; i < N; i++) OK(ncclCommAbort(grown[i]));
}

static void refused(void) {
	ncclComm_t c, grown = (ncclComm_t)1;
	OK(ncclCommInitAll(&c, 1, NULL));
	EXPECT(ncclCommGrow(c, 2, NULL, 1, &grown, NULL), ncclInvalidArgument);
	SAYS("pass -1");
	CHECK(!grown);
	EXPECT(ncclCommGrow(c, 1, NULL, -1, &grown, NULL), ncclInvalidArgument);
	EXPECT(ncclCommGrow(c, 2, NULL, -1, &grown, NULL), ncclInvalidArgument);
	SAYS("no rank has a unique id");
	EXPECT(ncclCommGrow(NULL, 2, NULL, 1, &grown, NULL), ncclInvalidArgument);
	EXPECT(ncclCommGrow(c, 2, NULL, -1, NULL, NULL), ncclInvalidArgument);
	EXPECT(ncclCommGetUniqueId(c, NULL), ncclInvalidArgument);
	OK(ncclCommDestroy(c));
	EXPECT(ncclCommGetUniqueId(c, &more), ncclInvalidArgument);
}

int main(void) {
	pthread_barrier_init(&made, NULL, N);
	OK(ncclGetUniqueId(&first));
	on_threads(N, rank);
	grouped(1);
	grouped(0);
	refused();
	return 0;
}
