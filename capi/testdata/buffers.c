// buffers HOW BYTES RANK FILE: rank 1 of 3 brings a bad buffer. Its call fails and names the address; nobody waits for
// ever.
#include "test.h"
#include <sys/mman.h>

enum { RANKS = 3 };

static size_t bytes;

// bad is a buffer that cannot take all bytes: a short allocation, or an address where nothing is mapped or can be
// written.
static void *bad(const char *how) {
	void *p = NULL;
	if (!strcmp(how, "hole")) p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	else if (!strcmp(how, "readonly")) p = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	else if (!strcmp(how, "low")) p = (void *)0x10;
	else if (!strcmp(how, "wild")) p = (void *)0x1234000000000000;
	else OK(ncclMemAlloc(&p, 4096));
	CHECK(p && p != MAP_FAILED);
	return p;
}

// gave_up is the file that tells of a peer's error.
static const char *gave_up(const char *id, int rank) {
	static char path[512];
	snprintf(path, sizeof path, "%s.%d", id, rank);
	return path;
}

int main(int argc, char **argv) {
	CHECK(argc == 5);
	const char *how = argv[1];
	bytes = atol(argv[2]);
	if (!strcmp(how, "stay"))
		setenv("GOCCL_OP_TIMEOUT", "500ms",
			1); // without it the peers wait for a corrected call, and a warning names this rank
	int rank = atoi(argv[3]), faults = strstr("hole readonly low wild", how) != NULL;
	ncclUniqueId id = share_id(argv[4], rank);
	ncclComm_t c;
	void *send, *recv, *wrong = NULL;
	char address[32];
	OK(ncclCommInitRank(&c, RANKS, id, rank));
	OK(ncclMemAlloc(&send, bytes));
	OK(ncclMemAlloc(&recv, bytes));
	memset(send, 1, bytes);
	OK(ncclAllReduce(send, recv, bytes, ncclInt8, ncclSum, c, NULL));
	if (rank == 1) {
		wrong = bad(how);
		snprintf(address, sizeof address, "%p", wrong);
	}
	ncclResult_t r = ncclAllReduce(send, wrong ? wrong : recv, bytes, ncclInt8, ncclSum, c, NULL);
	if (faults) { // found in the middle of the work, which a peer may have ended: then the next call fails
		if (rank != 1 && !r) r = ncclAllReduce(send, recv, bytes, ncclInt8, ncclSum, c, NULL);
		CHECK(r != ncclSuccess);
		if (rank == 1) SAYS(address);
		OK(ncclCommAbort(c));
		return 0;
	}
	if (rank == 1) { // found at the call: nothing has begun
		CHECK(r == ncclInvalidArgument);
		SAYS(address);
		if (!strcmp(how, "exit")) return 0;
		if (!strcmp(how, "stay")) { // until the peers' deadline has passed; then it is too late to come
			for (int peer = 0; peer < RANKS; peer += 2) {
				double end = now() + 60;
				while (access(gave_up(argv[4], peer), F_OK)) CHECK(now() < end && !usleep(1000));
			}
			EXPECT(ncclAllReduce(send, recv, bytes, ncclInt8, ncclSum, c, NULL), ncclRemoteError);
		}
		if (!strcmp(how, "again")) OK(ncclAllReduce(send, recv, bytes, ncclInt8, ncclSum, c, NULL));
		if (!strcmp(how, "abort")) OK(ncclCommAbort(c));
		else OK(ncclCommDestroy(c));
		return 0;
	}
	if (!strcmp(how, "again")) {
		if (r) FAIL("the peers of a corrected call: %d %s", r, ncclGetLastError(NULL));
		CHECK(((char *)recv)[bytes - 1] == RANKS);
		OK(ncclCommDestroy(c));
		return 0;
	}
	if (r != ncclRemoteError) FAIL("the peers of a refused call: %d %s", r, ncclGetLastError(NULL));
	SAYS("peer 1");
	CHECK(fclose(fopen(gave_up(argv[4], rank), "w")) == 0);
	OK(ncclCommAbort(c));
	return 0;
}
