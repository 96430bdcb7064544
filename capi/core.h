// The table of libgoccl.so's functions, by which the libraries that are C alone call it.
#pragma once

#include "goccl_moe.h"
#include "goccl_primitive.h"

struct core {
#define DOOR(name, params, args) goccl_result(*name) params;
#include "zz_functions.h"
#undef DOOR
	uint32_t (*abi_version)(void);
	const char *(*version)(void);
	const char *(*result_name)(goccl_result result);
	const char *(*last_error)(void);
	void (*release)(void *p);
};
