#define _GNU_SOURCE
#include "memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct records *records;
static int file = -1;
enum { SIZE = sizeof(struct records) + RECORDS_COMMS * sizeof(struct record_comm) };
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; // guards the making of records, names and slots

uint64_t memory_now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void text(char *to, size_t room, const char *from) {
	size_t n = from ? strnlen(from, room - 1) : 0;
	memcpy(to, from ? from : "", n);
	to[n] = 0;
}

// forked gives a forked child a private copy, so that it cannot write into its parent's records.
static void forked(void) {
	if (records) mmap(records, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, 0);
	if (file >= 0) close(file);
	file = -1;
}

// make maps a sparse file, whose pages come with the first use of a slot. The descriptor stays open: it is what other
// processes open.
static struct records *make(int version) {
	file = memfd_create("goccl-profiler", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (file < 0) return NULL;
	struct records *r = MAP_FAILED;
	if (!ftruncate(file, SIZE) && fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) >= 0)
		r = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (r == MAP_FAILED) {
		close(file);
		file = -1;
		return NULL;
	}
	pthread_atfork(NULL, NULL, forked);
	struct timespec real;
	clock_gettime(CLOCK_REALTIME, &real);
	r->begun = memory_now();
	r->begun_real = (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec;
	r->version = RECORDS_VERSION, r->pid = (uint32_t)getpid(), r->profiler = (uint32_t)version;
	r->comm_bytes = sizeof(struct record_comm), r->names = 1;
	gethostname(r->host, sizeof r->host - 1);
	__atomic_store_n(&r->magic, RECORDS_MAGIC, __ATOMIC_RELEASE);
	return r;
}

// slot returns an unused slot, or the one whose communicator was closed first.
static struct record_comm *slot(void) {
	if (records->comms < RECORDS_COMMS) return &records->comm[records->comms];
	struct record_comm *oldest = NULL;
	for (int i = 0; i < RECORDS_COMMS; i++) {
		struct record_comm *c = &records->comm[i];
		if (c->state == COMM_CLOSED && (!oldest || c->closed < oldest->closed)) oldest = c;
	}
	return oldest;
}

struct record_comm *memory_open(int version, uint64_t id, const char *name, int nodes, int size, int rank) {
	pthread_mutex_lock(&mu);
	if (!records) records = make(version);
	struct record_comm *c = records ? slot() : NULL;
	if (c) {
		if (c->state != COMM_FREE) {
			__atomic_store_n(&c->state, COMM_FREE, __ATOMIC_RELEASE);
			memset(c, 0, sizeof *c);
		} else {
			records->comms++;
		}
		c->id = id, c->nodes = nodes, c->size = size, c->rank = rank, c->opened = memory_now();
		text(c->name, sizeof c->name, name);
		__atomic_store_n(&c->state, COMM_OPEN, __ATOMIC_RELEASE);
	} else if (records) {
		records->refused++;
	}
	pthread_mutex_unlock(&mu);
	return c;
}

void memory_close(struct record_comm *c) {
	if (!c) return;
	pthread_mutex_lock(&mu);
	c->closed = memory_now();
	__atomic_store_n(&c->state, COMM_CLOSED, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&mu);
}

static int find(const char *name) {
	uint32_t n = __atomic_load_n(&records->names, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < n; i++)
		if (!strncmp(records->name[i], name, RECORDS_NAME - 1)) return (int)i;
	return -1;
}

uint8_t memory_name(const char *name) {
	if (!name) name = "";
	int i = find(name);
	if (i >= 0) return (uint8_t)i;
	pthread_mutex_lock(&mu);
	i = find(name);
	if (i < 0 && records->names < RECORDS_NAMES) {
		i = (int)records->names;
		text(records->name[i], RECORDS_NAME, name);
		__atomic_store_n(&records->names, (uint32_t)i + 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&mu);
	return i < 0 ? RECORDS_UNNAMED : (uint8_t)i;
}

// size_class is 0 to 1 KiB, and one more for each factor of 8: 8 KiB, 64 KiB, 512 KiB, 4 MiB, 32 MiB, 256 MiB, above.
static uint64_t size_class(uint64_t bytes) {
	uint64_t class = 0;
	for (uint64_t limit = 1024; class < 7 && bytes > limit; limit *= 8) class++;
	return class;
}

// sum returns the sum of an operation's kind; NULL if the table is full. A key never changes once it is set.
static struct record_sum *sum(struct record_comm *c, const struct record_op *o) {
	uint64_t key = UINT64_C(1) << 32 | (uint64_t)o->func << 24 | (uint64_t)o->algo << 16 | (uint64_t)o->proto << 8 |
		size_class(o->bytes);
	for (int i = 0; i < RECORDS_SUMS; i++) {
		struct record_sum *s = &c->sums[i];
		uint64_t have = __atomic_load_n(&s->key, __ATOMIC_ACQUIRE);
		if (!have && __atomic_compare_exchange_n(&s->key, &have, key, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return s;
		if (have == key) return s;
	}
	__atomic_add_fetch(&c->lost, 1, __ATOMIC_RELAXED);
	return NULL;
}

#define ADD(x, v) __atomic_add_fetch(&(x), v, __ATOMIC_RELAXED)
void memory_sum_begun(struct record_comm *c, const struct record_op *o) {
	struct record_sum *s = sum(c, o);
	if (!s) return;
	ADD(s->begun, 1);
	ADD(s->bytes, o->bytes);
}

void memory_sum_ended(struct record_comm *c, const struct record_op *o) {
	struct record_sum *s = sum(c, o);
	if (!s) return;
	ADD(s->ended, 1);
	ADD(s->busy_bytes, o->bytes);
	if (o->started > o->enqueued) ADD(s->queued_ns, o->started - o->enqueued);
	if (o->gpu_ended > o->gpu_started && o->gpu_started) ADD(s->busy_ns, o->gpu_ended - o->gpu_started);
	else if (o->ended > o->started) ADD(s->busy_ns, o->ended - o->started);
}
