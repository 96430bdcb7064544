package bootstrap

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"sync"
)

// hostID is what two processes have in common that can exchange descriptors over an abstract unix socket and map each other's memory: one boot
// of one kernel, one host name, and the same network and IPC namespaces. Mount namespaces do not matter, because nothing is shared by path:
// containers of one pod are one host.
func hostID(override string) [32]byte {
	if override != "" {
		return sha256.Sum256([]byte("goccl host " + override))
	}
	var b strings.Builder
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		// Without /proc nothing says that two processes share a kernel; the process is its own host.
		return sha256.Sum256(processID())
	}
	b.Write(boot)
	for _, ns := range []string{"net", "ipc"} {
		link, err := os.Readlink("/proc/self/ns/" + ns)
		fmt.Fprintf(&b, "%s %s %v\n", ns, link, err != nil)
	}
	name, _ := os.Hostname()
	b.WriteString(name)
	return sha256.Sum256([]byte(b.String()))
}

// processID tells processes apart.
var processID = sync.OnceValue(func() []byte {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	return id
})
