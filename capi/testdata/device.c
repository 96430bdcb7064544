// device process RANKS RANK FILE | device group RANKS: the host half of NCCL's device API. The program plays the
// kernels: it reads windows and device communicators as NVIDIA's headers do, in every layout, and runs the protocols of
// barriers and of LL all-to-alls on the memory that it finds there. Device memory is host memory here.
#include "test.h"

#include "../nccl/device_layout.h"

#include <sched.h>

enum { MOST = 4, BARRIERS = 11, BLOCKS = 2, SLOTS = 8 };
static int ranks;

// What a kernel knows, read from an ncclDevComm.
struct kernel {
	struct ranks r;
	char *base;
	size_t stride;
	struct lsa_barrier lsa, hybrid;
	uint64_t table, window, abort;
};

static struct kernel read_devcomm(const unsigned char *dev, const struct devcomm_layout *l, unsigned version) {
	struct kernel k = {0};
	uint32_t stride, head[2];
	memcpy(head, dev, sizeof head);
	if (l->versioned) CHECK(head[0] == NCCL_API_MAGIC && head[1] == version);
	memcpy(&k.r, dev + l->ranks, sizeof k.r);
	memcpy(&k.base, dev + l->base, sizeof k.base);
	memcpy(&stride, dev + l->stride4G, sizeof stride);
	memcpy(&k.lsa, dev + l->barrier, sizeof k.lsa);
	memcpy(&k.table, dev + l->table, sizeof k.table);
	memcpy(&k.window, dev + l->window, sizeof k.window);
	if (l->hybrid) memcpy(&k.hybrid, dev + l->hybrid, sizeof k.hybrid);
	if (l->abort) memcpy(&k.abort, dev + l->abort, sizeof k.abort);
	k.stride = (size_t)stride << 32;
	return k;
}

static void *resource(const struct kernel *k, int rank, uint32_t buffer) {
	return k->base + (size_t)rank * k->stride + 128 * (size_t)buffer;
}

// spin waits, with a bound, until the word at p has reached value: a peer may be further.
static void spin(volatile uint32_t *p, uint32_t value, const char *what) {
	for (double end = now() + 60; (int32_t)(__atomic_load_n(p, __ATOMIC_ACQUIRE) - value) < 0; sched_yield())
		if (now() > end) FAIL("%s: the word is %u, want %u", what, *p, value);
}

// The unicast LSA barrier: epochs of n multicast and n unicast barriers, n inboxes of multicast, then an inbox per
// barrier and peer.
static void arrive(const struct kernel *k, struct lsa_barrier b, int i) {
	uint32_t epoch = ((uint32_t *)resource(k, k->r.lsa_rank, b.buffer))[b.count + i];
	for (int p = 0; p < k->r.lsa_size; p++)
		if (p != k->r.lsa_rank) {
			uint32_t *inbox =
			        (uint32_t *)resource(k, p, b.buffer) + 3 * b.count + i * k->r.lsa_size + k->r.lsa_rank;
			__atomic_store_n(inbox, epoch + 1, __ATOMIC_RELEASE);
		}
}
static void await(const struct kernel *k, struct lsa_barrier b, int i) {
	uint32_t *state = resource(k, k->r.lsa_rank, b.buffer), epoch = state[b.count + i];
	for (int p = 0; p < k->r.lsa_size; p++)
		if (p != k->r.lsa_rank) spin(state + 3 * b.count + i * k->r.lsa_size + p, epoch + 1, "barrier");
	state[b.count + i] = epoch + 1;
}

// One epoch of an LL all-to-all of a block: a slot is {low, epoch, high, epoch}.
static uint32_t *slot(const struct kernel *k, const struct ll_a2a *a, int rank, int block, uint32_t epoch, int i) {
	uint32_t line = (uint32_t)block * (1 + 2 * a->slots) + 1 + (epoch & 1) * a->slots + (uint32_t)i;
	return (uint32_t *)resource(k, rank, a->buffer) + 4 * line;
}
static void a2a_send(const struct kernel *k, const struct ll_a2a *a, int block, uint32_t epoch) {
	for (int p = 0; p < k->r.lsa_size; p++) {
		uint32_t *s = slot(k, a, p, block, epoch, k->r.lsa_rank);
		s[0] = (uint32_t)(100 * k->r.lsa_rank + p), s[2] = epoch;
		__atomic_store_n(&s[1], epoch, __ATOMIC_RELEASE);
		__atomic_store_n(&s[3], epoch, __ATOMIC_RELEASE);
	}
}
static void a2a_recv(const struct kernel *k, const struct ll_a2a *a, int block, uint32_t epoch) {
	for (int p = 0; p < k->r.lsa_size; p++) {
		uint32_t *s = slot(k, a, k->r.lsa_rank, block, epoch, p);
		spin(&s[1], epoch, "LL"), spin(&s[3], epoch, "LL");
		CHECK(s[0] == (uint32_t)(100 * p + k->r.lsa_rank) && s[2] == epoch);
	}
}

// The window of an address, as ncclFindWindow finds it.
static const struct device_window *find(uint64_t table, const void *p) {
	for (const struct window_table *t = (void *)table; t; t = (void *)t->next)
		for (int i = 0; i < 32; i++)
			if (t->entries[i].window && (uintptr_t)p - t->entries[i].base < t->entries[i].size)
				return (void *)t->entries[i].window;
	return NULL;
}

// The state of one rank.
struct rank {
	ncclComm_t comm;
	int rank;
	ncclDevComm_t *dev;
	unsigned char bytes[256], guard;
	struct kernel k;
	struct ll_a2a a2a;
	struct lsa_barrier own;
	struct resource list[2];
	union {
		struct requirements marked;
		struct requirements_22807 old;
		struct requirements_22803 first;
	} req;
};

// begin asks for a device communicator of a version; every field that a program of that version lacks is garbage.
static void begin(struct rank *x, unsigned version) {
	memset(x->bytes, 0xa5, sizeof x->bytes);
	memset(&x->req, 0xa5, sizeof x->req);
	ncclTeam_t team = ncclTeamLsa(x->comm);
	OK(ncclLsaBarrierCreateRequirement(team, BARRIERS, &x->own, (ncclDevResourceRequirements_t *)&x->list[0]));
	CHECK(ncclLLA2ACalcSlots(SLOTS, 8) == SLOTS && ncclLLA2ACalcSlots(3, 20) == 9);
	OK(ncclLLA2ACreateRequirement(BLOCKS, SLOTS, &x->a2a, (ncclDevResourceRequirements_t *)&x->list[1]));
	x->list[0].next = &x->list[1];
	struct requirements_22807 r = {.resources = (uintptr_t)x->list,
	        .barriers = version == 22803 ? 0 : 2,
	        .lsa_barriers = 1,
	        .gin_contexts = 4,
	        .gin_strong = 1,
	        .gin_va = 1,
	        .gin_stride = 1,
	        .gin_traffic = INT_MIN};
	if (version == 22803)
		x->req.first = (struct requirements_22803){.resources = r.resources, .lsa_barriers = 1};
	else if (version < 22902)
		memcpy(&x->req.old, &r, 56);
	else {
		size_t size = version < 22907 ? 72 : version < 23003 ? 88 : version < 23102 ? 96 : 120;
		struct requirements q = {.size = size, .magic = NCCL_API_MAGIC, .version = version, .r = r};
		memcpy(&x->req.marked, &q, size);
	}
	x->dev = (ncclDevComm_t *)x->bytes;
	OK(ncclDevCommCreate(x->comm, (ncclDevCommRequirements_t *)&x->req, x->dev));
}

static void look(struct rank *x, unsigned version, const struct devcomm_layout *l) {
	x->k = read_devcomm(x->bytes, l, version);
	struct kernel *k = &x->k;
	for (size_t i = l->size; i < sizeof x->bytes; i++)
		CHECK(x->bytes[i] == 0xa5);  // nothing behind the caller's struct
	CHECK(k->r.rank == x->rank && k->r.size == ranks && k->r.lsa_rank == x->rank && k->r.lsa_size == ranks);
	for (uint32_t v = 0; v < 1000; v++) {  // as kernels divide
		uint32_t q = k->r.size_rcp ? (uint32_t)((uint64_t)v * k->r.size_rcp >> 32) : v;
		if (v - q * (uint32_t)ranks >= (uint32_t)ranks) q++;
		CHECK(q == v / (uint32_t)ranks);
	}
	CHECK(k->stride && k->stride % (4ull << 30) == 0);
	CHECK(k->lsa.count == (l->hybrid || version == 22803 ? 1 : 2) && (!l->hybrid || k->hybrid.count == 2));
	const struct device_window *w = (void *)k->window;
	CHECK(w && w->base == (uintptr_t)k->base && (size_t)w->stride4G << 32 == k->stride && w->lsa_rank == x->rank &&
	        w->segments == 1);
}

static void all(void (*f)(struct rank *, int), struct rank *x, int n, int arg) {
	for (int i = 0; i < n; i++) f(&x[i], arg);
}
static void arrive_all(struct rank *x, int i) {
	arrive(&x->k, x->k.lsa, 0), arrive(&x->k, x->own, i);
	if (x->k.hybrid.count) arrive(&x->k, x->k.hybrid, 1);
}
static void await_all(struct rank *x, int i) {
	await(&x->k, x->k.lsa, 0), await(&x->k, x->own, i);
	if (x->k.hybrid.count) await(&x->k, x->k.hybrid, 1);
}
// untouched checks that barriers do not reach into the next resource, which nobody has used yet.
static void untouched(struct rank *x, int unused) {
	(void)unused;
	const char *p = resource(&x->k, x->k.r.lsa_rank, x->a2a.buffer);
	for (size_t i = 0; i < BLOCKS * (1 + 2 * SLOTS) * 16; i++) CHECK(!p[i]);
}
static void send_all(struct rank *x, int e) {
	for (int b = 0; b < BLOCKS; b++) a2a_send(&x->k, &x->a2a, b, (uint32_t)e);
}
static void recv_all(struct rank *x, int e) {
	for (int b = 0; b < BLOCKS; b++) a2a_recv(&x->k, &x->a2a, b, (uint32_t)e);
}

// meet waits until all ranks are here: one rank of each process, or all of this one.
static void meet(struct rank *x, int n) {
	static char word[MOST][8];
	OK(ncclGroupStart());
	for (int i = 0; i < n; i++) OK(ncclAllReduce(word[i], word[i], 1, ncclInt8, ncclSum, x[i].comm, NULL));
	OK(ncclGroupEnd());
}

static void devcomms(struct rank *x, int n) {
	static const unsigned versions[] = {
	        22803, 22807, 22809, 22902, 22903, 22907, 23003, 23004, 23007, 23102, 23203};
	for (size_t v = 0; v < sizeof versions / sizeof *versions; v++) {
		const struct devcomm_layout *l = devcomm_layout(versions[v]);
		CHECK(l && l->since <= versions[v]);
		setenv("GOCCL_NCCL_VERSION", versions[v] == 22803 ? "2.28.3" : "2.28.9", 1);
		OK(ncclGroupStart());
		for (int i = 0; i < n; i++) begin(&x[i], versions[v]);
		OK(ncclGroupEnd());
		for (int i = 0; i < n; i++) look(&x[i], versions[v], l);
		for (int round = 0; round < 3; round++) {
			int barrier = round == 1 ? BARRIERS - 1 : 0;
			all(arrive_all, x, n, barrier), all(await_all, x, n, barrier);
		}
		all(untouched, x, n, 0), meet(x, n);
		for (int epoch = 2; epoch < 5; epoch++)
			all(send_all, x, n, epoch), all(recv_all, x, n, epoch), all(arrive_all, x, n, 0),
			        all(await_all, x, n, 0);
		for (int i = 0; i < n; i++) {
			OK(ncclDevCommDestroy(x[i].comm, x[i].dev));
			EXPECT(ncclDevCommDestroy(x[i].comm, x[i].dev), ncclInvalidArgument);
		}
	}
	unsetenv("GOCCL_NCCL_VERSION");
}

// Many windows, of different sizes and flags, that overlap, and are not at the start of their allocation.
static void windows(struct rank *x, int n) {
	enum { MANY = 70, PART = 8192 };
	static char *mem[MOST];
	static ncclWindow_t win[MOST][MANY], whole[MOST];
	for (int i = 0; i < n; i++) OK(ncclMemAlloc((void **)&mem[i], (MANY + 8) * PART));
	OK(ncclGroupStart());
	for (int i = 0; i < n; i++) {
		for (int w = 0; w < MANY; w++) {
			size_t size = PART + (w == 3 ? 4096 * (size_t)x[i].rank : 0);
			OK(ncclCommWindowRegister(x[i].comm, mem[i] + w * PART, size, &win[i][w], w % 3));
			CHECK(!win[i][w]);  // not before the end of the group
		}
		OK(ncclCommWindowRegister(x[i].comm, mem[i], (MANY + 8) * PART, &whole[i], 0));
	}
	OK(ncclGroupEnd());
	OK(ncclGroupStart());
	for (int i = 0; i < n; i++) begin(&x[i], 23203);
	OK(ncclGroupEnd());
	for (int i = 0; i < n; i++) {
		look(&x[i], 23203, devcomm_layout(23203));
		CHECK(find(x[i].k.table, mem[i] + (MANY + 1) * PART) == (void *)whole[i]);
		for (int w = 0; w < MANY; w++) {
			const struct device_window *d = (void *)win[i][w];
			CHECK(d && d->stride4G && d->lsa_rank == x[i].rank && d->world_rank == x[i].rank);
			CHECK(w == 4 || find(x[i].k.table, mem[i] + w * PART + 7) == d);  // number 3 overlaps number 4
			for (int p = 0; p < ranks; p++) {
				void *at, *peer;
				char *want = (char *)d->base + ((size_t)p * d->stride4G << 32) + 16;
				OK(ncclGetLsaDevicePointer(win[i][w], 16, p, &at));
				OK(ncclGetPeerDevicePointer(win[i][w], 16, p, &peer));
				CHECK(at == want && peer == want);
				want[x[i].rank] = (char)(w + 3 * x[i].rank + p);
			}
			void *back, *none = &back;
			OK(ncclWinGetUserPtr(x[i].comm, win[i][w], &back));
			CHECK(back == mem[i] + w * PART);
			OK(ncclGetLsaMultimemDevicePointer(win[i][w], 0, &none));
			CHECK(!none);
			EXPECT(ncclGetLsaDevicePointer(win[i][w], 0, ranks, &none), ncclInvalidArgument);
			EXPECT(ncclGetPeerDevicePointer(win[i][w], (size_t)1 << 40, 0, &none), ncclInvalidArgument);
		}
	}
	meet(x, n);
	for (int i = 0; i < n; i++)
		for (int w = 0; w < MANY; w++)
			for (int p = 0; p < ranks; p++)
				CHECK(mem[i][w * PART + 16 + p] == (char)(w + 3 * p + x[i].rank));
	meet(x, n);
	for (int i = 0; i < n; i++) {
		for (int w = 0; w < MANY; w++) OK(ncclCommWindowDeregister(x[i].comm, win[i][w]));
		EXPECT(ncclCommWindowDeregister(x[i].comm, win[i][0]), ncclInvalidArgument);
		CHECK(find(x[i].k.table, mem[i]) == (void *)whole[i]);
		OK(ncclDevCommDestroy(x[i].comm, x[i].dev));
	}
	// The other window ends with the communicator.
}

// What cannot be: each is refused by its name, and the communicator still works.
static void refusals(struct rank *x, int n) {
	for (int i = 0; i < n; i++) {
		ncclComm_t c = x[i].comm;
		ncclDevComm_t *dev = (ncclDevComm_t *)x[i].bytes;
#define TRY(change)                                                                                   \
	do {                                                                                          \
		struct requirements q = {.size = 120, .magic = NCCL_API_MAGIC, .version = 23203};     \
		q.change;                                                                             \
		EXPECT(ncclDevCommCreate(c, (ncclDevCommRequirements_t *)&q, dev), ncclInvalidUsage); \
	} while (0)
		TRY(r.multimem = 1);
		SAYS("lsaMultimem");
		TRY(r.force_gin = 1);
		SAYS("GIN");
		TRY(r.gin_connection = 1);
		TRY(r.gin_signals = 1);
		TRY(r.world_barriers = 1);
		TRY(r.cft = 1);
		SAYS("CFT");
		TRY(version = 23300);
		SAYS("23300");
		struct resource signals = {.gin_signals = 1};
		TRY(r.resources = (uintptr_t)&signals);
		SAYS("signals");
		struct team team = {.multimem = 1};
		TRY(r.teams = (uintptr_t)&team);
		SAYS("multimem");
		EXPECT(ncclDevCommCreate(c, NULL, dev), ncclInvalidArgument);
		EXPECT(ncclDevCommDestroy(c, NULL), ncclInvalidArgument);
		void *p = NULL;
		EXPECT(ncclGetLsaDevicePointer(NULL, 0, 0, &p), ncclInvalidArgument);
		EXPECT(ncclGetLsaDevicePointer((ncclWindow_t)(void *)&p, 0, 0, &p), ncclInvalidArgument);
	}
	// Memory that no other process can map has a window, but not for kernels.
	static char plain[MOST][4096];
	ncclWindow_t win[MOST];
	void *p;
	OK(ncclGroupStart());
	for (int i = 0; i < n; i++) OK(ncclCommWindowRegister(x[i].comm, plain[i], sizeof plain[i], &win[i], 1));
	OK(ncclGroupEnd());
	for (int i = 0; i < n; i++) {
		CHECK(((struct device_window *)(void *)win[i])->base == 0);
		EXPECT(ncclGetLsaDevicePointer(win[i], 0, 0, &p), ncclInvalidUsage);
		SAYS("kernels cannot use this window");
		OK(ncclWinGetUserPtr(x[i].comm, win[i], &p));
		CHECK(p == plain[i]);
		OK(ncclCommWindowDeregister(x[i].comm, win[i]));
	}
	// A group that fails leaves no window behind.
	OK(ncclGroupStart());
	for (int i = 0; i < n; i++) OK(ncclCommWindowRegister(x[i].comm, plain[i], sizeof plain[i], &win[i], 0));
	EXPECT(ncclCommWindowRegister(x[0].comm, plain[0], 1, &win[0], 0x40), ncclInvalidArgument);
	EXPECT(ncclGroupEnd(), ncclInvalidArgument);
	for (int i = 0; i < n; i++) CHECK(!win[i]);
	meet(x, n);
}

// gpu checks what only a GPU has: the device API is announced, and kernels see an abort.
static int gpu(struct rank *x, int n) {
	ncclCommProperties_t p = NCCL_COMM_PROPERTIES_INITIALIZER;
	OK(ncclCommQueryProperties(x[0].comm, &p));
	CHECK(p.deviceApiSupport && !p.multimemSupport && !p.ginType && p.nLsaTeams == 1);
	int version;
	OK(ncclGetVersion(&version));
	CHECK(p.devCommRuntimeVersionSize == devcomm_layout((unsigned)version)->size);
	OK(ncclGroupStart());
	for (int i = 0; i < n; i++) begin(&x[i], 23203);
	OK(ncclGroupEnd());
	for (int i = 0; i < n; i++) {
		look(&x[i], 23203, devcomm_layout(23203));
		volatile uint32_t *word = (void *)x[i].k.abort;
		CHECK(word && !*word);
		OK(ncclCommAbort(x[i].comm));
		CHECK(*word); // and the memory is there: the kernel may still poll it
	}
	return 0;
}

// another uses a second communicator of the same ranks beside the first, and ends it with its windows.
static void another(int n) {
	static struct rank x[MOST];
	ncclComm_t comms[MOST];
	OK(ncclCommInitAll(comms, n, NULL));
	for (int i = 0; i < n; i++) x[i] = (struct rank){.comm = comms[i], .rank = i};
	windows(x, n);
	for (int i = 0; i < n; i++) OK(ncclCommDestroy(comms[i]));
}

int main(int argc, char **argv) {
	CHECK(argc >= 3);
	static struct rank x[MOST];
	ncclComm_t comms[MOST];
	int n = 1;
	ranks = atoi(argv[2]);
	CHECK(ranks <= MOST);
	if (!strcmp(argv[1], "group")) {
		OK(ncclCommInitAll(comms, n = ranks, NULL));
		for (int i = 0; i < n; i++) x[i] = (struct rank){.comm = comms[i], .rank = i};
	} else {
		CHECK(argc == 5);
		int rank = atoi(argv[3]);
		OK(ncclCommInitRank(comms, ranks, share_id(argv[4], rank), rank));
		x[0] = (struct rank){.comm = comms[0], .rank = rank};
	}
	refusals(x, n);
	windows(x, n);
	if (n > 1) another(n);
	devcomms(x, n);
	meet(x, n);
	if (argc == 4) return gpu(x, n);
	for (int i = 0; i < n; i++) OK(ncclCommDestroy(comms[i]));
	return 0;
}
