// Every function of both libraries that takes a handle gets values that are no handles of its kind: 0, garbage, freed
// handles, and handles of other kinds. It must refuse them as invalid arguments and change nothing.
#include "../goccl.h"
#include "../goccl_moe.h"
#include "../goccl_primitive.h"
#include "test.h"

#include <dlfcn.h>

enum { MOST = 16, SCRATCH = 1 << 16 };
struct function { const char *library, *name, *params; };
static const struct function functions[] = {
#define DOOR(name, params, args) {"libgoccl.so", "goccl_" #name, #params},
#include "../zz_functions.h"
#define NCCL_API(ret, name, ...) {"libnccl.so.2", #name, "(" #__VA_ARGS__ ")"},
#define NCCL_LACKS(feature, name, ...) NCCL_API(ncclResult_t, name, __VA_ARGS__)
#include "../nccl/api.h"
};

// What harmless ends are: they succeed without a handle, or with one that is freed.
static const char *const none_is_fine[] = {"ncclCommDestroy", "ncclCommAbort", "ncclCommFinalize", "ncclCommRevoke",
	"ncclCommDeregister", "ncclCommWindowDeregister", "ncclMemFree", NULL};
static const char *const freed_is_fine[] = {"goccl_window_deregister", "goccl_object_close", "goccl_fusion_destroy",
	"goccl_moe_destroy", NULL};
// What goccl lacks is refused as invalid usage, whatever the arguments.
static const char *const unsupported[] = {"ncclGetCftDeviceLeInfo", "ncclGetPeerDeviceLeInfo",
	"ncclGetMultimemDeviceLeInfo", "ncclGinBarrierCreateRequirement", NULL};
// A window that ends with its communicator may be deregistered after it.
static const char *const comm_may_be_gone[] = {"ncclCommWindowDeregister", NULL};
// Functions without a result, or whose arguments do not fit in registers. They have their own lines in main.
static const char *const apart[] = {"ncclCommInitRank", "ncclCommInitRankConfig", "ncclGetErrorString",
	"ncclGetLastError",
	"ncclTeamWorld", "ncclTeamLsa", "ncclTeamRail", "ncclTeamCft", "ncclTeamCftMultimem", "ncclTeamRankToWorld",
	"ncclTeamRankToLsa", "ncclDevCommDestroy", "ncclAlltoAllv", "ncclDevCommCreate", NULL};
static int in(const char *const *list, const char *name) {
	for (; *list; list++)
		if (!strcmp(*list, name)) return 1;
	return 0;
}

enum kind {
	DEVICE, BOOTSTRAP, COMM, WINDOW, MOE, FUSION, OBJECT, NCCL_COMM, NCCL_WINDOW, OPERATOR, REGION, KINDS, PLAIN
};
static const char *const types[KINDS] = {"goccl_device ", "goccl_bootstrap ", "goccl_comm ", "goccl_window ",
	"goccl_moe ", "goccl_fusion ", "goccl_object ", "ncclComm_t ", "ncclWindow_t ", "ncclRedOp_t ", "void *handle"};
static uint64_t valid[KINDS], freed[KINDS];

static char scratch[MOST][SCRATCH];
static void nothing(void *p) { (void)p; }

// A parameter's kind, and a harmless value.
static enum kind kind_of(const char *text, const char *name, int at, uint64_t *value) {
	for (int k = 0; k < KINDS; k++) {
		const char *p = strstr(text, types[k]);
		if (k == REGION ? p && !strcmp(name, "ncclCommDeregister") : p && !strchr(text, '*')) {
			*value = valid[k];
			return k;
		}
	}
	*value = strstr(text, "ount") || strstr(text, "size") || strstr(text, "tokens") || strstr(text, " n");
	if (strstr(text, "timeout")) *value = 1000000;
	if (strstr(text, "atatype")) *value = ncclFloat;
	if (strstr(text, "buffer") || strstr(text, "uintptr_t send") || strstr(text, "uintptr_t recv"))
		*value = (uintptr_t)scratch[at];
	if (strchr(text, '*') || strchr(text, '['))
		*value = strstr(text, "onfig") ? 0 : strstr(text, "(*f)") ? (uintptr_t)nothing : (uintptr_t)scratch[at];
	return PLAIN;
}

static int calls, wrong;
static void try_function(const struct function *f, void *library) {
	char text[2048], *param[MOST];
	uint64_t a[MOST] = {0};
	enum kind kinds[MOST];
	int n = 0, depth = 0;
	snprintf(text, sizeof text, "%s", f->params + 1);
	text[strlen(text) - 1] = 0;
	param[n++] = text;
	for (char *p = text; *p; p++) {
		depth += (*p == '(') - (*p == ')');
		if (*p == ',' && !depth) *p = 0, param[n++] = p + 1;
	}
	union { void *p; uint32_t (*f)(uint64_t, ...); } u = {dlsym(library, f->name)};
	uint32_t (*call)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
		uint64_t, uint64_t) = (void *)u.p;
	CHECK(u.p);
	for (int i = 0; i < n; i++) kinds[i] = kind_of(param[i], f->name, i, &a[i]);
	for (int i = 0; i < n; i++) {
		if (kinds[i] == PLAIN) continue;
		uint64_t good = a[i], bad[10 + KINDS] = {0, 0xdeadbeef, 0xdeadbeefdeadbeef, (uintptr_t)&good, ~0ull, 16,
			good ^ 1ull << 40, good ^ 1 << 12, freed[kinds[i]]};
		int m = 9;
		for (int k = 0; k < KINDS; k++)
			if (types[k][0] == types[kinds[i]][0] && valid[k] != good) bad[m++] = valid[k];
		for (int j = 0; j < m; j++) {
			if (bad[j] == good) continue; // malloc has given out a freed address again
			if (kinds[i] == DEVICE && j == 8) continue; // devices stay open
			if (kinds[i] == OBJECT && bad[j] == valid[MOE]) continue; // it is an object
			uint32_t op = (uint32_t)bad[j];
			if (kinds[i] == OPERATOR && (op < ncclNumOps || op == good)) continue; // a built-in one, or the same
			a[i] = bad[j];
			memset(scratch, 0, sizeof scratch);
			uint32_t r = call(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
			calls++;
			int fine = r == ncclInvalidArgument || (!bad[j] && !r && in(none_is_fine, f->name)) ||
				   (6 <= j && j < 9 && !r && in(freed_is_fine, f->name)) ||
				   (r == ncclInvalidUsage && in(unsupported, f->name)) ||
				   (kinds[i] == NCCL_COMM && !r && in(comm_may_be_gone, f->name));
			if (!fine) wrong++, printf("%s, argument %d (%s) %#lx, case %d: result %u\n", f->name, i, param[i],
					(unsigned long)bad[j], j, r);
		}
		a[i] = good;
	}
}

static void *core, *nccl;
#define CORE(name) ((__typeof__(goccl_##name) *)dlsym(core, "goccl_" #name))
#define DONE(x) do { goccl_result r_ = (x); if (r_) FAIL("%s is %d: %s", #x, r_, CORE(last_error)()); } while (0)

// objects makes handles of the core; those of the first call are freed.
static void objects(uint64_t *h) {
	goccl_comm_config config = {.size = sizeof config};
	goccl_moe_size size = {.size = sizeof size, .bytes = 1 << 20};
	void *memory;
	DONE(CORE(device_open)(GOCCL_DEVICE_HOST, 0, &h[DEVICE]));
	DONE(CORE(bootstrap_local)(1, &h[BOOTSTRAP]));
	DONE(CORE(comm_create)(h[BOOTSTRAP], h[DEVICE], &config, &h[COMM]));
	DONE(CORE(alloc)(h[DEVICE], 1 << 20, &memory));
	DONE(CORE(flat_register)(h[COMM], memory, 1 << 20, &h[WINDOW]));
	DONE(CORE(moe_create)(h[COMM], &size, &h[MOE]));
	DONE(CORE(context_create)(0, 0, &h[OBJECT]));
}

static void registrations(ncclComm_t c, uint64_t *h) {
	float two = 2;
	ncclRedOp_t op;
	void *memory, *region;
	ncclWindow_t win;
	OK(ncclRedOpCreatePreMulSum(&op, &two, ncclFloat, ncclScalarHostImmediate, c));
	OK(ncclMemAlloc(&memory, 1 << 20));
	OK(ncclCommRegister(c, memory, 1 << 20, &region));
	OK(ncclCommWindowRegister(c, memory, 1 << 20, &win, NCCL_WIN_COLL_SYMMETRIC));
	h[NCCL_COMM] = (uintptr_t)c, h[OPERATOR] = op, h[REGION] = (uintptr_t)region, h[NCCL_WINDOW] = (uintptr_t)win;
}

// absent passes NULL where a function reads a structure: the error names the argument.
static void absent(void) {
	goccl_moe_offsets offsets;
	CHECK(CORE(moe_layout)(valid[MOE], NULL, &offsets) == GOCCL_INVALID_ARGUMENT);
	CHECK(strstr(CORE(last_error)(), "shape is NULL"));
	CHECK(CORE(moe_count)(valid[MOE], NULL) == GOCCL_INVALID_ARGUMENT);
	CHECK(strstr(CORE(last_error)(), "args is NULL"));
}

// foreign gives handles to another communicator, and none to functions that try_function leaves out.
static void foreign(ncclComm_t gone) {
	void *p;
	ncclComm_t other;
	OK(ncclCommInitAll(&other, 1, NULL));
	EXPECT(ncclCommDeregister(other, (void *)valid[REGION]), ncclInvalidArgument);
	SAYS("no registration of this communicator");
	EXPECT(ncclCommWindowDeregister(other, (ncclWindow_t)valid[NCCL_WINDOW]), ncclInvalidArgument);
	EXPECT(ncclWinGetUserPtr(other, (ncclWindow_t)valid[NCCL_WINDOW], &p), ncclInvalidArgument);
	EXPECT(ncclRedOpDestroy((ncclRedOp_t)valid[OPERATOR], other), ncclInvalidArgument);
	OK(ncclCommDestroy(other));
	for (int j = 0; j < 3; j++) {
		ncclComm_t bad = j == 0 ? NULL : j == 1 ? gone : (ncclComm_t)(void *)scratch;
		CHECK(ncclTeamWorld(bad).nRanks == 0 && ncclTeamLsa(bad).nRanks == 0 && ncclTeamRail(bad).nRanks == 0);
		EXPECT(ncclDevCommCreate(bad, (void *)scratch[0], (void *)scratch[1]), ncclInvalidArgument);
		EXPECT(ncclAllToAllv(scratch, (void *)scratch[1], (void *)scratch[2], scratch, (void *)scratch[1],
			       (void *)scratch[2], ncclFloat, bad, NULL), ncclInvalidArgument);
		EXPECT(ncclAlltoAllv(scratch, (void *)scratch[1], (void *)scratch[2], scratch, (void *)scratch[1],
			       (void *)scratch[2], NULL, ncclFloat, bad, NULL), ncclInvalidArgument);
	}
}

int main(void) {
	core = dlopen("libgoccl.so", RTLD_NOW), nccl = dlopen("libnccl.so.2", RTLD_NOW);
	CHECK(core && nccl);
	ncclComm_t c, gone;
	for (int again = 0; again < 2; again++) {
		objects(again ? valid : freed);
		OK(ncclCommInitAll(&c, 1, NULL));
		registrations(c, again ? valid : freed);
		if (again) break;
		OK(ncclRedOpDestroy((ncclRedOp_t)freed[OPERATOR], c));
		OK(ncclCommDestroy(gone = c));
		DONE(CORE(window_deregister)(freed[WINDOW]));
		DONE(CORE(moe_destroy)(freed[MOE]));
		DONE(CORE(comm_destroy)(freed[COMM]));
		DONE(CORE(bootstrap_close)(freed[BOOTSTRAP]));
		DONE(CORE(object_close)(freed[OBJECT]));
	}
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
		if (!in(apart, functions[i].name))
			try_function(&functions[i], functions[i].library[3] == 'g' ? core : nccl);
	CHECK(calls > 2000 && !wrong);
	foreign(gone);
	absent();
	// What is valid still works, and ends once.
	float x[4] = {1, 2, 3, 4}, y[4];
	OK(ncclAllReduce(x, y, 4, ncclFloat, (ncclRedOp_t)valid[OPERATOR], c, NULL));
	CHECK(y[3] == 8);
	OK(ncclCommDeregister(c, (void *)valid[REGION]));
	EXPECT(ncclCommDeregister(c, (void *)valid[REGION]), ncclInvalidArgument);
	OK(ncclCommWindowDeregister(c, (ncclWindow_t)valid[NCCL_WINDOW]));
	EXPECT(ncclCommWindowDeregister(c, (ncclWindow_t)valid[NCCL_WINDOW]), ncclInvalidArgument);
	DONE(CORE(window_deregister)(valid[WINDOW]));
	DONE(CORE(moe_destroy)(valid[MOE]));
	DONE(CORE(comm_destroy)(valid[COMM]));
	DONE(CORE(bootstrap_close)(valid[BOOTSTRAP]));
	DONE(CORE(object_close)(valid[OBJECT]));
	OK(ncclCommDestroy(c));
	return 0;
}
