// Communicators: a goccl_comm handle stored in a pointer.
#include <string.h>

#include "shim.h"

// IN_GROUP returns r, and makes the thread's group fail with it.
#define IN_GROUP(r) return shim_remember(r)

NCCL(GetUniqueId, ncclUniqueId *id) {
	if (!id) BAD("ncclGetUniqueId: uniqueId is NULL");
	NEED_CORE;
	_Static_assert(sizeof *id == sizeof(goccl_unique_id), "ncclUniqueId");
	return shim_result(core.unique_id_create(SHIM_TIMEOUT, (goccl_unique_id *)id), SELF);
}

// Plugins are opened with the first communicator.
static ncclResult_t start(
	ncclComm_t *out, int nranks, const ncclUniqueId *id, int rank, const ncclConfig_t *config, const char *what) {
	if (!out) BAD("%s: the place for the communicator is NULL", what);
	*out = NULL;
	shim_find_plugins();
	if (nranks < 1 || rank < 0 || rank >= nranks) BAD("%s: rank %d of %d", what, rank, nranks);
	NEED_CORE;
	goccl_comm_config c;
	goccl_device device;
	goccl_comm comm;
	ncclResult_t r = shim_config(config, &c, what);
	if (!r) r = shim_result(core.device_current(rank, &device), what);
	if (!r) r = shim_result(core.comm_start((const goccl_unique_id *)id, rank, nranks, device, &c, &comm), what);
	if (r) IN_GROUP(r);
	*out = (ncclComm_t)(uintptr_t)comm;
	return shim_started(out, comm, c.non_blocking, what);
}

NCCL(CommInitRank, ncclComm_t *comm, int nranks, ncclUniqueId id, int rank) {
	return start(comm, nranks, &id, rank, NULL, SELF);
}

NCCL(CommInitRankConfig, ncclComm_t *comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config) {
	return start(comm, nranks, &id, rank, config, SELF);
}

// All ranks have the same list, so the first id is enough; the processes that serve the other ids do nothing.
NCCL(CommInitRankScalable, ncclComm_t *comm, int nranks, int rank, int n, ncclUniqueId *ids,
	ncclConfig_t *config) {
	if (n < 1 || n > nranks || !ids) BAD("%s: %d unique ids for %d ranks", SELF, n, nranks);
	ncclResult_t r = start(comm, nranks, &ids[0], rank, config, SELF);
	for (int i = 1; i < n && (r == ncclSuccess || r == ncclInProgress); i++)
		core.unique_id_close((const goccl_unique_id *)&ids[i]);
	return r;
}

NCCL(CommInitAll, ncclComm_t *comms, int n, const int *devlist) {
	if (!comms || n < 1) BAD("%s: %d devices, communicators at %p", SELF, n, (void *)comms);
	NEED_CORE;
	goccl_comm_config c;
	ncclResult_t r = shim_config(NULL, &c, SELF);
	if (r) IN_GROUP(r);
	c.non_blocking = 0;
	shim_find_plugins();
	goccl_device devices[n];
	for (int i = 0; i < n; i++) {
		r = shim_result(core.device_open(0, devlist ? devlist[i] : i, &devices[i]), SELF);
		if (r) IN_GROUP(r);
	}
	_Static_assert(sizeof *comms == sizeof(goccl_comm), "ncclComm_t");
	r = shim_result(core.comm_init_all(n, devices, &c, (goccl_comm *)comms), SELF);
	for (int i = 0; i < n && !r; i++) shim_plug(comms[i]);
	IN_GROUP(r);
}

// DESCEND ends a call that makes newcomm of comm: by begin, a function of the core, with the arguments between its
// first and config. A child is 0 if this rank gets none.
#define DESCEND(begin, ...) \
	NEED_CORE; \
	goccl_comm_config c; \
	goccl_comm_info parent; \
	goccl_comm child = 0; \
	ncclResult_t r = shim_result(core.comm_info_get(handle(comm), &parent), SELF); \
	if (!r) r = shim_config(config, &c, SELF); \
	if (!r) r = shim_result(core.begin(handle(comm), __VA_ARGS__, config ? &c : NULL, &child), SELF); \
	if (r) IN_GROUP(r); \
	*newcomm = (ncclComm_t)(uintptr_t)child; \
	return shim_started(newcomm, child ? child : handle(comm), parent.non_blocking, SELF)

NCCL(CommSplit, ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config) {
	if (!newcomm) BAD("%s: newcomm is NULL", SELF);
	*newcomm = NULL;
	DESCEND(comm_split_start, color, key);
}

NCCL(CommShrink, ncclComm_t comm, int *exclude, int n, ncclComm_t *newcomm, ncclConfig_t *config, int flags) {
	if (!newcomm || !exclude || n < 1) BAD("%s: %d ranks to exclude, newcomm at %p", SELF, n, (void *)newcomm);
	*newcomm = NULL;
	if (flags & ~NCCL_SHRINK_ABORT) BAD("%s: flags %#x", SELF, (unsigned)flags);
	DESCEND(comm_shrink_start, exclude, n, flags & NCCL_SHRINK_ABORT);
}

NCCL(CommGetUniqueId, ncclComm_t comm, ncclUniqueId *id) {
	if (!id) BAD("%s: uniqueId is NULL", SELF);
	NEED_CORE;
	return shim_remember(shim_result(core.comm_unique_id(handle(comm), SHIM_TIMEOUT, (goccl_unique_id *)id), SELF));
}

// Existing ranks pass comm and rank -1, and one of them also passes id. New ranks pass comm NULL, id and their rank.
NCCL(CommGrow, ncclComm_t comm, int n, const ncclUniqueId *id, int rank, ncclComm_t *newcomm,
	ncclConfig_t *config) {
	if (!newcomm) BAD("%s: newcomm is NULL", SELF);
	*newcomm = NULL;
	if (!comm) {
		if (!id) BAD("%s: a new rank needs the unique id of ncclCommGetUniqueId", SELF);
		return start(newcomm, n, id, rank, config, SELF);
	}
	if (rank != -1) BAD("%s: rank %d: a rank of comm keeps its number: pass -1", SELF, rank);
	DESCEND(comm_grow_start, n, (const goccl_unique_id *)id);
}

// pause suspends or resumes.
static ncclResult_t pause_comm(ncclComm_t comm, goccl_result (*begin)(goccl_comm), const char *what) {
	static ncclComm_t none; // there is no new communicator
	goccl_comm_info info;
	ncclResult_t r = shim_result(core.comm_info_get(handle(comm), &info), what);
	if (!r) r = shim_result(begin(handle(comm)), what);
	if (r) IN_GROUP(r);
	return shim_started(&none, handle(comm), info.non_blocking, what);
}

NCCL(CommSuspend, ncclComm_t comm, int flags) {
	if (flags != NCCL_SUSPEND_MEM) BAD("%s: flags %#x: only NCCL_SUSPEND_MEM is known", SELF, (unsigned)flags);
	NEED_CORE;
	return pause_comm(comm, core.comm_suspend_start, SELF);
}

NCCL(CommResume, ncclComm_t comm) {
	NEED_CORE;
	return pause_comm(comm, core.comm_resume_start, SELF);
}

NCCL(CommMemStats, ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value) {
	if (!value) BAD("%s: value is NULL", SELF);
	NEED_CORE;
	uint64_t suspendable, persistent;
	int32_t suspended;
	ncclResult_t r = shim_result(core.comm_memory(handle(comm), &suspendable, &persistent, &suspended), SELF);
	if (r) IN_GROUP(r);
	const uint64_t known[] = {[ncclStatGpuMemSuspend] = suspendable, [ncclStatGpuMemSuspended] = (uint64_t)suspended,
		[ncclStatGpuMemPersist] = persistent, [ncclStatGpuMemTotal] = persistent + (suspended ? 0 : suspendable)};
	if ((unsigned)stat >= sizeof known / sizeof *known) BAD("%s: statistic %d is not known", SELF, (int)stat);
	*value = known[stat];
	return ncclSuccess;
}

// destroy ends a communicator; NULL is no communicator, and no failure. In a group, ends other than aborts take effect
// at the end of the group.
static ncclResult_t destroy(ncclComm_t comm) {
	shim_unplug(comm);
	goccl_result r = core.comm_destroy(handle(comm));
	shim_windows_end(handle(comm), 0);
	return shim_exiting(r) ? ncclSuccess : shim_result(r, "ncclCommDestroy");
}

// A second finalize is an invalid argument in NCCL; the core calls it invalid usage.
static ncclResult_t finalize(ncclComm_t comm) {
	goccl_result r = core.comm_finalize(handle(comm));
	if (shim_exiting(r)) return ncclSuccess;
	if (r == GOCCL_INVALID_USAGE) return shim_fail(ncclInvalidArgument, "ncclCommFinalize: %s", core.last_error());
	return shim_result(r, "ncclCommFinalize");
}

NCCL(CommDestroy, ncclComm_t comm) {
	if (!comm || shim_exiting(0)) return ncclSuccess;
	NEED_CORE;
	return shim_ends(comm, destroy, SELF);
}

NCCL(CommFinalize, ncclComm_t comm) {
	if (!comm || shim_exiting(0)) return ncclSuccess;
	NEED_CORE;
	return shim_ends(comm, finalize, SELF);
}

NCCL(CommAbort, ncclComm_t comm) {
	if (!comm || shim_exiting(0)) return ncclSuccess;
	NEED_CORE;
	shim_forget(comm);
	goccl_result r = core.comm_abort(handle(comm));
	shim_windows_end(handle(comm), 1);
	shim_unplug(comm);
	return shim_exiting(r) ? ncclSuccess : shim_result(r, SELF);
}

NCCL(CommRevoke, ncclComm_t comm, int flags) {
	if (!comm) return ncclSuccess;
	if (flags != NCCL_REVOKE_DEFAULT) BAD("ncclCommRevoke: flags %#x", (unsigned)flags);
	NEED_CORE;
	return shim_result(core.comm_revoke(handle(comm)), SELF);
}

NCCL(CommGetAsyncError, ncclComm_t comm, ncclResult_t *async) {
	if (!async) BAD("%s: asyncError is NULL", SELF);
	*async = ncclSuccess;
	if (shim_exiting(0)) return ncclSuccess; // a watchdog that outlives main
	NEED_CORE;
	goccl_comm_info info;
	goccl_result r = core.comm_error(handle(comm));
	if (shim_exiting(r)) return ncclSuccess;
	if (r == GOCCL_INVALID_ARGUMENT && core.comm_info_get(handle(comm), &info) == GOCCL_INVALID_ARGUMENT)
		return shim_result(r, SELF);
	*async = shim_result(r, SELF);
	if (*async == ncclSuccess) shim_plug(comm);
	return ncclSuccess;
}

static ncclResult_t info(ncclComm_t comm, const void *out, goccl_comm_info *i, const char *what) {
	if (!out) BAD("%s: the place for the result is NULL", what);
	NEED_CORE;
	return shim_result(core.comm_info_get(handle(comm), i), what);
}

#define TELLS(name, field) \
	ncclResult_t pnccl##name(const ncclComm_t comm, int *out) { \
		goccl_comm_info i; \
		ncclResult_t r = info(comm, out, &i, "nccl" #name); \
		if (!r) *out = i.field; \
		return r; \
	} \
	WEAK(nccl##name)
TELLS(CommCount, size);
TELLS(CommUserRank, rank);
TELLS(CommCuDevice, device_index);

// Sizes of ncclCommProperties_t: 40 with the first fields, 56 from 2.29.7, 144 from 2.31, 152 now. A caller that is
// newer than this library gets the fields that are known here; the rest stays as the caller initialised it.
NCCL(CommQueryProperties, ncclComm_t comm, ncclCommProperties_t *p) {
	_Static_assert(sizeof *p == 152 && offsetof(ncclCommProperties_t, commHash) == 56, "ncclCommProperties_t");
	goccl_comm_info i;
	if (p && (p->magic != NCCL_API_MAGIC || p->size < offsetof(ncclCommProperties_t, deviceApiSupport)))
		BAD("%s: props was not initialised with NCCL_COMM_PROPERTIES_INITIALIZER", SELF);
	ncclResult_t r = info(comm, p, &i, SELF);
	if (r) return r;
	// There is no multicast, no GIN and no CFT.
	ncclCommProperties_t mine = {.size = p->size, .magic = p->magic, .version = p->version, .rank = i.rank,
		.nRanks = i.size, .cudaDev = i.device_index, .nvmlDev = i.device_index, .nLsaTeams = 1};
	if ((r = shim_result(core.comm_hash(handle(comm), &mine.commHash), SELF))) return r;
	shim_device_properties(comm, &mine);
	memcpy(p, &mine, p->size < sizeof mine ? p->size : sizeof mine);
	return ncclSuccess;
}

ncclTeam_t pncclTeamWorld(ncclComm_t comm) {
	goccl_comm_info i = {0};
	ncclTeam_t t = {0};
	if (shim_core() || core.comm_info_get(handle(comm), &i)) return t;
	return (ncclTeam_t){i.size, i.rank, 1};
}
WEAK(ncclTeamWorld);

// All ranks are one NVLink domain.
ncclTeam_t pncclTeamLsa(ncclComm_t comm) { return pncclTeamWorld(comm); }
WEAK(ncclTeamLsa);

ncclTeam_t pncclTeamRail(ncclComm_t comm) {
	ncclTeam_t t = pncclTeamWorld(comm);
	return t.nRanks ? (ncclTeam_t){1, 0, t.nRanks} : t;
}
WEAK(ncclTeamRail);

int pncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank) {
	ncclTeam_t world = pncclTeamWorld(comm);
	return world.rank + (rank - team.rank) * team.stride;
}
WEAK(ncclTeamRankToWorld);

int pncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank) { return pncclTeamRankToWorld(comm, team, rank); }
WEAK(ncclTeamRankToLsa);
