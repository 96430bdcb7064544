//go:build cgo && linux

// The environment at the time the library is loaded. The Go runtime of a shared library reads the environment with
// which the process was started; programs, above all Python programs, set variables just before they load the library.
#define _GNU_SOURCE
#include "door.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char **taken;

static void give_up(void) {
	for (char **v = taken; v && *v; v++) free(*v);
	free(taken);
	taken = NULL;
}

// It runs on the thread that loads the library, before the constructor of the Go runtime, so that no thread of this
// library reads environ while other threads may change it.
__attribute__((constructor(101))) static void take(void) {
	size_t n = 0;
	while (environ && environ[n]) n++;
	if (!(taken = calloc(n + 1, sizeof *taken))) return;
	for (size_t i = 0; i < n; i++)
		if (!(taken[i] = strdup(environ[i]))) {
			give_up();
			return;
		}
}

char **goccl_door_environ(void) { return taken; }
void goccl_door_environ_free(void) { give_up(); }
