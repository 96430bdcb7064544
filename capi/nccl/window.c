// Windows: memory that all ranks register together.
//
// 1. Register begins both halves (shim.h). It does not wait, so one thread can register for several ranks in a group.
// 2. Finish, at once or at the end of the group, waits until all ranks have mapped the parts of all others.
// 3. It writes a struct device_window into device memory, enters it in the communicator's table there, and returns its
//    address as the ncclWindow_t. Kernels compiled with NVIDIA's headers read both.
//
// Memory that cannot be mapped side by side has a window too, for collectives. Its base is 0, so a kernel that uses it
// faults, and the host's functions name the reason.
//
// One-sided operations are puts into windows, signals, and waits for them. Puts and signals run at once, also in a
// group, since they wait for nobody. Waits of a group run at its end.
#include "device_layout.h"
#include "plugged.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// mu guards everything below. No call that waits for other ranks is made with it.
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

// Device memory comes in pages of 2 MiB and windows need little: they share pages, which are never freed.
#define SLOT 1024
#define PAGE (2 << 20)
struct slot {
	struct slot *next;
	goccl_device device;
	char *ptr;
};
static struct slot *unused;

static struct slot *take_slot(goccl_device device) {
	for (struct slot **p = &unused; *p; p = &(*p)->next)
		if ((*p)->device == device) {
			struct slot *s = *p;
			*p = s->next;
			return s;
		}
	void *page;
	struct slot *all = calloc(PAGE / SLOT, sizeof *all);
	if (!all || core.alloc(device, PAGE, &page)) {
		free(all);
		return NULL;
	}
	for (size_t i = 0; i < PAGE / SLOT; i++) {
		all[i] = (struct slot){unused, device, (char *)page + i * SLOT};
		unused = &all[i];
	}
	return take_slot(device);
}

static void give_slot(struct slot *s) { s->next = unused, unused = s; }

// A page of a communicator's table of windows: the host's copy, and the slot with the device's.
struct page {
	struct page *next;
	goccl_comm comm;
	struct window_table host;
	struct slot *slot;
};
static struct page *pages;  // in the order in which they were made
_Static_assert(sizeof(struct window_table) <= SLOT && sizeof(struct device_window) <= SLOT, "slots");

#define BUCKETS 1024
static struct shim_window *windows[BUCKETS];  // by address of the slot
static struct shim_window **bucket(const void *device) { return &windows[(uintptr_t)device / SLOT % BUCKETS]; }

static goccl_result write_entry(struct page *p, int i, goccl_device device) {
	struct window_entry *e = &p->host.entries[i];
	return core.copy_in(device, p->slot->ptr + ((char *)e - (char *)&p->host), e, sizeof *e);
}

// page_after is the page of a communicator behind p, or its first for NULL.
static struct page *page_after(struct page *p, goccl_comm comm) {
	for (p = p ? p->next : pages; p && p->comm != comm;) p = p->next;
	return p;
}

static struct page *new_page(goccl_comm comm, goccl_device device) {
	struct page *p = calloc(1, sizeof *p), **end = &pages;
	if (!p || !(p->slot = take_slot(device)) || core.copy_in(device, p->slot->ptr, &p->host, sizeof p->host)) {
		if (p && p->slot) give_slot(p->slot);
		free(p);
		return NULL;
	}
	p->comm = comm;
	while (*end) end = &(*end)->next;
	return *end = p;
}

static struct page *first_page(goccl_comm comm, goccl_device device) {
	struct page *p = page_after(NULL, comm);
	return p ? p : new_page(comm, device);
}

// list enters a window in the communicator's table.
static int list(struct shim_window *w, goccl_device device) {
	for (struct page *p = first_page(w->comm, device), *after; p; p = after) {
		for (int i = 0; i < 32; i++)
			if (!p->host.entries[i].window) {
				p->host.entries[i] =
				        (struct window_entry){(uintptr_t)w->ptr, w->size, (uintptr_t)w->device};
				if (!write_entry(p, i, device)) return 0;
				p->host.entries[i].window = 0;
				return -1;
			}
		if ((after = page_after(p, w->comm))) continue;
		if (!(after = new_page(w->comm, device))) return -1;
		p->host.next = (uintptr_t)after->slot->ptr;
		if (core.copy_in(device, p->slot->ptr + offsetof(struct window_table, next), &p->host.next,
		            sizeof p->host.next))
			return -1;
	}
	return -1;
}

static void unlist(struct shim_window *w, goccl_device device) {
	for (struct page *p = NULL; (p = page_after(p, w->comm));)
		for (int i = 0; i < 32; i++)
			if (p->host.entries[i].window == (uintptr_t)w->device) {
				p->host.entries[i] = (struct window_entry){0};
				write_entry(p, i, device);
			}
}

// publish writes the device's struct. The caller holds mu.
static int publish(struct shim_window *w) {
	goccl_comm_info info;
	if (core.comm_info_get(w->comm, &info) || !(w->slot = take_slot(info.device))) return -1;
	struct device_window d = {.host = w, .base = w->at.base, .lsa_rank = w->rank, .world_rank = w->rank,
	        .stride4G = (uint32_t)(w->at.stride >> 32), .flags = (uint32_t)w->flags, .segments = 1};
	w->device = w->slot->ptr;
	if (core.copy_in(info.device, w->device, &d, sizeof d) || list(w, info.device)) return -1;
	struct shim_window **b = bucket(w->device);
	w->next = *b, *b = w;
	return 0;
}

// withdraw removes what publish has done. The caller holds mu.
static void withdraw(struct shim_window *w) {
	if (!w->slot) return;
	for (struct shim_window **p = bucket(w->device); *p; p = &(*p)->next)
		if (*p == w) {
			*p = w->next;
			break;
		}
	unlist(w, w->slot->device);
	give_slot(w->slot);
	w->slot = NULL;
}

struct shim_window *shim_window(ncclWindow_t win) {
	pthread_mutex_lock(&mu);
	struct shim_window *w = *bucket(win);
	while (w && w->device != (void *)win) w = w->next;
	pthread_mutex_unlock(&mu);
	return w;
}

uint64_t shim_window_table(goccl_comm comm) {
	goccl_comm_info info;
	if (core.comm_info_get(comm, &info)) return 0;
	pthread_mutex_lock(&mu);
	struct page *p = first_page(comm, info.device);
	uint64_t table = p ? (uintptr_t)p->slot->ptr : 0;
	pthread_mutex_unlock(&mu);
	return table;
}

static void drop(struct shim_window *w) {
	free(w->reason);
	free(w);
}

ncclResult_t shim_window_begin(
        ncclComm_t comm, void *ptr, size_t size, int flags, struct shim_window **out, const char *what) {
	goccl_comm_info info;
	ncclResult_t r = shim_result(core.comm_info_get(handle(comm), &info), what);
	if (r) return shim_remember(r);
	struct shim_window *w = calloc(1, sizeof *w);
	if (!w) return shim_remember(shim_fail(ncclSystemError, "%s: out of memory", what));
	*w = (struct shim_window){
	        .comm = handle(comm), .ptr = ptr, .size = size, .flags = flags, .rank = info.rank, .ranks = info.size};
	if (flags & NCCL_WIN_COLL_SYMMETRIC)
		r = shim_result(core.window_register(handle(comm), ptr, size, &w->copies), what);
	if (!r) r = shim_result(core.flat_register(handle(comm), ptr, size, &w->flat), what);
	*out = w;
	if (!r) return ncclSuccess;
	if (w->copies) core.window_deregister(w->copies);
	drop(w);
	return shim_remember(r);
}

ncclResult_t shim_window_finish(struct shim_window *w, const char *what) {
	goccl_result got = core.flat_wait(w->flat, &w->at);
	ncclResult_t r = ncclSuccess;
	if (got == GOCCL_UNSUPPORTED) {
		w->at = (goccl_flat){0};
		w->reason = strdup(core.last_error());
		if (shim_debug() >= 3)
			shim_log("goccl NCCL INFO %s: kernels cannot use the window of %zu bytes at %p: %s", what,
			        w->size, w->ptr, core.last_error());
	} else
		r = shim_result(got, what);
	if (!r) {
		pthread_mutex_lock(&mu);
		int bad = publish(w);
		pthread_mutex_unlock(&mu);
		if (bad)
			r = shim_fail(ncclUnhandledCudaError,
			        "%s: the window could not be described in device memory: %s", what, core.last_error());
	}
	if (r) shim_window_close(w, what);
	return shim_remember(r);
}

ncclResult_t shim_window_close(struct shim_window *w, const char *what) {
	pthread_mutex_lock(&mu);
	withdraw(w);
	pthread_mutex_unlock(&mu);
	goccl_result a = w->copies ? core.window_deregister(w->copies) : GOCCL_SUCCESS;
	goccl_result b = core.window_deregister(w->flat);
	if (w->owned) core.free(w->owned);
	drop(w);
	if (!a) a = b;
	return shim_exiting(a) ? ncclSuccess : shim_result(a, what);
}

void shim_windows_end(goccl_comm comm, int aborted) {
	shim_regions_end(comm);
	pthread_mutex_lock(&mu);
	struct shim_window *ended = NULL;
	for (int i = 0; i < BUCKETS; i++)
		for (struct shim_window **p = &windows[i]; *p;) {
			struct shim_window *w = *p;
			if (w->comm != comm) {
				p = &w->next;
				continue;
			}
			*p = w->next;
			if (!aborted) give_slot(w->slot);
			w->next = ended, ended = w;
		}
	for (struct page **p = &pages; *p;) {
		struct page *one = *p;
		if (one->comm != comm) {
			p = &one->next;
			continue;
		}
		*p = one->next;
		if (!aborted) give_slot(one->slot);
		free(one);
	}
	pthread_mutex_unlock(&mu);
	while (ended) {
		struct shim_window *w = ended;
		ended = w->next;
		if (w->owned && !aborted) core.free(w->owned);
		drop(w);
	}
}

struct registering {
	struct shim_window *w;
	ncclWindow_t *out;
};

static ncclResult_t registered(void *p, int given_up) {
	static const char what[] = "ncclCommWindowRegister";
	struct registering one = *(struct registering *)p;
	free(p);
	if (given_up) return shim_window_close(one.w, what), ncclSuccess;
	ncclResult_t r = shim_window_finish(one.w, what);
	if (!r) *one.out = (ncclWindow_t)one.w->device;
	return r;
}

NCCL(CommWindowRegister, ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win, int flags) {
	const int known = NCCL_WIN_COLL_SYMMETRIC |
	                  NCCL_WIN_STRICT_ORDERING;  // every window has the property that the second flag requests
	if (!win) BAD("%s: the place for the window is NULL", SELF);
	*win = NULL;
	if (flags & ~known)
		BAD("%s: flags %#x: only NCCL_WIN_COLL_SYMMETRIC and NCCL_WIN_STRICT_ORDERING are known; there is no "
		    "GIN and no CFT",
		        SELF, (unsigned)flags);
	NEED_CORE;
	struct shim_window *w;
	goccl_comm_info info;
	ncclResult_t r = shim_result(core.comm_info_get(handle(comm), &info), SELF);
	if (r) return shim_remember(r);
	if (!buff || !size) return ncclSuccess;
	struct registering *one = malloc(sizeof *one);
	if (!one) return shim_remember(shim_fail(ncclSystemError, "%s: out of memory", SELF));
	if ((r = shim_window_begin(comm, buff, size, flags, &w, SELF))) {
		free(one);
		return r;
	}
	*one = (struct registering){w, win};
	return shim_later(handle(comm), registered, one);
}

NCCL(CommWindowDeregister, ncclComm_t comm, ncclWindow_t win) {
	if (!win || shim_exiting(0)) return ncclSuccess;
	NEED_CORE;
	struct shim_window *w = shim_window(win);
	if (w && w->comm == handle(comm)) return shim_remember(shim_window_close(w, SELF));
	goccl_comm_info info;  // windows end with their communicator
	if (core.comm_info_get(handle(comm), &info)) return ncclSuccess;
	BAD("%s: %p is no window of this communicator", SELF, (void *)win);
}

NCCL(WinGetUserPtr, ncclComm_t comm, ncclWindow_t win, void **out) {
	struct shim_window *w = win ? shim_window(win) : NULL;
	if (!out || !w || w->comm != handle(comm))
		BAD("ncclWinGetUserPtr: window %p, result at %p", (void *)win, (void *)out);
	*out = w->ptr;
	return ncclSuccess;
}

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
