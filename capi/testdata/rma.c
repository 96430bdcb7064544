// One-sided operations of two ranks: by threads, and by one thread in a group.
#include "test.h"

enum { N = 2, COUNT = 1000 };
static ncclComm_t c[N];
static ncclWindow_t win[N];
static float *mem[N], src[N][COUNT];

static void *rank(void *p) {
	int r = (int)(long)p, to = 1 - r;
	ncclWaitSignalDesc_t one = {1, to, 3, 1}, answer = {2, to, 0, 0};
	for (int i = 0; i < 100; i++) {
		for (int k = 0; k < COUNT; k++) src[r][k] = i * 2 + r;
		OK(ncclPutSignal(src[r], COUNT, ncclFloat, to, win[r], 64, 3, 1, 0, c[r], NULL));
		OK(ncclWaitSignal(1, &one, c[r], NULL));
		for (int k = 0; k < COUNT; k++)
			if (mem[r][16 + k] != i * 2 + to) FAIL("round %d, element %d is %g", i, k, mem[r][16 + k]);
		OK(ncclSignal(to, 0, 0, 0, c[r], NULL));
		OK(ncclSignal(to, 0, 0, 0, c[r], NULL));
		OK(ncclWaitSignal(1, &answer, c[r], NULL));
	}
	return NULL;
}

int main(void) {
	OK(ncclCommInitAll(c, N, NULL));
	for (int r = 0; r < N; r++) OK(ncclMemAlloc((void **)&mem[r], 1 << 16));
	OK(ncclGroupStart());
	for (int r = 0; r < N; r++) OK(ncclCommWindowRegister(c[r], mem[r], 1 << 16, &win[r], NCCL_WIN_COLL_SYMMETRIC));
	OK(ncclGroupEnd());
	on_threads(N, rank);
	OK(ncclGroupStart()); // the wait comes before the put that it waits for
	ncclWaitSignalDesc_t d = {1, 1, 0, 0};
	OK(ncclWaitSignal(1, &d, c[0], NULL));
	src[1][0] = 77;
	OK(ncclPutSignal(src[1], 1, ncclFloat, 0, win[1], 0, 0, 0, 0, c[1], NULL));
	OK(ncclGroupEnd());
	CHECK(mem[0][0] == 77);
	EXPECT(ncclPutSignal(src[0], 1 << 16, ncclFloat, 1, win[0], 0, 0, 0, 0, c[0], NULL), ncclInvalidArgument);
	EXPECT(ncclPutSignal(src[0], 1, ncclFloat, 1, win[1], 0, 0, 0, 0, c[0], NULL), ncclInvalidArgument);
	EXPECT(ncclPutSignal(src[0], 1, ncclFloat, 2, win[0], 0, 0, 0, 0, c[0], NULL), ncclInvalidArgument);
	EXPECT(ncclSignal(1, 99, 0, 0, c[0], NULL), ncclInvalidArgument);
	EXPECT(ncclSignal(1, 0, 0, 1, c[0], NULL), ncclInvalidArgument);
	EXPECT(ncclWaitSignal(0, &d, c[0], NULL), ncclInvalidArgument);
	for (int r = 0; r < N; r++) OK(ncclCommDestroy(c[r]));
	return 0;
}
