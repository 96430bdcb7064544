// The plugin interface of NCCL's networks, versions 6 to 12, behind one set of calls. Every version is a table that
// begins with a name and then has the same functions in the same order; the calls below know what their arguments are
// in each version.
#ifndef GOCCL_NCCLNET_H
#define GOCCL_NCCLNET_H

#include <stddef.h>
#include <stdint.h>

enum { GOCCL_NET_HANDLE = 128 };

struct goccl_net {
	void *library;
	void **table;
	void *context;  // of init, from version 11
	int version;
};

struct gocclnet_properties {
	const char *name, *pci;
	int memory;  // bit 0 host, 1 CUDA, 2 dmabuf
	int flush, speed;
	size_t max_bytes;
};

// Each call returns 0 or an error of ncclResult_t. open writes a message of at most n bytes and returns -1 if the file
// is no plugin. Functions that finish later return a NULL object or request: call again. Of the requests of a comm only
// the oldest may be tested; its size is -1 if the plugin does not tell.
#include "zz_declared.h"

#endif
