package host

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/device"
)

// checkAvailableFrom is the size from which a request is compared with the machine's free memory before any page is
// taken. Without that check, a request that cannot succeed would first push everything else out of memory.
const checkAvailableFrom = 64 << 20

func checkAvailable(size int64) error {
	if size < checkAvailableFrom {
		return nil
	}
	free := memAvailable()
	if free >= 0 && size > free {
		return fmt.Errorf("%w: %d MiB wanted, %d MiB available; use smaller buffers or fewer ranks", device.ErrOutOfMemory,
			size>>20, free>>20)
	}
	return nil
}

// memAvailable is the kernel's estimate in bytes, limited by the process's control group, or -1.
func memAvailable() int64 {
	free := int64(-1)
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		for line := range bytes.Lines(b) {
			if f := strings.Fields(string(line)); len(f) == 3 && f[0] == "MemAvailable:" {
				if kb, err := strconv.ParseInt(f[1], 10, 64); err == nil {
					free = kb << 10
				}
				break
			}
		}
	}
	if limit, used := readNumber("/sys/fs/cgroup/memory.max"), readNumber("/sys/fs/cgroup/memory.current"); limit >= 0 &&
		used >= 0 {
		if room := max(0, limit-used); free < 0 || room < free {
			free = room
		}
	}
	return free
}

// readNumber returns the number in a file, or -1 (also for "max").
func readNumber(path string) int64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return -1
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// sharedHugePages reports whether shared memory that requests huge pages may get them.
var sharedHugePages = sync.OnceValue(func() bool {
	b, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/shmem_enabled")
	return err == nil && !strings.Contains(string(b), "[never]") && !strings.Contains(string(b), "[deny]")
})

func asErrno(err error) unix.Errno {
	var e unix.Errno
	errors.As(err, &e)
	return e
}
