// Calls with a configuration, and communicators with one of every version.
#include "test.h"

enum { N = 2, COUNT = 1000 };
static ncclComm_t comms[N];
static float in[N][N * COUNT], out[N][N * COUNT];

// all runs one call for every rank in a group and returns its result.
#define ALL(call) ({ \
	OK(ncclGroupStart()); \
	ncclResult_t bad_ = ncclSuccess; \
	for (int r = 0; r < N; r++) { \
		ncclComm_t comm = comms[r]; \
		float *send = in[r], *recv = out[r]; \
		ncclResult_t one_ = call; \
		if (one_) bad_ = one_; \
	} \
	ncclResult_t end_ = ncclGroupEnd(); \
	if (bad_ && bad_ != end_) FAIL("%s is %d, the group %d", #call, bad_, end_); \
	end_; \
})

static void values(const ncclCollConfig_t *c) {
	for (int r = 0; r < N; r++)
		for (int i = 0; i < N * COUNT; i++) in[r][i] = r + i % 7, out[r][i] = -1;
	OK(ALL(ncclAllReduceConfig(send, recv, COUNT, ncclFloat, ncclSum, comm, NULL, c)));
	for (int r = 0; r < N; r++) CHECK(out[r][8] == 3 && out[r][COUNT - 1] == 1 + 2 * ((COUNT - 1) % 7));
	OK(ALL(ncclReduceConfig(send, recv, COUNT, ncclFloat, ncclMax, 1, comm, NULL, c)));
	CHECK(out[1][8] == 2);
	OK(ALL(ncclBroadcastConfig(send, recv, COUNT, ncclFloat, 1, comm, NULL, c)));
	CHECK(out[0][8] == 2 && out[1][8] == 2);
	OK(ALL(ncclReduceScatterConfig(send, recv, COUNT, ncclFloat, ncclSum, comm, NULL, c)));
	CHECK(out[1][3] == 1 + 2 * ((COUNT + 3) % 7));
	OK(ALL(ncclAllGatherConfig(send, recv, COUNT, ncclFloat, comm, NULL, c)));
	CHECK(out[0][COUNT + 8] == 2 && out[1][8] == 1);
	OK(ALL(ncclAlltoAllConfig(send, recv, COUNT, ncclFloat, comm, NULL, c)));
	CHECK(out[1][3] == (COUNT + 3) % 7);
	OK(ALL(ncclGatherConfig(send, recv, COUNT, ncclFloat, 0, comm, NULL, c)));
	CHECK(out[0][COUNT + 8] == 2);
	OK(ALL(ncclScatterConfig(send, recv, COUNT, ncclFloat, 0, comm, NULL, c)));
	CHECK(out[1][3] == (COUNT + 3) % 7);
}

static ncclResult_t reduce(ncclCollConfig_t c) {
	return ALL(ncclAllReduceConfig(send, recv, COUNT, ncclFloat, ncclSum, comm, NULL, &c));
}

// option runs an all-reduce with one of goccl's options behind one of another vendor.
static ncclResult_t option(int id, ncclConfigExt_t e) {
	ncclCollConfig_t c = NCCL_COLLCONFIG_INITIALIZER;
	e.key.vendorId = GOCCL_VENDOR_ID, e.key.optionId = id;
	c.ext = &(ncclConfigExt_t){.next = &e, .key = {12345, 1}, .val.i = -7};
	return reduce(c);
}

static void extensions(void) {
	OK(option(GOCCL_OPTION_ALGORITHM, (ncclConfigExt_t){.val.s = "nothing, two_shot"}));
	EXPECT(option(GOCCL_OPTION_ALGORITHM, (ncclConfigExt_t){.val.s = "nonsense"}), ncclInvalidArgument);
	SAYS("nonsense");
	OK(option(GOCCL_OPTION_MAX_CTAS, (ncclConfigExt_t){.val.i = 4}));
	EXPECT(option(GOCCL_OPTION_MAX_CTAS, (ncclConfigExt_t){.val.i = 0}), ncclInvalidArgument);
	SAYS("goccl's option 2");
	for (int level = 0; level <= 3; level++) OK(option(GOCCL_OPTION_EXACT, (ncclConfigExt_t){.val.i = level}));
	EXPECT(option(GOCCL_OPTION_EXACT, (ncclConfigExt_t){.val.i = 4}), ncclInvalidArgument);
	SAYS("goccl's option 3");
	EXPECT(option(99, (ncclConfigExt_t){.val.i = 1}), ncclInvalidArgument);
	SAYS("goccl's option 99");
	ncclConfigExt_t both[] = {{&both[1], {GOCCL_VENDOR_ID, GOCCL_OPTION_MAX_CTAS}, {.i = 2}},
				  {NULL, {GOCCL_VENDOR_ID, GOCCL_OPTION_EXACT}, {.i = 3}}};
	ncclCollConfig_t c = NCCL_COLLCONFIG_INITIALIZER;
	c.ext = both;
	values(&c);
}

static void calls(void) {
	ncclCollConfig_t none = NCCL_COLLCONFIG_INITIALIZER, c = none;
	OK(ncclCommInitAll(comms, N, NULL));
	values(NULL);
	values(&none);
	c.ext = &(ncclConfigExt_t){.key = {12345, 1}, .val.i = 1}; // other vendors' options are ignored
	c.minCTAs = 2, c.maxCTAs = 8, c.nvlsCTAs = 4, c.cgaClusterSize = 2, c.CTAPolicy = NCCL_CTA_POLICY_ZERO;
	c.userProfilerTag = 77;
	values(&c);
	char names[32] = "nothing, Two_Shot"; // changed before the group ends
	c = none, c.algSelection = names;
	OK(ncclGroupStart());
	for (int r = 0; r < N; r++) OK(ncclAllReduceConfig(in[r], out[r], COUNT, ncclFloat, ncclSum, comms[r], NULL, &c));
	strcpy(names, "nonsense");
	OK(ncclGroupEnd());
	EXPECT(reduce(c), ncclInvalidArgument);
	SAYS("nonsense");
	c.forceAlgSelection = 0;
	OK(reduce(c));
	c.algSelection = "Tree", c.forceAlgSelection = 1; // NCCL's name for what has the fewest steps
	OK(reduce(c));
	c = none, c.magic = 0;
	EXPECT(reduce(c), ncclInvalidArgument);
	SAYS("NCCL_COLLCONFIG_INITIALIZER");
	c = none, c.minCTAs = 8, c.maxCTAs = 4;
	EXPECT(reduce(c), ncclInvalidArgument);
	SAYS("minCTAs");
	c = none, c.maxCTAs = 0;
	EXPECT(reduce(c), ncclInvalidArgument);
	c = none, c.CTAPolicy = 4;
	EXPECT(reduce(c), ncclInvalidArgument);
	SAYS("CTAPolicy");
	for (c.CTAPolicy = 0; c.CTAPolicy < 4; c.CTAPolicy++) OK(reduce(c));
	c = none, c.launchCompletionEvent = (cudaEvent_t)(void *)&c;
	EXPECT(reduce(c), ncclInvalidArgument);
	SAYS("event");
	c.size = offsetof(ncclCollConfig_t, launchCompletionEvent), c.version = 23102; // 2.31 has no event
	OK(reduce(c));
	extensions();
	for (int r = 0; r < N; r++) OK(ncclCommDestroy(comms[r]));
}

static ncclResult_t start(void *config, ncclComm_t *c) {
	ncclUniqueId id;
	OK(ncclGetUniqueId(&id));
	return ncclCommInitRankConfig(c, 1, id, 0, config);
}

static void communicators(void) {
	// A caller that is newer than this library: what follows the known fields is not read.
	struct { ncclConfig_t known; char unknown[64]; } newer = {NCCL_CONFIG_INITIALIZER};
	memset(newer.unknown, 0x77, sizeof newer.unknown);
	newer.known.size = sizeof newer, newer.known.version = 24000;
	newer.known.maxCTAs = 4, newer.known.CTAPolicy = NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO;
	ncclComm_t c;
	OK(start(&newer, &c));
	ncclCollConfig_t call = NCCL_COLLCONFIG_INITIALIZER;
	call.maxCTAs = 8;
	EXPECT(ncclAllReduceConfig(in, out, 1, ncclFloat, ncclSum, c, NULL, &call), ncclInvalidArgument);
	SAYS("max_ctas is 8, more than the communicator's 4");
	OK(ncclCommDestroy(c));
	ncclConfig_t none = NCCL_CONFIG_INITIALIZER, bad = none;
	bad.CTAPolicy = 4;
	EXPECT(start(&bad, &c), ncclInvalidArgument);
	SAYS("CTAPolicy");
	bad = none, bad.hostCftMode = ncclHostCftEnable;
	EXPECT(start(&bad, &c), ncclInvalidUsage);
	SAYS("CFT");
	bad.version = 23007; // did not have this field
	OK(start(&bad, &c));
	// Properties of every size.
	static const size_t sizes[] = {40, 56, 144, 152, 200};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct { ncclCommProperties_t p; char rest[64]; } p;
		memset(&p, 0x55, sizeof p);
		p.p.size = sizes[i], p.p.magic = NCCL_API_MAGIC, p.p.version = 0;
		OK(ncclCommQueryProperties(c, &p.p));
		CHECK(p.p.nRanks == 1 && p.p.rank == 0 && p.p.size == sizes[i] && !p.p.multimemSupport && p.p.ginType == 0);
		size_t known = sizes[i] < sizeof p.p ? sizes[i] : sizeof p.p;
		for (size_t k = known; k < sizeof p; k++)
			if (((unsigned char *)&p)[k] != 0x55) FAIL("size %zu: byte %zu was written", sizes[i], k);
		if (sizes[i] >= 144) CHECK(p.p.commHash && !p.p.ginSupport[2] && p.p.ginMinStride == 0);
	}
	OK(ncclCommDestroy(c));
	ncclEncryptionConfig_t e = NCCL_ENCRYPTION_CONFIG_INITIALIZER;
	OK(ncclSetEncryption(&e));
	e.mode = NCCL_ENCRYPTION_MODE_PSK, e.psk = "secret";
	EXPECT(ncclSetEncryption(&e), ncclInvalidUsage);
	SAYS("encrypted");
}

int main(void) {
	calls();
	communicators();
	return 0;
}
