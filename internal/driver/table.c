//go:build cgo && linux

#include "api.h"

#include <dlfcn.h>
#include <stdio.h>

goccl_table goccl_cu;

#define GOCCL_NAME(name, params) #name,
static const char *const api_names[] = {GOCCL_API(GOCCL_NAME, GOCCL_NAME)};

const char *goccl_driver_api(uint32_t index) { return index < API_count ? api_names[index] : "?"; }

int goccl_driver_load(const char *path, char *text, int size) {
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		const char *e = dlerror();
		snprintf(text, size, "%s", e ? e : "dlopen failed");
		return 1;
	}
	goccl_table t;
	void **slot = (void **)&t;
#define MUST(name, params) \
	if (!(slot[API_##name] = dlsym(lib, #name))) { \
		snprintf(text, size, "%s has no %s: the driver is too old", path, #name); \
		dlclose(lib); \
		return 2; \
	}
#define MAY(name, params) slot[API_##name] = dlsym(lib, #name);
	GOCCL_API(MUST, MAY)
	goccl_cu = t;
	return 0;
}

void goccl_driver_error(int code, const char **name, const char **text) {
	*name = *text = NULL;
	if (goccl_cu.cuGetErrorName) goccl_cu.cuGetErrorName(code, name);
	if (goccl_cu.cuGetErrorString) goccl_cu.cuGetErrorString(code, text);
}

void goccl_driver_context(uint64_t *get, uint64_t *set) {
	*get = (uint64_t)(uintptr_t)goccl_cu.cuCtxGetCurrent;
	*set = (uint64_t)(uintptr_t)goccl_cu.cuCtxSetCurrent;
}

uint64_t goccl_driver_current(void) {
	CUcontext c = NULL;
	goccl_cu.cuCtxGetCurrent(&c);
	return (uint64_t)(uintptr_t)c;
}

void goccl_driver_set_current(uint64_t ctx) { goccl_cu.cuCtxSetCurrent((CUcontext)(uintptr_t)ctx); }
