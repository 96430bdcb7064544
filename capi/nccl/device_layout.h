// The structures of NCCL's device API that programs share with the library, as each version of NCCL lays them out. A
// program contains the layout of the headers that it was compiled with; its kernels read these bytes.
//
// Written from the ABI: testdata/device_layouts.txt has the numbers, which a test compares with NVIDIA's headers where
// they are at hand. Fields that only GIN, CFT or multicast use are always 0.
#pragma once

#include <stddef.h>
#include <stdint.h>

// A window in device memory, to which ncclWindow_t points. Later versions only append.
struct device_window {
	void *host;     // for the library
	uint64_t base;  // of rank 0's part; rank p's is at base + p * stride4G * 4 GiB
	int32_t lsa_rank, world_rank;
	uint32_t stride4G;
	uint32_t multicast;
	uint32_t gin, flags;
	uint64_t gin_windows[5];
	int32_t segments;
	uint32_t spare[3];  // 2.32
};
_Static_assert(sizeof(struct device_window) == 96, "ncclWindow_vidmem of 2.32");
_Static_assert(
        offsetof(struct device_window, base) == 8 && offsetof(struct device_window, lsa_rank) == 16 &&
                offsetof(struct device_window, world_rank) == 20 && offsetof(struct device_window, stride4G) == 24 &&
                offsetof(struct device_window, multicast) == 28 && offsetof(struct device_window, segments) == 80,
        "ncclWindow_vidmem");

// The windows of a communicator by address, in device memory. An entry with window 0 is free.
struct window_entry {
	uint64_t base, size, window;
};
struct window_table {
	struct window_entry entries[32];
	uint64_t next;
};
_Static_assert(
        sizeof(struct window_table) == 776 && offsetof(struct window_table, next) == 768, "ncclDevCommWindowTable");

// Memory in the resource window: byte 128 * buffer.
struct lsa_barrier {
	uint32_t buffer;
	int32_t count;
};
struct ll_a2a {
	uint32_t buffer, slots;
};

// The ranks of a communicator; LSA are those whose memory kernels can address. *_rcp are for division by
// multiplication.
struct ranks {
	int32_t rank, size;
	uint32_t size_rcp;
	int32_t lsa_rank, lsa_size;
	uint32_t lsa_size_rcp;
};

// What a program asks of ncclDevCommCreate. From 2.29 on, size, magic and version come first; programs of 2.28 have no
// mark. 2.28.3 has only one count of barriers.
struct requirements_22803 {
	uint64_t resources, teams;
	uint8_t multimem;
	int32_t lsa_barriers;
};
struct requirements_22807 {
	uint64_t resources, teams;
	uint8_t multimem;
	int32_t barriers, lsa_barriers, rail_barriers;
	int32_t a2a_blocks, a2a_slots;
	uint8_t force_gin;
	int32_t gin_contexts, gin_signals, gin_counters;
	int32_t gin_connection;  // 2.29.7; and no program of 2.28 has it
	uint8_t gin_exclusive;
	int32_t gin_depth;
	int32_t gin_traffic, world_barriers;  // 2.30.3
	uint8_t gin_strong, gin_va;           // 2.30.4
	int32_t gin_stride, gin_type;         // 2.31.2
	uint8_t runtime_version;
	int32_t cft, cft_barriers;
};
struct requirements {
	uint64_t size;
	uint32_t magic, version;
	struct requirements_22807 r;
};
_Static_assert(sizeof(struct requirements_22803) == 24 && offsetof(struct requirements_22807, gin_connection) == 56 &&
                       offsetof(struct requirements, r.gin_connection) == 72 &&
                       offsetof(struct requirements, r.gin_traffic) == 84 &&
                       offsetof(struct requirements, r.gin_strong) == 92 &&
                       offsetof(struct requirements, r.runtime_version) == 104 && sizeof(struct requirements) == 120,
        "ncclDevCommRequirements");

// requirements_size is the size of a version's structure.
static inline size_t requirements_size(unsigned version) {
	if (version < 22807) return sizeof(struct requirements_22803);
	if (version < 22902) return offsetof(struct requirements_22807, gin_connection);
	if (version < 22907) return offsetof(struct requirements, r.gin_connection);
	if (version < 23003) return offsetof(struct requirements, r.gin_traffic) + 4;
	if (version < 23102) return offsetof(struct requirements, r.gin_stride);
	return sizeof(struct requirements);
}

// An element of the list of resources. The fields from gin_signals on are not in 2.28.3.
struct resource {
	struct resource *next;
	size_t size, align;
	uint32_t *buffer;
	int32_t gin_signals, gin_counters;
	uint32_t *gin_signal_start, *gin_counter_start;
};
_Static_assert(
        offsetof(struct resource, gin_signals) == 32 && sizeof(struct resource) == 56, "ncclDevResourceRequirements");

// An element of the list of teams.
struct team {
	struct team *next;
	int32_t ranks, rank, stride;
	uint8_t multimem;
	uint64_t *handle;
};
_Static_assert(sizeof(struct team) == 32 && offsetof(struct team, multimem) == 20, "ncclTeamRequirements");

// ncclDevComm, which kernels get by value: the sizes of its versions, and the offsets of their fields. 0: the version
// has no such field. versioned: it begins with the magic number and the version. base and stride4G are of the resource
// window. A layout holds until the next one begins.
struct devcomm_layout {
	unsigned since, size, versioned, ranks, table, window, base, stride4G, barrier, abort, hybrid;
};
static const struct devcomm_layout devcomm_layouts[] = {
        // since  size   versioned  ranks  table  window  base   stride4G  barrier  abort  hybrid
        {  22803, 88,    0,         0,     24,    32,     48,    64,       80,      0,     0},
        {  22807, 200,   0,         0,     24,    32,     48,    64,       120,     0,     0},
        {  22907, 224,   0,         0,     24,    32,     48,    64,       120,     216,   0},
        {  23003, 240,   1,         8,     32,    40,     56,    72,       128,     208,   216},
        {  23102, 248,   1,         8,     32,    40,     48,    56,       80,      168,   176},
};
#define DEVCOMM_LAYOUTS (sizeof devcomm_layouts / sizeof *devcomm_layouts)
#define DEVCOMM_FIRST 22803
#define DEVCOMM_LAST 23299  // newer programs are refused

// devcomm_layout returns the layout of a version, or NULL.
static inline const struct devcomm_layout *devcomm_layout(unsigned version) {
	const struct devcomm_layout *found = NULL;
	if (version > DEVCOMM_LAST) return NULL;
	for (size_t i = 0; i < DEVCOMM_LAYOUTS; i++)
		if (devcomm_layouts[i].since <= version) found = &devcomm_layouts[i];
	return found;
}
