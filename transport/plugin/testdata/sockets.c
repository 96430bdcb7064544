// A plugin of NCCL's network interface over TCP sockets, for tests. VERSION is that of the interface, from 6 to 12.
// Build: cc -shared -fPIC -DVERSION=12 sockets.c
// PLUGIN_ADDRESS is the address to listen at (127.0.0.1).
//
// A comm is one connection. Its requests are served in order; test makes the progress.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef VERSION
#define VERSION 12
#endif

#if VERSION >= 9
typedef size_t message_size;
#else
typedef int message_size;
#endif
#if VERSION >= 8
typedef size_t region_size;
#else
typedef int region_size;
#endif

enum { SUCCESS = 0, SYSTEM = 2, INVALID = 4, REMOTE = 6, REQUESTS = 8 };

struct comm;
struct request {
	struct comm *comm;
	char *data;
	uint64_t size, length, done;  // length is the message's, done counts the 8 bytes of the length too
	int used, complete;
};

struct comm {
	int fd, sends, registered;
	struct request ring[REQUESTS];
	unsigned first, next, tested;  // not complete from first, not known to the caller from tested
};

struct listener { int fd; };
struct address { struct sockaddr_in in; int fd; };  // fd: of the connection in progress, 0 before

static int init_count;

#if VERSION >= 11
static int init(void **context, uint64_t id, void *config, void *log, void *profile) {
	(void)id, (void)log;
	if (!config || !profile) return INVALID;
	*context = &init_count;
#elif VERSION == 10
static int init(void *log, void *profile) {
	if (!log || !profile) return INVALID;
#else
static int init(void *log) {
	if (!log) return INVALID;
#endif
	return init_count++ ? INVALID : SUCCESS;
}

static int devices(int *n) {
	*n = 1;
	return SUCCESS;
}

struct properties {
	char *name, *pci;
	uint64_t guid;
	int memory;
#if VERSION >= 8
	int global;
#endif
#if VERSION >= 9
	int flush;
#endif
	int speed, port;
	float latency;
	int max_comms, max_receives;
#if VERSION >= 7
	int type, type_version;
#endif
#if VERSION >= 9
	int ndevs, devs[VERSION >= 12 ? 8 : 4];
	size_t max_bytes, max_collective;
#endif
#if VERSION >= 11
	int multi;
#endif
#if VERSION >= 12
	int16_t rail, plane;
#endif
};

static int properties(int dev, struct properties *p) {
	if (dev) return INVALID;
	memset(p, 0, sizeof *p);
	p->name = "sock0", p->memory = 1, p->speed = 10000, p->port = 1, p->max_comms = 1024, p->max_receives = 1;
#if VERSION >= 9
	p->ndevs = 1, p->max_bytes = 1 << 20, p->max_collective = 1 << 20;
#endif
	return SUCCESS;
}

static void tune(int fd) {
	int one = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
}

#if VERSION >= 11
static int listen_at(void *context, int dev, void *handle, void **out) {
	if (context != &init_count) return INVALID;
#else
static int listen_at(int dev, void *handle, void **out) {
#endif
	if (dev) return INVALID;
	struct address a;
	memset(&a, 0, sizeof a);
	const char *at = getenv("PLUGIN_ADDRESS");
	a.in.sin_family = AF_INET;
	inet_pton(AF_INET, at ? at : "127.0.0.1", &a.in.sin_addr);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t n = sizeof a.in;
	if (fd < 0 || bind(fd, (void *)&a.in, n) || listen(fd, 16) || getsockname(fd, (void *)&a.in, &n)) return SYSTEM;
	tune(fd);
	memcpy(handle, &a, sizeof a);
	struct listener *l = calloc(1, sizeof *l);
	l->fd = fd;
	*out = l;
	return SUCCESS;
}

static struct comm *new_comm(int fd, int sends) {
	struct comm *c = calloc(1, sizeof *c);
	tune(fd);
	c->fd = fd, c->sends = sends;
	return c;
}

static int dial(void *handle, void **comm) {
	struct address a;
	memcpy(&a, handle, sizeof a);
	*comm = NULL;
	if (!a.fd) {  // only begin at the first call, as real plugins do
		a.fd = socket(AF_INET, SOCK_STREAM, 0);
		if (a.fd < 0) return SYSTEM;
		tune(a.fd);
		memcpy(handle, &a, sizeof a);
	}
	if (connect(a.fd, (void *)&a.in, sizeof a.in) && errno != EISCONN)
		return errno == EINPROGRESS || errno == EALREADY ? SUCCESS : REMOTE;
	*comm = new_comm(a.fd, 1);
	return SUCCESS;
}

#if VERSION >= 11
static int connect_to(void *context, int dev, void *handle, void **comm, void **offload) {
	return context != &init_count || dev || !offload ? INVALID : dial(handle, comm);
}
#elif VERSION == 10
static int connect_to(int dev, void *config, void *handle, void **comm, void **offload) {
	return dev || !config || !offload ? INVALID : dial(handle, comm);
}
#elif VERSION >= 7
static int connect_to(int dev, void *handle, void **comm, void **offload) {
	return dev || !offload ? INVALID : dial(handle, comm);
}
#else
static int connect_to(int dev, void *handle, void **comm) { return dev ? INVALID : dial(handle, comm); }
#endif

static int take(struct listener *l, void **comm) {
	*comm = NULL;
	int fd = accept(l->fd, NULL, NULL);
	if (fd < 0) return errno == EAGAIN ? SUCCESS : SYSTEM;
	*comm = new_comm(fd, 0);
	return SUCCESS;
}

#if VERSION >= 7
static int accept_from(void *l, void **comm, void **offload) { return offload ? take(l, comm) : INVALID; }
#else
static int accept_from(void *l, void **comm) { return take(l, comm); }
#endif

// A handle of memory is the comm itself, so that a handle of another comm is noticed.
static int register_memory(void *comm, void *data, region_size size, int type, void **handle) {
	if (!data || !size || type != 1) return INVALID;
	((struct comm *)comm)->registered++;
	*handle = comm;
	return SUCCESS;
}

static int register_dmabuf(void *c, void *d, size_t n, int t, uint64_t o, int fd, void **h) {
	(void)c, (void)d, (void)n, (void)t, (void)o, (void)fd, (void)h;
	return INVALID;
}

static int deregister(void *comm, void *handle) {
	if (comm != handle || ((struct comm *)comm)->registered-- <= 0) return INVALID;
	return SUCCESS;
}

static int start(struct comm *c, int sends, void *data, uint64_t size, void *handle, void **out) {
	*out = NULL;
	if (c->sends != sends || handle != c) return INVALID;
	struct request *r = &c->ring[c->next % REQUESTS];
	if (r->used) return SUCCESS;  // full: the caller tries again
	c->next++;
	*r = (struct request){.comm = c, .data = data, .size = size, .length = size, .used = 1};
	*out = r;
	return SUCCESS;
}

#if VERSION >= 10
static int isend(void *c, void *data, size_t size, int tag, void *handle, void *parent, void **out) {
	(void)tag, (void)parent;
#else
static int isend(void *c, void *data, message_size size, int tag, void *handle, void **out) {
	(void)tag;
#endif
	return start(c, 1, data, size, handle, out);
}

#if VERSION >= 10
static int irecv(void *c, int n, void **data, size_t *sizes, int *tags, void **handles, void **parents, void **out) {
	if (!parents) return INVALID;
#else
static int irecv(void *c, int n, void **data, message_size *sizes, int *tags, void **handles, void **out) {
#endif
	(void)tags;
	return n == 1 ? start(c, 0, data[0], sizes[0], handles[0], out) : INVALID;
}

static int iflush(void *c, int n, void **data, int *sizes, void **handles, void **out) {
	(void)c, (void)n, (void)data, (void)sizes, (void)handles;
	*out = NULL;
	return SUCCESS;
}

// move sends or receives what the socket takes or has of one request.
static int move(struct request *r) {
	struct comm *c = r->comm;
	while (!r->complete) {
		char *at = r->done < 8 ? (char *)&r->length + r->done : r->data + (r->done - 8);
		uint64_t left = r->done < 8 ? 8 - r->done : r->length + 8 - r->done;
		ssize_t n = c->sends ? send(c->fd, at, left, MSG_NOSIGNAL) : recv(c->fd, at, left, 0);
		if (n == 0 && left > 0) return REMOTE;
		if (n < 0) return errno == EAGAIN ? SUCCESS : REMOTE;
		r->done += n;
		if (r->done >= 8 && r->length > r->size) return INVALID;  // longer than the receive
		r->complete = r->done >= 8 && r->done == r->length + 8;
	}
	return SUCCESS;
}

static int test(void *request, int *done, int *sizes) {
	(void)sizes;
	struct request *r = request;
	struct comm *c = r->comm;
	*done = 0;
	if (r != &c->ring[c->tested % REQUESTS] || !r->used) return INVALID;  // only the oldest may be tested
	while (c->first != c->next) {
		struct request *f = &c->ring[c->first % REQUESTS];
		int e = move(f);
		if (e) return e;
		if (!f->complete) break;
		c->first++;
	}
	if (r->complete) {
		*done = 1;
#if VERSION != 6  // some plugins do not tell
		if (sizes) sizes[0] = (int)r->length;
#endif
		r->used = 0;
		c->tested++;
	}
	return SUCCESS;
}

static int close_comm(void *comm) {
	struct comm *c = comm;
	int left = c->registered;
	close(c->fd);
	free(c);
	return left ? INVALID : SUCCESS;
}

static int close_listener(void *l) {
	close(((struct listener *)l)->fd);
	free(l);
	return SUCCESS;
}

#define PASTE(a, b) a##b
#define SYMBOL(v) PASTE(ncclNetPlugin_v, v)

// The table of every version begins so; what follows is optional and NULL.
void *SYMBOL(VERSION)[24] = {
	"Sockets", init, devices, properties, listen_at, connect_to, accept_from, register_memory, register_dmabuf, deregister,
	isend, irecv, iflush, test, close_comm, close_comm, close_listener,
};
