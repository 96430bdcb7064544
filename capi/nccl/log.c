// The output of NCCL_DEBUG and NCCL_DEBUG_FILE.
#include "shim.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

int shim_debug(void) {
	const char *s = shim_setting("NCCL_DEBUG");
	if (!s || !strcasecmp(s, "NONE")) return 0;
	return !strcasecmp(s, "VERSION") ? 1 : !strcasecmp(s, "WARN") ? 2 : 3;
}

static int out = -1;

// open_log expands %h (the host) and %p (the process) in the file name. If the file cannot be opened, stderr is used.
static void open_log(void) {
	const char *s = shim_setting("NCCL_DEBUG_FILE");
	char path[4096], host[256] = "localhost";
	size_t n = 0;
	out = STDERR_FILENO;
	if (!s) return;
	gethostname(host, sizeof host - 1);
	for (; *s && n < sizeof path - 300; s++) {
		if (*s != '%' || !s[1]) {
			path[n++] = *s;
			continue;
		}
		switch (*++s) {
		case 'h': n += (size_t)snprintf(path + n, sizeof path - n, "%s", host); break;
		case 'p': n += (size_t)snprintf(path + n, sizeof path - n, "%d", (int)getpid()); break;
		default: path[n++] = *s;
		}
	}
	path[n] = 0;
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd >= 0) out = fd;
}

void shim_log(const char *format, ...) {
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	char line[2300];
	va_list args;
	pthread_once(&once, open_log);
	va_start(args, format);
	int n = vsnprintf(line, sizeof line - 1, format, args);
	va_end(args);
	if (n < 0) return;
	if (n > (int)sizeof line - 2) n = sizeof line - 2;
	line[n++] = '\n';
	if (write(out, line, (size_t)n) < 0) return; // the failure cannot be reported
}
