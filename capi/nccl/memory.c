// Memory, registration and operators.
#include "shim.h"

#include <stdlib.h>

#define BAD(...) return shim_remember(shim_fail(ncclInvalidArgument, __VA_ARGS__))

ncclResult_t pncclMemAlloc(void **ptr, size_t size) {
	if (!ptr) BAD("ncclMemAlloc: ptr is NULL");
	*ptr = NULL;
	NEED_CORE;
	goccl_device device;
	ncclResult_t r = shim_result(core.device_current(0, &device), "ncclMemAlloc");
	return r ? r : shim_result(core.alloc(device, size, ptr), "ncclMemAlloc");
}
WEAK(ncclMemAlloc);

ncclResult_t pncclMemFree(void *ptr) {
	if (!ptr || shim_exiting(0)) return ncclSuccess;
	NEED_CORE;
	goccl_result r = core.free(ptr);
	return shim_exiting(r) ? ncclSuccess : shim_result(r, "ncclMemFree");
}
WEAK(ncclMemFree);

// A registration is a hint: collectives work on all memory. The returned pointer identifies the registration. A
// symmetric window is registered in the core, so that copy engines reach the peers where they are enabled.
#define MAGIC 0x676f63636c77696eull
struct region { uint64_t magic; goccl_comm comm; void *ptr; size_t size; goccl_window window; };

static ncclResult_t enter(ncclComm_t comm, void *buff, size_t size, void **out, const char *what) {
	if (!out) BAD("%s: the place for the handle is NULL", what);
	*out = NULL;
	NEED_CORE;
	goccl_comm_info i;
	ncclResult_t r = shim_result(core.comm_info_get(handle(comm), &i), what);
	if (r) return shim_remember(r);
	if (!buff || !size) return ncclSuccess;
	struct region *w = malloc(sizeof *w);
	if (!w) return shim_remember(shim_fail(ncclSystemError, "%s: out of memory", what));
	*w = (struct region){.magic = MAGIC, .comm = handle(comm), .ptr = buff, .size = size};
	*out = w;
	return ncclSuccess;
}

static ncclResult_t leave(void *h, const char *what) {
	struct region *w = h;
	if (!w) return ncclSuccess;
	if (w->magic != MAGIC) BAD("%s: %p is no handle of a registration", what, h);
	goccl_window window = w->window;
	w->magic = 0;
	free(w);
	if (!window || shim_exiting(0)) return ncclSuccess;
	goccl_result r = core.window_deregister(window);
	return shim_exiting(r) ? ncclSuccess : shim_remember(shim_result(r, what));
}

ncclResult_t pncclCommRegister(const ncclComm_t comm, void *buff, size_t size, void **h) { return enter(comm, buff, size, h, "ncclCommRegister"); }
WEAK(ncclCommRegister);

ncclResult_t pncclCommDeregister(const ncclComm_t comm, void *h) {
	(void)comm;
	return leave(h, "ncclCommDeregister");
}
WEAK(ncclCommDeregister);

ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win, int flags) {
	static const char what[] = "ncclCommWindowRegister";
	const int known = NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING; // every window has the property that the second flag requests
	if (win) *win = NULL;
	if (flags & ~known) BAD("%s: flags %#x: only NCCL_WIN_COLL_SYMMETRIC and NCCL_WIN_STRICT_ORDERING are known", what, (unsigned)flags);
	ncclResult_t r = enter(comm, buff, size, (void **)win, what);
	if (r || !*win || !(flags & NCCL_WIN_COLL_SYMMETRIC)) return r;
	struct region *w = (struct region *)*win;
	if ((r = shim_result(core.window_register(w->comm, buff, size, &w->window), what))) {
		leave(w, what);
		*win = NULL;
		return shim_remember(r);
	}
	return ncclSuccess;
}
WEAK(ncclCommWindowRegister);

ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win) {
	(void)comm;
	return leave(win, "ncclCommWindowDeregister");
}
WEAK(ncclCommWindowDeregister);

ncclResult_t pncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void **out) {
	(void)comm;
	struct region *w = (struct region *)win;
	if (!out || !w || w->magic != MAGIC) BAD("ncclWinGetUserPtr: window %p, result at %p", (void *)win, (void *)out);
	*out = w->ptr;
	return ncclSuccess;
}
WEAK(ncclWinGetUserPtr);

ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype, ncclScalarResidence_t residence, ncclComm_t comm) {
	static const char what[] = "ncclRedOpCreatePreMulSum";
	if (!op) BAD("%s: op is NULL", what);
	if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate) BAD("%s: residence %d", what, (int)residence);
	NEED_CORE;
	uint32_t made;
	ncclResult_t r = shim_remember(shim_result(core.op_create(handle(comm), datatype, scalar, residence == ncclScalarHostImmediate, &made), what));
	if (!r) *op = (ncclRedOp_t)made;
	return r;
}
WEAK(ncclRedOpCreatePreMulSum);

ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
	if ((unsigned)op < ncclNumOps) BAD("ncclRedOpDestroy: %d is NCCL's own operator", (int)op);
	NEED_CORE;
	return shim_remember(shim_result(core.op_destroy(handle(comm), op), "ncclRedOpDestroy"));
}
WEAK(ncclRedOpDestroy);
