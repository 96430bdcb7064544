#include "ncclnet.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// The places of the functions in every version's table.
enum {
	NAME, INIT, DEVICES, PROPERTIES, LISTEN, CONNECT, ACCEPT, REGISTER, REGISTER_DMABUF, DEREGISTER, SEND, RECEIVE,
	FLUSH, TEST, CLOSE_SEND, CLOSE_RECEIVE, CLOSE_LISTENER
};

enum { NEWEST = 12, OLDEST = 6, WARN = 2, INVALID = 5 };

typedef void logger(int level, unsigned long flags, const char *file, int line, const char *format, ...);
typedef int profiler(void **event, int type, void *parent, int64_t plugin, void *data);

static void log_warning(int level, unsigned long flags, const char *file, int line, const char *format, ...) {
	(void)flags, (void)file, (void)line;
	if (level != WARN) return;
	char text[512];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	fprintf(stderr, "goccl: network plugin: %s\n", text);
}

static int no_profile(void **event, int type, void *parent, int64_t plugin, void *data) {
	(void)event, (void)type, (void)parent, (void)plugin, (void)data;
	return 0;
}

static int init(struct goccl_net *net) {
	static struct { int traffic_class; } config = {-1};
	void *f = net->table[INIT];
	if (net->version >= 11)
		return ((int (*)(void **, uint64_t, void *, logger *, profiler *))f)(&net->context, 1, &config, log_warning,
			no_profile);
	if (net->version == 10) return ((int (*)(logger *, profiler *))f)(log_warning, no_profile);
	return ((int (*)(logger *))f)(log_warning);
}

int gocclnet_open(struct goccl_net *net, const char *file, char *message, size_t n) {
	memset(net, 0, sizeof *net);
	void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		snprintf(message, n, "%s", dlerror());
		return -1;
	}
	for (int v = NEWEST; v >= OLDEST; v--) {
		char symbol[32];
		snprintf(symbol, sizeof symbol, "ncclNetPlugin_v%d", v);
		if (!(net->table = dlsym(library, symbol))) continue;
		net->library = library;
		net->version = v;
		return init(net);
	}
	snprintf(message, n, "%s has no symbol ncclNetPlugin_v%d … v%d", file, OLDEST, NEWEST);
	dlclose(library);
	return -1;
}

const char *gocclnet_name(struct goccl_net *net) { return net->table[NAME]; }

int gocclnet_devices(struct goccl_net *net, int *n) { return ((int (*)(int *))net->table[DEVICES])(n); }

// Properties grow from version to version; they are read field by field. HEAD is a macro, not a structure, because a
// structure would have padding.
#define HEAD char *name, *pci; uint64_t guid; int memory
struct v6 { HEAD; int speed, port; float latency; int max_comms, max_receives; };
struct v8 { HEAD; int global, speed, port; float latency; int max_comms, max_receives, type, type_version; };
struct v9 {
	HEAD;
	int global, flush, speed, port;
	float latency;
	int max_comms, max_receives, type, type_version, ndevs, devs[4];
	size_t max_bytes, max_collective;
};
struct v12 {
	HEAD;
	int global, flush, speed, port;
	float latency;
	int max_comms, max_receives, type, type_version, ndevs, devs[8];
	size_t max_bytes, max_collective;
};

#define COPY(from) p->name = (from).name, p->pci = (from).pci, p->memory = (from).memory, p->speed = (from).speed

int gocclnet_get_properties(struct goccl_net *net, int dev, struct gocclnet_properties *p) {
	union { struct v6 v6; struct v8 v8; struct v9 v9; struct v12 v12; char room[512]; } u;
	memset(&u, 0, sizeof u);
	int r = ((int (*)(int, void *))net->table[PROPERTIES])(dev, &u);
	if (r) return r;
	memset(p, 0, sizeof *p);
	if (net->version <= 7) {
		COPY(u.v6);
	} else if (net->version == 8) {
		COPY(u.v8);
	} else if (net->version <= 11) {
		COPY(u.v9);
		p->flush = u.v9.flush, p->max_bytes = u.v9.max_bytes;
	} else {
		COPY(u.v12);
		p->flush = u.v12.flush, p->max_bytes = u.v12.max_bytes;
	}
	return 0;
}

int gocclnet_listen(struct goccl_net *net, int dev, void *handle, uintptr_t *listener) {
	void *f = net->table[LISTEN];
	if (net->version >= 11)
		return ((int (*)(void *, int, void *, uintptr_t *))f)(net->context, dev, handle, listener);
	return ((int (*)(int, void *, uintptr_t *))f)(dev, handle, listener);
}

int gocclnet_connect(struct goccl_net *net, int dev, void *handle, uintptr_t *comm) {
	static struct { int traffic_class; } config = {-1};
	void *f = net->table[CONNECT], *offload = NULL;  // no kernel of ours drives the adapter
	if (net->version >= 11)
		return ((int (*)(void *, int, void *, uintptr_t *, void **))f)(net->context, dev, handle, comm, &offload);
	if (net->version == 10)
		return ((int (*)(int, void *, void *, uintptr_t *, void **))f)(dev, &config, handle, comm, &offload);
	if (net->version >= 7) return ((int (*)(int, void *, uintptr_t *, void **))f)(dev, handle, comm, &offload);
	return ((int (*)(int, void *, uintptr_t *))f)(dev, handle, comm);
}

int gocclnet_accept(struct goccl_net *net, uintptr_t listener, uintptr_t *comm) {
	void *f = net->table[ACCEPT], *offload = NULL;
	if (net->version >= 7) return ((int (*)(uintptr_t, uintptr_t *, void **))f)(listener, comm, &offload);
	return ((int (*)(uintptr_t, uintptr_t *))f)(listener, comm);
}

int gocclnet_register(struct goccl_net *net, uintptr_t comm, uintptr_t data, size_t size, int type,
	uintptr_t *handle) {
	void *f = net->table[REGISTER];
	if (net->version >= 8)
		return ((int (*)(uintptr_t, uintptr_t, size_t, int, uintptr_t *))f)(comm, data, size, type, handle);
	if (size > INT32_MAX) return INVALID;
	return ((int (*)(uintptr_t, uintptr_t, int, int, uintptr_t *))f)(comm, data, (int)size, type, handle);
}

int gocclnet_deregister(struct goccl_net *net, uintptr_t comm, uintptr_t handle) {
	return ((int (*)(uintptr_t, uintptr_t))net->table[DEREGISTER])(comm, handle);
}

int gocclnet_send(struct goccl_net *net, uintptr_t comm, uintptr_t data, size_t size, uintptr_t handle,
	uintptr_t *req) {
	void *f = net->table[SEND];
	*req = 0;
	if (net->version >= 10)
		return ((int (*)(uintptr_t, uintptr_t, size_t, int, uintptr_t, void *, uintptr_t *))f)(comm, data, size, 0,
			handle, NULL, req);
	if (net->version == 9)
		return ((int (*)(uintptr_t, uintptr_t, size_t, int, uintptr_t, uintptr_t *))f)(comm, data, size, 0, handle, req);
	return ((int (*)(uintptr_t, uintptr_t, int, int, uintptr_t, uintptr_t *))f)(comm, data, (int)size, 0, handle, req);
}

int gocclnet_receive(struct goccl_net *net, uintptr_t comm, uintptr_t data, size_t size, uintptr_t handle,
	uintptr_t *req) {
	void *f = net->table[RECEIVE], *parents[1] = {NULL};
	int tags[1] = {0}, sizes[1] = {(int)size};
	size_t wide[1] = {size};
	*req = 0;
	if (net->version >= 10)
		return ((int (*)(uintptr_t, int, uintptr_t *, size_t *, int *, uintptr_t *, void **, uintptr_t *))f)(comm, 1,
			&data, wide, tags, &handle, parents, req);
	if (net->version == 9)
		return ((int (*)(uintptr_t, int, uintptr_t *, size_t *, int *, uintptr_t *, uintptr_t *))f)(comm, 1, &data,
			wide, tags, &handle, req);
	return ((int (*)(uintptr_t, int, uintptr_t *, int *, int *, uintptr_t *, uintptr_t *))f)(comm, 1, &data, sizes,
		tags, &handle, req);
}

int gocclnet_flush(struct goccl_net *net, uintptr_t comm, uintptr_t data, size_t size, uintptr_t handle,
	uintptr_t *req) {
	int sizes[1] = {(int)size};
	*req = 0;
	return ((int (*)(uintptr_t, int, uintptr_t *, int *, uintptr_t *, uintptr_t *))net->table[FLUSH])(comm, 1, &data,
		sizes, &handle, req);
}

int gocclnet_test(struct goccl_net *net, uintptr_t req, int *done, int *size) {
	int sizes[8] = {-1};  // some plugins do not write the size
	int r = ((int (*)(uintptr_t, int *, int *))net->table[TEST])(req, done, sizes);
	*size = sizes[0];
	return r;
}

int gocclnet_close_send(struct goccl_net *net, uintptr_t comm) {
	return ((int (*)(uintptr_t))net->table[CLOSE_SEND])(comm);
}

int gocclnet_close_receive(struct goccl_net *net, uintptr_t comm) {
	return ((int (*)(uintptr_t))net->table[CLOSE_RECEIVE])(comm);
}

int gocclnet_close_listener(struct goccl_net *net, uintptr_t listener) {
	return ((int (*)(uintptr_t))net->table[CLOSE_LISTENER])(listener);
}
