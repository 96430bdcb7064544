// context LIBCUDA: memory goes to the GPU of the calling thread, and the thread's context stays what it was. The driver
// is a mock.
#include "test.h"
#include <dlfcn.h>

typedef void *context;
static int (*init)(unsigned), (*retain)(context *, int), (*set)(context), (*get)(context *),
	(*attributes)(unsigned, int *, void **, unsigned long long);

static void *resolve(void *lib, const char *name) {
	void *f = dlsym(lib, name);
	if (!f) FAIL("no %s", name);
	return f;
}

static int owner(void *p) {
	int which[] = {9}, ordinal = -1; // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
	void *out[] = {&ordinal};
	CHECK(attributes(1, which, out, (unsigned long long)(uintptr_t)p) == 0);
	return ordinal;
}

int main(int argc, char **argv) {
	CHECK(argc == 2);
	void *lib = dlopen(argv[1], RTLD_NOW);
	if (!lib) FAIL("%s", dlerror());
	*(void **)&init = resolve(lib, "cuInit");
	*(void **)&retain = resolve(lib, "cuDevicePrimaryCtxRetain");
	*(void **)&set = resolve(lib, "cuCtxSetCurrent");
	*(void **)&get = resolve(lib, "cuCtxGetCurrent");
	*(void **)&attributes = resolve(lib, "cuPointerGetAttributes");
	CHECK(init(0) == 0);
	context ctx[2], now_;
	for (int i = 0; i < 2; i++) CHECK(retain(&ctx[i], i) == 0);
	for (int i = 1; i >= 0; i--) {
		void *p;
		CHECK(set(ctx[i]) == 0);
		OK(ncclMemAlloc(&p, 4096));
		CHECK(get(&now_) == 0 && now_ == ctx[i]);
		if (owner(p) != i) FAIL("memory for GPU %d is on GPU %d", i, owner(p));
		CHECK(set(ctx[1 - i]) == 0);
		OK(ncclMemFree(p)); // from a thread that is elsewhere
		CHECK(get(&now_) == 0 && now_ == ctx[1 - i]);
	}
	CHECK(set(NULL) == 0); // a thread without a context uses GPU 0, and has none afterwards
	void *p;
	OK(ncclMemAlloc(&p, 4096));
	CHECK(get(&now_) == 0 && now_ == NULL);
	CHECK(set(ctx[1]) == 0 && owner(p) == 0);
	OK(ncclMemFree(p));
	return 0;
}
