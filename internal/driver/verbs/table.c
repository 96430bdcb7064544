//go:build cgo && linux

#include "table.h"

#include <dlfcn.h>
#include <stdio.h>

gocclverbs_table gocclverbs;

int gocclverbs_load(const char *path, char *text, int size) {
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		const char *e = dlerror();
		snprintf(text, size, "%s", e ? e : "dlopen failed");
		return 1;
	}
	gocclverbs_table t;
#define MUST(name, result, params) \
	if (!(t.name = (result(*) params)dlsym(lib, #name))) { \
		snprintf(text, size, "%s has no %s: it is too old", path, #name); \
		dlclose(lib); \
		return 2; \
	}
#define MAY(name, result, params) t.name = (result(*) params)dlsym(lib, #name);
	GOCCL_VERBS(MUST, MAY)
	gocclverbs = t;
	// Pages under registration stay the parent's after a fork. Kernels since 5.12 see to it themselves.
	gocclverbs.ibv_fork_init();
	return 0;
}

const char *gocclverbs_status(int status) { return gocclverbs.ibv_wc_status_str(status); }
const char *gocclverbs_event_name(int type) { return gocclverbs.ibv_event_type_str(type); }
