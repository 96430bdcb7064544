package host

import (
	"fmt"
	"strings"
	"sync"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/sysfile"
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
	_, text, _ := strings.Cut(sysfile.Host.Read("proc/meminfo"), "\nMemAvailable:")
	if _, err := fmt.Sscan(text, &free); err == nil {
		free <<= 10
	}
	const group = sysfile.Host + "sys/fs/cgroup"
	limit, used := group.Number(-1, "memory.max"), group.Number(-1, "memory.current") // the limit may be "max"
	if room := int64(max(0, limit-used)); limit >= 0 && used >= 0 && (free < 0 || room < free) {
		free = room
	}
	return free
}

// sharedHugePages reports whether shared memory that requests huge pages may get them.
var sharedHugePages = sync.OnceValue(func() bool {
	text := sysfile.Host.Read("sys/kernel/mm/transparent_hugepage/shmem_enabled")
	return text != "" && !strings.Contains(text, "[never]") && !strings.Contains(text, "[deny]")
})
