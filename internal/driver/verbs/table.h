#ifndef GOCCL_VERBS_TABLE_H
#define GOCCL_VERBS_TABLE_H
#include "api.h"
#include "calls.h"

typedef struct {
#define GOCCL_VERBS_FIELD(name, result, params) result(*name) params;
	GOCCL_VERBS(GOCCL_VERBS_FIELD, GOCCL_VERBS_FIELD)
} gocclverbs_table;

extern gocclverbs_table gocclverbs;

#define PTR(T, x) ((T *)(uintptr_t)(x))
#define U64(p) ((uint64_t)(uintptr_t)(p))
#endif
