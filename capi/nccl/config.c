// ncclConfig_t of old and new callers.
//
// 1. Begin with all fields undefined; copy as many bytes as both sides know.
// 2. Reset the fields that the caller's version does not have. The size does not identify the version, since later
//    versions used padding.
// 3. Check ranges. 4. Undefined fields get their defaults. 5. The environment overrides.
#include "shim.h"

#include <string.h>

_Static_assert(sizeof(ncclConfig_t) == 96, "ncclConfig_t");

// A field, the version that introduced it, and its range; low > high: any value.
static const struct field { const char *name; size_t offset; unsigned since; int low, high; } fields[] = {
#define FIELD(name, since, low, high) {#name, offsetof(ncclConfig_t, name), since, low, high}
	FIELD(blocking, 21400, 0, 1), FIELD(cgaClusterSize, 21700, 0, INT_MAX), FIELD(minCTAs, 21700, 1, INT_MAX), FIELD(maxCTAs, 21700, 1, INT_MAX),
	FIELD(splitShare, 21800, 0, 1), FIELD(trafficClass, 22500, 1, 0), FIELD(collnetEnable, 22703, 0, 1), FIELD(CTAPolicy, 22703, 0, 3),
	FIELD(shrinkShare, 22703, 0, 1), FIELD(nvlsCTAs, 22703, 1, INT_MAX), FIELD(nChannelsPerNetPeer, 22803, 1, INT_MAX),
	FIELD(nvlinkCentricSched, 22803, 0, 1), FIELD(graphUsageMode, 22902, 0, 2), FIELD(numRmaCtx, 22902, 0, INT_MAX), FIELD(maxP2pPeers, 23003, 1, INT_MAX),
	FIELD(graphStreamOrdering, 23005, 0, 1),
};

static int *at(ncclConfig_t *c, const struct field *f) { return (int *)((char *)c + f->offset); }

static void undefined(ncclConfig_t *c) {
	static const ncclConfig_t none = NCCL_CONFIG_INITIALIZER;
	*c = none;
}

static ncclResult_t read_config(const ncclConfig_t *in, ncclConfig_t *c, const char *what) {
	undefined(c);
	if (in->magic != NCCL_API_MAGIC || in->size < offsetof(ncclConfig_t, cgaClusterSize))
		return shim_fail(ncclInvalidArgument, "%s: the config was not initialised with NCCL_CONFIG_INITIALIZER (magic %#x, size %zu)", what, in->magic, in->size);
	unsigned version = in->version;
	memcpy(c, in, in->size < sizeof *c ? in->size : sizeof *c);
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
		if (version < fields[i].since) *at(c, &fields[i]) = NCCL_CONFIG_UNDEF_INT;
	if (version < 21700) c->netName = NULL;
	if (version < 22703) c->commName = NULL;
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
		const struct field *f = &fields[i];
		int v = *at(c, f);
		if (v != NCCL_CONFIG_UNDEF_INT && f->low <= f->high && (v < f->low || v > f->high))
			return shim_fail(ncclInvalidArgument, "%s: config.%s is %d", what, f->name, v);
	}
	if (c->minCTAs != NCCL_CONFIG_UNDEF_INT && c->maxCTAs != NCCL_CONFIG_UNDEF_INT && c->minCTAs > c->maxCTAs)
		return shim_fail(ncclInvalidArgument, "%s: config.minCTAs is %d, config.maxCTAs %d", what, c->minCTAs, c->maxCTAs);
	return ncclSuccess;
}

ncclResult_t shim_config(const ncclConfig_t *in, goccl_comm_config *out, const char *what) {
	ncclConfig_t c;
	undefined(&c);
	if (in) {
		ncclResult_t r = read_config(in, &c, what);
		if (r) return r;
	}
	memset(out, 0, sizeof *out);
	out->size = sizeof *out;
	out->timeout_ns = SHIM_TIMEOUT;
	out->name = c.commName;
	out->non_blocking = c.blocking == 0;
	out->separate_graphs = c.graphUsageMode == 0 || c.graphUsageMode == 1; // no graphs, or one at a time; 2, the default, is any mix
	const char *s = shim_setting("NCCL_COMM_BLOCKING");
	if (s && (!strcmp(s, "0") || !strcmp(s, "1"))) out->non_blocking = *s == '0';
	return ncclSuccess;
}
