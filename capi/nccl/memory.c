// Memory, registration and operators.
#include "shim.h"

#include <pthread.h>
#include <stdlib.h>

NCCL(MemAlloc, void **ptr, size_t size) {
	if (!ptr) BAD("ncclMemAlloc: ptr is NULL");
	*ptr = NULL;
	NEED_CORE;
	goccl_device device;
	ncclResult_t r = shim_result(core.device_current(0, &device), SELF);
	return r ? r : shim_result(core.alloc(device, size, ptr), SELF);
}

NCCL(MemFree, void *ptr) {
	if (!ptr || shim_exiting(0)) return ncclSuccess;
	NEED_CORE;
	goccl_result r = core.free(ptr);
	return shim_exiting(r) ? ncclSuccess : shim_result(r, SELF);
}

// A registration is a hint: collectives work on all memory. The returned pointer identifies the registration. It is
// compared with the list's entries and never read through, so a wrong one is refused.
struct region {
	struct region *next;
	goccl_comm comm;
};
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct region *regions; // guarded by mu

// forget_regions frees the registrations of a communicator, or the one at h, and returns their number.
static int forget_regions(goccl_comm comm, const void *h) {
	int n = 0;
	pthread_mutex_lock(&mu);
	for (struct region **p = &regions; *p;) {
		struct region *w = *p;
		if (w->comm != comm || (h && w != h)) {
			p = &w->next;
			continue;
		}
		*p = w->next, n++;
		free(w);
	}
	pthread_mutex_unlock(&mu);
	return n;
}

void shim_regions_end(goccl_comm comm) { forget_regions(comm, NULL); }

NCCL(CommRegister, const ncclComm_t comm, void *buff, size_t size, void **h) {
	if (!h) BAD("%s: the place for the handle is NULL", SELF);
	*h = NULL;
	NEED_CORE;
	goccl_comm_info i;
	ncclResult_t r = shim_result(core.comm_info_get(handle(comm), &i), SELF);
	if (r) return shim_remember(r);
	if (!buff || !size) return ncclSuccess;
	struct region *w = malloc(sizeof *w);
	if (!w) return shim_remember(shim_fail(ncclSystemError, "%s: out of memory", SELF));
	pthread_mutex_lock(&mu);
	*w = (struct region){regions, handle(comm)}, regions = w;
	pthread_mutex_unlock(&mu);
	*h = w;
	return ncclSuccess;
}

NCCL(CommDeregister, const ncclComm_t comm, void *h) {
	if (!h || forget_regions(handle(comm), h)) return ncclSuccess;
	BAD("ncclCommDeregister: %p is no registration of this communicator", h);
}

NCCL(RedOpCreatePreMulSum, ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
	ncclScalarResidence_t residence, ncclComm_t comm) {
	if (!op) BAD("%s: op is NULL", SELF);
	if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate)
		BAD("%s: residence %d", SELF, (int)residence);
	NEED_CORE;
	uint32_t made;
	ncclResult_t r = shim_remember(shim_result(
		core.op_create(handle(comm), datatype, scalar, residence == ncclScalarHostImmediate, &made), SELF));
	if (!r) *op = (ncclRedOp_t)made;
	return r;
}

NCCL(RedOpDestroy, ncclRedOp_t op, ncclComm_t comm) {
	if ((unsigned)op < ncclNumOps) BAD("ncclRedOpDestroy: %d is NCCL's own operator", (int)op);
	NEED_CORE;
	return shim_remember(shim_result(core.op_destroy(handle(comm), op), SELF));
}
