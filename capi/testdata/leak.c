// leak N: N times a job of three ranks; threads, descriptors, mappings and memory must not grow with N.
#include "test.h"
#include <dirent.h>

static long count(const char *path) {
	long n = 0;
	DIR *d = opendir(path);
	while (d && readdir(d)) n++;
	if (d) closedir(d);
	return n;
}

static long lines(const char *path) {
	long n = 0;
	FILE *f = fopen(path, "r");
	for (int c; f && (c = fgetc(f)) != EOF;) n += c == '\n';
	if (f) fclose(f);
	return n;
}

static void job(int how) {
	ncclComm_t c[3], half[3];
	ncclUniqueId id;
	float x[3] = {1, 2, 3};
	if (how) {
		OK(ncclGetUniqueId(&id));
		OK(ncclGroupStart());
		for (int i = 0; i < 3; i++) OK(ncclCommInitRank(&c[i], 3, id, i));
		OK(ncclGroupEnd());
	} else
		OK(ncclCommInitAll(c, 3, NULL));
	OK(ncclGroupStart());
	for (int i = 0; i < 3; i++) OK(ncclCommSplit(c[i], i % 2, i, &half[i], NULL));
	OK(ncclGroupEnd());
	OK(ncclGroupStart());
	for (int i = 0; i < 3; i++) OK(ncclAllReduce(&x[i], &x[i], 1, ncclFloat, ncclSum, c[i], NULL));
	OK(ncclGroupEnd());
	CHECK(x[2] == 6);
	for (int i = 0; i < 3; i++) {
		OK(how ? ncclCommDestroy(half[i]) : ncclCommAbort(half[i]));
		OK(ncclCommDestroy(c[i]));
	}
}

int main(int argc, char **argv) {
	CHECK(argc == 2);
	for (int i = 0; i < 10; i++) job(i % 2);
	usleep(300000);
	long fds = count("/proc/self/fd"), threads = count("/proc/self/task"), maps = lines("/proc/self/maps");
	for (int i = 0; i < atoi(argv[1]); i++) job(i % 2);
	// Freeing goes on in the background. What every job left would be a hundred; threads, and their stacks, depend
	// on how many wait at a time.
	for (int i = 0; count("/proc/self/fd") > fds + 3 || count("/proc/self/task") > threads + 30 ||
			lines("/proc/self/maps") > maps + 150;
		i++, usleep(100000))
		if (i == 300)
			FAIL("descriptors %ld -> %ld, threads %ld -> %ld, mappings %ld -> %ld", fds,
				count("/proc/self/fd"), threads, count("/proc/self/task"), maps,
				lines("/proc/self/maps"));
	return 0;
}
