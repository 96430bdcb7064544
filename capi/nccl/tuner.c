// The tuner plugin. Its choice becomes the configuration of a call that has none:
//
//   Tree and LL, LL128             one shot: every rank sends all its data to all others (one_shot_ll, one_shot_ll128)
//   Ring and LL, LL128             two shots: slices to their owners, results back; of collectives that have only one
//                                  shot, that
//   Ring and Simple                the ring
//   channels                       the number of thread blocks, where there is enough to do
//
// Other algorithms do not exist here. All ranks must get the same answer, as with NCCL.
#include "plugged.h"

#include <stdlib.h>
#include <string.h>

static const struct tuner *tuner;
static int version;

int shim_find_tuner(void) {
	tuner = shim_plugin("NCCL_TUNER_PLUGIN", "tuner", "ncclTunerPlugin_v", &version);
	if (version < 2) tuner = NULL;
	return tuner != NULL;
}

void shim_tuner_begins(struct plugged *p) {
	if (!tuner) return;
	struct tuner_domains domains = {1, p->size, p->size};
	static _Thread_local double constants[256]; // NCCL's model, which is not ours; a tuner may write there
	size_t n = (size_t)p->size;
	p->tuned = !(version >= 5 ? tuner->init5(&p->tuner, p->hash, n, 1, shim_plugin_log, &domains, constants)
				  : tuner->init2(n, 1, shim_plugin_log, &p->tuner));
}

void shim_tuner_ends(struct plugged *p) {
	if (p->tuned) tuner->finalize(p->tuner);
}

size_t shim_request_bytes(const goccl_request *r, int size) {
	size_t bytes;
	shim_request_type(r, &bytes);
	bytes *= r->count;
	return r->collective == GOCCL_ALL_GATHER || r->collective == GOCCL_REDUCE_SCATTER ? bytes * (size_t)size : bytes;
}

static const char *const names[TUNER_ALGORITHMS][TUNER_PROTOCOLS] = {
	[TUNER_TREE] = {[TUNER_LL] = "one_shot_ll,one_shot", [TUNER_LL128] = "one_shot_ll128,one_shot"},
	[TUNER_RING] = {[TUNER_LL] = "two_shot_ll,one_shot_ll,two_shot",
		[TUNER_LL128] = "two_shot_ll128,one_shot_ll128,two_shot",
			[TUNER_SIMPLE] = "ring,direct"},
};

// ask returns the names of the tuner's choice, or NULL when it has none, and the channels, or 0.
static const char *ask(struct plugged *p, const goccl_request *r, int func, size_t ops, int *channels) {
	float table[TUNER_ALGORITHMS][TUNER_PROTOCOLS], before[TUNER_ALGORITHMS][TUNER_PROTOCOLS];
	size_t bytes = shim_request_bytes(r, p->size);
	int algorithm = -1, protocol = -1;
	*channels = 0;
	for (int a = 0; a < TUNER_ALGORITHMS; a++)
		for (int k = 0; k < TUNER_PROTOCOLS; k++) table[a][k] = names[a][k] ? 1.0f : -1.0f;
	memcpy(before, table, sizeof table);
	ncclResult_t bad;
	float **costs = (float **)(void *)table; // in spite of its type it is one array
	if (version == 2) bad = tuner->get2(p->tuner, func, bytes, 0, 0, (int)ops, &algorithm, &protocol, channels);
	else if (version == 3)
		bad = tuner->get3(p->tuner, func, bytes, (int)ops, costs, TUNER_ALGORITHMS, TUNER_PROTOCOLS, channels);
	else bad = tuner->get4(p->tuner, func, bytes, (int)ops, costs, TUNER_ALGORITHMS, TUNER_PROTOCOLS, 0, channels);
	if (bad) return *channels = 0, NULL;
	if (version > 2 && memcmp(before, table, sizeof table)) { // the cheapest
		float least = -1;
		for (int a = 0; a < TUNER_ALGORITHMS; a++)
			for (int k = 0; k < TUNER_PROTOCOLS; k++)
				if (names[a][k] && table[a][k] >= 0 && (least < 0 || table[a][k] < least))
					least = table[a][k], algorithm = a, protocol = k;
	}
	if (algorithm < 0 || algorithm >= TUNER_ALGORITHMS || protocol < 0 || protocol >= TUNER_PROTOCOLS) return NULL;
	return names[algorithm][protocol];
}

goccl_call_config *shim_tune(goccl_request *reqs, size_t n) {
	goccl_call_config *all = tuner ? calloc(n, sizeof *all) : NULL;
	for (size_t i = 0; i < n && all; i++) {
		int func, channels;
		shim_request_func(&reqs[i], &func);
		if (reqs[i].config || func == FUNC_NONE || func >= FUNC_SENDRECV) continue;
		struct plugged *p = shim_plugged_comm(reqs[i].comm);
		if (!p || !p->tuned) continue;
		const char *chosen = ask(p, &reqs[i], func, n, &channels);
		if (!chosen && channels <= 0) continue;
		uint16_t blocks = channels > 0 ? (uint16_t)(channels > UINT16_MAX ? UINT16_MAX : channels) : 0;
		all[i] = (goccl_call_config){.size = sizeof *all, .min_ctas = blocks, .max_ctas = blocks, .algorithms = chosen};
		reqs[i].config = &all[i];
	}
	return all;
}
