// A core that accepts every call. goccl_submit prints through how many frames of libnccl.so.2 it was called.
#define _GNU_SOURCE
#include "../nccl/shim.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <string.h>

__attribute__((used)) static goccl_result accept_call(void) { return GOCCL_SUCCESS; }

#define ACCEPT(name) __asm__(".weak goccl_" #name "\n.set goccl_" #name ", accept_call");
#define DOOR(name, params, args) ACCEPT(name)
#include "../zz_functions.h"
#undef DOOR
ACCEPT(version)
ACCEPT(result_name)
ACCEPT(last_error)
ACCEPT(release)

uint32_t own_version(void) __asm__("goccl_abi_version");
uint32_t own_version(void) { return GOCCL_ABI_VERSION; }

goccl_result own_submit(const goccl_request *, uint64_t) __asm__("goccl_submit");
goccl_result own_submit(const goccl_request *reqs, uint64_t n) {
	void *pc[32];
	Dl_info at;
	int frames = 0;
	for (int i = backtrace(pc, 32) - 1; i > 0; i--) frames += dladdr(pc[i], &at) && strstr(at.dli_fname, "libnccl.so.2");
	printf("%d\n", reqs && n == 1 ? frames : -1);
	return GOCCL_SUCCESS;
}
