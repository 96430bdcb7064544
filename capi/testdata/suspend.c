// Suspend, Resume and MemStats, of several ranks by one thread in groups.
#include "test.h"

enum { N = 3 };
static ncclComm_t c[N];

static uint64_t stat(ncclCommMemStat_t s) {
	uint64_t v = 77;
	OK(ncclCommMemStats(c[0], s, &v));
	return v;
}

static void sums(void) {
	float in[N], out[N];
	OK(ncclGroupStart());
	for (int i = 0; i < N; i++) {
		in[i] = i + 1;
		OK(ncclAllReduce(&in[i], &out[i], 1, ncclFloat, ncclSum, c[i], NULL));
	}
	OK(ncclGroupEnd());
	for (int i = 0; i < N; i++) CHECK(out[i] == 6);
}

int main(void) {
	OK(ncclCommInitAll(c, N, NULL));
	for (int round = 0; round < 3; round++) {
		sums();
		CHECK(stat(ncclStatGpuMemSuspended) == 0);
		uint64_t total = stat(ncclStatGpuMemTotal);
		CHECK(total == stat(ncclStatGpuMemSuspend) + stat(ncclStatGpuMemPersist) && total > 0);
		EXPECT(ncclCommResume(c[0]), ncclInvalidUsage);
		SAYS("suspended: false");
		OK(ncclGroupStart());
		for (int i = 0; i < N; i++) OK(ncclCommSuspend(c[i], NCCL_SUSPEND_MEM));
		OK(ncclGroupEnd());
		CHECK(stat(ncclStatGpuMemSuspended) == 1 && stat(ncclStatGpuMemTotal) == stat(ncclStatGpuMemPersist));
		EXPECT(ncclCommSuspend(c[0], NCCL_SUSPEND_MEM), ncclInvalidUsage);
		float x = 1;
		EXPECT(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, c[0], NULL), ncclInvalidUsage);
		SAYS("suspended");
		OK(ncclGroupStart());
		for (int i = 0; i < N; i++) OK(ncclCommResume(c[i]));
		OK(ncclGroupEnd());
	}
	sums();
	ncclResult_t async;
	OK(ncclCommGetAsyncError(c[0], &async));
	CHECK(async == ncclSuccess);
	uint64_t v;
	EXPECT(ncclCommSuspend(c[0], 2), ncclInvalidArgument);
	EXPECT(ncclCommMemStats(c[0], 9, &v), ncclInvalidArgument);
	EXPECT(ncclCommMemStats(c[0], 0, NULL), ncclInvalidArgument);
	for (int i = 0; i < N; i++) OK(ncclCommDestroy(c[i]));
	EXPECT(ncclCommSuspend(c[0], 1), ncclInvalidArgument);
	return 0;
}
