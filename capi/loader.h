// Loading libgoccl.so at the first call, for the libraries that are C alone: libnccl.so.2 and libmscclpp.so. A process
// that forks before that can use goccl in the child, because no thread of it exists yet.
#pragma once

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core.h"

// loader_beside finds the core in the directory of the library that self belongs to: first under the path by which that
// was opened, then with symbolic links resolved.
static int loader_beside(const void *self, char path[PATH_MAX]) {
	static const char name[] = "/libgoccl.so";
	Dl_info info;
	char real[PATH_MAX];
	if (!dladdr((void *)self, &info) || !info.dli_fname) return 0;
	const char *names[] = {info.dli_fname, realpath(info.dli_fname, real)};
	for (int i = 0; i < 2; i++) {
		const char *slash = names[i] ? strrchr(names[i], '/') : NULL;
		size_t n = slash ? (size_t)(slash - names[i]) : PATH_MAX;
		if (n + sizeof name > PATH_MAX) continue;
		memcpy(path, names[i], n);
		memcpy(path + n, name, sizeof name);
		if (access(path, R_OK) == 0) return 1;
	}
	return 0;
}

// loader_open opens the core that GOCCL_LIBRARY names, the one beside, or the one on the loader's search path, and
// fills in its functions. self is any address of the calling library. On -1, failure has the reason.
static int loader_open(const void *self, const char *library, struct core *core, char *failure, size_t size) {
	static const char *const names[] = {
#define DOOR(name, params, args) "goccl_" #name,
#include "zz_functions.h"
#undef DOOR
		"goccl_abi_version", "goccl_version", "goccl_result_name", "goccl_last_error", "goccl_release",
	};
	_Static_assert(sizeof names == sizeof *core, "a name for each function");
	char path[PATH_MAX];
	const char *named = getenv("GOCCL_LIBRARY");
	if (named && *named)
		snprintf(path, sizeof path, "%s", named);
	else if (!loader_beside(self, path))
		strcpy(path, "libgoccl.so");
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!lib) {
		const char *why = dlerror();
		snprintf(failure, size, "libgoccl.so cannot be loaded: %s: keep it beside %s, or name it with GOCCL_LIBRARY",
			 why ? why : "no such file", library);
		return -1;
	}
	void **slot = (void **)core;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!(slot[i] = dlsym(lib, names[i]))) {
			snprintf(failure, size, "libgoccl.so has no %s: it is of another release than this %s", names[i], library);
			return -1;
		}
	return 0;
}
