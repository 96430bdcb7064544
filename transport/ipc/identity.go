package ipc

import (
	"crypto/rand"
	"crypto/sha256"
	"os"
	"sync"

	"github.com/goccl/goccl/internal/setting"
)

// ID identifies a process or a host.
type ID [16]byte

// ProcessID identifies this process. It is drawn at random when the program starts: it does not survive exec, and a
// forked child without exec inherits it.
var ProcessID = func() (id ID) {
	_, _ = rand.Read(id[:])
	return id
}()

// HostID identifies this host as the scope in which descriptors can be passed: one boot of one kernel, and one network
// namespace, because fdshare's sockets live there. GOCCL_HOSTID or NCCL_HOSTID replaces it, to make one machine look
// like several.
var HostID = sync.OnceValue(func() (id ID) {
	h := sha256.New()
	if v := setting.Lenient().HostID; v != "" {
		h.Write([]byte("set:" + v))
	} else {
		net, _ := os.Readlink("/proc/self/ns/net")
		h.Write([]byte(Machine()))
		h.Write([]byte(net))
	}
	copy(id[:], h.Sum(nil))
	return id
})

// Machine identifies one boot of this machine's kernel: the same in all containers of a machine, whatever HostID is.
func Machine() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		name, _ := os.Hostname()
		return "host:" + name
	}
	return string(boot)
}
