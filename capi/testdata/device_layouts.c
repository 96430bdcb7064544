// Prints the layouts of capi/nccl/device_layout.h for every version, under NVIDIA's names, as device_layouts.txt has
// them.
#include "test.h"

#include "../nccl/device_layout.h"

#define SAY(name, value) printf(name " %zu\n", (size_t)(value))
#define AT(name, s, f) SAY(name, offsetof(struct s, f))
// The requirements of 2.28 begin where those of later versions have size, magic and version behind them.
#define REQ(name, field) SAY("ncclDevCommRequirements." name, req + offsetof(struct requirements_22807, field))

static void devcomm(const struct devcomm_layout *l) {
	SAY("ncclDevComm", l->size);
	if (l->versioned) SAY("ncclDevComm.magic", 0), SAY("ncclDevComm.version", 4);
	SAY("ncclDevComm.rank", l->ranks + offsetof(struct ranks, rank));
	SAY("ncclDevComm.nRanks", l->ranks + offsetof(struct ranks, size));
	SAY("ncclDevComm.nRanks_rcp32", l->ranks + offsetof(struct ranks, size_rcp));
	SAY("ncclDevComm.lsaRank", l->ranks + offsetof(struct ranks, lsa_rank));
	SAY("ncclDevComm.lsaSize", l->ranks + offsetof(struct ranks, lsa_size));
	SAY("ncclDevComm.lsaSize_rcp32", l->ranks + offsetof(struct ranks, lsa_size_rcp));
	SAY("ncclDevComm.windowTable", l->table);
	SAY("ncclDevComm.resourceWindow", l->window);
	SAY("ncclDevComm.resourceWindow_inlined.lsaFlatBase", l->base);
	SAY("ncclDevComm.resourceWindow_inlined.stride4G", l->stride4G);
	SAY("ncclDevComm.lsaBarrier", l->barrier);
	if (l->abort) SAY("ncclDevComm.abortFlag", l->abort);
	if (l->hybrid) SAY("ncclDevComm.hybridLsaBarrier", l->hybrid);
}

static void window(unsigned v) {
	size_t size = sizeof(struct device_window);
	if (v < 22807) size = offsetof(struct device_window, gin);
	else if (v < 23004) size = offsetof(struct device_window, gin_windows[4]);
	else if (v < 23203) size = offsetof(struct device_window, spare[1]);
	SAY("ncclWindow_vidmem", size);
	AT("ncclWindow_vidmem.lsaFlatBase", device_window, base);
	AT("ncclWindow_vidmem.lsaRank", device_window, lsa_rank);
	AT("ncclWindow_vidmem.worldRank", device_window, world_rank);
	AT("ncclWindow_vidmem.stride4G", device_window, stride4G);
	AT("ncclWindow_vidmem.mcOffset4K", device_window, multicast);
	if (v >= 23004) AT("ncclWindow_vidmem.numSegments", device_window, segments);
	SAY("ncclDevCommWindowTable", sizeof(struct window_table));
	AT("ncclDevCommWindowTable.next", window_table, next);
}

static void requirements(unsigned v) {
	size_t req = v < 22902 ? 0 : offsetof(struct requirements, r);
	SAY("ncclDevCommRequirements", requirements_size(v));
	REQ("resourceRequirementsList", resources);
	REQ("teamRequirementsList", teams);
	REQ("lsaMultimem", multimem);
	if (v < 22807) AT("ncclDevCommRequirements.lsaBarrierCount", requirements_22803, lsa_barriers);
	else {
		REQ("lsaBarrierCount", lsa_barriers);
		REQ("barrierCount", barriers);
		REQ("railGinBarrierCount", rail_barriers);
		REQ("ginForceEnable", force_gin);
		REQ("ginSignalCount", gin_signals);
		REQ("ginCounterCount", gin_counters);
	}
	if (v >= 22902) {
		AT("ncclDevCommRequirements.magic", requirements, magic);
		AT("ncclDevCommRequirements.version", requirements, version);
	}
	if (v >= 22907) REQ("ginConnectionType", gin_connection);
	if (v >= 23003) REQ("worldGinBarrierCount", world_barriers);
	if (v >= 23102) {
		REQ("useRuntimeVersion", runtime_version);
		REQ("cftCaps", cft);
		REQ("cftBarrierCount", cft_barriers);
	}
	SAY("ncclDevResourceRequirements", v < 22807 ? offsetof(struct resource, gin_signals) : sizeof(struct resource));
	AT("ncclDevResourceRequirements.bufferSize", resource, size);
	AT("ncclDevResourceRequirements.bufferAlign", resource, align);
	AT("ncclDevResourceRequirements.outBufferHandle", resource, buffer);
	if (v >= 22807) {
		AT("ncclDevResourceRequirements.ginSignalCount", resource, gin_signals);
		AT("ncclDevResourceRequirements.ginCounterCount", resource, gin_counters);
		AT("ncclDevResourceRequirements.outGinSignalStart", resource, gin_signal_start);
		AT("ncclDevResourceRequirements.outGinCounterStart", resource, gin_counter_start);
	}
	SAY("ncclTeamRequirements", sizeof(struct team));
	AT("ncclTeamRequirements.multimem", team, multimem);
	AT("ncclTeamRequirements.outMultimemHandle", team, handle);
}

int main(void) {
	static const unsigned versions[] = {22803, 22807, 22809, 22902, 22903, 22907, 23003, 23004, 23007, 23102, 23203};
	for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
		printf("version %u\n", versions[i]);
		devcomm(devcomm_layout(versions[i]));
		window(versions[i]);
		requirements(versions[i]);
		SAY("ncclLsaBarrierHandle", sizeof(struct lsa_barrier));
		AT("ncclLsaBarrierHandle.bufHandle", lsa_barrier, buffer);
		AT("ncclLsaBarrierHandle.nBarriers", lsa_barrier, count);
		SAY("ncclLLA2AHandle", sizeof(struct ll_a2a));
		AT("ncclLLA2AHandle.bufHandle", ll_a2a, buffer);
		AT("ncclLLA2AHandle.nSlots", ll_a2a, slots);
		SAY("ncclTeam", sizeof(ncclTeam_t));
	}
	return 0;
}
