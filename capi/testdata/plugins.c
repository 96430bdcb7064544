// plugins PROFILER TUNER: calls with both plugins, which are also opened here to ask them.
#include "test.h"
#include <dlfcn.h>

enum { N = 2, COUNT = 1000 };
static float in[N][1 << 16], out[N][1 << 16];

int main(int argc, char **argv) {
	CHECK(argc == 3);
	ncclComm_t c[N];
	OK(ncclCommInitAll(c, N, NULL));
	for (int i = 0; i < N; i++)
		for (int k = 0; k < 1 << 16; k++) in[i][k] = i + 1;
	for (int round = 0; round < 5; round++) {
		OK(ncclGroupStart());
		for (int i = 0; i < N; i++) OK(ncclAllReduce(in[i], out[i], COUNT, ncclFloat, ncclSum, c[i], NULL));
		OK(ncclGroupEnd());
		for (int i = 0; i < N; i++) CHECK(out[i][COUNT - 1] == 3);
	}
	OK(ncclGroupStart());
	for (int i = 0; i < N; i++) {
		OK(ncclSend(in[i], COUNT, ncclFloat, 1 - i, c[i], NULL));
		OK(ncclRecv(out[i], COUNT, ncclFloat, 1 - i, c[i], NULL));
	}
	OK(ncclGroupEnd());
	CHECK(out[0][5] == 2 && out[1][5] == 1);
	for (int i = 0; i < N; i++) { // without a group
		float x = 1;
		EXPECT(ncclAllReduce(&x, &x, COUNT, ncclFloat, 7, c[i], NULL), ncclInvalidArgument);
	}
	for (int i = 0; i < N; i++) OK(ncclCommDestroy(c[i]));
	void *profiler = dlopen(argv[1], RTLD_NOW), *tuner = dlopen(argv[2], RTLD_NOW);
	if (!profiler || !tuner) FAIL("%s", dlerror());
	const char *(*check)(int, int, int, int);
	int (*asked)(void);
	*(void **)&check = dlsym(profiler, "check");
	*(void **)&asked = dlsym(tuner, "tuner_asked");
	const char *wrong = check(6 * N, 5 * N, 2 * N, N);
	if (wrong) FAIL("%s: %s", argv[1], wrong);
	if (asked() != 5 * N) FAIL("the tuner was asked %d times", asked());
	return 0;
}
