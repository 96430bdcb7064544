// leak N: N times a job of three ranks, beside a communicator that stays. Threads, descriptors, mappings and memory
// must not grow with N.
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

static long resident_kb(void) {
	long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	CHECK(f && fscanf(f, "%*d %ld", &pages) == 1);
	fclose(f);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static ncclComm_t parent[3];

// child makes communicators of the parent, and leaves to their end what they own.
static void child(void) {
	ncclComm_t c[3];
	ncclWindow_t win[3];
	ncclRedOp_t op;
	void *memory[3], *region;
	float two = 2;
	OK(ncclGroupStart());
	for (int i = 0; i < 3; i++) OK(ncclCommSplit(parent[i], 0, -i, &c[i], NULL));
	OK(ncclGroupEnd());
	for (int i = 0; i < 3; i++) OK(ncclMemAlloc(&memory[i], 1 << 20));
	OK(ncclGroupStart());
	for (int i = 0; i < 3; i++) {
		OK(ncclRedOpCreatePreMulSum(&op, &two, ncclFloat, ncclScalarHostImmediate, c[i]));
		OK(ncclCommRegister(c[i], memory[i], 1 << 20, &region));
		OK(ncclCommWindowRegister(c[i], memory[i], 1 << 20, &win[i], NCCL_WIN_COLL_SYMMETRIC));
	}
	OK(ncclGroupEnd());
	OK(ncclGroupStart());
	for (int i = 0; i < 3; i++) OK(ncclAllReduce(memory[i], memory[i], 1 << 18, ncclFloat, ncclSum, c[i], NULL));
	OK(ncclGroupEnd());
	for (int i = 0; i < 3; i++) OK(ncclCommDestroy(c[i]));
	for (int i = 0; i < 3; i++) OK(ncclMemFree(memory[i]));
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
	child();
}

int main(int argc, char **argv) {
	CHECK(argc == 2);
	OK(ncclCommInitAll(parent, 3, NULL));
	for (int i = 0; i < 20; i++) job(i % 2);
	usleep(300000);
	long memory = resident_kb();
	long fds = count("/proc/self/fd"), threads = count("/proc/self/task"), maps = lines("/proc/self/maps");
	for (int i = 0; i < atoi(argv[1]); i++) job(i % 2);
	// Frees end in the background. A leak of a job would count twice or more times N; threads, and their stacks, depend
	// on how many wait at a time. Go's heap and the C library's pools take a few megabytes in the first hundreds.
	for (int i = 0; count("/proc/self/fd") > fds + 3 || count("/proc/self/task") > threads + 30 ||
			lines("/proc/self/maps") > maps + 150 || resident_kb() > memory + (16 << 10);
		i++, usleep(100000))
		if (i == 300)
			FAIL("descriptors %ld -> %ld, threads %ld -> %ld, mappings %ld -> %ld, kB %ld -> %ld", fds,
				count("/proc/self/fd"), threads, count("/proc/self/task"), maps, lines("/proc/self/maps"),
				memory, resident_kb());
	return 0;
}
