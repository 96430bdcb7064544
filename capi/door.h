// Declarations that the C and the Go code of this library share.
#pragma once
#include "goccl.h"

// goccl_door_fail stores text (n bytes) as the calling thread's last error.
void goccl_door_fail(const char *text, size_t n);

// goccl_door_children passes the table by which a forked child closes the sockets of its parent: n words, of package
// internal/sockets. The table stays valid.
void goccl_door_children(const uint64_t *table, size_t n);

// goccl_door_environ returns a copy of the environment at the time of loading, or NULL; goccl_door_environ_free frees
// it.
__attribute__((visibility("hidden"))) char **goccl_door_environ(void);
__attribute__((visibility("hidden"))) void goccl_door_environ_free(void);
