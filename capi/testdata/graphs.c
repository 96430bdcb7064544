// graphs LIBCUDA: graphUsageMode decides whether a communicator leaves nodes of its own in a graph, which order its
// launches. The driver is a mock.
#include "test.h"
#include <dlfcn.h>

typedef void *handle;
static int (*init)(unsigned), (*retain)(handle *, int), (*set)(handle), (*create)(handle *, unsigned, int),
	(*begin)(handle, int), (*end)(handle, handle *), (*count)(handle, handle *, size_t *);

static void *resolve(void *lib, const char *name) {
	void *f = dlsym(lib, name);
	if (!f) FAIL("no %s", name);
	return f;
}

// nodes are those of a graph of one all-reduce.
static size_t nodes(handle *ctx, int mode) {
	ncclUniqueId id;
	ncclComm_t comm[2];
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	if (mode >= 0) config.graphUsageMode = mode;
	OK(ncclGetUniqueId(&id));
	OK(ncclGroupStart());
	for (int i = 0; i < 2; i++) {
		CHECK(set(ctx[i]) == 0);
		OK(ncclCommInitRankConfig(&comm[i], 2, id, i, &config));
	}
	OK(ncclGroupEnd());
	handle stream, graph;
	void *p;
	size_t n = 0;
	CHECK(set(ctx[0]) == 0);
	OK(ncclMemAlloc(&p, 4096));
	CHECK(create(&stream, 1, 0) == 0 && begin(stream, 2) == 0);
	OK(ncclAllReduce(p, p, 16, ncclFloat, ncclSum, comm[0], stream));
	CHECK(end(stream, &graph) == 0 && count(graph, NULL, &n) == 0);
	for (int i = 0; i < 2; i++) OK(ncclCommAbort(comm[i]));
	OK(ncclMemFree(p));
	return n;
}

int main(int argc, char **argv) {
	CHECK(argc == 2);
	void *lib = dlopen(argv[1], RTLD_NOW);
	if (!lib) FAIL("%s", dlerror());
	*(void **)&init = resolve(lib, "cuInit");
	*(void **)&retain = resolve(lib, "cuDevicePrimaryCtxRetain");
	*(void **)&set = resolve(lib, "cuCtxSetCurrent");
	*(void **)&create = resolve(lib, "cuStreamCreateWithPriority");
	*(void **)&begin = resolve(lib, "cuStreamBeginCapture_v2");
	*(void **)&end = resolve(lib, "cuStreamEndCapture");
	*(void **)&count = resolve(lib, "cuGraphGetNodes");
	CHECK(init(0) == 0);
	handle ctx[2];
	for (int i = 0; i < 2; i++) CHECK(retain(&ctx[i], i) == 0);
	static const struct { int mode; size_t nodes; } cases[] = {{-1, 3}, {2, 3}, {1, 1}, {0, 1}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		size_t n = nodes(ctx, cases[i].mode);
		if (n != cases[i].nodes) FAIL("graphUsageMode %d: %zu nodes, not %zu", cases[i].mode, n, cases[i].nodes);
	}
	return 0;
}
