// forked LIBRARY ADDRESS RANK: one of two ranks. Rank 1 forks a child that sleeps, and waits to be killed; rank 0 waits
// for a message of rank 1, and says when and why that ended.
#include "../goccl.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(c) do { if (!(c)) { printf("%s is false: %s\n", #c, last_error()); fflush(stdout); _exit(1); } } while (0)

int main(int argc, char **argv) {
	if (argc != 4) return 2;
	void *lib = dlopen(argv[1], RTLD_NOW);
	if (!lib) return puts(dlerror()), 1;
	const char *(*last_error)(void) = dlsym(lib, "goccl_last_error");
	__typeof__(goccl_bootstrap_join_address) *join = dlsym(lib, "goccl_bootstrap_join_address");
	__typeof__(goccl_bootstrap_recv) *recv_message = dlsym(lib, "goccl_bootstrap_recv");
	CHECK(last_error && join && recv_message);
	const int64_t second = 1000000000;
	int rank = atoi(argv[3]);
	goccl_bootstrap b;
	CHECK(join(argv[2], rank, 2, 60 * second, &b) == GOCCL_SUCCESS);
	if (rank == 1) {
		int own[2]; // what is the program's is not for the child's handler to close
		CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, own) == 0);
		pid_t pid = fork();
		if (pid == 0) {
			if (write(own[1], "alive", 5) != 5) _exit(1);
			sleep(300);
			_exit(0);
		}
		char word[5];
		CHECK(pid > 0 && read(own[0], word, 5) == 5 && !memcmp(word, "alive", 5));
		printf("forked %d\n", (int)pid);
		fflush(stdout);
		pause();
	}
	puts("waiting");
	fflush(stdout);
	void *data;
	uint64_t size;
	goccl_result r = recv_message(b, 1, 1, 120 * second, &data, &size);
	printf("%d: %s\n", (int)r, last_error());
	fflush(stdout);
	_exit(0);
}
