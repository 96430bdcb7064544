// Every collective, type and operator, in and out of place, against values computed here.
//   suite all N | threads N | group N | process N RANK FILE
// All values are chosen so that every type holds every intermediate result exactly, whatever the order.
#include "test.h"

static int n; // ranks

static const struct { int size, exponent, mantissa, bias;
} formats[ncclNumTypes] = {
	[ncclInt8] = {1},
	[ncclUint8] = {1},
	[ncclInt32] = {4},
	[ncclUint32] = {4},
	[ncclInt64] = {8},
	[ncclUint64] = {8},
	[ncclFloat16] = {2, 5, 10, 15},
	[ncclFloat32] = {4, 8, 23, 127},
	[ncclFloat64] = {8, 11, 52, 1023},
	[ncclBfloat16] = {2, 8, 7, 127},
	[ncclFloat8e4m3] = {1, 4, 3, 7},
	[ncclFloat8e5m2] = {1, 5, 2, 15},
};

// put writes a value that the type can hold, bit by bit.
static void put(void *to, ncclDataType_t t, double v) {
	uint64_t bits = (uint64_t)(int64_t)v;
	if (formats[t].exponent) {
		int e;
		double m = frexp(v, &e); // v = m · 2^e, m in [0.5, 1)
		bits = v == 0 ? 0
			      : ((uint64_t)(e - 1 + formats[t].bias) << formats[t].mantissa) |
					(uint64_t)ldexp(2 * m - 1, formats[t].mantissa);
	}
	memcpy(to, &bits, formats[t].size);
}

static double input(int rank, size_t i) { return 1 + (rank + i / 3 + i % 5) % 2; } // 1 or 2

// kinds of cases
enum {
	ALL_REDUCE, REDUCE, REDUCE_SCATTER, BROADCAST, BCAST, ALL_GATHER, ALL_TO_ALL, GATHER, SCATTER, SEND_RECV,
	ALL_TO_ALL_V, ALL_TO_ALL_V_MATRIX, ALL_TO_ALL_V_RELAYCOUNT, KINDS
};

typedef struct { int kind, inplace, root; ncclDataType_t type; ncclRedOp_t op; size_t count; int mul; } test;

static double reduced(const test *c, size_t i) {
	double a = c->op == ncclProd ? 1 : c->op == ncclMin ? 9 : 0;
	for (int r = 0; r < n; r++) {
		double x = input(r, i);
		if (c->op == ncclProd) a *= x;
		else if (c->op == ncclMax) a = x > a ? x : a;
		else if (c->op == ncclMin) a = x < a ? x : a;
		else a += c->mul ? x * (1 + r % 2) : x;
	}
	if (c->op == ncclAvg && !c->mul) a = formats[c->type].exponent ? a / n : floor(a / n);
	return a;
}

typedef struct { char *send, *recv; size_t sendBytes, recvBytes; } buffers;
// Elements of an all-to-all-v; 0 among them.
static size_t vcount(int from, int to) { return (size_t)((3 * from + to) % 4); }

static size_t elements(const test *c, int recv) {
	int wide;
	switch (c->kind) {
	case ALL_GATHER: case GATHER: wide = recv; break;
	case REDUCE_SCATTER: case SCATTER: wide = !recv; break;
	case ALL_TO_ALL: wide = 1; break;
	case ALL_TO_ALL_V: case ALL_TO_ALL_V_MATRIX: case ALL_TO_ALL_V_RELAYCOUNT: return 4 * n;
	default: wide = 0;
	}
	return c->count * (wide ? n : 1);
}

static void prepare(const test *c, int rank, buffers *b) {
	size_t size = formats[c->type].size, s = elements(c, 0), r = elements(c, 1);
	b->sendBytes = s * size, b->recvBytes = r * size;
	char *mem = malloc(b->sendBytes + b->recvBytes + 64);
	memset(mem, 0x5a, b->sendBytes + b->recvBytes + 64);
	b->send = mem, b->recv = mem + b->sendBytes;
	if (c->inplace) {
		b->recv = mem;
		if (c->kind == ALL_GATHER) b->send = mem + rank * c->count * size;
		if (c->kind == GATHER && rank == c->root) b->send = mem + rank * c->count * size;
		if (c->kind == REDUCE_SCATTER) b->recv = mem + rank * c->count * size;
		if (c->kind == SCATTER && rank == c->root) b->recv = mem + rank * c->count * size;
	}
	for (size_t i = 0; i < s; i++) put(b->send + i * size, c->type, input(rank, i));
}

static ncclRedOp_t operator_of(const test *c, int rank, ncclComm_t comm) {
	ncclRedOp_t op = c->op;
	if (c->mul) {
		char scalar[8];
		put(scalar, c->type, 1 + rank % 2);
		OK(ncclRedOpCreatePreMulSum(&op, scalar, c->type, ncclScalarHostImmediate, comm));
		CHECK(op >= ncclNumOps);
	}
	return op;
}

typedef ncclResult_t (*relaycount_form)(const void *, const size_t *, const size_t *, void *, const size_t *,
	const size_t *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t);

static relaycount_form volatile relaycount;

static void call(const test *c, int rank, ncclComm_t comm, buffers *b) {
	ncclDataType_t t = c->type;
	size_t k = c->count;
	switch (c->kind) {
	case ALL_REDUCE: case REDUCE: case REDUCE_SCATTER: {
		ncclRedOp_t op = operator_of(c, rank, comm);
		if (c->kind == ALL_REDUCE) OK(ncclAllReduce(b->send, b->recv, k, t, op, comm, NULL));
		else if (c->kind == REDUCE) OK(ncclReduce(b->send, rank == c->root ? b->recv : NULL, k, t, op, c->root, comm, NULL));
		else OK(ncclReduceScatter(b->send, b->recv, k, t, op, comm, NULL));
		if (c->mul) OK(ncclRedOpDestroy(op, comm)); // allowed before the group ends
		return;
	}
	case BROADCAST: OK(ncclBroadcast(rank == c->root ? b->send : NULL, b->recv, k, t, c->root, comm, NULL)); return;
	case BCAST: OK(ncclBcast(b->send, k, t, c->root, comm, NULL)); return;
	case ALL_GATHER: OK(ncclAllGather(b->send, b->recv, k, t, comm, NULL)); return;
	case ALL_TO_ALL: OK(ncclAlltoAll(b->send, b->recv, k, t, comm, NULL)); return;
	case GATHER: OK(ncclGather(b->send, rank == c->root ? b->recv : NULL, k, t, c->root, comm, NULL)); return;
	case SCATTER: OK(ncclScatter(rank == c->root ? b->send : NULL, b->recv, k, t, c->root, comm, NULL)); return;
	case SEND_RECV: // a ring
		OK(ncclGroupStart());
		OK(ncclRecv(b->recv, k, t, (rank + n - 1) % n, comm, NULL));
		OK(ncclSend(b->send, k, t, (rank + 1) % n, comm, NULL));
		OK(ncclGroupEnd());
		return;
	}
	size_t sc[n * n], sd[n * n], rc[n * n], rd[n * n];
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++)
			sc[i * n + j] = vcount(i, j), rc[i * n + j] = vcount(j, i), sd[i * n + j] = 4 * j,
				   rd[i * n + j] = 4 * j;
	if (c->kind == ALL_TO_ALL_V)
		OK(ncclAllToAllv(
			b->send, sc + rank * n, sd + rank * n, b->recv, rc + rank * n, rd + rank * n, t, comm, NULL));
	else if (c->kind == ALL_TO_ALL_V_MATRIX) OK(ncclAlltoAllv(b->send, sc, sd, b->recv, rc, rd, NULL, t, comm, NULL));
	else OK(relaycount(b->send, sc, sd, b->recv, rc, rd, NULL, 17, t, comm, NULL));
	memset(sc, 0xff, sizeof sc), memset(rd, 0xff, sizeof rd); // the arrays were copied
}

static void expect(const test *c, int rank, const buffers *b, size_t i, double v) {
	char want[8];
	size_t size = formats[c->type].size;
	put(want, c->type, v);
	if (memcmp(b->recv + i * size, want, size))
		FAIL("kind %d type %d op %d mul %d count %zu root %d inplace %d: rank %d element %zu is not %g",
			c->kind, c->type, c->op, c->mul, c->count, c->root, c->inplace, rank, i, v);
}

static void verify(const test *c, int rank, buffers *b) {
	size_t k = c->count;
	int root = c->root;
	switch (c->kind) {
	case ALL_REDUCE: for (size_t i = 0; i < k; i++) expect(c, rank, b, i, reduced(c, i)); break;
	case REDUCE: for (size_t i = 0; i < k && rank == root; i++) expect(c, rank, b, i, reduced(c, i)); break;
	case REDUCE_SCATTER: for (size_t i = 0; i < k; i++) expect(c, rank, b, i, reduced(c, rank * k + i)); break;
	case BCAST: b->recv = b->send; /* fall through */
	case BROADCAST: for (size_t i = 0; i < k; i++) expect(c, rank, b, i, input(root, i)); break;
	case ALL_GATHER: for (size_t i = 0; i < n * k; i++) expect(c, rank, b, i, input(i / k, i % k)); break;
	case GATHER: for (size_t i = 0; i < n * k && rank == root; i++) expect(c, rank, b, i, input(i / k, i % k)); break;
	case SCATTER: for (size_t i = 0; i < k; i++) expect(c, rank, b, i, input(root, rank * k + i)); break;
	case ALL_TO_ALL: for (size_t i = 0; i < n * k; i++) expect(c, rank, b, i, input(i / k, rank * k + i % k)); break;
	case SEND_RECV: for (size_t i = 0; i < k; i++) expect(c, rank, b, i, input((rank + n - 1) % n, i)); break;
	default:
		for (int p = 0; p < n; p++)
			for (size_t i = 0; i < vcount(p, rank); i++) expect(c, rank, b, 4 * p + i, input(p, 4 * rank + i));
	}
}

// run one case for the ranks first … first+m-1, which this thread has.
static void run(const test *c, int first, int m, ncclComm_t *comms) {
	buffers b[m];
	for (int i = 0; i < m; i++) prepare(c, first + i, &b[i]);
	char *mem[m];
	for (int i = 0; i < m; i++) mem[i] = b[i].send < b[i].recv ? b[i].send : b[i].recv;
	if (c->kind == GATHER || c->kind == ALL_GATHER || c->kind == REDUCE_SCATTER || c->kind == SCATTER)
		for (int i = 0; i < m; i++) if (c->inplace) mem[i] = NULL; // the start is not known any more: a few bytes stay
	if (m > 1) OK(ncclGroupStart());
	for (int i = 0; i < m; i++) call(c, first + i, comms[i], &b[i]);
	if (m > 1) OK(ncclGroupEnd());
	for (int i = 0; i < m; i++) verify(c, first + i, &b[i]);
	for (int i = 0; i < m; i++) free(mem[i]);
}

static int exact(const test *c) { // an average over three ranks is exact in no binary format
	return c->op != ncclAvg || c->mul || !formats[c->type].exponent || (n & (n - 1)) == 0;
}

static void all(int first, int m, ncclComm_t *comms) {
	static const size_t counts[] = {0, 1, 7, 1013};
	int root = 0;
	for (int kind = 0; kind < KINDS; kind++)
		for (int t = 0; t < ncclNumTypes; t++)
			for (int op = 0; op <= ncclNumOps; op++) { // the last one is a pre-multiplied sum
				if (kind > REDUCE_SCATTER && op > 0) break;
				for (int inplace = 0; inplace < 2; inplace++) {
					if (inplace && (kind >= SEND_RECV || kind == ALL_TO_ALL || kind == BCAST)) break;
					for (int k = 0; k < 4; k++) {
						test c = {kind, inplace, root = (root + 1) % n, t, op == ncclNumOps ? ncclSum : op, counts[k], op == ncclNumOps};
						if (exact(&c)) run(&c, first, m, comms);
					}
				}
			}
}

static ncclUniqueId id;

static void *rank_thread(void *p) {
	int rank = (int)(long)p;
	ncclComm_t comm;
	OK(ncclCommInitRank(&comm, n, id, rank));
	int x = -1;
	OK(ncclCommUserRank(comm, &x)); CHECK(x == rank);
	OK(ncclCommCount(comm, &x)); CHECK(x == n);
	OK(ncclCommCuDevice(comm, &x)); CHECK(x == rank);
	all(rank, 1, &comm);
	OK(ncclCommFinalize(comm));
	EXPECT(ncclCommFinalize(comm), ncclInvalidArgument);
	OK(ncclCommDestroy(comm));
	return NULL;
}

int main(int argc, char **argv) {
	CHECK(argc > 2);
	const char *mode = argv[1];
	relaycount = (relaycount_form)(void *)ncclAlltoAllv;
	n = atoi(argv[2]);
	ncclComm_t comms[n];
	if (!strcmp(mode, "all")) {
		OK(ncclCommInitAll(comms, n, NULL));
		all(0, n, comms);
	} else if (!strcmp(mode, "group")) {
		OK(ncclGetUniqueId(&id));
		OK(ncclGroupStart());
		for (int r = 0; r < n; r++) OK(ncclCommInitRankConfig(&comms[r], n, id, r, NULL));
		OK(ncclGroupEnd());
		all(0, n, comms);
	} else if (!strcmp(mode, "threads")) {
		OK(ncclGetUniqueId(&id));
		on_threads(n, rank_thread);
		return 0;
	} else {
		CHECK(argc == 5);
		int rank = atoi(argv[3]);
		id = share_id(argv[4], rank);
		rank_thread((void *)(long)rank);
		return 0;
	}
	for (int r = 0; r < n; r++) OK(ncclCommDestroy(comms[r]));
	return 0;
}
