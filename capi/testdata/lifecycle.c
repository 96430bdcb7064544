// The life of communicators: split, shrink, revoke, abort, finalize, non-blocking set-up, any order of destruction.
#include "test.h"

enum { N = 4 };
static ncclUniqueId id;

static void sum(ncclComm_t c, float mine, float want) {
	float out = -1;
	OK(ncclAllReduce(&mine, &out, 1, ncclFloat, ncclSum, c, NULL));
	CHECK(out == want);
}

static void *split(void *p) {
	int r = (int)(long)p, x;
	ncclComm_t c, half, none, order;
	OK(ncclCommInitRank(&c, N, id, r));
	sum(c, r, 6);
	OK(ncclCommSplit(c, r % 2, -r, &half, NULL)); // even and odd ranks, the highest first
	OK(ncclCommCount(half, &x));
	CHECK(x == 2);
	OK(ncclCommUserRank(half, &x));
	CHECK(x == (r < 2));
	sum(half, r, r % 2 ? 4 : 2);
	none = (ncclComm_t)1;
	OK(ncclCommSplit(c, r == 0 ? NCCL_SPLIT_NOCOLOR : 7, 0, &none, NULL));
	if (r == 0) CHECK(none == NULL);
	else {
		sum(none, r, 6);
		OK(ncclCommDestroy(none));
	}
	ncclConfig_t cfg = NCCL_CONFIG_INITIALIZER;
	cfg.commName = "order";
	OK(ncclCommSplit(c, 0, N - r, &order, &cfg));
	OK(ncclCommUserRank(order, &x));
	CHECK(x == N - 1 - r);
	EXPECT(ncclCommSplit(c, -2, 0, &none, NULL), ncclInvalidArgument);
	CHECK(none == NULL);
	// Different ranks destroy in different orders; the parent may go first.
	ncclComm_t all[3] = {c, half, order};
	for (int i = 0; i < 3; i++) OK(ncclCommDestroy(all[(r + i) % 3]));
	return NULL;
}

static void *shrink(void *p) {
	int r = (int)(long)p, x, gone[] = {1};
	ncclComm_t c, less = NULL;
	OK(ncclCommInitRank(&c, N, id, r));
	sum(c, 1, N);
	if (r == 1) {
		OK(ncclCommAbort(c));
		return NULL;
	}
	OK(ncclCommShrink(c, gone, 1, &less, NULL, r == 0 ? NCCL_SHRINK_DEFAULT : NCCL_SHRINK_ABORT));
	OK(ncclCommCount(less, &x));
	CHECK(x == N - 1);
	sum(less, r, 5);
	OK(ncclCommAbort(c));
	OK(ncclCommDestroy(less));
	return NULL;
}

static ncclComm_t stuck;
static double aborted;

static void *waits(void *p) {
	(void)p;
	float v = 1;
	ncclResult_t r = ncclAllReduce(&v, &v, 1, ncclFloat, ncclSum, stuck, NULL); // the other rank never comes
	if (r == ncclSuccess) FAIL("a collective without its peer succeeded");
	aborted = now() - aborted;
	return NULL;
}

static void *first_only(void *p) {
	int r = (int)(long)p;
	ncclComm_t c;
	OK(ncclCommInitRank(&c, 2, id, r));
	if (r == 1) { // abort from another thread while the collective waits
		usleep(1500000); // by then rank 0 has, even on a busy machine
		OK(ncclCommAbort(c));
		return NULL;
	}
	stuck = c;
	pthread_t t;
	pthread_create(&t, NULL, waits, NULL);
	usleep(100000);
	aborted = now();
	double begin = now();
	OK(ncclCommAbort(c));
	if (now() - begin > 1) FAIL("abort took %g s", now() - begin);
	pthread_join(t, NULL);
	if (aborted > 10) FAIL("the collective ended %g s after the abort", aborted);
	return NULL;
}

static void *revoked(void *p) {
	int r = (int)(long)p;
	ncclComm_t c, again;
	OK(ncclCommInitRank(&c, 2, id, r));
	sum(c, 1, 2);
	OK(ncclCommRevoke(c, NCCL_REVOKE_DEFAULT));
	float v = 1;
	EXPECT(ncclAllReduce(&v, &v, 1, ncclFloat, ncclSum, c, NULL), ncclInvalidUsage);
	SAYS("revoked");
	OK(ncclCommSplit(c, 0, r, &again, NULL));
	sum(again, 1, 2); // both ranks have read the last error, which is the process's
	EXPECT(ncclCommRevoke(c, 1), ncclInvalidArgument);
	OK(ncclCommDestroy(c));
	OK(ncclCommDestroy(again));
	return NULL;
}

static void poll(ncclComm_t c) {
	ncclResult_t r = ncclInProgress;
	for (double end = now() + 60; r == ncclInProgress && now() < end; usleep(500)) OK(ncclCommGetAsyncError(c, &r));
	if (r != ncclSuccess) FAIL("set-up ended with %d: %s", r, ncclGetLastError(NULL));
}

static void *non_blocking(void *p) {
	int r = (int)(long)p;
	ncclComm_t c = NULL, child = NULL;
	ncclConfig_t cfg = NCCL_CONFIG_INITIALIZER;
	cfg.blocking = 0;
	EXPECT(ncclCommInitRankConfig(&c, 2, id, r, &cfg), ncclInProgress);
	CHECK(c);
	poll(c);
	sum(c, 1, 2);
	EXPECT(ncclCommSplit(c, 0, r, &child, NULL), ncclInProgress);
	poll(c);
	CHECK(child);
	poll(child);
	sum(child, 1, 2);
	EXPECT(ncclCommFinalize(child), ncclInProgress);
	poll(child);
	float v = 1;
	EXPECT(ncclAllReduce(&v, &v, 1, ncclFloat, ncclSum, child, NULL), ncclInvalidUsage);
	OK(ncclCommDestroy(child));
	OK(ncclCommDestroy(c));
	return NULL;
}

// Whoever waits for a rank that aborts has a remote error, which names the rank.
static void *remote_abort(void *p) {
	int r = (int)(long)p;
	float v = 1;
	ncclComm_t c;
	ncclResult_t async = ncclSuccess;
	OK(ncclCommInitRank(&c, 2, id, r));
	sum(c, 1, 2);
	if (r == 1) {
		usleep(50000);
		OK(ncclCommAbort(c));
		return NULL;
	}
	EXPECT(ncclAllReduce(&v, &v, 1, ncclFloat, ncclSum, c, NULL), ncclRemoteError);
	SAYS("rank 1 has");
	OK(ncclCommGetAsyncError(c, &async));
	CHECK(async == ncclRemoteError);
	OK(ncclCommAbort(c));
	return NULL;
}

// In a group, what was asked of a communicator is done before it ends, whatever the order of the calls; an abort takes
// it, and what was asked of it, out of the group.
static void ends_in_groups(void) {
	ncclComm_t c[2], other[2];
	float x[2] = {1, 2}, y[2] = {0}, z[2] = {0};
	int n;
	OK(ncclCommInitAll(c, 2, NULL));
	OK(ncclCommInitAll(other, 2, NULL));
	OK(ncclGroupStart());
	for (int r = 0; r < 2; r++) {
		OK(ncclAllReduce(&x[r], &y[r], 1, ncclFloat, ncclSum, c[r], NULL));
		if (r) OK(ncclCommFinalize(c[r]));
		OK(ncclCommDestroy(c[r]));
		OK(ncclAllReduce(&x[r], &z[r], 1, ncclFloat, ncclSum, other[r], NULL));
	}
	OK(ncclCommCount(c[0], &n)); // still there
	OK(ncclGroupEnd());
	CHECK(y[0] == 3 && y[1] == 3 && z[0] == 3 && z[1] == 3);
	for (int r = 0; r < 2; r++) EXPECT(ncclCommCount(c[r], &n), ncclInvalidArgument);
	SAYS("destroyed");

	ncclComm_t doomed;
	OK(ncclCommInitAll(&doomed, 1, NULL));
	y[0] = y[1] = z[0] = -1;
	OK(ncclGroupStart());
	for (int r = 0; r < 2; r++) OK(ncclAllReduce(&x[r], &y[r], 1, ncclFloat, ncclSum, other[r], NULL));
	OK(ncclAllReduce(&x[0], &z[0], 1, ncclFloat, ncclSum, doomed, NULL));
	OK(ncclCommFinalize(doomed));
	OK(ncclCommAbort(doomed));
	OK(ncclGroupEnd());
	CHECK(y[0] == 3 && y[1] == 3 && z[0] == -1);

	// A group that fails enqueues nothing and still ends what it was asked to end.
	y[0] = -1;
	OK(ncclGroupStart());
	OK(ncclAllReduce(&x[0], &y[0], 1, ncclFloat, ncclSum, other[0], NULL));
	EXPECT(ncclReduce(&x[0], &y[0], 1, ncclFloat, ncclSum, 9, other[0], NULL), ncclInvalidArgument);
	OK(ncclCommDestroy(other[0]));
	EXPECT(ncclCommDestroy(doomed), ncclInvalidArgument);
	EXPECT(ncclGroupEnd(), ncclInvalidArgument);
	CHECK(y[0] == -1);
	EXPECT(ncclCommCount(other[0], &n), ncclInvalidArgument);
	OK(ncclCommDestroy(other[1]));
}

int main(void) {
	ends_in_groups();
	OK(ncclGetUniqueId(&id));
	on_threads(2, remote_abort);
	OK(ncclGetUniqueId(&id));
	on_threads(N, split);
	OK(ncclGetUniqueId(&id));
	on_threads(N, shrink);
	OK(ncclGetUniqueId(&id));
	on_threads(2, first_only);
	OK(ncclGetUniqueId(&id));
	on_threads(2, revoked);
	OK(ncclGetUniqueId(&id));
	on_threads(2, non_blocking);

	// Set-up that waits for a rank that never comes can be called off.
	ncclConfig_t cfg = NCCL_CONFIG_INITIALIZER;
	cfg.blocking = 0;
	ncclComm_t c;
	OK(ncclGetUniqueId(&id));
	EXPECT(ncclCommInitRankConfig(&c, 2, id, 0, &cfg), ncclInProgress);
	float v = 1;
	ncclResult_t async = ncclSuccess;
	EXPECT(ncclAllReduce(&v, &v, 1, ncclFloat, ncclSum, c, NULL),
		ncclInvalidUsage); // not: in progress, which would be taken for enqueued
	OK(ncclCommGetAsyncError(c, &async));
	CHECK(async == ncclInProgress);
	double begin = now();
	OK(ncclCommAbort(c));
	if (now() - begin > 1) FAIL("abort of a set-up took %g s", now() - begin);

	// One thread, many ranks: in a group, split and all, and destroyed one after another without a wait for the others.
	ncclComm_t comms[N], halves[N];
	OK(ncclCommInitAll(comms, N, NULL));
	OK(ncclGroupStart());
	for (int r = 0; r < N; r++) OK(ncclCommSplit(comms[r], r / 2, r, &halves[r], NULL));
	OK(ncclGroupEnd());
	float x[N] = {1, 2, 3, 4}, y[N], z[N];
	OK(ncclGroupStart());
	for (int r = 0; r < N; r++) {
		OK(ncclAllReduce(&x[r], &y[r], 1, ncclFloat, ncclSum, halves[r], NULL));
		OK(ncclAllReduce(&x[r], &z[r], 1, ncclFloat, ncclMax, comms[r], NULL));
	}
	OK(ncclGroupEnd());
	for (int r = 0; r < N; r++) CHECK(z[r] == 4 && y[r] == (r < 2 ? 3 : 7));
	begin = now();
	for (int r = N - 1; r >= 0; r--) OK(ncclCommDestroy(comms[r]));
	for (int r = 0; r < N; r++) OK(ncclCommDestroy(halves[r]));
	if (now() - begin > 4) FAIL("destroying %d communicators of one thread took %g s", 2 * N, now() - begin);
	return 0;
}
