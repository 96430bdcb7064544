// What a caller does wrong, and what the library tells without a communicator. Prints nothing when all is as it should
// be.
#include "test.h"
#include <dlfcn.h>

static void library(void) {
	int v = 0;
	OK(ncclGetVersion(&v));
	CHECK(v == 22809);
	setenv("GOCCL_NCCL_VERSION", "2.30.7", 1);
	OK(ncclGetVersion(&v));
	CHECK(v == 23007);
	setenv("GOCCL_NCCL_VERSION", "22705", 1);
	OK(ncclGetVersion(&v));
	CHECK(v == 22705);
	unsetenv("GOCCL_NCCL_VERSION");
	EXPECT(ncclGetVersion(NULL), ncclInvalidArgument);
	static const char *const texts[] = {"no error", "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
		"unhandled system error (run with NCCL_DEBUG=INFO for details)",
		"internal error - please report this issue to the NCCL developers",
		"invalid argument (run with NCCL_DEBUG=WARN for details)",
		"invalid usage (run with NCCL_DEBUG=WARN for details)",
		"remote process exited or there was a network error", "NCCL operation in progress", "timeout",
		"unknown result code"};
	for (int i = 0; i <= ncclNumResults; i++)
		if (strcmp(ncclGetErrorString(i), texts[i])) FAIL("error string %d is %s", i, ncclGetErrorString(i));
}

static void groups(void) {
	EXPECT(ncclGroupEnd(), ncclInvalidUsage);
	SAYS("ncclGroupStart");
	OK(ncclGroupStart());
	OK(ncclGroupStart());
	OK(ncclGroupEnd());
	OK(ncclGroupEnd());
	EXPECT(ncclGroupEnd(), ncclInvalidUsage);
	ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
	OK(ncclGroupStart());
	OK(ncclGroupSimulateEnd(&info));
	CHECK(info.estimatedTime == 0);
	OK(ncclGroupStart());
	info.magic = 1;
	EXPECT(ncclGroupSimulateEnd(&info), ncclInvalidArgument);
	EXPECT(ncclGroupEnd(), ncclInvalidArgument); // remembered; the group is over now
	EXPECT(ncclGroupEnd(), ncclInvalidUsage);
}

static void configs(void) {
	ncclUniqueId id;
	ncclComm_t c;
	OK(ncclGetUniqueId(&id));
	ncclConfig_t ok = NCCL_CONFIG_INITIALIZER, bad = ok;
	bad.magic = 0;
	EXPECT(ncclCommInitRankConfig(&c, 1, id, 0, &bad), ncclInvalidArgument);
	SAYS("NCCL_CONFIG_INITIALIZER");
	CHECK(c == NULL);
	bad = ok, bad.blocking = 2;
	EXPECT(ncclCommInitRankConfig(&c, 1, id, 0, &bad), ncclInvalidArgument);
	SAYS("blocking");
	bad = ok, bad.minCTAs = 8, bad.maxCTAs = 4;
	EXPECT(ncclCommInitRankConfig(&c, 1, id, 0, &bad), ncclInvalidArgument);
	// A caller of 2.14 knows 24 bytes; what lies behind them, and what its version did not have, is not looked at.
	bad = ok, bad.size = 24, bad.version = 21400, bad.maxCTAs = -5, bad.graphUsageMode = 77;
	OK(ncclCommInitRankConfig(&c, 1, id, 0, &bad));
	OK(ncclCommDestroy(c));
	// 2.30.3 and 2.30.7 have the same size; the last field is padding for the older one.
	bad = ok, bad.version = 23003, bad.graphStreamOrdering = 12345;
	OK(ncclGetUniqueId(&id));
	OK(ncclCommInitRankConfig(&c, 1, id, 0, &bad));
	OK(ncclCommDestroy(c));
	OK(ncclGetUniqueId(&id));
	OK(ncclCommInitRankScalable(&c, 1, 0, 1, &id, NULL));
	OK(ncclCommDestroy(c));
	EXPECT(ncclCommInitRank(&c, 2, id, 2), ncclInvalidArgument);
	EXPECT(ncclCommInitRank(&c, 0, id, 0), ncclInvalidArgument);
	EXPECT(ncclCommInitRank(NULL, 1, id, 0), ncclInvalidArgument);
	memset(&id, 7, sizeof id);
	EXPECT(ncclCommInitRank(&c, 1, id, 0), ncclInvalidArgument);
	SAYS("UniqueID");
	int device = 0;
	EXPECT(ncclCommInitAll(&c, 0, &device), ncclInvalidArgument);
}

static void comms(void) {
	ncclComm_t c, gone, two[2];
	int x;
	float v[4] = {1, 2, 3, 4}, w[4];
	OK(ncclCommInitAll(&c, 1, NULL));
	gone = c;
	ncclResult_t async = 99;
	OK(ncclCommGetAsyncError(c, &async));
	CHECK(async == ncclSuccess);
	EXPECT(ncclAllReduce(v, w, 4, 12, ncclSum, c, NULL), ncclInvalidArgument);
	SAYS("type");
	EXPECT(ncclAllReduce(v, w, 4, ncclFloat, 5, c, NULL), ncclInvalidArgument);
	EXPECT(ncclAllReduce(v, w, 4, ncclFloat, 0x10000, c, NULL), ncclInvalidArgument);
	EXPECT(ncclAllReduce(NULL, w, 4, ncclFloat, ncclSum, c, NULL), ncclInvalidArgument);
	SAYS("NULL");
	EXPECT(ncclAllReduce(v, w, (size_t)-1, ncclFloat, ncclSum, c, NULL), ncclInvalidArgument);
	EXPECT(ncclBroadcast(v, w, 4, ncclFloat, 1, c, NULL), ncclInvalidArgument);
	EXPECT(ncclSend(v, 4, ncclFloat, -1, c, NULL), ncclInvalidArgument);
	EXPECT(ncclAllReduce(v, w, 4, ncclFloat, ncclSum, c, (cudaStream_t)0x7777), ncclInvalidUsage);
	SAYS("stream");
	OK(ncclAllReduce(NULL, NULL, 0, ncclFloat, ncclSum, c, NULL));
	// An error in a group is told twice, and nothing of the group happens.
	w[0] = -1;
	OK(ncclGroupStart());
	OK(ncclAllReduce(v, w, 1, ncclFloat, ncclSum, c, NULL));
	EXPECT(ncclReduce(v, w, 1, ncclFloat, ncclSum, 9, c, NULL), ncclInvalidArgument);
	EXPECT(ncclGroupEnd(), ncclInvalidArgument);
	CHECK(w[0] == -1);
	OK(ncclAllReduce(v, w, 1, ncclFloat, ncclSum, c, NULL));
	CHECK(w[0] == 1);
	// A simulated group enqueues nothing.
	w[0] = -1;
	OK(ncclGroupStart());
	OK(ncclAllReduce(v, w, 1, ncclFloat, ncclSum, c, NULL));
	OK(ncclGroupSimulateEnd(NULL));
	CHECK(w[0] == -1);
	float times[3]; // of one all-reduce, of a larger one, of both
	for (int i = 0; i < 3; i++) {
		ncclSimInfo_t sim = NCCL_SIM_INFO_INITIALIZER;
		OK(ncclGroupStart());
		if (i != 1) OK(ncclAllReduce(v, w, 1, ncclFloat, ncclSum, c, NULL));
		if (i != 0) OK(ncclAllReduce(v, v, 1 << 28, ncclFloat, ncclSum, c, NULL)); // enqueues nothing
		OK(ncclGroupSimulateEnd(&sim));
		times[i] = sim.estimatedTime;
	}
	CHECK(times[0] > 0 && times[1] > 100 * times[0] && fabsf(times[2] - times[0] - times[1]) < 1e-3f * times[2]);
	// Operators belong to one communicator and one type.
	ncclRedOp_t op;
	float two_ = 2;
	OK(ncclCommInitAll(two, 2, NULL));
	OK(ncclRedOpCreatePreMulSum(&op, &two_, ncclFloat, ncclScalarHostImmediate, c));
	CHECK(op >= ncclNumOps);
	OK(ncclAllReduce(v, w, 4, ncclFloat, op, c, NULL));
	CHECK(w[3] == 8);
	EXPECT(ncclAllReduce(v, w, 2, ncclDouble, op, c, NULL), ncclInvalidArgument);
	EXPECT(ncclAllReduce(v, w, 4, ncclFloat, op, two[1], NULL), ncclInvalidArgument);
	EXPECT(ncclRedOpDestroy(op, two[1]), ncclInvalidArgument);
	OK(ncclRedOpDestroy(op, c));
	EXPECT(ncclRedOpDestroy(op, c), ncclInvalidArgument);
	EXPECT(ncclRedOpDestroy(ncclSum, c), ncclInvalidArgument);
	OK(ncclRedOpCreatePreMulSum(&op, &two_, ncclFloat, ncclScalarDevice, c)); // read when the collective runs
	two_ = 3;
	OK(ncclAllReduce(v, w, 4, ncclFloat, op, c, NULL));
	CHECK(w[3] == 12);
	// Properties and registrations.
	ncclCommProperties_t p = NCCL_COMM_PROPERTIES_INITIALIZER;
	OK(ncclCommQueryProperties(two[1], &p));
	CHECK(p.rank == 1 && p.nRanks == 2 && !p.deviceApiSupport && !p.multimemSupport && p.nLsaTeams == 1);
	ncclTeam_t team = ncclTeamLsa(two[1]);
	CHECK(team.nRanks == 2 && team.rank == 1 && team.stride == 1);
	void *handle, *ptr;
	ncclWindow_t win;
	OK(ncclMemAlloc(&ptr, 8192));
	memset(ptr, 1, 8192);
	OK(ncclCommRegister(c, ptr, 8192, &handle));
	CHECK(handle);
	OK(ncclCommDeregister(c, handle));
	OK(ncclCommDeregister(c, NULL));
	OK(ncclCommWindowRegister(c, ptr, 8192, &win, NCCL_WIN_COLL_SYMMETRIC));
	void *back = NULL;
	OK(ncclWinGetUserPtr(c, win, &back));
	CHECK(back == ptr);
	OK(ncclCommWindowDeregister(c, win));
	OK(ncclCommWindowRegister(c, ptr, 4096, &win, 0));
	OK(ncclCommWindowDeregister(c, win));
	EXPECT(ncclCommWindowRegister(c, ptr, (size_t)-1, &win, NCCL_WIN_COLL_SYMMETRIC), ncclInvalidArgument);
	CHECK(!win);
	win = (ncclWindow_t)(void *)&x;
	EXPECT(ncclCommWindowRegister(c, ptr, 4096, &win, 4), ncclInvalidArgument);
	SAYS("flags 0x4");
	CHECK(!win);
	OK(ncclCommWindowRegister(c, ptr, 4096, &win, NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING));
	OK(ncclCommWindowDeregister(c, win));
	ncclWindow_t many[3], kept;
	OK(ncclGroupStart()); // by one thread for several ranks
	for (int r = 0; r < 2; r++)
		OK(ncclCommWindowRegister(two[r], (char *)ptr + 4096 * r, 4096, &many[r], NCCL_WIN_COLL_SYMMETRIC));
	OK(ncclGroupEnd());
	for (int r = 0; r < 2; r++) OK(ncclCommWindowDeregister(two[r], many[r]));
	OK(ncclCommWindowRegister(c, ptr, 4096, &kept, NCCL_WIN_COLL_SYMMETRIC)); // ends with the communicator
	OK(ncclCommWindowRegister(c, NULL, 0, &win, NCCL_WIN_COLL_SYMMETRIC));
	CHECK(!win);
	OK(ncclCommWindowDeregister(c, NULL));
	OK(ncclMemFree(ptr));
	OK(ncclMemFree(NULL));
	EXPECT(ncclMemFree(&x), ncclInvalidArgument);
	// The end, and after it.
	OK(ncclCommDestroy(c));
	EXPECT(ncclCommCount(gone, &x), ncclInvalidArgument);
	SAYS("destroyed");
	EXPECT(ncclAllReduce(v, w, 4, ncclFloat, ncclSum, gone, NULL), ncclInvalidArgument);
	EXPECT(ncclCommDestroy(gone), ncclInvalidArgument);
	EXPECT(ncclCommCount((ncclComm_t)(void *)v, &x), ncclInvalidArgument);
	SAYS("corrupted");
	EXPECT(ncclCommGetAsyncError(gone, &async), ncclInvalidArgument);
	OK(ncclCommDestroy(NULL));
	OK(ncclCommAbort(NULL));
	OK(ncclCommFinalize(NULL));
	OK(ncclCommRevoke(NULL, 0));
	OK(ncclCommDestroy(two[0]));
	OK(ncclCommDestroy(two[1]));
}

// Everything that is not there says so, by its name.
static void unsupported(void) {
	ncclComm_t c = NULL;
#define NO(call, name) do { EXPECT(call, ncclInvalidUsage); SAYS(name); SAYS("not supported"); } while (0)
	ncclTeam_t team = {0};
	NO(ncclGinBarrierCreateRequirement(c, team, 0, NULL, NULL), "ncclGinBarrierCreateRequirement");
	NO(ncclGinOutboxCreateRequirement(0, 0, NULL, NULL), "ncclGinOutboxCreateRequirement");
	NO(ncclGinInboxA2ACreateRequirement(team, 0, 0, NULL, NULL), "ncclGinInboxA2ACreateRequirement");
	uint32_t le;
	size_t at;
	NO(ncclGetCftDeviceLeInfo(NULL, 0, 0, team, &le, &at), "ncclGetCftDeviceLeInfo");
	NO(ncclGetPeerDeviceLeInfo(NULL, 0, 0, &le, &at), "ncclGetPeerDeviceLeInfo");
	NO(ncclGetMultimemDeviceLeInfo(NULL, 0, &le, &at), "ncclGetMultimemDeviceLeInfo");
	CHECK(ncclTeamCft(c, NCCL_CFT_TEAM_FLAT).nRanks == 0);
	SAYS("ncclTeamCft");
	CHECK(ncclTeamCftMultimem(c).nRanks == 0);
	SAYS("ncclTeamCftMultimem");
	ncclParamHandle_t param = NULL; // a pointer, as in NVIDIA's header since 2.30.7
	_Static_assert(sizeof param == sizeof(void *), "ncclParamHandle_t");
	NO(ncclParamBind(&param, NULL), "ncclParamBind");
	NO(ncclParamGetI8(NULL, NULL), "ncclParamGetI8");
	NO(ncclParamGetI16(NULL, NULL), "ncclParamGetI16");
	NO(ncclParamGetI32(NULL, NULL), "ncclParamGetI32");
	NO(ncclParamGetI64(NULL, NULL), "ncclParamGetI64");
	NO(ncclParamGetU8(NULL, NULL), "ncclParamGetU8");
	NO(ncclParamGetU16(NULL, NULL), "ncclParamGetU16");
	NO(ncclParamGetU32(NULL, NULL), "ncclParamGetU32");
	NO(ncclParamGetU64(NULL, NULL), "ncclParamGetU64");
	NO(ncclParamGetStr(NULL, NULL), "ncclParamGetStr");
	NO(ncclParamGet(NULL, NULL, 0, NULL), "ncclParamGet");
	NO(ncclParamGetParameter(NULL, NULL, NULL), "ncclParamGetParameter");
	NO(ncclParamGetAllParameterKeys(NULL, NULL), "ncclParamGetAllParameterKeys");
	ncclParamDumpAll();
	SAYS("ncclParamDumpAll");
	// The twins are the same functions.
	EXPECT(pncclParamBind(&param, NULL), ncclInvalidUsage);
	SAYS("ncclParamBind");
	// In a group the refusal fails the group.
	OK(ncclGroupStart());
	NO(ncclParamGetStr(NULL, NULL), "ncclParamGetStr");
	EXPECT(ncclGroupEnd(), ncclInvalidUsage);
}

static void *last_error(void *p) {
	(void)p;
	SAYS("0x1234");
	return NULL;
}

int main(void) {
	CHECK(ncclGetLastError(NULL)[0] == 0);
	library();
	groups();
	comms();
	configs();
	unsupported();
	// The last error is the process's.
	ncclComm_t c = (ncclComm_t)(void *)0x10;
	ncclCommAbort(c);
	EXPECT(ncclParamGetStr(NULL, NULL), ncclInvalidUsage);
	SAYS("ncclParamGetStr");
	ncclMemFree((void *)0x1234);
	SAYS("0x1234");
	on_threads(1, last_error);
	return 0;
}
