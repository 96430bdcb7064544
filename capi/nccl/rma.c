// One-sided operations: puts into windows, signals, and waits for them. Puts and signals run at once, also in a group,
// since they wait for nobody. Waits of a group run at its end.
#include "plugged.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(ncclWaitSignalDesc_t) == sizeof(goccl_signal_wait), "ncclWaitSignalDesc_t");

NCCL(PutSignal, const void *buf, size_t count, ncclDataType_t type, int peer, ncclWindow_t win,
	size_t offset, int sig, int ctx, unsigned int flags, ncclComm_t comm, cudaStream_t stream) {
	NEED_CORE;
	struct shim_window *w = shim_window(win);
	size_t size;
	shim_request_type(&(goccl_request){.type = type}, &size);
	if (!size || flags || count > SIZE_MAX / size / 2)
		BAD("%s: %zu elements of type %d, flags %#x", SELF, count, type, flags);
	if (!w || w->comm != handle(comm)) BAD("%s: %p is no window of this communicator", SELF, (void *)win);
	if (!w->at.base) BAD("%s: the window cannot be reached: %s", SELF, w->reason ? w->reason : "use ncclMemAlloc");
	return shim_remember(shim_result(
		core.put_signal(w->flat, offset, buf, count * size, peer, ctx, sig, (uintptr_t)stream), SELF));
}

NCCL(Signal, int peer, int sig, int ctx, unsigned int flags, ncclComm_t comm, cudaStream_t stream) {
	if (flags) BAD("ncclSignal: flags %#x", flags);
	NEED_CORE;
	return shim_remember(shim_result(core.signal(handle(comm), peer, ctx, sig, (uintptr_t)stream), SELF));
}

struct waits { ncclComm_t comm; cudaStream_t stream; int n; ncclWaitSignalDesc_t descs[]; };

static ncclResult_t await(void *what, int given_up) {
	struct waits *w = what;
	ncclResult_t r = ncclSuccess;
	if (!given_up)
		r = shim_result(core.wait_signal(handle(w->comm), w->n, (const goccl_signal_wait *)w->descs, (uintptr_t)w->stream),
			"ncclWaitSignal");
	free(w);
	return r;
}

NCCL(WaitSignal, int n, ncclWaitSignalDesc_t *descs, ncclComm_t comm, cudaStream_t stream) {
	if (n < 1 || !descs) BAD("ncclWaitSignal: %d descriptors at %p", n, (void *)descs);
	NEED_CORE;
	struct waits *w = malloc(sizeof *w + (size_t)n * sizeof *descs);
	if (!w) return shim_remember(shim_fail(ncclSystemError, "ncclWaitSignal: out of memory"));
	*w = (struct waits){.comm = comm, .stream = stream, .n = n};
	memcpy(w->descs, descs, (size_t)n * sizeof *descs);
	return shim_later(handle(comm), await, w);
}
