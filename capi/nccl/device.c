// The host half of NCCL's device API, for load and store (LSA): all ranks are one team, whose memory kernels address.
//
// ncclDevCommCreate
//
// 1. Finds the layout of the caller's structures (device_layout.h). Programs of 2.29 and later name their version. The
//    requirements of 2.28 have no mark: pointers are where newer ones have the magic number. They are taken for 2.28.7
//    or later, or for the version of GOCCL_NCCL_VERSION if that is 2.28.
// 2. Refuses by name what needs multicast, GIN or CFT.
// 3. Gives every resource a place in one buffer, zeroed, which becomes a separate window.
// 4. At once or at the end of the group, waits for the other ranks and writes the caller's ncclDevComm.
#include "device_layout.h"
#include "shim.h"

#include <stdlib.h>
#include <string.h>

#define NO(what, ...) return shim_remember(shim_fail(ncclInvalidUsage, what " is not supported by goccl: " __VA_ARGS__))

static const struct devcomm_layout *unversioned(void) {
	int v = shim_version();
	return devcomm_layout(v >= DEVCOMM_FIRST && v < 22807 ? DEVCOMM_FIRST : 22807);
}

// read_requirements brings the caller's requirements into the newest form and returns the layout of its ncclDevComm.
static const struct devcomm_layout *read_requirements(const void *in, struct requirements *out) {
	const struct requirements *marked = in;
	memset(out, 0, sizeof *out);
	if (marked->magic != NCCL_API_MAGIC) {
		const struct devcomm_layout *l = unversioned();
		if (l->since == 22803) {
			const struct requirements_22803 *old = in;
			out->r.resources = old->resources, out->r.teams = old->teams, out->r.multimem = old->multimem,
			out->r.lsa_barriers = old->lsa_barriers;
		} else
			memcpy(&out->r, in, offsetof(struct requirements_22807, gin_connection));
		out->version = l->since;
		return l;
	}
	memcpy(out, in, marked->size < sizeof *out ? marked->size : sizeof *out);
	if (out->r.runtime_version) out->version = (unsigned)shim_version();
	return devcomm_layout(out->version);
}

// A device communicator that is being made.
struct making {
	struct shim_window *resources;  // NULL: it needs none
	const struct devcomm_layout *layout;
	unsigned version;
	ncclComm_t comm;
	void *out;
	struct lsa_barrier barrier, hybrid;
};

// The reciprocal by which kernels divide 32-bit numbers by n.
static uint32_t reciprocal(uint32_t n) { return UINT32_MAX / n + !(n & (n - 1)); }

static void put(char *at, unsigned offset, const void *value, size_t size) { memcpy(at + offset, value, size); }

static ncclResult_t made(void *p, int given_up) {
	static const char what[] = "ncclDevCommCreate";
	struct making m = *(struct making *)p;
	free(p);
	struct shim_window *w = m.resources;
	if (given_up) return w ? shim_window_close(w, what) : ncclSuccess;
	ncclResult_t r = w ? shim_window_finish(w, what) : ncclSuccess;
	if (r) return r;
	if (w && !w->at.base) {
		r = shim_fail(ncclInvalidUsage, "%s: the ranks cannot map each other's memory: %s", what, w->reason);
		shim_window_close(w, what);
		return shim_remember(r);
	}
	goccl_comm_info i;
	uint64_t table = shim_window_table(handle(m.comm));
	if (!table || (r = shim_result(core.comm_info_get(handle(m.comm), &i), what))) {
		if (!r)
			r = shim_fail(ncclUnhandledCudaError, "%s: no device memory for the table of windows: %s", what,
			        core.last_error());
		if (w) shim_window_close(w, what);
		return shim_remember(r);
	}
	const struct devcomm_layout *l = m.layout;
	uint32_t n = (uint32_t)i.size, head[2] = {NCCL_API_MAGIC, m.version};
	struct ranks ranks = {i.rank, i.size, reciprocal(n), i.rank, i.size, reciprocal(n)};
	memset(m.out, 0, l->size);
	if (l->versioned) put(m.out, 0, head, sizeof head);
	put(m.out, l->ranks, &ranks, sizeof ranks);
	put(m.out, l->table, &table, sizeof table);
	put(m.out, l->barrier, &m.barrier, sizeof m.barrier);
	if (l->hybrid) put(m.out, l->hybrid, &m.hybrid, sizeof m.hybrid);
	if (!w) return ncclSuccess;
	uint64_t window = (uintptr_t)w->device;
	uint32_t stride = (uint32_t)(w->at.stride >> 32);
	put(m.out, l->window, &window, sizeof window);
	put(m.out, l->base, &w->at.base, sizeof w->at.base);
	put(m.out, l->stride4G, &stride, sizeof stride);
	if (l->abort) put(m.out, l->abort, &w->at.abort, sizeof w->at.abort);
	return ncclSuccess;
}

// place gives a resource of size bytes its place and returns its number.
static uint32_t place(size_t *total, size_t size, size_t align) {
	if (align < 128) align = 128;
	size_t at = (*total + align - 1) / align * align;
	*total = at + size;
	return (uint32_t)(at / 128);
}

static size_t barrier_bytes(int n, int ranks) { return 4 * (size_t)n * (3 + (size_t)ranks); }

static struct lsa_barrier place_barrier(size_t *total, int n, int ranks) {
	struct lsa_barrier b = {0, n};
	if (n > 0) b.buffer = place(total, barrier_bytes(n, ranks), 4);
	return b;
}

// refuse finds what goccl does not have.
static ncclResult_t refuse(const struct requirements *q) {
	const struct requirements_22807 *r = &q->r;
	if (r->multimem)
		NO("ncclDevCommCreate with lsaMultimem",
		        "it does not use multicast; see multimemSupport of ncclCommQueryProperties");
	for (const struct team *t = (const struct team *)(uintptr_t)r->teams; t; t = t->next)
		if (t->multimem)
			NO("ncclDevCommCreate with a multimem team",
			        "it does not use multicast; see multimemSupport of ncclCommQueryProperties");
	if (r->force_gin || r->gin_connection || r->gin_signals > 0 || r->gin_counters > 0 ||
	        (q->version >= 22904 && (r->rail_barriers > 0 || r->world_barriers > 0)))
		NO("ncclDevCommCreate with GIN", "all ranks are one LSA team; see ginType of ncclCommQueryProperties");
	for (const struct resource *s = (const struct resource *)(uintptr_t)r->resources; s; s = s->next)
		if (q->version >= 22807 && (s->gin_signals > 0 || s->gin_counters > 0))
			NO("ncclDevCommCreate with signals or counters of GIN", "all ranks are one LSA team");
	if (r->cft || r->cft_barriers > 0)
		NO("ncclDevCommCreate with CFT", "see cftSupport of ncclCommQueryProperties");
	if (r->barriers < 0 || r->lsa_barriers < 0) BAD("ncclDevCommCreate: a count of barriers is negative");
	return ncclSuccess;
}

NCCL(DevCommCreate, ncclComm_t comm, const ncclDevCommRequirements_t *reqs, ncclDevComm_t *out) {
	if (!reqs || !out) BAD("%s: requirements at %p, result at %p", SELF, (const void *)reqs, (void *)out);
	NEED_CORE;
	goccl_comm_info i;
	ncclResult_t r = shim_result(core.comm_info_get(handle(comm), &i), SELF);
	if (r) return shim_remember(r);
	struct requirements q;
	const struct devcomm_layout *l = read_requirements(reqs, &q);
	if (!l)
		NO("ncclDevCommCreate of this program's NCCL",
		        "version %u is newer than the layouts that it knows, to %d", q.version, DEVCOMM_LAST);
	if ((r = refuse(&q))) return r;
	struct making *m = malloc(sizeof *m);
	if (!m) return shim_remember(shim_fail(ncclSystemError, "%s: out of memory", SELF));
	*m = (struct making){.layout = l, .version = q.version, .comm = comm, .out = out};
	size_t total = 0;
	int barriers = q.r.lsa_barriers;
	if (!l->hybrid && q.r.barriers > barriers) barriers = q.r.barriers;  // before 2.30 both kinds are one
	m->barrier = place_barrier(&total, barriers, i.size);
	if (l->hybrid) m->hybrid = place_barrier(&total, q.r.barriers, i.size);
	for (struct resource *s = (struct resource *)(uintptr_t)q.r.resources; s; s = s->next) {
		uint32_t at = place(&total, s->size, s->align);
		if (s->buffer) *s->buffer = at;
		if (q.version >= 22807 && s->gin_signal_start) *s->gin_signal_start = 0;
		if (q.version >= 22807 && s->gin_counter_start) *s->gin_counter_start = 0;
	}
	if (total) {
		void *memory;
		if ((r = shim_result(core.alloc(i.device, total, &memory), SELF))) {
			free(m);
			return shim_remember(r);
		}
		if ((r = shim_window_begin(comm, memory, total, 0, &m->resources, SELF))) {
			core.free(memory);
			free(m);
			return r;
		}
		m->resources->owned = memory;
	}
	return shim_later(handle(comm), made, m);
}

NCCL(DevCommDestroy, ncclComm_t comm, const ncclDevComm_t *dev) {
	if (!dev) BAD("%s: the device communicator is NULL", SELF);
	uint32_t head[2];
	memcpy(head, dev, sizeof head);
	const struct devcomm_layout *l = head[0] == NCCL_API_MAGIC ? devcomm_layout(head[1]) : unversioned();
	if (!l) BAD("%s: version %u is not known", SELF, head[1]);
	uint64_t window;
	memcpy(&window, (const char *)dev + l->window, sizeof window);
	return window ? pncclCommWindowDeregister(comm, (ncclWindow_t)(uintptr_t)window) : ncclSuccess;
}

void shim_device_properties(ncclComm_t comm, ncclCommProperties_t *p) {
	goccl_comm_info i;
	if (core.comm_info_get(handle(comm), &i)) return;
	const struct devcomm_layout *l = devcomm_layout((unsigned)shim_version());
	p->deviceApiSupport = i.reaches;
	p->devCommRuntimeVersionSize = l ? l->size : 0;
}

// pointer is the address of an offset of a rank's part.
static ncclResult_t pointer(ncclWindow_t win, size_t offset, int rank, void **out, const char *what) {
	struct shim_window *w = win ? shim_window(win) : NULL;
	if (!w || !out) BAD("%s: window %p, result at %p", what, (void *)win, (void *)out);
	if (rank < 0 || rank >= w->ranks) BAD("%s: rank %d of %d", what, rank, w->ranks);
	if (offset >= w->size) BAD("%s: offset %zu in a window of %zu bytes", what, offset, w->size);
	*out = NULL;
	if (!w->at.base)
		return shim_remember(
		        shim_fail(ncclInvalidUsage, "%s: kernels cannot use this window: %s", what, w->reason));
	*out = (void *)(uintptr_t)(w->at.base + (uint64_t)rank * w->at.stride + offset);
	return ncclSuccess;
}

NCCL(GetLsaDevicePointer, ncclWindow_t win, size_t offset, int rank, void **out) {
	return pointer(win, offset, rank, out, SELF);
}

NCCL(GetPeerDevicePointer, ncclWindow_t win, size_t offset, int peer, void **out) {
	return pointer(win, offset, peer, out, SELF);
}

// Without multicast the pointer is NULL, as in NCCL.
static ncclResult_t no_multicast(ncclWindow_t win, void **out, const char *what) {
	if (!win || !shim_window(win) || !out) BAD("%s: window %p, result at %p", what, (void *)win, (void *)out);
	*out = NULL;
	return ncclSuccess;
}

NCCL(GetLsaMultimemDevicePointer, ncclWindow_t win, size_t offset, void **out) {
	(void)offset;
	return no_multicast(win, out, SELF);
}

NCCL(GetMultimemDevicePointer, ncclWindow_t win, size_t offset, ncclMultimemHandle_t multimem, void **out) {
	(void)offset, (void)multimem;
	return no_multicast(win, out, SELF);
}

// require describes a resource. Structures of 2.28.3 end before the signals of GIN.
static ncclResult_t require(
        void *handle_, ncclDevResourceRequirements_t *req, size_t size, size_t align, const char *what) {
	if (!handle_ || !req) BAD("%s: handle at %p, requirement at %p", what, handle_, (void *)req);
	struct resource s = {
	        .size = size, .align = align, .buffer = handle_};  // both kinds of handle begin with the number
	memcpy(req, &s, unversioned()->since == 22803 ? offsetof(struct resource, gin_signals) : sizeof s);
	return ncclSuccess;
}

NCCL(LsaBarrierCreateRequirement, ncclTeam_t team, int n, void *out, ncclDevResourceRequirements_t *req) {
	if (n < 0 || team.nRanks < 1) BAD("%s: %d barriers of %d ranks", SELF, n, team.nRanks);
	ncclResult_t r = require(out, req, barrier_bytes(n, team.nRanks), 4, SELF);
	if (!r) *(struct lsa_barrier *)out = (struct lsa_barrier){0, n};
	return r;
}

// Each block has a line with its epoch, and the slots of two epochs.
NCCL(LLA2ACreateRequirement, int blocks, int slots, void *out, ncclDevResourceRequirements_t *req) {
	if (blocks < 0 || slots < 0) BAD("%s: %d slots in %d blocks", SELF, slots, blocks);
	ncclResult_t r = require(out, req, (size_t)blocks * (1 + 2 * (size_t)slots) * 16, 16, SELF);
	if (!r) *(struct ll_a2a *)out = (struct ll_a2a){0, (uint32_t)slots};
	return r;
}

// A slot carries 8 bytes.
int pncclLLA2ACalcSlots(int elements, int size) { return elements * ((size + 7) / 8); }
WEAK(ncclLLA2ACalcSlots);
