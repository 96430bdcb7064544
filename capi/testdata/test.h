// What the C programs of the tests share. A program prints nothing and returns 0, or says what was wrong and returns 1.
#ifndef TEST_H
#define TEST_H
#include "../nccl/nccl.h"
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FAIL(...) \
	do { \
		printf("%s:%d: ", __FILE__, __LINE__); \
		printf(__VA_ARGS__); \
		printf("\n"); \
		fflush(stdout); \
		_exit(1); \
	} while (0)
#define CHECK(c) do { if (!(c)) FAIL("%s is false", #c); } while (0)
#define OK(x) EXPECT(x, ncclSuccess)
#define EXPECT(x, want) \
	do { \
		ncclResult_t r_ = (x); \
		if (r_ != (want)) FAIL("%s is %d, want %d: %s", #x, r_, want, ncclGetLastError(NULL)); \
	} while (0)
// The last error must hold a text.
#define SAYS(text) \
	do { \
		if (!strstr(ncclGetLastError(NULL), text)) \
			FAIL("the last error is \"%s\", which lacks \"%s\"", ncclGetLastError(NULL), text); \
	} while (0)

static inline double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

// share_id hands a unique id from rank 0 to the other processes through a file.
static inline ncclUniqueId share_id(const char *path, int rank) {
	ncclUniqueId id;
	char tmp[512];
	snprintf(tmp, sizeof tmp, "%s.tmp", path);
	if (rank == 0) {
		OK(ncclGetUniqueId(&id));
		FILE *f = fopen(tmp, "w");
		CHECK(f && fwrite(&id, sizeof id, 1, f) == 1 && fclose(f) == 0 && rename(tmp, path) == 0);
		return id;
	}
	for (double end = now() + 60; now() < end; usleep(1000)) {
		FILE *f = fopen(path, "r");
		if (!f) continue;
		CHECK(fread(&id, sizeof id, 1, f) == 1);
		fclose(f);
		return id;
	}
	FAIL("no unique id in %s", path);
}

// Run f(0) … f(n-1), each on a thread of its own.
static inline void on_threads(int n, void *(*f)(void *)) {
	pthread_t t[64];
	for (long i = 0; i < n; i++) CHECK(pthread_create(&t[i], NULL, f, (void *)i) == 0);
	for (int i = 0; i < n; i++) pthread_join(t[i], NULL);
}
#endif
