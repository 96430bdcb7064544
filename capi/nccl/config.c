// ncclConfig_t of old and new callers.
//
// 1. Begin with all fields undefined; copy the bytes that both sides know.
// 2. Reset the fields that the caller's version does not have. The size does not identify the version, since later
//    versions used padding.
// 3. Check ranges. 4. Undefined fields get their defaults. 5. The environment overrides.
#include "shim.h"

#include <string.h>

_Static_assert(sizeof(ncclConfig_t) == 120, "ncclConfig_t");
_Static_assert(sizeof(ncclCollConfig_t) == 72, "ncclCollConfig_t");

// A field, the version that introduced it, and its range; low > high: any value.
static const struct field { const char *name; size_t offset; unsigned since; int low, high; } fields[] = {
#define FIELD(name, since, low, high) {#name, offsetof(ncclConfig_t, name), since, low, high}
	FIELD(blocking, 21400, 0, 1),
	FIELD(cgaClusterSize, 21700, 0, INT_MAX),
	FIELD(minCTAs, 21700, 1, INT_MAX),
	FIELD(maxCTAs, 21700, 1, INT_MAX),
	FIELD(splitShare, 21800, 0, 1),
	FIELD(trafficClass, 22500, 1, 0),
	FIELD(collnetEnable, 22703, 0, 1),
	FIELD(CTAPolicy, 22703, 0, 3),
	FIELD(shrinkShare, 22703, 0, 1),
	FIELD(nvlsCTAs, 22703, 1, INT_MAX),
	FIELD(nChannelsPerNetPeer, 22803, 1, INT_MAX),
	FIELD(nvlinkCentricSched, 22803, 0, 1),
	FIELD(graphUsageMode, 22902, 0, 2),
	FIELD(numRmaCtx, 22902, 0, INT_MAX),
	FIELD(maxP2pPeers, 23003, 1, INT_MAX),
	FIELD(graphStreamOrdering, 23005, 0, 1),
	FIELD(launchOrderImplicit, 23102, 0, 1),
	FIELD(numRmaSig, 23102, 0, INT_MAX),
	FIELD(rmaEagerInit, 23102, 0, 1),
	FIELD(hostCftMode, 23102, ncclHostCftEnable, ncclHostCftFallback),
	FIELD(nvlsHostMode, 23203, 0, INT_MAX),
};

static int *at(ncclConfig_t *c, const struct field *f) { return (int *)((char *)c + f->offset); }

static void undefined(ncclConfig_t *c) {
	static const ncclConfig_t none = NCCL_CONFIG_INITIALIZER;
	*c = none;
}

static ncclResult_t read_config(const ncclConfig_t *in, ncclConfig_t *c, const char *what) {
	undefined(c);
	if (in->magic != NCCL_API_MAGIC || in->size < offsetof(ncclConfig_t, cgaClusterSize))
		return shim_fail(ncclInvalidArgument,
				 "%s: the config was not initialised with NCCL_CONFIG_INITIALIZER (magic %#x, size %zu)", what,
				 in->magic, in->size);
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
	if (c->hostCftMode == ncclHostCftEnable)
		return shim_fail(ncclInvalidUsage, "%s: config.hostCftMode is 1: goccl has no CFT: use 2 or 3", what);
	return ncclSuccess;
}

// blocks is a number of thread blocks, contexts or signals for the core, whose "not given" is 0.
static uint16_t blocks(int n) { return n == NCCL_CONFIG_UNDEF_INT ? 0 : n > UINT16_MAX ? UINT16_MAX : n; }

// policy converts flags, of which the one that spares most holds.
static uint32_t policy(int flags) {
	if (flags == NCCL_CONFIG_UNDEF_INT) return 0;
	return flags & NCCL_CTA_POLICY_ZERO ? GOCCL_CTA_POLICY_ZERO
	       : flags			    ? GOCCL_CTA_POLICY_EFFICIENCY
					    : GOCCL_CTA_POLICY_DEFAULT;
}

// graphs converts graphUsageMode (0: no graphs, 1: one at a time, 2, the default: any mix) and graphStreamOrdering to
// goccl_comm_config.separate_graphs. NCCL does not support mode 2 without the order of streams; here the order of
// graphs goes with it.
static uint64_t graphs(const ncclConfig_t *c) {
	int ordering = c->graphStreamOrdering;
	const char *s = shim_setting("NCCL_GRAPH_STREAM_ORDERING");
	if (ordering == NCCL_CONFIG_UNDEF_INT && s) ordering = strcmp(s, "0") != 0;
	if (ordering == 0) return 2;
	return c->graphUsageMode == 0 || c->graphUsageMode == 1;
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
	out->op_timeout_ns = -1; // as NCCL: no limit
	out->name = c.commName;
	out->non_blocking = c.blocking == 0;
	out->separate_graphs = graphs(&c);
	out->min_ctas = blocks(c.minCTAs), out->max_ctas = blocks(c.maxCTAs), out->cta_policy = policy(c.CTAPolicy);
	out->rma_contexts = blocks(c.numRmaCtx), out->rma_signals = blocks(c.numRmaSig);
	const char *s = shim_setting("NCCL_COMM_BLOCKING");
	if (s && (!strcmp(s, "0") || !strcmp(s, "1"))) out->non_blocking = *s == '0';
	return ncclSuccess;
}

// bad_call describes the fault of a call's configuration, or returns NULL.
static const char *bad_call(const ncclCollConfig_t *c) {
	if (c->magic != NCCL_API_MAGIC || c->size < offsetof(ncclCollConfig_t, launchCompletionEvent))
		return "was not initialised with NCCL_COLLCONFIG_INITIALIZER";
	const struct { const char *name; int value, low, high; } fields[] = {
		{"minCTAs", c->minCTAs, 1, INT_MAX}, {"maxCTAs", c->maxCTAs, 1, INT_MAX},
		{"nvlsCTAs", c->nvlsCTAs, 1, INT_MAX}, {"cgaClusterSize", c->cgaClusterSize, 0, INT_MAX},
		{"CTAPolicy", c->CTAPolicy, 0, 3}, {"forceAlgSelection", c->forceAlgSelection, 0, 1},
	};
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
		if (fields[i].value != NCCL_CONFIG_UNDEF_INT && (fields[i].value < fields[i].low || fields[i].value > fields[i].high))
			return fields[i].name;
	if (c->minCTAs != NCCL_CONFIG_UNDEF_INT && c->maxCTAs != NCCL_CONFIG_UNDEF_INT && c->minCTAs > c->maxCTAs)
		return "minCTAs, which is larger than maxCTAs";
	return NULL;
}

// extend adds goccl's options to a call's configuration. It returns the number of one that it does not know or whose
// value is out of range, or 0.
static int extend(goccl_call_config *c, const ncclConfigExt_t *e) {
	for (; e; e = e->next) {
		if (e->key.vendorId != GOCCL_VENDOR_ID) continue;
		if (e->key.optionId == GOCCL_OPTION_ALGORITHM && e->val.s) c->algorithms = e->val.s;
		else if (e->key.optionId == GOCCL_OPTION_MAX_CTAS && e->val.i > 0) c->max_ctas = blocks(e->val.i);
		else if (e->key.optionId == GOCCL_OPTION_EXACT && e->val.i >= 0 && e->val.i <= GOCCL_EXACT_REFERENCE)
			c->exact = (uint32_t)e->val.i;
		else return e->key.optionId ? e->key.optionId : -1;
	}
	return 0;
}

// NVLS and clusters do not exist here. launchCompletionEvent is newer than the rest.
ncclResult_t shim_configured(goccl_request *req, const ncclCollConfig_t *in, const char *what) {
	const char *bad = bad_call(in);
	if (bad) return shim_remember(shim_fail(ncclInvalidArgument, "%s: the config of the call: %s", what, bad));
	goccl_call_config c = {.size = sizeof c, .min_ctas = blocks(in->minCTAs), .max_ctas = blocks(in->maxCTAs),
			       .cta_policy = policy(in->CTAPolicy),
			       .algorithms = in->algSelection, .force = in->forceAlgSelection != 0};
	int option = extend(&c, in->ext);
	if (option)
		return shim_remember(shim_fail(ncclInvalidArgument, "%s: the config of the call: goccl's option %d has a value that "
					       "is out of range, or is not known to this version", what, option));
	if (in->size >= sizeof *in && in->version >= 23203) c.launched = (uintptr_t)in->launchCompletionEvent;
	req->config = &c;
	return shim_submit(req, what);
}
