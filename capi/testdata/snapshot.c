// A process with two ranks suspends; its parent takes a snapshot of it and restores it, and the ranks work again.
#include "../goccl.h"
#include "test.h"
#include <dlfcn.h>

enum { N = 2 };

static void sums(ncclComm_t *c) {
	OK(ncclGroupStart());
	for (int i = 0; i < N; i++) {
		void *p;
		OK(ncclMemAlloc(&p, 4096));
		OK(ncclAllReduce(p, p, 1, ncclFloat, ncclSum, c[i], NULL));
	}
	OK(ncclGroupEnd());
}

static void ranks(int in, int out) {
	char b = 1;
	ncclComm_t c[N];
	OK(ncclCommInitAll(c, N, NULL));
	for (int round = 0; round < 2; round++) {
		sums(c);
		OK(ncclGroupStart());
		for (int i = 0; i < N; i++) OK(ncclCommSuspend(c[i], NCCL_SUSPEND_MEM));
		OK(ncclGroupEnd());
		CHECK(write(out, &b, 1) == 1 && read(in, &b, 1) == 1);
		OK(ncclGroupStart());
		for (int i = 0; i < N; i++) OK(ncclCommResume(c[i]));
		OK(ncclGroupEnd());
	}
	sums(c);
	for (int i = 0; i < N; i++) OK(ncclCommDestroy(c[i]));
}

int main(void) {
	int to[2], from[2];
	CHECK(pipe(to) == 0 && pipe(from) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		ranks(to[0], from[1]);
		return 0;
	}
	close(from[1]);
	void *lib = dlopen("libgoccl.so", RTLD_NOW);
	CHECK(lib);
	__typeof__(goccl_snapshot_take) *take = dlsym(lib, "goccl_snapshot_take");
	__typeof__(goccl_snapshot_restore) *restore = dlsym(lib, "goccl_snapshot_restore");
	__typeof__(goccl_snapshot_state) *state = dlsym(lib, "goccl_snapshot_state");
	const char *(*last_error)(void) = dlsym(lib, "goccl_last_error");
	CHECK(take && restore && state && last_error);
	const int64_t second = 1000000000;
	for (int round = 0; round < 2; round++) {
		char b;
		int32_t now = 9, p = pid;
		CHECK(read(from[0], &b, 1) == 1);
		if (take(&p, 1, 60 * second)) FAIL("take: %s", last_error());
		CHECK(!state(p, &now) && now == 2);
		CHECK(take(&p, 1, second) == GOCCL_INVALID_ARGUMENT && strstr(last_error(), "is checkpointed"));
		CHECK(!state(p, &now) && now == 2);
		if (restore(&p, 1, 0)) FAIL("restore: %s", last_error());
		CHECK(!state(p, &now) && now == 0);
		CHECK(write(to[1], &b, 1) == 1);
	}
	int32_t none = 1 << 30;
	CHECK(take(&none, 1, second) && state(none, &none));
	int status;
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	return 0;
}
