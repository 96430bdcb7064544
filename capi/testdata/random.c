// random SEED ROUNDS: communicators of two ranks, each rank a thread, are used, split, finalized, destroyed and aborted
// at random: from any thread, in groups and outside, twice, after errors. No call hangs, and each result is one that
// NCCL's interface allows at that point.
#include "test.h"
#include <signal.h>

static unsigned seed;
static ncclUniqueId id;
static ncclComm_t shared[2]; // for the meddler
static int meddles;
static const char *volatile doing[3] = {"", "", ""};

static unsigned draw(unsigned *s, unsigned n) {
	*s = *s * 1664525u + 1013904223u;
	return (*s >> 8) % n;
}

static void allowed(ncclResult_t r, const char *what) {
	if (r == ncclInternalError || r == ncclSystemError || r == ncclUnhandledCudaError || r >= ncclNumResults)
		FAIL("seed %u: %s is %d: %s", seed, what, r, ncclGetLastError(NULL));
}
#define ALLOWED(call) (doing[me] = #call, allowed(call, #call))

// The end of a communicator, in one of many ways. Afterwards the handle is known as destroyed.
static void end(int me, unsigned *s, ncclComm_t c) {
	unsigned how = draw(s, 6), group = draw(s, 2);
	int x;
	if (group) OK(ncclGroupStart());
	if (how & 1) ALLOWED(ncclCommFinalize(c));
	if (how == 3) ALLOWED(ncclCommFinalize(c));
	if (how == 4) ALLOWED(ncclCommRevoke(c, NCCL_REVOKE_DEFAULT));
	if (how < 4) ALLOWED(ncclCommDestroy(c));
	else ALLOWED(ncclCommAbort(c));
	if (group) ALLOWED(ncclGroupEnd());
	EXPECT(ncclCommCount(c, &x), ncclInvalidArgument);
	EXPECT(draw(s, 2) ? ncclCommDestroy(c) : ncclCommAbort(c), ncclInvalidArgument);
}

static void *rank(void *p) {
	int me = (int)(long)p;
	unsigned s = seed * 2 + (unsigned)me, common = seed; // common: what both ranks do
	ncclConfig_t cfg = NCCL_CONFIG_INITIALIZER;
	cfg.blocking = !draw(&s, 3) ? 0 : 1;
	ncclComm_t c, child = NULL;
	ncclResult_t r = ncclCommInitRankConfig(&c, 2, id, me, &cfg);
	for (; r == ncclInProgress; usleep(200)) OK(ncclCommGetAsyncError(c, &r));
	CHECK(r == ncclSuccess);
	__atomic_store_n(&shared[me], c, __ATOMIC_RELEASE);
	float v[64] = {1}, w[64];
	for (unsigned i = draw(&common, 4); i > 0; i--) {
		switch (draw(&common, 3)) {
		case 0: ALLOWED(ncclAllReduce(v, w, 64, ncclFloat, ncclSum, c, NULL)); break;
		case 1:
			OK(ncclGroupStart());
			ALLOWED(ncclSend(v, 64, ncclFloat, 1 - me, c, NULL));
			ALLOWED(ncclRecv(w, 64, ncclFloat, 1 - me, c, NULL));
			if (draw(&s, 4) == 0) { // this rank's group fails
				r = ncclReduce(v, w, 1, ncclFloat, ncclSum, 9, c, NULL);
				CHECK(r == ncclInvalidArgument || (meddles && r == ncclInvalidUsage)); // it may be finalized
			}
			ALLOWED(ncclGroupEnd());
			break;
		default: ALLOWED(ncclCommGetAsyncError(c, &r));
		}
		if (draw(&s, 8) == 0) goto out; // this rank gives up early: the other must not hang
	}
	if (draw(&common, 3) == 0) {
		r = ncclCommSplit(c, 0, me, &child, NULL);
		allowed(r, "ncclCommSplit");
		for (double stop = now() + 60; child && r == ncclInProgress && now() < stop; usleep(200))
			ALLOWED(ncclCommGetAsyncError(child, &r));
		if (r == ncclSuccess && child) ALLOWED(ncclAllReduce(v, w, 64, ncclFloat, ncclSum, child, NULL));
	}
out:
	if (child && draw(&s, 2)) end(me, &s, child), child = NULL;
	if (meddles) { // another thread ends it, perhaps while this one does
		ncclCommFinalize(c);
		ncclCommAbort(c);
	} else
		end(me, &s, c);
	if (child) end(me, &s, child);
	doing[me] = "nothing";
	return NULL;
}

static void *meddler(void *p) {
	int me = 2;
	(void)p;
	unsigned s = seed * 7 + 5;
	for (int i = 0; i < 2; i++) {
		ncclComm_t c;
		while (!(c = __atomic_load_n(&shared[i], __ATOMIC_ACQUIRE))) usleep(100);
		usleep(draw(&s, 2000));
		switch (draw(&s, 3)) {
		case 0: ALLOWED(ncclCommAbort(c)); break;
		case 1: ALLOWED(ncclCommFinalize(c)); break;
		default: ALLOWED(ncclCommRevoke(c, NCCL_REVOKE_DEFAULT));
		}
	}
	doing[2] = "nothing";
	return NULL;
}

static void stuck(int sig) {
	(void)sig;
	FAIL("seed %u hangs, meddler %d: %s | %s | %s", seed, meddles, doing[0], doing[1], doing[2]);
}

int main(int argc, char **argv) {
	CHECK(argc == 3);
	signal(SIGALRM, stuck);
	unsigned first = (unsigned)strtoul(argv[1], NULL, 10), rounds = (unsigned)atoi(argv[2]);
	for (seed = first; seed != first + rounds; seed++) {
		alarm(60);
		meddles = seed % 4 == 0;
		shared[0] = shared[1] = NULL;
		OK(ncclGetUniqueId(&id));
		pthread_t t;
		if (meddles) CHECK(pthread_create(&t, NULL, meddler, NULL) == 0);
		on_threads(2, rank);
		if (meddles) pthread_join(t, NULL);
	}
	return 0;
}
