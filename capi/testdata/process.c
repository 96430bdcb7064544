// process fork | exit | late | reload LIBRARY: what happens around the library in a process.
#include "test.h"
#include <dlfcn.h>

static int threads(void) {
	char line[256];
	int n = -1;
	FILE *f = fopen("/proc/self/status", "r");
	while (f && fgets(line, sizeof line, f)) sscanf(line, "Threads: %d", &n);
	if (f) fclose(f);
	return n;
}

static int child(int (*f)(void)) {
	pid_t pid = fork();
	if (pid == 0) _exit(f());
	int status = -1;
	CHECK(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int use(void) { // a whole job in this process
	ncclComm_t c[2];
	float x[2] = {1, 2};
	OK(ncclCommInitAll(c, 2, NULL));
	OK(ncclGroupStart());
	for (int i = 0; i < 2; i++) OK(ncclAllReduce(&x[i], &x[i], 1, ncclFloat, ncclSum, c[i], NULL));
	OK(ncclGroupEnd());
	CHECK(x[0] == 3 && x[1] == 3);
	OK(ncclCommDestroy(c[0]));
	OK(ncclCommDestroy(c[1]));
	return 0;
}

static ncclComm_t parents;

static int refused(void) { // every way in, and none hangs
	ncclUniqueId id;
	ncclComm_t c;
	float v = 1;
	int x;
	alarm(60);
	EXPECT(ncclGetUniqueId(&id), ncclSystemError);
	SAYS("forked");
	EXPECT(ncclCommInitAll(&c, 1, NULL), ncclSystemError);
	EXPECT(ncclAllReduce(&v, &v, 1, ncclFloat, ncclSum, parents, NULL), ncclSystemError);
	EXPECT(ncclCommCount(parents, &x), ncclSystemError);
	EXPECT(ncclCommDestroy(parents), ncclSystemError);
	EXPECT(ncclCommAbort(parents), ncclSystemError);
	OK(ncclGetVersion(&x));
	OK(ncclGroupStart());
	EXPECT(ncclAllReduce(&v, &v, 1, ncclFloat, ncclSum, parents, NULL), ncclSystemError);
	EXPECT(ncclGroupEnd(), ncclSystemError);
	return 0;
}

static void *busy(void *p) {
	(void)p;
	ncclComm_t c;
	float *v = calloc(1 << 20, sizeof *v);
	if (ncclCommInitAll(&c, 1, NULL)) return NULL;
	while (ncclAllReduce(v, v, 1 << 20, ncclFloat, ncclSum, c, NULL) == ncclSuccess) {}
	return NULL;
}

static int late;
static void *memory;

// The program's own destructors run before the libraries'; this one waits in another library's place, by running last
// of all.
static void last_words(void *p) {
	(void)p;
	ncclResult_t async = 99;
	if (!late) return;
	OK(ncclCommGetAsyncError(parents, &async));
	CHECK(async == ncclSuccess);
	OK(ncclCommFinalize(parents));
	OK(ncclCommAbort(parents));
	OK(ncclCommDestroy(NULL));
	OK(ncclMemFree(memory));
}

__attribute__((destructor)) static void last(void) { last_words(NULL); }

int main(int argc, char **argv) {
	CHECK(argc > 1);
	if (!strcmp(argv[1], "fork")) {
		int v;
		OK(ncclGetVersion(&v));
		OK(ncclGroupStart());
		OK(ncclGroupEnd());
		CHECK(threads() == 1); // nothing has started yet
		CHECK(child(use) == 0); // a child forked before the first use may use the library
		CHECK(threads() == 1);
		CHECK(use() == 0);
		CHECK(threads() > 1);
		OK(ncclCommInitAll(&parents, 1, NULL));
		for (int i = 0; i < 20; i++) CHECK(child(refused) == 0);
		CHECK(use() == 0); // the parent goes on
		CHECK(system("true") == 0);
		return 0;
	}
	if (!strcmp(argv[1], "late")) {
		OK(ncclCommInitAll(&parents, 1, NULL));
		OK(ncclMemAlloc(&memory, 4096));
		late = 1;
		return 0;
	}
	if (!strcmp(argv[1], "exit")) {
		pthread_t t;
		for (int i = 0; i < 4; i++) pthread_create(&t, NULL, busy, NULL);
		usleep(50000);
		return 0; // with all of them inside calls
	}
	CHECK(argc == 3);
	ncclResult_t (*version)(int *) = NULL;
	void *first = NULL;
	for (int i = 0; i < 3; i++) {
		void *lib = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
		if (!lib) FAIL("%s", dlerror());
		version = (ncclResult_t(*)(int *))dlsym(lib, "ncclGetVersion");
		ncclResult_t (*id)(ncclUniqueId *) = (ncclResult_t(*)(ncclUniqueId *))dlsym(lib, "ncclGetUniqueId");
		ncclUniqueId u;
		int v = 0;
		CHECK(version && version(&v) == ncclSuccess && v == 22809 && id && id(&u) == ncclSuccess);
		CHECK(!first || first == (void *)version);
		first = (void *)version;
		CHECK(dlclose(lib) == 0);
	}
	int v = 0;
	CHECK(version(&v) == ncclSuccess); // it has not gone
	return 0;
}
